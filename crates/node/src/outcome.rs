//! How a request ends for its worker, and what it may request of the control thread.

use crate::queue::Ticket;
use sidle_cluster::NodeName;
use sidle_types::{MigrationId, MigrationPolicy, PositionRange};

/// Why the node closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The client requested it.
    Asked,
    /// The client broke the protocol.
    Protocol,
    /// An unfinished request is, or will be, longer than the limit.
    RequestTooLong,
    /// It sends what browsers send: an attacker may use one to reach the node.
    CrossProtocol,
    /// A reply was longer than its client may leave unread.
    ReplyTooLong,
    /// It has a place for operators, and does not do an operator's work.
    NoPlace,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply, if the client wants one, is in the output.
    Done,
    /// As `Done`; close the connection once the output is sent.
    Close(Closing),
    /// Nothing was written. The connection pauses, keeps the request, and runs it again when
    /// [`Worker::poll_woken`](crate::Worker::poll_woken) returns the ticket.
    Parked(Ticket),
    /// Nothing was written. The connection pauses, and the request is consumed.
    /// [`Worker::answer`](crate::Worker::answer) answers it once the control thread has the reply.
    Control(ControlRequest),
    /// Nothing was written. The process is to end: SHUTDOWN.
    Shutdown,
}

/// A client's request that only the control thread can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// SIDLE.MIGRATE START.
    StartMigration {
        /// The range to move.
        range: PositionRange,
        /// The node that receives it.
        target: NodeName,
        /// The protocol's name, with its options.
        protocol: String,
        /// Its allowed load on the two nodes.
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
        /// The migration to wait for.
        migration: MigrationId,
        /// How long at most.
        patience_us: u64,
    },
    /// SIDLE.FORGET and CLUSTER FORGET.
    Forget(NodeName),
    /// SIDLE.TAKEOVER.
    TakeOver {
        /// What is taken over.
        node: NodeName,
        /// Also from copies that may lack what was written last.
        accepts_loss: bool,
    },
    /// SIDLE.UPGRADE.
    Upgrade,
    /// ACL LOAD, of this client.
    LoadUsers {
        /// The client's number.
        client: u64,
    },
    /// ACL SAVE.
    SaveUsers,
    /// SIDLE.STATUS.
    Status,
}

/// The control thread's answer.
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
