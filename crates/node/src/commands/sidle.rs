//! Sidle's own commands: the map, frozen reads, migrations, status.
//!
//! SIDLE.MAP and SIDLE.FROZEN serve opted-in clients (Fulva's double read), but answer anyone. SIDLE.MIGRATE,
//! SIDLE.FORGET, SIDLE.TAKEOVER, SIDLE.UPGRADE and SIDLE.STATUS are for operators, on any node; the control
//! thread answers them.

use crate::admission::refusal_to_read;
use crate::call::{Call, CommandResult, Flow};
use crate::execute_once::COMMAND_AT;
use crate::outcome::ControlRequest;
use crate::range_table::Role;
use crate::table::{Access, CommandFlags, CommandSpec, KeySpec};
use sidle_cluster::NodeName;
use sidle_cluster::limits::{MAX_NUMBER, MAX_PATIENCE_US};
use sidle_commands::ReplyError;
use sidle_commands::parse_i64;
use sidle_migration::{ExportPhase, PROTOCOLS};
use sidle_store::Entry;
use sidle_types::{HashedKey, MigrationId, MigrationPolicy, PositionRange, Slot};

/// The longest name of a protocol with its options: far more than all options take.
const PROTOCOL_BYTES_MAX: usize = 1 << 10;

// The control thread answers them, for which no transaction waits.
const ADMIN: CommandFlags = CommandFlags::ADMIN
    .with(CommandFlags::WITHOUT_LEASE)
    .with(CommandFlags::STALE)
    .with(CommandFlags::NO_MULTI);
const HELP: CommandFlags = CommandFlags::WITHOUT_LEASE.with(CommandFlags::STALE).with(CommandFlags::LOADING);
const READS: CommandFlags = CommandFlags::READONLY.with(CommandFlags::FAST);

const ONCE: CommandFlags = CommandFlags::WRITE
    .with(CommandFlags::DENYOOM)
    .with(CommandFlags::NO_MULTI)
    .with(CommandFlags::MOVABLE_KEYS);

const ANSWERS_ANYONE: CommandFlags = CommandFlags::NO_AUTH.with(CommandFlags::FAST).with(HELP);

/// The commands of this family.
pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(
        "sidle.map",
        1,
        READS.with(CommandFlags::LOADING).with(CommandFlags::WITHOUT_LEASE),
        map,
    )
    .docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of tablets",
        "Returns the tablet map with its running migrations, as JSON.",
    ),
    CommandSpec::new("sidle.bus", 1, ANSWERS_ANYONE, bus).docs(
        "sidle",
        "0.1.0",
        "O(1)",
        "Returns the port that other nodes connect to.",
    ),
    CommandSpec::new("sidle.frozen", 4, READS, frozen).docs(
        "sidle",
        "0.1.0",
        "O(1)",
        "Returns the value of a key as the source of a running migration froze it.",
    ),
    CommandSpec::new("sidle.once", -6, ONCE, not_alone)
        .keys(KeySpec::one_and_of_command(&["RW", "access", "update"], COMMAND_AT), Access::ReadWrite)
        .docs(
            "sidle",
            "0.1.0",
            "O(N) where N is the cost of the command",
            "Runs a command that writes, unless the same request has run before: then it returns that reply.",
        ),
    CommandSpec::container("sidle.migrate", ADMIN, MIGRATE).docs(
        "sidle",
        "0.1.0",
        "Depends on subcommand.",
        "A container for the commands that move data between nodes.",
    ),
    CommandSpec::new("sidle.forget", 2, ADMIN, forget).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of tablets",
        "Removes a node from the cluster that is down and owns nothing.",
    ),
    CommandSpec::new("sidle.takeover", -2, ADMIN, take_over).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of tablets",
        "Has nodes with copies of its durable log take over what a node had that is down.",
    ),
    CommandSpec::new("sidle.upgrade", 1, ADMIN, upgrade).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of nodes",
        "Raises the version that the cluster's nodes speak with each other, once all of them speak it.",
    ),
    CommandSpec::new("sidle.status", 1, ADMIN.with(CommandFlags::LOADING), status).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of nodes, tablets and migrations",
        "Returns the state of the cluster, as JSON.",
    ),
    CommandSpec::new("sidle.help", 1, HELP, list).docs("sidle", "0.1.0", "O(1)", LISTS),
    CommandSpec::container("sidle", HELP, LIST).docs(
        "sidle",
        "0.1.0",
        "Depends on subcommand.",
        "A container for the help: all other commands of this family are words with a dot.",
    ),
];

const LISTS: &str = "Lists the commands of this family, each with a line on what it does.";
const LIST: &[CommandSpec] =
    &[CommandSpec::new("sidle|help", 2, HELP, list).docs("sidle", "0.1.0", "O(1)", LISTS)];

