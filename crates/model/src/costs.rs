//! What things cost: processor time of each piece of work, in nanoseconds.

use serde::{Deserialize, Serialize};

/// Processor time of each piece of work. Found by measuring one machine: see [`calibrate`](crate::calibrate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// To ask the system which connections have something.
    pub poll_ns: u64,
    /// To fall asleep and be woken, beside that.
    pub sleep_ns: u64,
    /// To read what came over a connection.
    pub read_ns: u64,
    /// To write a request or a reply to a connection, with what the system does to deliver it.
    pub write_ns: u64,
    /// To write or read each KiB of bulk data.
    pub copy_ns_per_kib: u64,
    /// To run a GET: parse, look up, answer.
    pub get_ns: u64,
    /// To run a SET.
    pub set_ns: u64,
    /// At the client: to draw a read, ask for it and take its answer.
    pub ask_get_ns: u64,
    /// The same for a write.
    pub ask_set_ns: u64,
    /// At the source's mover: to find and pack a KiB of records.
    pub pack_ns_per_kib: u64,
    /// At the target's mover: to check and replay a KiB of records.
    pub replay_ns_per_kib: u64,
    /// At either mover: to handle any other message. At a worker: to look at what movers and the control thread have for it.
    pub message_ns: u64,
    /// At either mover, for the first batch after a sleep: what it looks at by itself then (clocks, how busy its node is), and
    /// caches that others have used meanwhile. 0 in files from before this field, where moving a KiB contains it.
    #[serde(default)]
    pub resume_ns: u64,
}

impl Costs {
    /// Work on so many bytes.
    pub(crate) fn of_bytes(ns_per_kib: u64, bytes: u64) -> u64 {
        ns_per_kib * bytes / 1024
    }
}
