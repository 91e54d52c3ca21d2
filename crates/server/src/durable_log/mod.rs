//! The durable log: a folder of files in the data directory, read at the start and written by a thread of its
//! own.
//!
//! | file | what |
//! |---|---|
//! | `clean_stop` | where it ended when the node was stopped |
//! | `folder` | the files: listing, writing, syncing, removing |
//! | `known` | whether it is the one that the node's identity knows |
//! | `loader` | the thread that reads it at the start |
//! | `recover` | from the files to the store's content |
//! | `log_writer` | the thread that makes commits: it carries out `sidle_log_files::CommitSteps` |
//! | `syncing` | syncs beside writes |
//! | `requests` | how others ask it for one |
//! | `set_aside` | where it goes if others have taken over what it had |
//! | `takeover` | from a copy of a dead node's log to what of it this node takes over |
//! | `takeovers` | the thread that does so |
//! | `copies` | copies of logs: of this node's at others, of others' here |

mod clean_stop;
mod copies;
mod folder;
mod known;
mod loader;
mod log_writer;
mod recover;
mod requests;
mod set_aside;
mod syncing;
mod takeover;
mod takeovers;

pub(crate) use copies::{BackupsInput, BackupsSetup, BackupsThread, CopiesInput, CopiesReport, CopiesSetup};
pub(crate) use folder::has_files;
pub(crate) use known::{FoundLog, find as find_known};
pub(crate) use loader::{DurableLogThreads, LoaderSetup};
pub(crate) use log_writer::LogWriterSetup;
pub(crate) use recover::RecoverError;
pub(crate) use requests::LogRequests;
pub(crate) use set_aside::set_aside;
pub(crate) use takeovers::{TakeoversSetup, TakeoversThread};
