//! One node: commands, ownership, movers; composition without input or output.
//!
//! A node is driven from outside: worker threads feed requests to a [`Worker`] each, mover threads step a `Mover`
//! each, the control thread steps the `NodeControl`. Nothing here reads a clock, opens a socket or starts a thread,
//! so the same code runs under the server's tokio and under the simulator's virtual time.

mod now;
mod outcome;
mod parking;
mod queue;

pub use now::Now;
pub use outcome::{ControlReply, ControlRequest, Outcome};
pub use parking::Ticket;
pub use queue::{
    MoverIndex, MoverPort, TO_MOVER_CAPACITY, TO_WORKER_CAPACITY, ToMover, ToWorker, WorkerIndex, WorkerPort,
    connect,
};
