//! Bounded queues between workers and movers: one pair for each worker and mover, single producer, single
//! consumer, no locks.
//!
//! Neither side ever waits for the other. A worker with a full queue drops a sample, and keeps a pull in its
//! parking lot until the next turn. A mover with a full queue keeps the wake until its next step.

use rtrb::{Consumer, Producer, RingBuffer};
use sidle_migration::WaiterRefusal;
use sidle_types::{MigrationId, Position, PositionRange};

/// A worker's index on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerIndex(pub u16);

/// One parked command of one worker; never reused by the same worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A mover's index on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoverIndex(pub u16);

/// The most movers of a node: notifications are bits of one word.
pub const MAX_MOVERS: u16 = 64;

impl MoverIndex {
    /// The mover of a migration, from start to end.
    ///
    /// # Panics
    /// If there are no movers.
    pub fn of(migration: MigrationId, movers: usize) -> MoverIndex {
        assert!(movers > 0, "a node without movers takes part in no migration");
        MoverIndex((migration.0 % movers as u64) as u16)
    }
}

/// How many messages to a mover may wait.
pub const TO_MOVER_CAPACITY: usize = 4096;
/// How many messages to a worker may wait.
pub const TO_WORKER_CAPACITY: usize = 4096;

/// A worker's message to a mover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToMover {
    /// A read missed here; its position was drawn for a sampled pull. May be lost.
    Sampled {
        /// The migration that will bring the position.
        migration: MigrationId,
        /// The key's position.
        position: Position,
    },
    /// A client is to retry for this key. May be lost.
    Wanted {
        /// The migration that brings it.
        migration: MigrationId,
        /// The key.
        key: Box<[u8]>,
    },
    /// A key was written here without a look-up, and was not here: the source may have it too. May be lost.
    WrittenUnseen {
        /// The migration that will bring the position.
        migration: MigrationId,
        /// The key's position.
        position: Position,
    },
    /// A command waits until all of these positions have arrived, at most this long.
    Await {
        /// The migration that brings them.
        migration: MigrationId,
        /// The positions.
        range: PositionRange,
        /// How long, in microseconds.
        patience_us: u64,
        /// The command.
        ticket: Ticket,
    },
    /// A command waits for this key.
    Pull {
        /// The migration that brings it.
        migration: MigrationId,
        /// The key.
        key: Box<[u8]>,
        /// The command.
        ticket: Ticket,
    },
    /// FLUSHALL: what has not arrived must never arrive, and what has is removed.
    Flush {
        /// The import to flush.
        migration: MigrationId,
        /// The command that waits until it is done.
        ticket: Ticket,
    },
}

/// A mover's message to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToWorker {
    /// An answer for the command has arrived.
    Wake {
        /// The migration that it is from.
        migration: MigrationId,
        /// The command.
        ticket: Ticket,
    },
    /// The command is to run again; nothing was answered.
    AskAgain(Ticket),
    /// The import was flushed for the command.
    Flushed {
        /// The migration.
        migration: MigrationId,
        /// The command.
        ticket: Ticket,
    },
    /// The command's patience ended without an arrival.
    WaitedOut(Ticket),
    /// The command fails, since it cannot wait for a key.
    Refuse(Ticket, WaiterRefusal),
    /// The import may be served, or is over: run again every command that waits for it.
    WakeAll(MigrationId),
}

/// A worker's end of its queues with one mover.
pub struct WorkerPort {
    pub(crate) to_mover: Producer<ToMover>,
    pub(crate) from_mover: Consumer<ToWorker>,
}

/// A mover's end of its queues with one worker.
pub struct MoverPort {
    pub(crate) from_worker: Consumer<ToMover>,
    pub(crate) to_worker: Producer<ToWorker>,
}

/// Both ends of every queue: for each worker its ports by mover, for each mover its ports by worker.
pub fn connect(workers: u16, movers: u16) -> (Vec<Vec<WorkerPort>>, Vec<Vec<MoverPort>>) {
    let mut worker_ports: Vec<Vec<WorkerPort>> = (0..workers).map(|_| Vec::new()).collect();
    let mut mover_ports: Vec<Vec<MoverPort>> = (0..movers).map(|_| Vec::new()).collect();
    for worker in &mut worker_ports {
        for mover in &mut mover_ports {
            let (to_mover, from_worker) = RingBuffer::new(TO_MOVER_CAPACITY);
            let (to_worker, from_mover) = RingBuffer::new(TO_WORKER_CAPACITY);
            worker.push(WorkerPort { to_mover, from_mover });
            mover.push(MoverPort { from_worker, to_worker });
        }
    }
    (worker_ports, mover_ports)
}
