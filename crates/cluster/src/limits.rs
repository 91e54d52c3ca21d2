//! The bounds on everything: in a message, in the coordinator's record, in the memory of either side.
//!
//! Peers' messages are checked against these limits during parsing (`bounds`), so that nothing larger is ever
//! kept or committed.

/// The largest message, in bytes. The largest that is sent, a status of [`MAX_NODES`] nodes and
/// [`MAX_TABLETS`] tablets, is smaller.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The largest message from a node to the coordinator, in bytes: nothing that a node reports is large.
pub const MAX_NODE_MESSAGE_BYTES: usize = 64 << 10;

/// How many members a cluster has at most.
pub const MAX_NODES: usize = 1_000;

/// How many members that own nothing may have been down for
/// [`IDLE_FORGOTTEN_AFTER_US`](crate::timing::IDLE_FORGOTTEN_AFTER_US). Beyond that, the longest silent ones
/// are forgotten.
pub const MAX_IDLE_DOWN: usize = 64;

/// How many tablets a map has at most.
pub const MAX_TABLETS: usize = 32_768;

/// How many ranges may be taken over at a time: each names a dead node's log, and who had copies of it.
pub const MAX_TAKEOVERS: usize = 4_096;

/// How many partitions a migrating range is cut into at most.
pub const MAX_PARTITIONS: usize = 64;

/// How many finished migrations are remembered.
pub const HISTORY: usize = 64;

/// How many migrations may be under way or queued.
pub const MAX_UNFINISHED: usize = 64;

/// For how many nodes at most the coordinator knows which process joined last: the members, every migration's
/// source, target and requester, and members forgotten since the last join.
pub const MAX_STARTS: usize = 2 * MAX_NODES + 3 * (HISTORY + MAX_UNFINISHED);

/// How many copies of a log count at most, besides the one where it is written.
pub const MAX_BACKUPS: usize = 8;

/// How many migrations a node keeps something for, including those whose end it has not received.
pub const MAX_HELD: usize = 256;

/// How many parts of a range a refusal names.
pub const MAX_PARTS_NAMED: usize = 8;

/// The longest explanation that a node gives, in bytes.
pub const MAX_REASON_BYTES: usize = 1_024;

/// The longest text that the coordinator makes of one, in bytes.
pub const MAX_TEXT_BYTES: usize = 4_096;

/// The longest name of a protocol with its options, in bytes.
pub const MAX_PROTOCOL_BYTES: usize = 256;

/// The largest number: epochs, ids, counts. Every reader of JSON takes it, and one more is no overflow.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// By how much a node's incarnation may grow between joins: starts that never reached the coordinator count.
/// A larger leap would let one mistaken join keep the node out for ever.
pub const MAX_INCARNATION_LEAP: u64 = 1_000_000;

/// How many client requests a node keeps open, without those that wait for a migration's end.
pub const MAX_OPEN_REQUESTS: usize = 64;

/// How many client requests that wait for a migration's end a node keeps open.
pub const MAX_OPEN_WAITS: usize = 128;

/// How many requests may wait for a migration's end at the coordinator; further ones are answered at once.
pub const MAX_WAITS: usize = 1_024;

/// How long a request may wait for a migration's end, in microseconds.
pub const MAX_PATIENCE_US: u64 = 5_000_000;

/// How many numbers may lie between the oldest open request of a node and its newest, and so how many answers
/// the coordinator keeps for a node.
pub const REQUEST_WINDOW: u64 = 256;

/// How many messages may wait to be sent. Beyond it the oldest are dropped, as a link may drop them.
pub const MAX_TRANSMIT: usize = 4_096;

/// How many events may wait to be taken. A driver that takes them after every input stays far below.
pub const MAX_EVENTS: usize = 65_536;