const MIGRATE: &[CommandSpec] = &[
    CommandSpec::new("sidle.migrate|start", -6, ADMIN, start).docs(
        "sidle",
        "0.1.0",
        "O(1)",
        "Moves a range of slots or positions to another node.",
    ),
    CommandSpec::new("sidle.migrate|cancel", 3, ADMIN, cancel).docs(
        "sidle",
        "0.1.0",
        "O(1)",
        "Gives up a migration that does not run yet, or turns one back that gives its range bit by bit.",
    ),
    CommandSpec::new("sidle.migrate|set", -4, ADMIN, set_policy).docs(
        "sidle",
        "0.1.0",
        "O(1)",
        "Changes how hard a migration may press on its nodes.",
    ),
    CommandSpec::new("sidle.migrate|status", -2, ADMIN, migration_status).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of migrations",
        "Returns the state of one migration or of all, as JSON.",
    ),
    CommandSpec::new("sidle.migrate|wait", 4, ADMIN, wait).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of migrations",
        "Waits until a migration is over, or for some milliseconds, and returns its state, as JSON.",
    ),
    CommandSpec::new("sidle.migrate|help", 2, HELP, help).docs(
        "sidle",
        "0.1.0",
        "O(1)",
        "Returns helpful text about the different subcommands.",
    ),
];

/// The executor runs it.
fn not_alone(_: &mut Call<'_>) -> CommandResult {
    unreachable!("no transaction queues it")
}

fn map(call: &mut Call<'_>) -> CommandResult {
    let json = call
        .ranges
        .map_json(call.session.reads_version)
        .ok_or(ReplyError::text("CLUSTERDOWN The node has not joined its cluster yet"))?;
    call.reply.bulk(json.as_bytes());
    Ok(Flow::Done)
}

/// A joining node requests it before it gives any password: at that port both ends prove their identity.
fn bus(call: &mut Call<'_>) -> CommandResult {
    let this = call.ranges.map().node(call.ranges.node()).expect("a node knows itself");
    call.reply.integer(i64::from(this.bus_addr.port()));
    Ok(Flow::Done)
}

/// `SIDLE.FROZEN <migration> GET <key>`: the second half of a double read (M4).
///
/// The answer counts only while this node still has its frozen copy for the named migration. The phase is
/// loaded again after the look-up: if freeing the copy had begun, absent would be wrong (M8).
fn frozen(call: &mut Call<'_>) -> CommandResult {
    let migration = migration_argument(call.args[1])?;
    if !call.args[2].eq_ignore_ascii_case(b"get") {
        return Err(ReplyError::Syntax);
    }
    if let Some(error) = refusal_to_read(call.shared, call.session, call.now, call.args[3]) {
        return Err(error);
    }
    let key = HashedKey::new(call.args[3]);
    let view = match &call.ranges.entry_at(key.position()).role {
        Role::Exporting(view) if view.id() == migration => view,
        _ => return Err(no_copy(call, migration)),
    };
    if !view.answers_reads() {
        return Err(ReplyError::text("ERR the source of this migration answers no reads, ask the owner"));
    }
    if view.phase() < ExportPhase::Frozen {
        return Err(not_frozen(migration));
    }
    // X4: where it is locked, the transaction may have been committed elsewhere.
    if key.is_beside() || call.is_locked(key) {
        return Err(ReplyError::text("ERR a transaction has locked this key at the source, ask the owner"));
    }
    let guard = call.store.pin();
    let entry = guard.get(key);
    if view.phase() != ExportPhase::Frozen {
        return Err(is_over(migration));
    }
    match entry {
        Entry::Value(record) if !record.is_expired(call.now) => {
            call.stats.hits.add(1);
            call.reply.bulk(record.value());
        }
        _ => {
            call.stats.misses.add(1);
            call.reply.null();
        }
    }
    Ok(Flow::Done)
}

/// A migration that the map still shows as running may be missing in this node's range table; any other is
/// over.
fn no_copy(call: &Call<'_>, migration: MigrationId) -> ReplyError {
    match call.ranges.map().migration(migration) {
        Some(record) if record.source == call.ranges.node() => not_frozen(migration),
        _ => is_over(migration),
    }
}

fn not_frozen(migration: MigrationId) -> ReplyError {
    ReplyError::owned(format!("SIDLENOTFROZEN migration {migration} is not frozen here, ask the owner"))
}

fn is_over(migration: MigrationId) -> ReplyError {
    ReplyError::owned(format!("SIDLEDONE migration {migration} is over, ask the owner"))
}

