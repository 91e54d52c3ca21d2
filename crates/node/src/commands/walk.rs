//! Walking over keys: SCAN, KEYS, RANDOMKEY, DBSIZE.
//!
//! SCAN's cursor names the next [stretch](ScanCursor) of positions. Keys are kept, split and moved in the
//! order of positions. So a cursor stays valid at every node, whatever the index does, and a key that exists
//! throughout is returned at least once. A stretch is returned whole, even across several ranges. SCAN stops
//! in front of positions that have not arrived. A call there waits for them, and after a while returns no
//! keys and the same cursor: the walk continues as the range arrives. KEYS waits for everything, and so does
//! RANDOMKEY while there is no key.

use crate::call::{Awaited, Call, CommandResult, Flow, UNREADABLE};
use crate::range_table::Reach;
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::{ScanOptions, glob, kind_named};
use sidle_store::Record;
use sidle_types::{MigrationId, Position, PositionRange, ScanCursor, fault};

const READ: CommandFlags = CommandFlags::READONLY.with(CommandFlags::KEYSPACE);
const ALL: &str = "O(N) where N is the number of keys";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("scan", -2, READ, scan)
        .docs("generic", "2.8.0", "O(1) for every call", "Returns some of the keys, and where to go on.")
        .tips(&["nondeterministic_output", "request_policy:special"]),
    CommandSpec::new("keys", 2, READ.with(CommandFlags::DANGEROUS), keys)
        .docs("generic", "1.0.0", ALL, "Returns all keys that match a pattern.")
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    CommandSpec::new("randomkey", 1, READ, randomkey)
        .docs("generic", "1.0.0", "O(1)", "Returns any key.")
        .tips(&["request_policy:all_shards", "nondeterministic_output"]),
    CommandSpec::new("dbsize", 1, READ.with(CommandFlags::FAST), dbsize)
        .docs("server", "1.0.0", "O(1)", "Returns how many keys this node has.")
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
];

/// How many records are visited before memory may be freed again.
const STEP_RECORDS: usize = 1024;
/// How long one SCAN call waits for keys: well below clients' timeouts.
const SCAN_PATIENCE_US: u64 = 1_000_000;
/// How often RANDOMKEY draws before it takes the first key.
const DRAWS: u64 = 64;

fn scan(call: &mut Call<'_>) -> CommandResult {
    let cursor = ScanOptions::cursor(call.args[1])?;
    let (options, kind_name) = ScanOptions::parse_with_type(&call.args[2..])?;
    let kind = kind_name.map(kind_named);
    let mut found = Vec::new();
    let mut elements = call.reply.aside(&mut found);
    let (mut count, mut looked_at) = (0, 0);
    let mut next = ScanCursor(cursor).first();
    while let Some(from) = next
        && (looked_at < options.count || !ScanCursor::is_boundary(from))
        && !elements.is_cut()
    {
        let range = match call.ranges.reach(from) {
            Reach::Here(range) => range,
            Reach::NotYet(position, _) if fault!(ScanPassesWhatHasNotArrived) => {
                next = call.ranges.entry_at(position).range.last().next();
                continue;
            }
            Reach::NotYet(position, migration) => {
                // The same cursor again would make a client loop.
                let is_stuck = ScanCursor::of(position) == ScanCursor(cursor) || looked_at == 0;
                if is_stuck && !call.session.route.waited_out {
                    return Ok(await_position(position, migration));
                }
                next = Some(position);
                break;
            }
            Reach::TakingOver(position) => {
                if ScanCursor::of(position) == ScanCursor(cursor) || looked_at == 0 {
                    return Ok(Flow::AwaitTable);
                }
                next = Some(position);
                break;
            }
            // What it has found so far is answered first.
            Reach::Unreadable(position) => {
                if ScanCursor::of(position) == ScanCursor(cursor) || looked_at == 0 {
                    return Err(UNREADABLE);
                }
                next = Some(position);
                break;
            }
            Reach::End => {
                next = None;
                break;
            }
        };
        let budget = options.count.saturating_sub(looked_at).min(STEP_RECORDS);
        let within = call.store.visit(range.first(), range.last(), budget, &mut |record| {
            looked_at += 1;
            let wanted = !record.is_expired(call.now)
                && record.kind().is_shown()
                && kind.is_none_or(|kind| kind == Some(record.kind()))
                && options.wants(record.key());
            if wanted {
                elements.bulk(record.key());
                count += 1;
            }
        });
        next = within.or_else(|| range.last().next());
    }
    let cursor = next.map_or(ScanCursor::START, ScanCursor::of);
    call.reply.array(2);
    call.reply.bulk(cursor.0.to_string().as_bytes());
    call.reply.array(count);
    call.reply.append(elements);
    Ok(Flow::Done)
}

