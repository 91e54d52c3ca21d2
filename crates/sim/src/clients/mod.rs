//! Clients: the real client library's core over simulated connections, and their tasks.

mod bare;
mod caller;
mod canceller;
mod committers;
mod comparers;
mod consumers;
mod executors;
mod manner;
mod misbehaving;
mod operator;
mod other;
mod resp_stream;
mod session;
mod surveyor;
mod wires;

pub use bare::{Bare, BareSetup};
pub use canceller::{Canceller, CancellerSetup, Phase, Told};
pub use committers::{Committers, CommittersSetup};
pub use comparers::{Comparers, ComparersSetup};
pub use consumers::{Consumers, ConsumersSetup};
pub use executors::{Executors, ExecutorsSetup};
pub use manner::Manners;
pub use misbehaving::{Misbehaving, MisbehavingSetup, Misbehaviour};
pub use operator::{Operator, OperatorSetup, UpgradesSetup};
pub use other::{Other, OtherSetup};
pub use session::{Session, SessionSetup};
pub use surveyor::{Surveyor, SurveyorSetup};
pub use wires::{Ended, Wires};