fn migration_argument(argument: &[u8]) -> Result<MigrationId, ReplyError> {
    let number = parse_i64(argument).and_then(|number| u64::try_from(number).ok());
    let id = number.filter(|number| (1..=MAX_NUMBER).contains(number)).map(MigrationId);
    id.ok_or_else(|| {
        ReplyError::owned(format!(
            "ERR a migration's id is a number from 1 to {MAX_NUMBER}: SIDLE.MIGRATE STATUS shows those there are"
        ))
    })
}

/// A node whose start waits for copies of its log is not asked for what only the coordinator knows: it may
/// wait without end.
fn status(call: &mut Call<'_>) -> CommandResult {
    if let Some(waits) = call.shared.loading.waits() {
        let shown = waits.shown(call.now.0 / 1000);
        return Err(ReplyError::owned(format!("LOADING {shown}")));
    }
    Ok(Flow::Control(ControlRequest::Status))
}

fn upgrade(_: &mut Call<'_>) -> CommandResult {
    Ok(Flow::Control(ControlRequest::Upgrade))
}

/// `SIDLE.FORGET <node>`: by id or address.
fn forget(call: &mut Call<'_>) -> CommandResult {
    let node = text(call.args[1])?.parse().map_err(|error| ReplyError::owned(format!("ERR {error}")))?;
    Ok(Flow::Control(ControlRequest::Forget(node)))
}

/// `SIDLE.TAKEOVER <node> [ACCEPT-LOSS]`: by id or address.
fn take_over(call: &mut Call<'_>) -> CommandResult {
    let node = text(call.args[1])?.parse().map_err(|error| ReplyError::owned(format!("ERR {error}")))?;
    let accepts_loss = match call.args.get(2..).unwrap_or_default() {
        [] => false,
        [option] if option.eq_ignore_ascii_case(b"accept-loss") => true,
        _ => return Err(ReplyError::text("ERR syntax error: SIDLE.TAKEOVER node [ACCEPT-LOSS]")),
    };
    Ok(Flow::Control(ControlRequest::TakeOver { node, accepts_loss }))
}

/// `CLUSTER FORGET <node-id>`, with Redis's errors where they exist. The whole cluster forgets the node at
/// once.
pub(super) fn cluster_forget(call: &mut Call<'_>) -> CommandResult {
    let name = String::from_utf8_lossy(call.args[2]);
    let node = name.parse().ok().filter(|&node| call.ranges.map().node(node).is_some());
    match node {
        None => Err(ReplyError::owned(format!("ERR Unknown node {name}"))),
        Some(node) if node == call.ranges.node() => {
            Err(ReplyError::text("ERR I tried hard but I can't forget myself..."))
        }
        Some(node) => Ok(Flow::Control(ControlRequest::Forget(NodeName::Id(node)))),
    }
}

fn cancel(call: &mut Call<'_>) -> CommandResult {
    Ok(Flow::Control(ControlRequest::CancelMigration(migration_argument(call.args[2])?)))
}

fn migration_status(call: &mut Call<'_>) -> CommandResult {
    let migration = match call.args[2..] {
        [] => None,
        [argument] => Some(migration_argument(argument)?),
        _ => return Err(ReplyError::WrongArity("sidle.migrate|status")),
    };
    Ok(Flow::Control(ControlRequest::MigrationStatus(migration)))
}

/// `SIDLE.MIGRATE WAIT <migration> <milliseconds>`.
fn wait(call: &mut Call<'_>) -> CommandResult {
    let migration = migration_argument(call.args[2])?;
    let ms = parse_i64(call.args[3]).and_then(|ms| u64::try_from(ms).ok());
    let patience_us = ms.and_then(|ms| ms.checked_mul(1_000)).filter(|&us| us <= MAX_PATIENCE_US);
    let patience_us = patience_us
        .ok_or(ReplyError::text("ERR wait for 0 to 5000 milliseconds, again if it takes longer"))?;
    Ok(Flow::Control(ControlRequest::AwaitEnd { migration, patience_us }))
}

/// `SIDLE.MIGRATE SET <migration> ADAPTIVE | RATE <bytes a second> | DEADLINE <milliseconds> | SLO-P99
/// <microseconds>`.
fn set_policy(call: &mut Call<'_>) -> CommandResult {
    let migration = migration_argument(call.args[2])?;
    let words: Vec<&str> = call.args[3..].iter().map(|word| text(word)).collect::<Result<_, _>>()?;
    Ok(Flow::Control(ControlRequest::SetPolicy(migration, policy(&words)?)))
}

/// Every command of this family, sorted; subcommands instead of their containers.
fn list(call: &mut Call<'_>) -> CommandResult {
    let mut lines: Vec<String> = COMMANDS
        .iter()
        .flat_map(
            |spec| if spec.subcommands.is_empty() { std::slice::from_ref(spec) } else { spec.subcommands },
        )
        .map(|spec| format!("{}: {}", spec.name.replace('|', " ").to_ascii_uppercase(), spec.docs.summary))
        .collect();
    lines.sort_unstable();
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.simple(line));
    Ok(Flow::Done)
}

