//! The value under the metadata's key: a line that names the commit, then the text that a file would hold.
//!
//! ```text
//! sidle-etcd 1 4711 3\nsidle-coordinator 1 0123abcd ...
//! ```
//!
//! The line's words: the kind, the version of the line, the term, and the commit's number in it.

use sidle_cluster::{Metadata, Term};
use sidle_meta_file::{Unreadable, decode, encode};

const MAGIC: &str = "sidle-etcd";
/// The version that is written; unknown versions are refused.
const VERSION: &str = "1";

/// Which commit a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) term: Term,
    pub(crate) number: u64,
}

/// The value of a commit.
pub(crate) fn write(commit: Commit, metadata: &Metadata) -> Vec<u8> {
    let Commit { term, number } = commit;
    let mut value = format!("{MAGIC} {VERSION} {} {number}\n", term.0).into_bytes();
    value.extend_from_slice(&encode(Some(metadata)));
    value
}

/// Which commit a value is; `None` for anything else.
pub(crate) fn commit_of(value: &[u8]) -> Option<Commit> {
    split(value).map(|(commit, _)| commit)
}

/// The metadata of a value.
pub(crate) fn read(value: &[u8]) -> Result<Metadata, Unreadable> {
    let damaged = |why: &str| Unreadable::Damaged(why.to_owned());
    let (_, text) = split(value).ok_or_else(|| damaged("it does not begin as such"))?;
    decode(text)?.ok_or_else(|| damaged("it is empty"))
}

fn split(value: &[u8]) -> Option<(Commit, &[u8])> {
    let end = value.iter().position(|&byte| byte == b'\n')?;
    let line = std::str::from_utf8(&value[..end]).ok()?;
    let words: Vec<&str> = line.split(' ').collect();
    let [MAGIC, VERSION, term, number] = words[..] else { return None };
    let commit = Commit { term: Term(term.parse().ok()?), number: number.parse().ok()? };
    Some((commit, &value[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_cluster::{ClusterId, TabletMap};
    use sidle_testbed::fixtures::node_info;

    #[test]
    fn what_is_written_is_read_and_names_its_commit() {
        let metadata = Metadata::new(ClusterId::from_bits(9), TabletMap::founded_by(node_info(7)));
        let commit = Commit { term: Term(4711), number: 3 };
        let value = write(commit, &metadata);
        assert_eq!(commit_of(&value), Some(commit));
        assert_eq!(read(&value).ok(), Some(metadata));
        let mut damaged = value.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(matches!(read(&damaged), Err(Unreadable::Damaged(why)) if why.contains("checksum")));
    }

    #[test]
    fn anything_else_is_nobodys_commit() {
        for value in ["", "x", "sidle-etcd 2 1 1\n", "sidle-etcd 1 x 1\n", "sidle-etcd 1 1\nrest"] {
            assert_eq!(commit_of(value.as_bytes()), None, "{value}");
            assert!(read(value.as_bytes()).is_err(), "{value}");
        }
    }
}
