//! Why a request is refused: the reasons that need no decision about its keys, and their words.

use crate::admission::refusal as refused;
use crate::outcome::Closing;
use crate::pause::Paused;
use crate::prepared::writes;
use crate::range_table::{RangeTable, Redirect};
use crate::request::Request;
use crate::session::Session;
use crate::shared::NodeShared;
use crate::table::{CommandFlags, Found};
use sidle_commands::ReplyError;
use sidle_migration::WaiterRefusal;
use sidle_types::{HashedKey, Slot, WallMs};
use std::fmt::Write;

/// The error of a command that cannot wait for its keys, even if others of them were done elsewhere.
#[cold]
pub(crate) fn cannot_wait(session: &mut Session, why: WaiterRefusal) -> ReplyError {
    let error = match why {
        WaiterRefusal::OutOfMemory => ReplyError::OutOfMemory,
        WaiterRefusal::TooManyWait => TOO_MANY_WAIT,
    };
    match session.route.forward.take() {
        Some(progress) => {
            session.client.collected.set(0);
            progress.refused(error)
        }
        None => error,
    }
}

/// A command may name more keys than can be waited for at once.
const TOO_MANY_WAIT: ReplyError = ReplyError::text(
    "TRYAGAIN too many keys are waited for that a migration has yet to bring: try again later, or name fewer at once",
);

/// Request lines and header lines of HTTP that are no commands: Redis takes them for an attack.
pub(crate) const CROSS_PROTOCOL: [&[u8]; 2] = [b"post", b"host:"];
/// Redis's reply to one client too many.
const NO_PLACE: ReplyError = ReplyError::text("ERR max number of clients reached");
/// Some of these commands are allowed on places for operators.
const OPERATORS: CommandFlags =
    CommandFlags::ADMIN.with(CommandFlags::NO_AUTH).with(CommandFlags::FOR_OPERATORS);

/// Redis's reply to a connection that monitors, which it takes for a replica's.
const MONITORS: ReplyError = ReplyError::text("ERR Replica can't interact with the keyspace");
const OF_DATA: CommandFlags = CommandFlags::READONLY.with(CommandFlags::WRITE);

/// Why a command may not run on a restricted connection, by its user's rights, or while the node reads its
/// log, and why that ends
/// the connection, if it does.
#[cold]
pub(crate) fn restriction(
    session: &Session,
    shared: &NodeShared,
    now: WallMs,
    Request { found, args, .. }: Request<'_>,
) -> Option<(ReplyError, Option<Closing>)> {
    let flags = found.spec.flags;
    if session.is_guest && !flags.touches(OPERATORS) {
        return Some((NO_PLACE, Some(Closing::NoPlace)));
    }
    if !session.authenticated && !flags.contains(CommandFlags::NO_AUTH) {
        return Some((ReplyError::NoAuth, None));
    }
    if shared.loading.is_on() && !flags.contains(CommandFlags::LOADING) {
        return Some((LOADING, None));
    }
    if session.is_monitoring() && flags.touches(OF_DATA) {
        return Some((MONITORS, None));
    }
    let is_queued = session.transaction.is_some() && flags.contains(CommandFlags::NO_MULTI);
    if is_queued {
        return Some((NOT_IN_MULTI, None));
    }
    // One that has begun was allowed to.
    let is_first = session.route.ticket.is_none();
    let why = is_first.then(|| refused(shared, session, now, found, args)).flatten();
    why.map(|error| (error, None))
}

/// Whether a pause concerns a command. Requests of other nodes, and connections that monitor, are never
/// paused, as Redis's replicas. Nor is what takes an operator to the end of a pause.
pub(crate) fn is_paused(session: &Session, found: Found, paused: Paused) -> bool {
    let flags = found.spec.flags;
    let is_free = session.is_forwarded
        || session.is_monitoring()
        || flags.contains(CommandFlags::NO_AUTH)
        || found.spec.name == "client|unpause";
    let is_write = || match (found.spec.name, session.transaction.as_deref()) {
        ("exec", Some(transaction)) => writes(transaction),
        ("exec", None) => false,
        _ => found.spec.access.is_write() || flags.contains(CommandFlags::WRITE),
    };
    !is_free && (paused == Paused::All || is_write())
}

/// The error of a command that is refused before it runs. It spoils a transaction. For EXEC the transaction
/// is over, as in Redis, whatever the reason.
pub(crate) fn refusal(session: &mut Session, found: Found, error: ReplyError) -> ReplyError {
    session.spoil_transaction();
    if found.spec.name != "exec" {
        return error;
    }
    session.end_transaction();
    aborted(&error)
}

/// Redis's reply while it reads its files.
/// The reply to an EXEC that is refused before it runs, as from Redis: the transaction is over, and why.
pub(crate) fn aborted(error: &ReplyError) -> ReplyError {
    // Redis leaves its general code out.
    let line = error.line();
    let why = line.strip_prefix(b"ERR ").unwrap_or(&line);
    ReplyError::owned([b"EXECABORT Transaction discarded because of: ", why].concat())
}

pub(crate) const LOADING: ReplyError = ReplyError::text("LOADING Redis is loading the dataset in memory");
/// Redis's reply to a command that cannot be queued.
const NOT_IN_MULTI: ReplyError = ReplyError::text("ERR Command not allowed inside a transaction");
pub(crate) const TOO_LONG: ReplyError = ReplyError::text(
    "ERR the commands of this transaction are longer than client-query-buffer-limit: queue less at once",
);

/// A key that begins as those do that are beside others.
pub(crate) const KEY_OF_SIDLE: ReplyError =
    ReplyError::text("ERR keys that begin with a zero byte and 'sidle-locks' are Sidle's own");

pub(crate) const NOT_SERVED: ReplyError = ReplyError::text("CLUSTERDOWN Hash slot not served");
pub(crate) const CROSSSLOT: ReplyError =
    ReplyError::text("CROSSSLOT Keys in request don't hash to the same slot");

#[cold]
pub(crate) fn redirect_error(redirect: Redirect<'_>) -> ReplyError {
    let mut text = String::with_capacity(48);
    let written = match redirect {
        Redirect::NotServed => return NOT_SERVED,
        Redirect::Moved(slot, address) => write!(text, "MOVED {slot} {address}"),
        Redirect::Ask(slot, address) => write!(text, "ASK {slot} {address}"),
    };
    written.expect("writing to a string cannot fail");
    ReplyError::owned(text)
}

/// The error of a command that is not forwarded, and whose keys have several owners.
#[cold]
pub(crate) fn several_owners(ranges: &RangeTable, command: &str, keys: &[HashedKey<'_>]) -> ReplyError {
    let slot = keys[0].slot();
    match keys.iter().all(|key| key.slot() == slot) {
        true => cannot_be_split(ranges, command, slot),
        false => CROSSSLOT,
    }
}

/// The error of a command whose keys lie in one slot, on several nodes.
#[cold]
pub(crate) fn cannot_be_split(ranges: &RangeTable, command: &str, slot: Slot) -> ReplyError {
    let name = command.to_ascii_uppercase();
    let to = &ranges.map().node(ranges.node()).expect("this node is a member").client_addr;
    ReplyError::owned(format!(
        "SIDLESPLIT {name} cannot be carried out by several nodes, and its keys lie on several, since hash \
         slot {slot} is split between nodes: move what others own of the slot here (sidle migrate --slots {slot} --to \
         {to}), or name keys of one node only"
    ))
}
