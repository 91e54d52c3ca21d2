//! Clients: the real client library's core over simulated connections, and what they are asked to do.

mod operator;
mod session;
mod wires;

pub use operator::{Operator, OperatorSetup};
pub use session::{Session, SessionSetup};
pub use wires::{Ended, Wires};