/// A walk in front of positions that have not arrived has nothing to return yet.
fn await_position(position: Position, migration: MigrationId) -> Flow {
    let range = PositionRange::only(position);
    Flow::Await(Awaited { migration, range, patience_us: SCAN_PATIENCE_US })
}

fn keys(call: &mut Call<'_>) -> CommandResult {
    if let Some(wait) = call.await_arrival(PositionRange::ALL)? {
        return Ok(wait);
    }
    let pattern = Some(call.args[1]).filter(|pattern| *pattern != b"*");
    let mut found = Vec::new();
    let mut elements = call.reply.aside(&mut found);
    let mut count = 0;
    for_each_live(call, &mut |record| {
        if pattern.is_none_or(|pattern| glob::matches(pattern, record.key())) {
            elements.bulk(record.key());
            count += 1;
        }
        !elements.is_cut()
    });
    call.reply.array(count);
    call.reply.append(elements);
    Ok(Flow::Done)
}

fn randomkey(call: &mut Call<'_>) -> CommandResult {
    {
        let guard = call.store.pin();
        for draw in 0..DRAWS {
            let random = call.random.wrapping_add(draw.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            match guard.random_record(random) {
                Some(record)
                    if !record.is_expired(call.now)
                        && record.kind().is_shown()
                        && call.ranges.is_served(record.position()) =>
                {
                    call.reply.bulk(record.key());
                    return Ok(Flow::Done);
                }
                Some(_) => {}
                None => break,
            }
        }
    }
    // Before the walk: it may miss what arrives meanwhile.
    let wait = call.await_arrival(PositionRange::ALL);
    let mut first: Option<Vec<u8>> = None;
    for_each_live(call, &mut |record| {
        first = Some(record.key()).filter(|_| call.ranges.is_served(record.position())).map(<[u8]>::to_vec);
        first.is_none()
    });
    match first {
        Some(key) => call.reply.bulk(&key),
        None => match wait? {
            Some(wait) => return Ok(wait),
            None => call.reply.null(),
        },
    }
    Ok(Flow::Done)
}

/// Passes every live key of this node that users see to `f`, until it returns false.
pub(super) fn for_each_live(call: &Call<'_>, f: &mut dyn FnMut(Record<'_>) -> bool) {
    let mut go_on = true;
    for range in call.ranges.owned() {
        let mut next = Some(range.first());
        while let Some(from) = next
            && go_on
        {
            next = call.store.visit(from, range.last(), STEP_RECORDS, &mut |record| {
                if go_on && !record.is_expired(call.now) && record.kind().is_shown() {
                    go_on = f(record);
                }
            });
        }
    }
}

fn dbsize(call: &mut Call<'_>) -> CommandResult {
    if call.ranges.is_unreadable(PositionRange::ALL) {
        return Err(UNREADABLE);
    }
    // How many keys come from a dead node is not known; of an import it is. A transaction has waited before.
    if !call.is_locked && call.ranges.is_taking_over(PositionRange::ALL) {
        return Ok(Flow::AwaitTable);
    }
    let keys = if call.is_locked { call.key_count() } else { call.store.at_one_moment(|| call.key_count()) };
    call.reply.integer(keys as i64);
    Ok(Flow::Done)
}
