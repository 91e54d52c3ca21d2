//! One of the commands of `SIDLE.TX`.

use super::decide::decide;
use super::look::{LOOK, look};
use super::means::Means;
use super::prepare::prepare;
use crate::call::{CommandResult, Flow};
use crate::request::Request;
use sidle_commands::Within;
use sidle_resp::RespVersion;

/// Runs it. Unless it is done, nothing is written to `out`.
pub(crate) fn run(
    means: Means<'_>,
    request: Request<'_>,
    version: RespVersion,
    out: &mut Vec<u8>,
) -> CommandResult {
    let start = out.len();
    let result = match request.found.spec.keys.within {
        Within::Checked(_) => prepare(means, request, version, out),
        _ if request.found.spec.name == LOOK => look(means, request, version, out),
        _ => decide(means, request, version, out),
    };
    if !matches!(result, Ok(Flow::Done)) {
        out.truncate(start);
    }
    result
}
