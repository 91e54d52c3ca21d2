//! Runs a request that is to run once: `SIDLE.ONCE`.
//!
//! The command's keys and the client's completion key are locked together. If the client's completions have
//! the request, the reply in them is given, and nothing runs. Otherwise the command runs, and its writes are
//! published in one step with the reply (N1). What writes nothing may run again, and needs no reply kept.

use crate::call::{CommandResult, Flow};
use crate::completions::{Arrival, Completions, KEPT_MS, Known, OPEN_REQUESTS_MAX, RequestId};
use crate::keyspace::{NodeKeyspace, Scene, Together, stored};
use crate::request::Request;
use crate::table::{CommandFlags, Found, NodeExecutor, commands};
use sidle_commands::{Blocking, Keyspace, OverKeys, Overlay, ReplyError, Run, Value, parse_i64};
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_store::{LogHead, SlotGuards, Store};
use sidle_types::{HashedKey, ValueKind, WallMs, fault};

/// Where the command begins that is to run.
pub(crate) const COMMAND_AT: u8 = 5;

const CROSS_SLOT: ReplyError =
    ReplyError::text("CROSSSLOT the completion key and the command's keys do not hash to the same slot");
const NOT_ONCE: ReplyError = ReplyError::text(
    "ERR SIDLE.ONCE takes a command that writes the keys it names, and neither blocks nor is in a transaction",
);
const NOT_OPEN: ReplyError = ReplyError::text("ERR the lowest open request is above this one");
const TOO_LATE: ReplyError = ReplyError::text(
    "SIDLELATE the request was issued more than 5 minutes ago: whether it has run is not known any more",
);
const TOO_EARLY: ReplyError = ReplyError::text(
    "ERR the request was issued more than a minute in the future: the clock of the client or of the node is wrong",
);
const OTHER_UNIT: ReplyError = ReplyError::text(
    "ERR issued is in milliseconds since 1970, and this is no time of these years: are they seconds? Nothing was done",
);
const STALE: ReplyError =
    ReplyError::text("SIDLESTALE the client has reported that it needs no reply to this request any more");
const OTHER_VERSION: ReplyError = ReplyError::text(
    "ERR the request has run, and its reply is in another version of RESP: ask again with that of the first attempt",
);
const TOO_LONG: ReplyError = ReplyError::text(
    "ERR the replies that this client may still need would take more than 4 MiB in this slot: nothing was done",
);
const OLD_NODES: ReplyError =
    ReplyError::text("ERR SIDLE.ONCE needs all nodes to speak a later version: see `sidle upgrade`");

/// What a request asks for.
struct Once<'r> {
    id: RequestId,
    run: OverKeys<NodeExecutor>,
    /// Whether the command may run where there is no memory.
    frees: bool,
    /// The completion key, and those of the command.
    keys: &'r [HashedKey<'r>],
    args: &'r [&'r [u8]],
}

impl<'r> Once<'r> {
    fn of(request: Request<'r>, now: WallMs) -> Result<Once<'r>, ReplyError> {
        let Request { keys, args, .. } = request;
        let number = |text: &[u8]| parse_i64(text).and_then(|number| u64::try_from(number).ok());
        let (Some(number), Some(lowest_open), Some(issued)) =
            (number(args[2]), number(args[3]), number(args[4]))
        else {
            return Err(ReplyError::NotAnInteger);
        };
        let args = &args[usize::from(COMMAND_AT)..];
        let Found { spec, .. } = commands().resolve(args)?;
        let run = match spec.run {
            Run::OverKeys(run) if spec.access.is_write() && !spec.flags.contains(CommandFlags::BLOCKING) => {
                run
            }
            _ => return Err(NOT_ONCE),
        };
        let (completions, of_command) = keys.split_first().ok_or(NOT_ONCE)?;
        if spec.is_over_unnamed(args) {
            return Err(NOT_ONCE);
        }
        if of_command.iter().any(|key| key.slot() != completions.slot()) {
            return Err(CROSS_SLOT);
        }
        if of_command.iter().any(|key| key.bytes() == completions.bytes()) {
            return Err(ReplyError::text("ERR the completion key is one of the command's keys"));
        }
        if lowest_open > number {
            return Err(NOT_OPEN);
        }
        let id = RequestId { number, lowest_open, issued: WallMs(issued) };
        match id.arrival(now) {
            Arrival::InTime => {
                let frees = !spec.flags.contains(CommandFlags::DENYOOM);
                Ok(Once { id, run, frees, keys, args })
            }
            Arrival::TooLate => Err(TOO_LATE),
            Arrival::TooEarly => Err(TOO_EARLY),
            Arrival::OtherUnit => Err(OTHER_UNIT),
        }
    }
}

/// What it is run with.
pub(crate) struct Means<'e, H> {
    pub(crate) store: &'e Store,
    pub(crate) head: &'e mut LogHead,
    pub(crate) scene: Scene<'e>,
    /// Whether another command holds one of these keys, under whose locks it is called (F8), or a transaction
    /// has locked one (X4).
    pub(crate) must_wait: H,
    /// The longest reply.
    pub(crate) most: usize,
    /// No memory was found: what frees some may take of the cleaner's reserve.
    pub(crate) is_short: bool,
}

