//! One of the commands of `SIDLE.TX`.

use super::decide::decide;
use super::look::{LOOK, look};
use super::means::Means;
use super::prepare::prepare;
use crate::call::{CommandResult, Flow};
use crate::request::Request;
use sidle_commands::Within;
use sidle_resp::RespVersion;

/// The codes of votes against a transaction, because of another one.
const CONFLICTS: [&str; 2] = ["SIDLELOCKED", "SIDLECHANGED"];

/// Runs it. Unless it is done, nothing is written to `out`.
pub(crate) fn run(
    means: Means<'_>,
    request: Request<'_>,
    version: RespVersion,
    out: &mut Vec<u8>,
) -> CommandResult {
    let start = out.len();
    let result = match request.found.spec.keys.within {
        Within::Checked(_) => {
            let stats = means.scene.stats;
            let voted = prepare(means, request, version, out);
            let is_conflict = voted.as_ref().is_err_and(|error| CONFLICTS.contains(&&*error.code()));
            stats.transactions.conflicts.add(u64::from(is_conflict));
            voted
        }
        _ if request.found.spec.name == LOOK => look(means, request, version, out),
        _ => decide(means, request, version, out),
    };
    if !matches!(result, Ok(Flow::Done)) {
        out.truncate(start);
    }
    result
}
