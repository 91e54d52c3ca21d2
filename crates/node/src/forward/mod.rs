//! Forwarding: the node that clients take for a slot's owner serves all of the slot, also what another node
//! owns of it.
//!
//! Purpose: a slot may be split between nodes, and clients of Redis Cluster know whole slots only. `CLUSTER
//! SLOTS` shows one owner, that of the slot's first position. For clients that did not opt in it sends what
//! lies elsewhere on to the node that owns it, over a connection between the two workers' nodes, and hands
//! the answer back. Opted-in clients know positions, and are redirected.
//!
//! A command that other nodes run, or run parts of, parks like one that waits for a pull. It is run again
//! from its start when all answers have come, and [`Progress`] remembers which of its keys are done. So a
//! connection that waits for another node is no case of its own for whoever drives the worker.
//!
//! Invariants:
//! - F1: a forwarded request runs at the owner of all of its keys, or nowhere: who gets it decides as for any
//!   client, and answers [`NOT_HERE`] where a client would be redirected. It is never forwarded again, so
//!   there is no loop.
//! - F2: a request goes out a second time only if the first had no effect: it was not sent, it was answered
//!   with [`NOT_HERE`], or it only reads.
//! - F3: each key of a command is done once. What has been done is never done again by another owner,
//!   whatever the map says by then.
//! - F4: a command waits for other nodes at most [`PATIENCE_US`], counted from when it was forwarded first,
//!   and [`REACH_US`] if nothing could be sent. If a write may have had an effect, in whole or in part, its
//!   error says so ([`UNKNOWN`]).
//! - F5: what waits is bounded: a connection has one command, a line [`WINDOW`] requests under way and
//!   [`QUEUE_BYTES`] that wait for it; beyond that commands stay in their connections' input.
//! - F6: a forwarded request that has to wait for a key holds up no other: see [`aside`]. Each waits for its
//!   own patience, and one whose patience ends takes no other along.
//! - F7: what has come of other nodes' replies to a command is counted as what its connection holds, and
//!   passes what a reply may have by no more than [`ANSWER_FRAME_BYTES`] for each part and one read: then
//!   the command ends as one whose reply is too long.
//!
//! Ownership: each worker has its own lines, one for each node and protocol version, opened when they are
//! needed.

mod aside;
mod channel;
mod channels;
mod progress;
mod run;
mod skip;

pub(crate) use aside::{Aside, Asides};
pub(crate) use channels::Channels;
pub use channels::ForwardEvent;
pub(crate) use progress::{NOT_HERE_ERROR, Progress};
pub(crate) use skip::{Skip, Skipped};

/// A connection to another node that a worker sends requests over, by number; never given twice by the same
/// worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardLink(pub u64);

/// How long a command is forwarded at most, all attempts together.
pub const PATIENCE_US: u64 = 30_000_000;
/// How long a request waits at most for a connection to the node that it is for.
pub const REACH_US: u64 = 5_000_000;
/// How long the requester waits before it looks again who owns what the other node says it does not own.
const LOOK_AGAIN_US: u64 = 10_000;
/// The first pause before another attempt to reach a node, and the longest.
const PAUSE_US: (u64, u64) = (50_000, 1_000_000);
/// A connection that nothing was sent over for so long is closed.
const IDLE_US: u64 = 10_000_000;
/// How many requests may be under way over one connection.
const WINDOW: usize = 16_384;
/// So many bytes of requests may wait for one connection; a longer request may be there by itself.
const QUEUE_BYTES: usize = 8 << 20;
/// As much is handed out to be written at once.
const OUTPUT_BYTES: usize = 256 << 10;
/// A connection's memory for replies that have come in part is given back when it is larger, and empty.
const INPUT_KEEP_BYTES: usize = 256 << 10;
/// What frames an answer is shorter than this, and no part of the client's reply.
const ANSWER_FRAME_BYTES: usize = 96;

/// The code with which a node refuses a forwarded request whose keys it does not own. No client ever sees it.
pub(crate) const NOT_HERE: &str = "SIDLENOTHERE";
/// The code with which a node answers a forwarded request that has to wait, with the number that its reply
/// will have. No client ever sees it.
pub(crate) const WAITS: &str = "SIDLEWAITS";
/// The code of the error after which a write may have been done, in whole or in part.
pub const UNKNOWN: &str = "SIDLEUNKNOWN";

/// How a request that was forwarded ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The other node's reply, byte for byte.
    Answer(Vec<u8>),
    /// It was not sent: the node cannot be reached.
    Unreachable,
    /// It was not sent: the tablet map has changed meanwhile.
    MapChanged,
    /// It was sent, and the connection ended before the answer came.
    Broken,
}