/// Runs such a request; its result, and whether its reply is too long. Then nothing was written.
pub(crate) fn run_once<H: FnOnce(&[HashedKey<'_>]) -> bool>(
    means: Means<'_, H>,
    request: Request<'_>,
    version: RespVersion,
    out: &mut Vec<u8>,
) -> (CommandResult, bool) {
    let start = out.len();
    let result = Once::of(request, means.scene.now).and_then(|once| run(means, once, version, out));
    match result {
        Ok((flow, is_cut)) => (Ok(flow), is_cut),
        Err(error) => {
            out.truncate(start);
            (Err(error), false)
        }
    }
}

fn run<H: FnOnce(&[HashedKey<'_>]) -> bool>(
    means: Means<'_, H>,
    once: Once<'_>,
    version: RespVersion,
    out: &mut Vec<u8>,
) -> Result<(Flow, bool), ReplyError> {
    let Means { store, head, scene, must_wait, most, is_short } = means;
    if !scene.ranges.map().version().has_completions() {
        return Err(OLD_NODES);
    }
    let slots = SlotGuards::lock(store, &[once.keys[0].slot()]);
    let together = Together { slots, has_all: false, scene };
    if must_wait(once.keys) {
        return Ok((Flow::Held, false));
    }
    let arena = bumpalo::Bump::new();
    let (own, of_command) = once.keys.split_at(1);
    let mut overlay = Overlay::new(&together, &arena, scene.outlines, own);
    let known = completions(overlay.get(0))?;
    if let Some(reply) = known_reply(known.find(once.id, version))? {
        out.extend_from_slice(reply);
        return Ok((Flow::Done, false));
    }
    overlay.next_command(of_command);
    let start = out.len();
    let reply = ReplyWriter::bounded(out, version, most);
    let keyspace = NodeKeyspace::Together(overlay);
    let (args, blocking) = (once.args, Blocking::No);
    let mut call = sidle_commands::Call { args, keyspace, now: scene.now, reply, blocking, progress: None };
    (once.run)(&mut call)?;
    if of_command.is_empty() {
        // Where arguments say which keys there are, it has told what is wrong with them.
        return Err(NOT_ONCE);
    }
    let is_cut = call.reply.is_cut();
    let NodeKeyspace::Together(mut overlay) = call.keyspace else { unreachable!("it was lent an overlay") };
    if is_cut || overlay.change_count() == 0 {
        return Ok((Flow::Done, is_cut));
    }
    if !fault!(WritesWithoutCompletion) {
        let value = known.with(once.id, version, call.reply.behind(start)).ok_or(TOO_LONG)?;
        let until = Some(WallMs(scene.now.0.saturating_add(KEPT_MS)));
        overlay.next_command(own);
        overlay.put(0, ValueKind::Completions, &[&value], until)?;
    }
    let changes = overlay.into_last_changes();
    let changes = changes.iter().map(|&change| stored(scene.ranges, change));
    let published = match is_short && once.frees {
        true => together.slots.publish_freeing(head, scene.now, changes),
        false => together.slots.publish(head, scene.now, changes),
    };
    let expired = published.map_err(|_| ReplyError::OutOfMemory)?;
    scene.stats.expired.add(expired as u64);
    Ok((Flow::Done, false))
}

/// What a completion key has.
fn completions(value: Option<Value<'_>>) -> Result<Completions<'_>, ReplyError> {
    match value {
        None => Ok(Completions::NONE),
        Some(value) if value.kind != ValueKind::Completions => Err(ReplyError::WrongType),
        Some(value) => Completions::read(value.bytes()).ok_or(OLD_NODES),
    }
}

/// The reply to a request that has run.
fn known_reply(known: Known<'_>) -> Result<Option<&[u8]>, ReplyError> {
    match known {
        Known::New => Ok(None),
        Known::Done(reply) => Ok(Some(reply)),
        Known::DoneInOtherVersion => Err(OTHER_VERSION),
        Known::Stale => Err(STALE),
        Known::TooManyOpen => Err(too_many_open()),
    }
}

#[cold]
fn too_many_open() -> ReplyError {
    ReplyError::owned(format!(
        "ERR {OPEN_REQUESTS_MAX} requests of this client are open in this slot: wait for the reply to one of them"
    ))
}
