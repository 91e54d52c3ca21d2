//! A start whose durable log is not the one that the node's identity knows.

use crate::data_dir::Identity;
use crate::durable_log::{FoundLog, find_known};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// A start finds no durable log, or another one than its last start went on with. The message names the
/// remedies.
#[derive(Debug, thiserror::Error)]
pub struct OtherLog {
    path: PathBuf,
    known: String,
    found: String,
    has_copies: bool,
}

impl Display for OtherLog {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let OtherLog { path, known, found, has_copies } = self;
        let path = path.display();
        write!(
            f,
            "the last start of this node went on with the durable log {known}, and {found} in {path}. Nothing was \
             changed. If its disk is not mounted, or the folder was moved or exchanged, put it back"
        )?;
        if *has_copies {
            write!(
                f,
                ". If it is lost, other nodes have copies of it: leave this node stopped, and have them take over \
                 what it had (`sidle takeover`). Or stop one of them, and copy log-backups/{known} of its data \
                 directory to {path}"
            )?;
        }
        write!(
            f,
            ". Then, or if it is lost for good, start the node once with --salvage: it goes on without what only \
             that log had"
        )
    }
}

/// Checks that the log of the last start is in its place, unless it was set aside. A start that salvages goes
/// on without it, and says so.
pub(crate) fn check(path: &Path, identity: &mut Identity, salvages: bool) -> Result<(), OtherLog> {
    let Some(known) = identity.known_log() else { return Ok(()) };
    let found = match find_known(path, known) {
        Ok(FoundLog::Known) => return Ok(()),
        Ok(FoundLog::SetAside) => {
            // What this start begins has nothing to do with that log, nor with its copies.
            identity.leave_log_out();
            return Ok(());
        }
        Ok(FoundLog::Missing) => "there is none".to_owned(),
        Ok(FoundLog::Other(log)) => format!("another one, {log}, is"),
        Err(error) => format!("it cannot be looked for ({error})"),
    };
    let has_copies = identity.has_log_copies();
    let error = OtherLog { path: path.to_owned(), known: known.to_owned(), found, has_copies };
    if salvages {
        tracing::warn!("--salvage: {error}");
        return Ok(());
    }
    Err(error)
}
