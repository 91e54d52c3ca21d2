//! Forwarding: the node that clients take for a slot's owner serves all of the slot, even what another node
//! owns of it.
//!
//! Purpose: a slot may be split between nodes, but clients of Redis Cluster know whole slots only. `CLUSTER
//! SLOTS` shows one owner, that of the slot's first position. For clients that did not opt in it forwards the
//! rest to its owner, over a connection between the two workers' nodes, and returns the answer. Opted-in
//! clients know positions, and are redirected.
//!
//! A command that other nodes run in whole or part parks like one that waits for a pull. It runs again from
//! its start when all answers have arrived, and [`Progress`] records which of its keys are done. So the
//! worker's driver needs no special case for it.
//!
//! Invariants:
//! - F1: a forwarded request runs at the owner of all of its keys, or nowhere. The receiver decides as for
//!   any client, and answers [`NOT_HERE`] where a client would be redirected. It is never forwarded again, so
//!   there is no loop.
//! - F2: a request is sent a second time only if the first had no effect: it was not sent, it was answered
//!   with [`NOT_HERE`], or it only reads.
//! - F3: each key of a command is done once. A done key is never done again by another owner, whatever the
//!   map shows by then.
//! - F4: a command waits for other nodes at most [`PATIENCE_US`] from its first forwarding, and [`REACH_US`]
//!   if nothing could be sent. If a write may have had an effect, in whole or in part, its error reports that
//!   ([`UNKNOWN`]).
//! - F5: waiting is bounded: a connection has one command, a line [`WINDOW`] requests in flight and
//!   [`QUEUE_BYTES`] waiting; beyond that commands stay in their connections' input.
//! - F6: a forwarded request that waits for a key holds up no other: see [`aside`]. Each waits for its own
//!   patience, and its end affects no other.
//! - F7: received bytes of other nodes' replies count as held by the command's connection. They pass the
//!   reply's limit by at most [`ANSWER_FRAME_BYTES`] for each part and one read; then the command ends as one
//!   whose reply is too long.
//!
//! - F8: a command over keys of several nodes is one change. This node holds all of its keys ([`holds`]), has
//!   the others carry out their parts, then carries out its own ([`round`]). With two owners the change is
//!   made when the other one makes its part: nobody sees this node's keys between then and the end. The part
//!   runs under the range table that the command began with, and no barrier passes before (D4): so a freeze
//!   waits for it. It goes on when its client has gone.
//! - F9: where a migration has turned back, a forwarded request for what stays with the source is refused. It
//!   would wait for the turn, the turn for the source's new table, and that for the command (F8).
//!
//! Not covered by F8, and reported as [`UNKNOWN`]: the connection breaks before the answer arrives, an owner
//! runs out of memory after another one has done its part, or takes longer than [`HOLD_US`]. Nor is an
//! opted-in client that reads two further owners of one slot by itself.
//!
//! Ownership: each worker has its own lines, one for each node and protocol version, opened on demand.

mod aside;
mod channel;
mod channels;
mod holds;
mod joint;
mod progress;
mod round;
mod run;
mod skip;
mod suspects;

pub(crate) use aside::{Aside, Asides};
pub(crate) use channels::Channels;
pub use channels::ForwardEvent;
pub(crate) use holds::{Hold, Holds};
pub(crate) use joint::Joints;
pub(crate) use progress::{NOT_HERE_ERROR, Progress};
pub(crate) use skip::{Skip, Skipped};
pub(crate) use suspects::Suspects;

/// A worker's connection to another node for forwarded requests, by number; never reused by the same worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardLink(pub u64);

/// The most time that a command is forwarded, all attempts together.
pub const PATIENCE_US: u64 = 30_000_000;
/// The most time that a request waits for a connection to its node.
pub const REACH_US: u64 = 5_000_000;
/// The most time that a joint command waits for answers in one round, and so that it holds its keys.
const HOLD_US: u64 = 5_000_000;
/// The pause before the requester checks the owner again after a refusal by the supposed one.
const LOOK_AGAIN_US: u64 = 10_000;
/// The first pause before another attempt to reach a node, and the longest.
const PAUSE_US: (u64, u64) = (50_000, 1_000_000);
/// A connection without requests for so long is closed.
const IDLE_US: u64 = 10_000_000;
/// The most requests in flight over one connection.
const WINDOW: usize = 16_384;
/// The most bytes of requests that wait for one connection; a single request may be longer.
const QUEUE_BYTES: usize = 8 << 20;
/// The most output handed out at once.
const OUTPUT_BYTES: usize = 256 << 10;
/// A connection's buffer for partial replies is freed when it is larger, and empty.
const INPUT_KEEP_BYTES: usize = 256 << 10;
/// An answer's frame is shorter than this, and no part of the client's reply.
const ANSWER_FRAME_BYTES: usize = 96;

/// The error code of a forwarded request whose keys this node does not own. Clients never see it.
pub(crate) const NOT_HERE: &str = "SIDLENOTHERE";
/// The error code of a forwarded request that has to wait, with its reply's number. Clients never see it.
pub(crate) const WAITS: &str = "SIDLEWAITS";
/// The error code of a write that may have been done, in whole or in part.
pub const UNKNOWN: &str = "SIDLEUNKNOWN";

/// How a forwarded request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The other node's reply, byte for byte.
    Answer(Vec<u8>),
    /// It was not sent: the node is unreachable.
    Unreachable,
    /// It was not sent: the tablet map has changed meanwhile.
    MapChanged,
    /// It was sent, and the connection ended before the answer came.
    Broken,
    /// It was sent, and no answer came in time.
    Silent,
}
