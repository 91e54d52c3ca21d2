//! The machines' inputs and outputs, apart from frames.

use crate::{BarrierPassed, Load};
use sidle_types::{GaveAll, MigrationPolicy, Position};
use sidle_wire::{Lane, Message};

/// A command on a worker that waits for a key, or for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter {
    /// The worker.
    pub worker: u16,
    /// The worker's number for the command.
    pub ticket: u64,
}

/// An input of a target machine.
#[derive(Debug)]
pub enum TargetInput<'b> {
    /// The connection asked for by [`TargetEvent::Connect`] is open.
    Connected(Lane),
    /// It is closed, or could not be opened.
    Disconnected(Lane),
    /// A message arrived.
    Message(Lane, Message<'b>),
    /// [`Importer::poll_timeout`](crate::Importer::poll_timeout) has come.
    Timeout,
    /// A read missed, and its position was drawn. May be dropped.
    SampledMiss(Position),
    /// A command has written a key at this position blindly, and it was not here. May be dropped; the number
    /// of missing keys is then too high until everything has arrived.
    WrittenUnseen(Position),
    /// A command waits for this key. Answered with exactly one [`TargetEvent::Wake`] or
    /// [`TargetEvent::Refuse`], or ended by [`TargetEvent::AskAgain`] or [`TargetEvent::GaveAll`].
    PriorityPull(&'b [u8], Waiter),
    /// A client was asked to retry this key soon. May be dropped.
    Wanted(&'b [u8]),
    /// FLUSHALL: what has not arrived is absent for good. Answered with [`TargetEvent::Wake`]; nothing is
    /// replayed after that, and the command may discard the records here.
    Flush(Waiter),
    /// The load of the node and its workers; to be passed in every few milliseconds, and between pieces of
    /// work.
    Load(Load),
    /// How hard the migration may press from now on.
    Policy(MigrationPolicy),
    /// `Done` is committed, and every worker uses a range table in which this import is an ordinary tablet.
    Over(BarrierPassed),
    /// Of a range that is given bit by bit: the migration is to turn back. Answered with
    /// [`TargetEvent::Settled`], unless everything is given before.
    TurnsBack,
    /// It has turned back: its way back begins with what is here. A flush that waits runs again, by the table
    /// of the way back.
    Turned,
    /// Of a range that is given bit by bit: nothing more is given. The copies that are not this node's are
    /// discarded.
    GivenUp,
    /// The source restarted, with its durable log. Copies that it had not frozen are discarded. Of a range
    /// that is given bit by bit this machine ends then: another one goes on, with what this node owns. A
    /// flush that waits runs again, and meets that one; other commands go on waiting.
    SourceRestarted,
    /// The source is dead, and others own what it had. As [`SourceRestarted`](Self::SourceRestarted), but
    /// that nobody is asked for anything any more. Answered with [`TargetEvent::AwaitsCopy`], unless
    /// everything has arrived, or another machine goes on.
    SourceDied,
    /// What was left comes from a copy of the source's log: that has entered the store, as records that were
    /// pulled do (M5), and the durable log has it. What a flush that waits is to clear is cleared.
    CopyIsHere,
}

/// An output of a target machine for its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// Open this lane's connection to the source.
    Connect(Lane),
    /// Close this lane's connection: the peer broke the protocol.
    Close(Lane, Breach),
    /// The import may be served (M3): rerun all requests parked for that.
    Activated,
    /// Rerun this command: its key was answered for.
    Wake(Waiter),
    /// Rerun this command, which may go to the source now. Nothing was answered for its key.
    AskAgain(Waiter),
    /// The import was flushed for this command.
    Flushed(Waiter),
    /// Fail this command.
    Refuse(Waiter, WaiterRefusal),
    /// There is news of what was given, and workers want to tell clients
    /// ([`GivenDigest`](crate::GivenDigest)).
    Gave,
    /// Of a copy made before the freeze: so few changes are left that the range may be frozen; or all that is
    /// hot is copied.
    CaughtUp,
    /// Out of memory: pulls pause and resume by themselves. The range is served nevertheless.
    Stalled,
    /// Memory is available again.
    Resumed,
    /// Of a range that is given bit by bit: the source gave all that was left, for this reason. Rerun all
    /// requests that wait for keys of the range: nothing was answered for these, but some need not wait now.
    GaveAll(GaveAll),
    /// It turns back: no cut is in transit, none will be requested, and no inert copy is here. From now on
    /// what this node owns does not change. Commands that wait go on waiting, for the table of the way back.
    Settled {
        /// Whether this node was given anything.
        owns: bool,
    },
    /// The source is dead, and this machine is ready for [`TargetInput::CopyIsHere`]: it inserts nothing
    /// itself.
    AwaitsCopy,
    /// Everything has arrived and is readable: the coordinator may commit `Done`.
    Finished,
    /// Tombstones are swept; the machine may be dropped.
    Ended,
    /// The source refuses to continue this migration.
    Failed(Failure),
}

/// Why a waiting command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaiterRefusal {
    /// The target has no memory for the record.
    OutOfMemory,
    /// The target has no room for another waiter.
    TooManyWait,
}

/// Why a migration cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The source refused.
    #[error("the source refuses: {0}")]
    RefusedBySource(String),
}

/// An input of a source machine.
#[derive(Debug)]
pub enum SourceInput<'b> {
    /// Every worker uses a range table by which it marks its changes in the range (M11).
    Tracked(BarrierPassed),
    /// Every worker uses a range table in which the range is exported (M2).
    Frozen(BarrierPassed),
    /// Every worker uses the step that [`SourceEvent::Step`] asked for (M20).
    Stepped(BarrierPassed),
    /// The target opened this lane's connection; its `Hello` follows as a message.
    Connected(Lane),
    /// The connection is closed.
    Disconnected(Lane),
    /// A message arrived.
    Message(Lane, Message<'b>),
    /// [`Exporter::poll_timeout`](crate::Exporter::poll_timeout) has come.
    Timeout,
    /// As [`TargetInput::Load`].
    Load(Load),
    /// As [`TargetInput::Policy`].
    Policy(MigrationPolicy),
    /// The coordinator committed `Done` (M8).
    DoneCommitted,
    /// Every worker uses a range table from after `Done` (M8): memory may be freed.
    Over(BarrierPassed),
    /// Of a range that is given bit by bit: the target is gone, and the range is this node's again. What was
    /// given is lost; its outdated records are discarded.
    TakenBack,
}

/// An output of a source machine for its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// Close this lane's connection: the peer broke the protocol.
    Close(Lane, Breach),
    /// The target serves.
    Activated,
    /// A step is to be published to the workers, of a cut or of what is copied ahead, by the barrier of
    /// steps: [`Exporter::publish_step`](crate::Exporter::publish_step) with its number before anyone sees
    /// it; then [`SourceInput::Stepped`].
    Step,
    /// The range's memory is freed; the machine may be dropped.
    Ended,
}

/// How a peer broke the protocol. Its connection is closed, and nothing of the message was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A message that this end never receives.
    #[error("{0} is not for this end of a migration")]
    WrongDirection(&'static str),
    /// A batch of records that is inconsistent.
    #[error("corrupt batch: {0}")]
    CorruptBatch(String),
    /// The records at one position do not fit into a frame.
    #[error("{0}")]
    Unsendable(String),
}
