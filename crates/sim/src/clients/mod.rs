//! Clients: the real client library's core over simulated connections, and what they are asked to do.

mod canceller;
mod hand;
mod line;
mod manner;
mod operator;
mod other;
mod rude;
mod session;
mod surveyor;
mod wires;

pub use canceller::{Canceller, CancellerSetup, Phase, Told};
pub use hand::{Hand, HandSetup};
pub use manner::Manners;
pub use operator::{Operator, OperatorSetup};
pub use other::{Other, OtherSetup};
pub use rude::{Rude, RudeSetup, Rudeness};
pub use session::{Session, SessionSetup};
pub use surveyor::{Surveyor, SurveyorSetup};
pub use wires::{Ended, Wires};
