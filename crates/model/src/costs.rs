//! Costs: processor time of each piece of work, in nanoseconds.

use crate::processors::{Pause, Woken};
use serde::{Deserialize, Serialize};

/// Processor time of each piece of work, measured on one machine: see [`calibrate`](crate::calibrate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// To poll which connections are ready.
    pub poll_ns: u64,
    /// For a thread to fall asleep and be woken, in addition.
    pub sleep_ns: u64,
    /// For the waker.
    pub wake_ns: u64,
    /// For a thread whose core slept, beside its own sleep: the core wakes up, and the host's other work has
    /// used its caches.
    pub core_sleep_ns: u64,
    /// For the waker of such a thread: an interrupt of the other core, which on a virtual machine is the
    /// host's work.
    pub wake_core_ns: u64,
    /// The delay until such a core runs anything; no processor time.
    pub core_latency_ns: u64,
    /// To read from a connection.
    pub read_ns: u64,
    /// To write a request or a reply to a connection, including its delivery by the system.
    pub write_ns: u64,
    /// To write or read each KiB of bulk data.
    pub copy_ns_per_kib: u64,
    /// To run a GET: parse, look up, answer.
    pub get_ns: u64,
    /// To run a SET.
    pub set_ns: u64,
    /// To run either at a worker whose core has just run another thread, in addition: the caches hold the
    /// other's data.
    pub shared_ns: u64,
    /// At the client: to draw a read, send it and take its answer.
    pub ask_get_ns: u64,
    /// The same for a write.
    pub ask_set_ns: u64,
    /// At the source's mover: to find and pack a KiB of records.
    pub pack_ns_per_kib: u64,
    /// There, to find and pack a KiB of records that were requested by name or have changed.
    pub pick_ns_per_kib: u64,
    /// At the target's mover: to check and replay a KiB of records.
    pub replay_ns_per_kib: u64,
    /// At either mover: to handle any other message. At a worker: to check the queues from movers and the
    /// control thread.
    pub message_ns: u64,
    /// At a control thread: to handle a message or a timer.
    pub control_ns: u64,
    /// At the coordinator, in addition: to make and store a decision, which is on disk before it takes
    /// effect.
    pub commit_ns: u64,
    /// At either mover, for the first bulk pull that it packs or replays after a sleep: other threads have
    /// used the caches meanwhile. Small work costs hardly more then.
    pub bulk_resume_ns: u64,
    /// At the source's mover: to discard a slice of the moved records.
    pub release_ns: u64,
    /// The noise of the same work's time, in thousandths: the standard deviation of a node's work in windows
    /// of 100 ms, relative to the mean. For [noisy](crate::machines::Machines::noisy) machines.
    pub noise_thousandths: u64,
}

impl Costs {
    /// Of a thread's pause before its turn.
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

    /// Of work on this many bytes.
    pub(crate) fn of_bytes(ns_per_kib: u64, bytes: u64) -> u64 {
        ns_per_kib * bytes / 1024
    }
}
