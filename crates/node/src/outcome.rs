//! How a request ends as far as its worker is concerned, and what it may ask of the control thread.

use crate::queue::Ticket;
use sidle_cluster::NodeName;
use sidle_types::{MigrationId, MigrationPolicy, PositionRange};

/// Why the node closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The client asked for it.
    Asked,
    /// The client broke the protocol.
    Protocol,
    /// An unfinished request is, or is to be, longer than it may be.
    RequestTooLong,
    /// It sends what browsers send: somebody may be using one to reach the node.
    CrossProtocol,
    /// A reply was longer than its client may leave unread.
    ReplyTooLong,
    /// It has one of the places that are kept for operators, and does not do an operator's work.
    NoPlace,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply, if the client wants one, stands in the output.
    Done,
    /// As `Done`; the connection is to be closed once the output is sent.
    Close(Closing),
    /// Nothing was written. The connection pauses, keeps the request, and runs it again when
    /// [`Worker::poll_woken`](crate::Worker::poll_woken) returns the ticket.
    Parked(Ticket),
    /// Nothing was written. The connection pauses; the request is spent, and is answered with
    /// [`Worker::answer`](crate::Worker::answer) once the control thread has the reply.
    Control(ControlRequest),
    /// Nothing was written. The process is to end: SHUTDOWN.
    Shutdown,
}

/// What a client asked that only the control thread can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// SIDLE.MIGRATE START.
    StartMigration {
        /// What is to move.
        range: PositionRange,
        /// The node that takes it.
        target: NodeName,
        /// The protocol's name, with its options.
        protocol: String,
        /// How hard it may press on the two nodes.
        policy: MigrationPolicy,
    },
    /// SIDLE.MIGRATE SET.
    SetPolicy(MigrationId, MigrationPolicy),
    /// SIDLE.MIGRATE CANCEL.
    CancelMigration(MigrationId),
    /// SIDLE.MIGRATE STATUS, of one migration or of all.
    MigrationStatus(Option<MigrationId>),
    /// SIDLE.MIGRATE WAIT.
    AwaitEnd {
        /// The migration whose end is waited for.
        migration: MigrationId,
        /// How long at most.
        patience_us: u64,
    },
    /// SIDLE.FORGET and CLUSTER FORGET.
    Forget(NodeName),
    /// SIDLE.UPGRADE.
    Upgrade,
    /// SIDLE.STATUS.
    Status,
}

/// What the control thread answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlReply {
    /// `+OK`.
    Ok,
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Text(String),
    /// An error, its code first.
    Error(String),
}
