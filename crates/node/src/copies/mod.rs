//! The copies of durable logs, over the bus: those of this node's log at others, and those of others here.
//!
//! What is sent when is decided by `sidle-log-copies`; here it becomes frames, and frames become that.
//!
//! | file | what |
//! |---|---|
//! | `record` | which copies count, as the log's folder keeps it |
//! | `sender` | the copies of this node's log |
//! | `held_up` | what is told when nothing becomes safe |
//! | `backups` | the copies of other nodes' logs |
//! | `files` | where those lie |
//! | `readers` | nodes that read them to take the logs over |
//! | `reclaimer` | a start that asks the copies for what the own disk lost |
//! | `fetcher` | a takeover that fetches a copy |

mod backups;
mod fetcher;
mod files;
mod held_up;
mod readers;
mod reclaimer;
mod record;
mod sender;

pub use backups::Backups;
pub use fetcher::{Fetcher, FetcherEvent};
pub use files::{CopyFiles, CopyLink};
pub use reclaimer::{Reclaimer, ReclaimerEvent};
pub use record::CopiesRecord;
pub use sender::{CopiesEvent, CopySender, HeldUp, ReadLog};
