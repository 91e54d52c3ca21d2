//! What things cost: processor time of each piece of work, in nanoseconds.

use crate::processors::{Pause, Woken};
use serde::{Deserialize, Serialize};

/// Processor time of each piece of work. Found by measuring one machine: see [`calibrate`](crate::calibrate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// To ask the system which connections have something.
    pub poll_ns: u64,
    /// For a thread to fall asleep and be woken, beside that.
    pub sleep_ns: u64,
    /// For whoever wakes it.
    pub wake_ns: u64,
    /// For a thread whose core slept, beside its own sleep: the core wakes up, and other work of its host's
    /// has used its caches.
    pub core_sleep_ns: u64,
    /// For whoever wakes such a thread: an interrupt for the other core, which on a virtual machine is the
    /// host's work.
    pub wake_core_ns: u64,
    /// Until such a core runs anything, beside what it then takes: no processor's time.
    pub core_latency_ns: u64,
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
    /// To run either at a worker on whose core another thread has run a moment ago, beside that: the other's
    /// data is in the caches.
    pub shared_ns: u64,
    /// At the client: to draw a read, ask for it and take its answer.
    pub ask_get_ns: u64,
    /// The same for a write.
    pub ask_set_ns: u64,
    /// At the source's mover: to find and pack a KiB of records.
    pub pack_ns_per_kib: u64,
    /// There, to find and pack a KiB of records that were asked for by name or have changed.
    pub pick_ns_per_kib: u64,
    /// At the target's mover: to check and replay a KiB of records.
    pub replay_ns_per_kib: u64,
    /// At either mover: to handle any other message. At a worker: to look at what movers and the control
    /// thread have for it.
    pub message_ns: u64,
    /// At a control thread: to handle what comes for it, or a timer.
    pub control_ns: u64,
    /// At the coordinator's seat, beside that: to make and keep a decision, which is on disk before anybody
    /// acts on it.
    pub commit_ns: u64,
    /// At either mover, for the first bulk pull that it packs or replays after a sleep: records and caches
    /// that others have used meanwhile. What is small takes hardly more then.
    pub bulk_resume_ns: u64,
    /// At the source's mover: to discard a slice of the records that were moved.
    pub release_ns: u64,
    /// How much the same work's time changes, in thousandths: the standard deviation by the mean of what a
    /// node does in windows of 100 ms. For [noisy](crate::machines::Machines::noisy) machines.
    pub noise_thousandths: u64,
}

impl Costs {
    /// Of what happened to a thread before its turn.
    pub(crate) fn of_pause(&self, pause: Pause) -> u64 {
        let thread_ns = if pause.of_thread { self.sleep_ns } else { 0 };
        thread_ns + if pause.of_core { self.core_sleep_ns } else { 0 }
    }

    /// Of waking a thread.
    pub(crate) fn of_waking(&self, woken: Woken) -> u64 {
        match woken {
            Woken::Nobody => 0,
            Woken::Thread => self.wake_ns,
            Woken::ThreadAndCore => self.wake_ns + self.wake_core_ns,
        }
    }

    /// Work on so many bytes.
    pub(crate) fn of_bytes(ns_per_kib: u64, bytes: u64) -> u64 {
        ns_per_kib * bytes / 1024
    }
}
