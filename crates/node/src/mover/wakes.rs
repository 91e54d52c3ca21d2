//! A mover's messages to the workers, kept until their queues have room.

use crate::queue::{MoverPort, ToMover, ToWorker, WorkerIndex};
use std::collections::{BTreeSet, VecDeque};

/// The mover's ends of its queues with every worker.
pub(super) struct Wakes {
    ports: Vec<MoverPort>,
    /// By worker; bounded by the pulls and flushes that its connections wait for, and a few words on each
    /// migration.
    kept: Vec<VecDeque<ToWorker>>,
    notify: BTreeSet<WorkerIndex>,
}

impl Wakes {
    pub(super) fn new(ports: Vec<MoverPort>) -> Wakes {
        let kept = ports.iter().map(|_| VecDeque::new()).collect();
        Wakes { ports, kept, notify: BTreeSet::new() }
    }

    /// The next message of any worker, with its sender.
    pub(super) fn receive(&mut self) -> Option<(WorkerIndex, ToMover)> {
        self.ports.iter_mut().enumerate().find_map(|(index, port)| {
            port.from_worker.pop().ok().map(|message| (WorkerIndex(index as u16), message))
        })
    }

    /// Sends to one worker.
    pub(super) fn send(&mut self, worker: WorkerIndex, message: ToWorker) {
        self.kept[usize::from(worker.0)].push_back(message);
        self.flush(worker);
    }

    /// Sends to every worker.
    pub(super) fn send_all(&mut self, message: ToWorker) {
        for worker in 0..self.ports.len() {
            self.send(WorkerIndex(worker as u16), message);
        }
    }

    /// These workers are to take their turn: there is a new step.
    pub(super) fn notify(&mut self, workers: impl Iterator<Item = usize>) {
        self.notify.extend(workers.map(|worker| WorkerIndex(worker as u16)));
    }

    /// All workers are to take their turn.
    pub(super) fn notify_all(&mut self) {
        self.notify(0..self.ports.len());
    }

    /// Retries messages that found a queue full.
    pub(super) fn flush_all(&mut self) {
        for worker in 0..self.ports.len() {
            if !self.kept[worker].is_empty() {
                self.flush(WorkerIndex(worker as u16));
            }
        }
    }

    /// How many messages found their queue full.
    pub(super) fn unsent(&self) -> usize {
        self.kept.iter().map(VecDeque::len).sum()
    }

    /// The number of workers to wake.
    pub(super) fn to_wake(&self) -> usize {
        self.notify.len()
    }

    /// Whether some queue was full.
    pub(super) fn is_blocked(&self) -> bool {
        self.kept.iter().any(|kept| !kept.is_empty())
    }

    fn flush(&mut self, worker: WorkerIndex) {
        let index = usize::from(worker.0);
        while let Some(&message) = self.kept[index].front() {
            self.notify.insert(worker);
            if self.ports[index].to_worker.push(message).is_err() {
                return;
            }
            self.kept[index].pop_front();
        }
    }

    /// The next worker whose thread to wake.
    pub(super) fn poll_notify(&mut self) -> Option<WorkerIndex> {
        self.notify.pop_first()
    }
}
