//! What the identity knows of the node's durable log: since which start it has everything.
//!
//! Every start counts on, so a gap in the count tells of an older copy of the data directory. A start with
//! another log, with one that was salvaged, or without one begins anew: what earlier starts had acknowledged
//! is not all there.

use super::Identity;
use serde::{Deserialize, Serialize};
use sidle_cluster::Incarnation;
use sidle_types::LogId;

/// A durable log, as the node's identity names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownLog {
    /// Its name, in hexadecimal digits.
    id: String,
    /// The start since which it has everything.
    since: u64,
    /// The last start that went on with it.
    last: u64,
    /// Whether copies of it at other nodes may count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_copies: bool,
}

impl Identity {
    /// Another start begins: the log counts on with it.
    pub(super) fn count_start(&mut self) {
        let before = self.starts;
        self.starts += 1;
        self.log = self.log.take().filter(|log| log.last == before);
        self.log.iter_mut().for_each(|log| log.last += 1);
    }

    /// The log was read. Whether there is something new to be kept.
    pub(crate) fn resume_log(&mut self, log: LogId, is_salvaged: bool) -> bool {
        let id = log.to_string();
        let goes_on = self.log.as_ref().is_some_and(|known| known.id == id && !is_salvaged);
        if !goes_on {
            self.log = Some(KnownLog { id, since: self.starts, last: self.starts, has_copies: false });
        }
        !goes_on
    }

    /// The log that the start before went on with.
    pub(crate) fn known_log(&self) -> Option<&str> {
        self.log.as_ref().map(|known| known.id.as_str())
    }

    /// Copies of the log may count from now on, or none does. Whether that is new.
    pub(crate) fn note_copies(&mut self, has_copies: bool) -> bool {
        let known = self.log.as_mut().filter(|known| known.has_copies != has_copies);
        known.map(|known| known.has_copies = has_copies).is_some()
    }

    /// Whether copies of the log may count.
    pub(crate) fn has_log_copies(&self) -> bool {
        self.log.as_ref().is_some_and(|known| known.has_copies)
    }

    /// This start has no log: what it acknowledges is in none. Whether that is new.
    pub(crate) fn leave_log_out(&mut self) -> bool {
        self.log.take().is_some()
    }

    /// Since which incarnation the log has everything.
    pub(crate) fn log_since(&self) -> Option<Incarnation> {
        self.log.as_ref().map(|log| Incarnation(log.since))
    }
}

#[cfg(test)]
mod tests {
    use super::super::DataDir;
    use super::*;
    use std::path::Path;

    const LOG: LogId = LogId([7; 16]);

    /// One start: what is done with the log, and since which start it has everything then.
    fn start(path: &Path, then: impl FnOnce(&mut Identity)) -> Option<u64> {
        let dir = DataDir::open(path).unwrap();
        dir.keep_folder();
        let mut identity = dir.begin_life().unwrap();
        then(&mut identity);
        dir.save(&identity).unwrap();
        identity.log_since().map(|since| since.0)
    }

    fn resumes(identity: &mut Identity) {
        identity.resume_log(LOG, false);
    }

    #[test]
    fn a_log_has_everything_since_the_start_that_began_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(start(path, |_| ()), None);
        assert_eq!(start(path, resumes), Some(2));
        assert_eq!(start(path, |_| ()), Some(2), "a start that was refused");
        assert_eq!(start(path, resumes), Some(2));
        start(path, |identity| {
            resumes(identity);
            assert_eq!(identity.known_log(), Some(LOG.to_string().as_str()));
        });
        let another = |is_salvaged: bool| {
            move |identity: &mut Identity| assert!(identity.resume_log(LogId([8; 16]), is_salvaged))
        };
        assert_eq!(start(path, another(false)), Some(6));
        assert_eq!(start(path, another(true)), Some(7));
    }

    #[test]
    fn copies_are_remembered_with_their_log() {
        let folder = tempfile::tempdir().unwrap();
        start(folder.path(), |identity| {
            resumes(identity);
            assert!(identity.note_copies(true) && !identity.note_copies(true));
        });
        start(folder.path(), |identity| {
            resumes(identity);
            assert!(identity.has_log_copies());
            identity.resume_log(LogId([8; 16]), false);
            assert!(!identity.has_log_copies(), "they are of the other log");
        });
    }

    #[test]
    fn a_start_without_the_log_ends_that() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(start(folder.path(), resumes), Some(1));
        assert_eq!(start(folder.path(), |identity| assert!(identity.leave_log_out())), None);
        assert_eq!(start(folder.path(), resumes), Some(3));
    }

    #[test]
    fn so_does_an_older_copy_whose_starts_were_set() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(start(folder.path(), resumes), Some(1));
        assert_eq!(start(folder.path(), |identity| identity.starts = 9), Some(1));
        assert_eq!(start(folder.path(), resumes), Some(10));
    }
}
