//! The core against scripted nodes, each with one connection: every order of answers, and every change during
//! an operation.

mod digest;
mod faults;
mod moves;
mod reads;
mod routing;
mod trouble;

use crate::config::Config;
use crate::script::{Script, bulk, moving, still};
use crate::{Awareness, Class, Core, Destination, Outcome, Token};
use sidle_cluster::TabletMap;
use sidle_testbed::fixtures::{address, map, range, running};
use sidle_types::{HashedKey, MonotonicUs, Position, ProtocolVersion};

const EMPTY: &str = "+EMPTY\r\n";
const DONE: &str = "-SIDLEDONE migration 1 is over, ask the owner\r\n";
const NOT_FROZEN: &str = "-SIDLENOTFROZEN migration 1\r\n";

fn ended(token: Token, outcome: &str) -> Vec<(Token, String)> {
    vec![(token, outcome.to_owned())]
}
