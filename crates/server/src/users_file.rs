//! The file of users: read at the start and by ACL LOAD, written by ACL SAVE.
//!
//! It is written aside, synced, and renamed: under its name there is a whole file at any time.

use crate::thread;
use sidle_node::{ControlReply, ControlRequest, NodeShared};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Only the node's user may read it: it has the digests of passwords.
const MODE: u32 = 0o600;
/// No client has this number: at the start there is none.
const NO_CLIENT: u64 = 0;

/// Why the users are not those of the file.
#[derive(Debug, thiserror::Error)]
pub enum UsersFileError {
    /// It cannot be read.
    #[error("the file of users, {path}, cannot be read: {error}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It has what is no rule.
    #[error("the file of users is wrong: {0}")]
    Wrong(String),
}

/// At the start: the users of the file, if there is one.
///
/// # Errors
/// The file cannot be read, or has what is no rule.
pub(crate) fn begin(shared: &NodeShared) -> Result<(), UsersFileError> {
    let path = path_of(shared);
    match path.as_os_str().is_empty() {
        true => Ok(()),
        false => read(shared, &path, NO_CLIENT),
    }
}

fn path_of(shared: &NodeShared) -> PathBuf {
    PathBuf::from(shared.config.value("aclfile"))
}

/// The users of the file take the place of all others. Connections of those that are gone end, but for
/// `client`.
fn read(shared: &NodeShared, path: &Path, client: u64) -> Result<(), UsersFileError> {
    let text = fs::read(path).map_err(|error| UsersFileError::Refused { path: path.to_owned(), error })?;
    let name = path.display().to_string();
    shared.access.load(&name, &text, &shared.clients, client).map_err(UsersFileError::Wrong)
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(&aside)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Answers a client's request about the file on a thread of its own, since the control thread waits for no
/// disk. Returns any other request.
pub(crate) fn answer(
    shared: &Arc<NodeShared>,
    request: ControlRequest,
    answer: oneshot::Sender<ControlReply>,
) -> Option<(ControlRequest, oneshot::Sender<ControlReply>)> {
    let client = match request {
        ControlRequest::LoadUsers { client } => Some(client),
        ControlRequest::SaveUsers => None,
        request => return Some((request, answer)),
    };
    let shared = Arc::clone(shared);
    let started = thread::start("users".to_owned(), move || {
        let path = path_of(&shared);
        let reply = match client {
            Some(client) => loaded(read(&shared, &path, client)),
            None => saved(write(&path, &shared.access.file())),
        };
        // Its client may have gone.
        let _ = answer.send(reply);
    });
    if let Err(error) = started {
        tracing::warn!("the file of users was left alone: {error}");
    }
    None
}

fn loaded(result: Result<(), UsersFileError>) -> ControlReply {
    match result {
        Ok(()) => ControlReply::Ok,
        // In Redis's words.
        Err(UsersFileError::Wrong(why)) => ControlReply::Error(format!("ERR {why}")),
        Err(error) => ControlReply::Error(format!("ERR {error}")),
    }
}

fn saved(result: io::Result<()>) -> ControlReply {
    match result {
        Ok(()) => ControlReply::Ok,
        Err(error) => {
            tracing::warn!("the file of users cannot be written: {error}");
            let text = "ERR There was an error trying to save the ACLs. Please check the server logs for more \
                        information";
            ControlReply::Error(text.to_owned())
        }
    }
}
