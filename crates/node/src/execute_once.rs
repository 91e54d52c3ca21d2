//! Runs a request that is to run once: `SIDLE.ONCE`.
//!
//! The command's keys and the client's completion key are locked together. If the client's completions have
//! the request, the reply in them is given, and nothing runs. Otherwise the command runs, and its writes are
//! published in one step with the reply (E1). What writes nothing may run again, and needs no reply kept.

use crate::call::{CommandResult, Flow};
use crate::completions::{Arrival, Completions, KEPT_MS, Known, OPEN_REQUESTS_MAX, RequestId};
use crate::execute::{Executor, slots_of, stored};
use crate::keyspace::{NodeKeyspace, Scene, Together};
use crate::now::Now;
use crate::request::Request;
use crate::session::Session;
use crate::table::{CommandFlags, Found, NodeExecutor, commands};
use sidle_commands::{Blocking, Content, Keyspace, OverKeys, Overlay, ReplyError, Run, parse_i64};
use sidle_resp::ReplyWriter;
use sidle_store::SlotGuards;
use sidle_types::{HashedKey, ValueKind, WallMs, fault};
use typed_arena::Arena;

/// Where the command begins that is to run.
pub(crate) const COMMAND_AT: u8 = 5;

const CROSS_SLOT: ReplyError =
    ReplyError::text("CROSSSLOT the completion key and the command's keys do not hash to the same slot");
const NOT_ONCE: ReplyError = ReplyError::text(
    "ERR SIDLE.ONCE takes a command that writes the keys it names, and neither blocks nor is in a transaction",
);
const NOT_OPEN: ReplyError = ReplyError::text("ERR the lowest open request is above this one");
const TOO_LATE: ReplyError = ReplyError::text(
    "UNKNOWNOUTCOME the request was issued more than 5 minutes ago: whether it has run is not known any more",
);
const TOO_EARLY: ReplyError = ReplyError::text(
    "ERR the request was issued more than a minute in the future: the clock of the client or of the node is wrong",
);
const STALE: ReplyError =
    ReplyError::text("STALE the client has reported that it needs no reply to this request any more");
const OTHER_VERSION: ReplyError = ReplyError::text(
    "ERR the request has run, and its reply is in another version of RESP: ask again with that of the first attempt",
);
const OLD_NODES: ReplyError =
    ReplyError::text("ERR SIDLE.ONCE needs all nodes to speak a later version: see `sidle upgrade`");

/// What a request asks for.
struct Once<'r> {
    id: RequestId,
    completions: HashedKey<'r>,
    run: OverKeys<NodeExecutor>,
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
        let (&completions, keys) = keys.split_first().ok_or(NOT_ONCE)?;
        if keys.is_empty() || spec.is_over_unnamed(args) {
            return Err(NOT_ONCE);
        }
        if keys.iter().any(|key| key.slot() != completions.slot()) {
            return Err(CROSS_SLOT);
        }
        if keys.iter().any(|key| key.bytes() == completions.bytes()) {
            return Err(ReplyError::text("ERR the completion key is one of the command's keys"));
        }
        if lowest_open > number {
            return Err(NOT_OPEN);
        }
        let id = RequestId { number, lowest_open, issued: WallMs(issued) };
        match id.arrival(now) {
            Arrival::InTime => Ok(Once { id, completions, run, keys, args }),
            Arrival::TooLate => Err(TOO_LATE),
            Arrival::TooEarly => Err(TOO_EARLY),
        }
    }
}

impl Executor {
    /// Runs such a request; its result, and whether its reply is too long. Then nothing was written.
    #[inline(never)]
    pub(crate) fn call_exactly_once(
        &mut self,
        now: Now,
        session: &Session,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let Once { id, completions, run, keys, args } = match Once::of(request, now.wall) {
            Ok(_) if !self.ranges.map().version().has_completions() => return (Err(OLD_NODES), false),
            Ok(once) => once,
            Err(error) => return (Err(error), false),
        };
        let outlines = Arena::with_capacity(0);
        let scene = Scene {
            now: now.wall,
            stats: &self.stats,
            shared: &self.shared,
            ranges: &self.ranges,
            random: &self.random,
            outlines: &outlines,
        };
        let slots = slots_of(request.keys);
        let together = Together { slots: SlotGuards::lock(&self.store, &slots), has_all: false, scene };
        if self.is_held(request.keys, true) {
            return (Ok(Flow::Held), false);
        }
        let arena = bumpalo::Bump::new();
        let own = [completions];
        let mut overlay = Overlay::new(&together, &arena, &outlines, &own);
        let known = match overlay.get(0) {
            None => Some(Completions::NONE),
            Some(value) if value.kind != ValueKind::Completions => {
                return (Err(ReplyError::WrongType), false);
            }
            Some(value) => match value.content {
                Content::Whole(bytes) => Completions::read(bytes),
                Content::Large(_) => None,
            },
        };
        let Some(known) = known else { return (Err(OLD_NODES), false) };
        match known.find(id, session.version) {
            Known::New => {}
            Known::Done(reply) => {
                out.extend_from_slice(reply);
                return (Ok(Flow::Done), false);
            }
            Known::DoneInOtherVersion => return (Err(OTHER_VERSION), false),
            Known::Stale => return (Err(STALE), false),
            Known::TooManyOpen => return (Err(too_many_open()), false),
        }
        overlay.next_command(keys);
        let start = out.len();
        let reply = ReplyWriter::bounded(out, session.version, self.reply_bytes);
        let keyspace = NodeKeyspace::Together(overlay);
        let blocking = Blocking::No;
        let mut call =
            sidle_commands::Call { args, keyspace, now: now.wall, reply, blocking, progress: None };
        let result = run(&mut call);
        let is_cut = call.reply.is_cut();
        let NodeKeyspace::Together(mut overlay) = call.keyspace else {
            unreachable!("it was lent an overlay")
        };
        if result.is_err() || is_cut || overlay.change_count() == 0 {
            return (result.map(|()| Flow::Done), is_cut);
        }
        if !fault!(WritesWithoutCompletion) {
            let value = known.with(id, session.version, call.reply.behind(start));
            let until = Some(WallMs(now.wall.0.saturating_add(KEPT_MS)));
            overlay.next_command(&own);
            if overlay.put(0, ValueKind::Completions, &[&value], until).is_err() {
                out.truncate(start);
                return (Err(ReplyError::OutOfMemory), false);
            }
        }
        let changes = overlay.into_last_changes();
        let changes = changes.iter().map(|&change| stored(&self.ranges, change));
        let Ok(expired) = together.slots.publish(&mut self.head, now.wall, changes) else {
            out.truncate(start);
            return (Err(ReplyError::OutOfMemory), false);
        };
        self.stats.expired.add(expired as u64);
        (Ok(Flow::Done), false)
    }
}

#[cold]
fn too_many_open() -> ReplyError {
    ReplyError::owned(format!(
        "ERR {OPEN_REQUESTS_MAX} requests of this client are open in this slot: wait for the reply to one of them"
    ))
}
