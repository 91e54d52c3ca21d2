//! The file's content: a header of one line, and the metadata as JSON.
//!
//! ```text
//! sidle-coordinator 1 0123abcd 4711\n{"cluster":...}
//! ```
//!
//! The header's words: the kind of file, the version of the format, a CRC32C as eight hexadecimal digits, and
//! the body's length in bytes. The checksum covers the length, a line feed and the body. A store without a
//! commit has the body `null`.

use crc32c::crc32c;
use serde_json::Value as Json;
use sidle_cluster::Metadata;
use sidle_types::{ProtocolVersion, Speaks};

const MAGIC: &str = "sidle-coordinator";
/// The version that is written; unknown versions are refused.
const VERSION: &str = "1";
/// The start of a redb database, which development versions of Sidle 0.1.0 used for the metadata.
const REDB_MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
const HEADER_BYTES_MAX: usize = 100;

/// Why a file's content is no metadata.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Another version wrote it, or it is an earlier version's database: its name.
    OtherVersion(String),
    /// It is damaged or no metadata: why.
    Damaged(String),
}

/// The content of a file with this metadata, or with none yet.
pub fn encode(metadata: Option<&Metadata>) -> Vec<u8> {
    let body = serde_json::to_vec(&metadata).expect("it has string keys only, and memory takes it");
    let checked = checked(&body);
    let mut content = format!("{MAGIC} {VERSION} {:08x} ", crc32c(&checked)).into_bytes();
    content.extend_from_slice(&checked);
    content
}

/// The part of the content that the checksum covers.
fn checked(body: &[u8]) -> Vec<u8> {
    let mut checked = format!("{}\n", body.len()).into_bytes();
    checked.extend_from_slice(body);
    checked
}

/// Decodes a file's content; `None` for a store without a commit.
///
/// # Errors
/// [`Unreadable`]. Metadata that breaks an invariant or a limit counts as damaged.
pub fn decode(content: &[u8]) -> Result<Option<Metadata>, Unreadable> {
    let damaged = |why: &str| Err(Unreadable::Damaged(why.to_owned()));
    if content.is_empty() {
        return damaged("it is empty");
    }
    if content.starts_with(REDB_MAGIC) {
        let version = "a redb database, of a development version of Sidle 0.1.0";
        return Err(Unreadable::OtherVersion(version.to_owned()));
    }
    let mut words = content[..content.len().min(HEADER_BYTES_MAX)].splitn(4, |&byte| byte == b' ');
    if words.next() != Some(MAGIC.as_bytes()) {
        return damaged("it does not begin as such");
    }
    let (Some(version), Some(checksum)) = (words.next(), words.next()) else {
        return damaged("it is cut off");
    };
    if version != VERSION.as_bytes() {
        return Err(Unreadable::OtherVersion(format!("format {}", version.escape_ascii())));
    }
    let Some(checked) = content.get(MAGIC.len() + version.len() + checksum.len() + 3..) else {
        return damaged("it is cut off");
    };
    let Some((length, body)) = split_length(checked) else { return damaged("it is cut off") };
    if body.len() < length {
        return damaged(&format!("it is cut off: {} of {length} bytes are there", body.len()));
    }
    if checksum != format!("{:08x}", crc32c(checked)).as_bytes() {
        return damaged("its checksum is wrong");
    }
    let json: Json = serde_json::from_slice(body)
        .map_err(|error| Unreadable::Damaged(format!("it is no JSON: {error}")))?;
    if let Some(version) = version_of(&json).filter(|&version| !Speaks::THIS_BUILD.includes(version)) {
        return Err(Unreadable::OtherVersion(format!("the record of a cluster that speaks {version}")));
    }
    let metadata: Option<Metadata> =
        serde_json::from_slice(body).map_err(|error| Unreadable::Damaged(error.to_string()))?;
    // The next commit would lose what is not known here.
    if serde_json::to_value(&metadata).is_ok_and(|known| known != json) {
        return Err(Unreadable::OtherVersion("of a program that writes more into it".to_owned()));
    }
    Ok(metadata)
}

/// The version that the cluster speaks, whatever else there is.
fn version_of(metadata: &Json) -> Option<ProtocolVersion> {
    let version = metadata.get("map")?.get("version")?.as_u64()?;
    Some(ProtocolVersion(u16::try_from(version).unwrap_or(u16::MAX)))
}

/// Splits the body's length from the body.
fn split_length(checked: &[u8]) -> Option<(usize, &[u8])> {
    let end = checked.iter().position(|&byte| byte == b'\n')?;
    let length = std::str::from_utf8(&checked[..end]).ok()?.parse().ok()?;
    Some((length, &checked[end + 1..]))
}