fn help(call: &mut Call<'_>) -> CommandResult {
    sidle_commands::reply_help(
        &mut call.reply,
        "SIDLE.MIGRATE",
        &[
            "CANCEL <migration>",
            "    Give up a migration that does not run yet; or turn one back that gives its range bit by bit, and",
            "    return the number of the migration that gives back what it gave.",
            "SET <migration> <policy>",
            "    Change how hard a migration may press on its nodes. A policy is one of",
            "    ADAPTIVE, RATE <bytes a second>, DEADLINE <milliseconds>, SLO-P99 <microseconds>.",
            "START SLOTS <first>[-<last>] TO <node> [PROTOCOL <name>[,<option>=<value>...]] [<policy>]",
            "    Move slots to a node, named by its id or by host:port; return the migration's number.",
            "START POSITIONS <first>-<last> TO <node> [PROTOCOL <name>[,<option>=<value>...]] [<policy>]",
            "    Move a range that need not be whole slots.",
            "STATUS [<migration>]",
            "    Return the state of one migration or of all, as JSON.",
            "WAIT <migration> <milliseconds>",
            "    Wait until a migration is over, or for so long, and return its state, as JSON.",
        ],
    );
    Ok(Flow::Done)
}

fn policy(words: &[&str]) -> Result<MigrationPolicy, ReplyError> {
    MigrationPolicy::of_words(words).map_err(|error| ReplyError::owned(format!("ERR {error}")))
}

fn text(argument: &[u8]) -> Result<&str, ReplyError> {
    std::str::from_utf8(argument).map_err(|_| ReplyError::Syntax)
}

/// `SIDLE.MIGRATE START SLOTS <a>[-<b>] TO <node> [PROTOCOL <name>[,<option>=<value>...]] [<policy>]`, or
/// `POSITIONS <first>-<last>`; the policy as for SET.
fn start(call: &mut Call<'_>) -> CommandResult {
    let text = |index: usize| text(call.args[index]);
    let span = text(3)?;
    let range = match call.args[2].to_ascii_lowercase().as_slice() {
        b"slots" => slots_argument(span),
        b"positions" => positions_argument(span),
        _ => return Err(ReplyError::Syntax),
    };
    let range = range.ok_or_else(|| {
        ReplyError::owned(format!("ERR '{span}' is no range: give SLOTS 0-8191 or POSITIONS 0x..-0x.."))
    })?;
    if !call.args[4].eq_ignore_ascii_case(b"to") {
        return Err(ReplyError::Syntax);
    }
    let target = text(5)?.parse().map_err(|error| ReplyError::owned(format!("ERR {error}")))?;
    let (protocol, rest) = match call.args[6..] {
        [word, _, ..] if word.eq_ignore_ascii_case(b"protocol") => (text(7)?, 8),
        _ => (PROTOCOLS[0].name, 6),
    };
    if protocol.len() > PROTOCOL_BYTES_MAX {
        return Err(ReplyError::text("ERR a migration protocol with its options has at most 1024 bytes"));
    }
    let protocol = protocol.to_ascii_lowercase();
    let words: Vec<&str> = (rest..call.args.len()).map(text).collect::<Result<_, _>>()?;
    let policy = if words.is_empty() { MigrationPolicy::default() } else { policy(&words)? };
    Ok(Flow::Control(ControlRequest::StartMigration { range, target, protocol, policy }))
}

fn slots_argument(text: &str) -> Option<PositionRange> {
    let slot = |digits: &str| digits.parse().ok().and_then(Slot::new);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    PositionRange::of_slots(slot(first)?, slot(last)?)
}

fn positions_argument(text: &str) -> Option<PositionRange> {
    let (first, last) = text.split_once('-')?;
    PositionRange::new(first.parse().ok()?, last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_types::Position;

    #[test]
    fn ranges_are_slots_or_positions() {
        let slot = |number| Slot::new(number).unwrap();
        assert_eq!(slots_argument("7"), PositionRange::of_slots(slot(7), slot(7)));
        assert_eq!(slots_argument("0-16383"), Some(PositionRange::ALL));
        assert_eq!(positions_argument("0x10-0x1f"), PositionRange::new(Position(16), Position(31)));
        assert_eq!(slots_argument("0-16384"), None);
        for bad in ["", "-", "1-", "-1", "2-1", "a-b", "1-2-3"] {
            assert_eq!(slots_argument(bad), None, "{bad}");
            assert_eq!(positions_argument(bad), None, "{bad}");
        }
    }
}
