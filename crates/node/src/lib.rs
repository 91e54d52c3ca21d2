//! One node: commands, ownership, movers; composition without input or output.
//!
//! A node is driven from outside: worker threads feed requests to a [`Worker`] each, mover threads step a
//! [`Mover`] each, the control thread steps the [`NodeControl`]. Nothing here reads a clock, opens a socket
//! or starts a thread. So the same code runs under the server's tokio and under the simulator's virtual time.

mod access;
mod admission;
mod attempt;
mod blocked;
pub mod call;
mod client_line;
mod clients;
mod cluster_view;
mod commands;
mod completions;
mod config;
mod content_digest;
mod control;
mod copies;
mod current_table;
mod detours;
mod digests;
mod dispatch;
mod durability;
mod execute;
mod execute_all;
mod execute_once;
mod expire;
mod flush;
mod forward;
mod goes_on;
mod half;
mod held_up;
mod key_state;
mod keyspace;
mod lease;
mod loading;
mod locks;
mod monitors;
mod mover;
mod now;
mod observe;
mod outcome;
mod parking;
mod pause;
mod peers;
mod position_set;
mod prepared;
mod progress_reports;
mod queue;
mod random;
mod range_table;
mod refusals;
mod request;
mod rights;
mod route;
mod routing;
mod saving;
mod serve;
mod session;
mod shared;
mod shown;
mod stats;
mod subscription;
pub mod table;
mod taking_over;
mod tally;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transaction;
mod wait;
mod waiters;
mod watch;
mod worker;
mod worker_wakes;

pub use access::Access;
pub use call::{Call, Flow, ReplyError};
pub use clients::{Buffers, ClientRecord, ClientTotals, Clients, Ending, Registration};
pub use config::{Changing, Config, ConfigError, LEAST_CLIENT_BYTES};
pub use control::{BARRIER_POLL_US, ControlEvent, ControlInput, CopyToRead, NodeControl, read_protocol};
pub use copies::{
    Backups, CopiesEvent, CopiesRecord, CopyFiles, CopyLink, CopySender, Fetcher, FetcherEvent, HeldUp,
    ReadLog, Reclaimer, ReclaimerEvent,
};
pub use current_table::{CurrentTable, Sleep};
pub use durability::Durability;
pub use expire::{EXPIRY_SLICE_US, ExpiryEffort};
pub use forward::{ForwardEvent, ForwardLink, PATIENCE_US, REACH_US, UNKNOWN};
pub use lease::Lease;
pub use loading::{AskedForCopy, Loading, Progress as LoadingProgress, WaitsForCopies};
pub use mover::{Link, Mover, MoverCommand, MoverEvent, MoverReport, MoverStep, PendingReplay, Table};
pub use now::Now;
pub use outcome::{Closing, ControlReply, ControlRequest, Outcome};
pub use peers::{PeerLink, Peers};
pub use queue::{
    MAX_MOVERS, MoverIndex, MoverPort, TO_MOVER_CAPACITY, TO_WORKER_CAPACITY, Ticket, ToMover, ToWorker,
    WorkerIndex, WorkerPort, connect,
};
pub use range_table::{RangeEntry, RangeTable, Reach, Redirect, Role};
pub use saving::{SavedKeys, Saves, SavingStep};
pub use serve::{BATCH_REQUESTS, SERVE_REPLY_BYTES, SERVE_REQUESTS, Served, Then};
pub use session::{Replies, Session};
pub use shared::{Gauges, MigrationTotals, NodeParts, NodeShared, ProcessFacts, REDIS_VERSION};
pub use shown::Shown;
pub use stats::{Counter, TransactionStats, WorkerStats};
pub use table::CommandSpec;
pub use taking_over::{HowFar, TakingOver};
pub use worker::Worker;
