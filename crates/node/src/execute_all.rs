//! Runs the commands of a transaction as one change.
//!
//! All slots of its keys are locked first, and all commands share one overlay: each reads what those before
//! it wrote. Their writes are published in one step. Without memory for all of them nothing is published.
//!
//! Commands over keys, and those about the connection, run in order. The node's other commands (`INFO`,
//! `CONFIG`, `DBSIZE`) run when the writes are published, still under the locks: so none has had an effect
//! where memory is short. One that looks at all keys has all slots locked. It sees the whole transaction's
//! writes, those of later commands included.
//!
//! No command waits here, whatever it would do alone: what the keys wait for was waited for before.

use crate::admission::refusal_in_exec;
use crate::call::{Awaited, CommandResult, Flow, WHOLE_PATIENCE_US};
use crate::execute::{Executor, LARGE_REQUEST_BYTES};
use crate::flush::Flush;
use crate::keyspace::{NodeKeyspace, Scene, Together, stored};
use crate::locks::{awaits_any, keys_at};
use crate::now::Now;
use crate::prepared::{Prepared, flushes, is_flush, is_over_all_keys, prepare, runs_in_place};
use crate::range_table::{RangeTable, Role};
use crate::request::slots_of;
use crate::session::Session;
use crate::table::NodeExecutor;
use crate::transaction::Transaction;
use sidle_commands::{Blocking, Change, CommandId, Overlay, Own, ReplyError, Run};
use sidle_resp::ReplyWriter;
use sidle_store::{LogHead, OutOfMemory, SlotGuards, Store};
use sidle_types::{HashedKey, PositionRange, Slot, fault};
use std::ops::Range;
use typed_arena::Arena;

/// FLUSHALL alone waits for what a migration brings or takes; a transaction does not.
const FLUSH_DURING_MOVE: ReplyError = ReplyError::text(
    "TRYAGAIN FLUSHALL in a transaction needs a node without a migration: wait for its end, or send it alone",
);
/// The error of a command that would wait, or ask another thread.
const CANNOT_WAIT: ReplyError =
    ReplyError::text("ERR this command would have to wait, and a transaction does not");

/// A running call of commands over keys, one after the other.
type Call<'g> = sidle_commands::Call<'g, NodeExecutor>;

/// What the commands of a transaction did so far.
#[derive(Default)]
struct Done {
    /// Where each command's reply stands in the replies of those that ran in their place.
    parts: Vec<Option<Range<usize>>>,
    /// How long each took, in nanoseconds.
    took_ns: Vec<u64>,
    /// Errors, to be counted once.
    errors: Vec<(CommandId, ReplyError)>,
}

impl Executor {
    /// Runs a transaction with these keys, each once and in order; its result, and whether its reply was cut.
    // Inlined, it costs the commands about the node instructions.
    #[inline(never)]
    pub(crate) fn call_all(
        &mut self,
        now: Now,
        session: &mut Session,
        keys: &[HashedKey<'_>],
        transaction: &Transaction,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        if let Some(early) = early_end(&self.ranges, session, transaction) {
            return (early, false);
        }
        if transaction.bytes() >= LARGE_REQUEST_BYTES {
            self.store.make_room(transaction.bytes());
        }
        let mut commands = prepare(transaction);
        if fault!(HalfExecVisible) && commands.len() > 1 && session.route.exec_half.is_next() {
            commands.truncate(1);
        }
        let is_over_all = is_over_all_keys(transaction);
        let slots: Vec<Slot> = if is_over_all { Slot::all().collect() } else { slots_of(keys).into_vec() };
        let outlines = Arena::with_capacity(0);
        let scene = Scene {
            now: now.wall,
            stats: &self.stats,
            shared: &self.shared,
            ranges: &self.ranges,
            random: &self.random,
            outlines: &outlines,
        };
        let has_all = is_over_all && self.ranges.is_sole_owner();
        let together = Together { slots: SlotGuards::lock(&self.store, &slots), has_all, scene };
        if self.must_wait(keys, true) || flushes(transaction) && self.awaits_votes(session) {
            return (Ok(Flow::Held), false);
        }
        let is_dirty = session.client.is_touched()
            || session.watch.as_ref().is_some_and(|watch| watch.has_lapsed(&self.ranges, now.wall));
        if is_dirty {
            ReplyWriter::new(out, session.version).null_array();
            return (Ok(Flow::Done), false);
        }
        // Nothing waits from here on.
        session.route.waited_out = true;
        let arena = bumpalo::Bump::new();
        let (mut replies, mut done) = (Vec::new(), Done::default());
        let keyspace = NodeKeyspace::Together(Overlay::new(&together, &arena, &outlines, &[]));
        let reply = ReplyWriter::bounded(&mut replies, session.version, self.reply_bytes);
        let blocking = Blocking::No;
        let mut call = Call { args: &[], keyspace, now: now.wall, reply, blocking, progress: None };
        for command in &commands {
            let began_ns = self.reading_ns();
            self.call_in_place(now, session, command, &mut call, &mut done);
            done.took_ns.push(self.reading_ns().saturating_sub(began_ns));
            if arena.allocated_bytes() as u64 > self.shared.config.query_buffer_bytes() {
                return (Err(ReplyError::OutOfMemory), false);
            }
        }
        let is_cut = call.reply.is_cut();
        let NodeKeyspace::Together(overlay) = call.keyspace else { unreachable!("it was lent an overlay") };
        let cleared = if overlay.is_cleared() { owned(&self.ranges) } else { Vec::new() };
        let changes = overlay.into_last_changes();
        let Ok(expired) = publish(&together, (&self.store, &mut self.head), &changes, &cleared) else {
            return (Err(ReplyError::OutOfMemory), false);
        };
        self.stats.expired.add(expired as u64);
        let is_cut = is_cut | self.reply_in_order(now, session, &commands, &replies, &mut done, out);
        drop(together);
        self.count(now, session, &commands, done);
        (Ok(Flow::Done), is_cut)
    }

    /// Whether a key that is to be flushed has voted for a transaction. Then no other one votes until this
    /// command has ended.
    fn awaits_votes(&self, session: &mut Session) -> bool {
        let is_held = |range| awaits_any(&self.store, (&self.holds, self.index), range);
        let awaits = owned(&self.ranges).into_iter().any(is_held);
        if awaits {
            session.route.goes_on.claim.get_or_insert_with(|| self.shared.claims.claim_everything());
        }
        awaits
    }

    /// Runs a command of a transaction, if it is one that runs in its place.
    fn call_in_place<'g, 't: 'g>(
        &self,
        now: Now,
        session: &mut Session,
        command: &'g Prepared<'t>,
        call: &mut Call<'g>,
        done: &mut Done,
    ) {
        let Prepared { found, words, keys } = command;
        let start = call.reply.len();
        let NodeKeyspace::Together(overlay) = &mut call.keyspace else {
            unreachable!("it was lent an overlay")
        };
        if let Some(error) = refusal_in_exec(&self.shared, session, now.wall, *found, words) {
            call.reply.error_bytes(&error.line());
            done.errors.push((found.id, error));
            done.parts.push(Some(start..call.reply.len()));
            return;
        }
        let error = match found.spec.run {
            Run::OverKeys(run) => {
                let changes = overlay.change_count();
                overlay.next_command(keys);
                call.args = words;
                let result = run(call);
                let NodeKeyspace::Together(overlay) = &call.keyspace else { unreachable!("it keeps it") };
                assert!(
                    result.is_ok() || overlay.change_count() == changes,
                    "'{}' returned an error and has written",
                    found.spec.name
                );
                result.err()
            }
            Run::Own(run) if is_flush(*found) => {
                match self.call_own(now, session, words, run, Some(usize::MAX), &mut Vec::new()).0 {
                    Ok(_) => {
                        overlay.clear();
                        call.reply.ok();
                        None
                    }
                    Err(error) => Some(error),
                }
            }
            Run::Own(run) if runs_in_place(*found) => {
                let error = self.call_beside(now, session, words, run, &mut call.reply);
                call.reply.set_version(session.version);
                error
            }
            Run::Own(_) => return done.parts.push(None),
        };
        if let Some(error) = error {
            call.reply.error_bytes(&error.line());
            done.errors.push((found.id, error));
        }
        done.parts.push(Some(start..call.reply.len()));
    }

    /// Runs a command about the node; its error.
    fn call_beside(
        &self,
        now: Now,
        session: &mut Session,
        words: &[&[u8]],
        run: Own<NodeExecutor>,
        reply: &mut ReplyWriter<'_>,
    ) -> Option<ReplyError> {
        let mut own = Vec::new();
        match self.call_own(now, session, words, run, Some(self.reply_bytes), &mut own) {
            (Ok(Flow::Done | Flow::Close), _) => {
                reply.encoded(&own);
                None
            }
            (Ok(_), _) => Some(CANNOT_WAIT),
            (Err(error), _) => Some(error),
        }
    }

    /// Runs the commands that are left, and writes all replies in order; whether they were cut.
    fn reply_in_order(
        &self,
        now: Now,
        session: &mut Session,
        commands: &[Prepared<'_>],
        replies: &[u8],
        done: &mut Done,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut reply = ReplyWriter::bounded(out, session.version, self.reply_bytes);
        reply.array(commands.len());
        let parts = std::mem::take(&mut done.parts);
        for (number, (Prepared { found, words, .. }, part)) in commands.iter().zip(parts).enumerate() {
            match (part, found.spec.run) {
                (Some(part), _) => reply.encoded(&replies[part]),
                (None, Run::Own(run)) => {
                    let began_ns = self.reading_ns();
                    let error = self.call_beside(now, session, words, run, &mut reply);
                    done.took_ns[number] = self.reading_ns().saturating_sub(began_ns);
                    if let Some(error) = error {
                        reply.error_bytes(&error.line());
                        done.errors.push((found.id, error));
                    }
                }
                (None, Run::OverKeys(_)) => unreachable!("it ran in its place"),
            }
        }
        reply.is_cut()
    }

    /// Counts each command as if it had come alone.
    fn count(&self, now: Now, session: &Session, commands: &[Prepared<'_>], done: Done) {
        let thresholds = self.shared.config.thresholds();
        for (Prepared { found, words, .. }, &ns) in commands.iter().zip(&done.took_ns) {
            let counters = self.stats.command(found.id);
            counters.calls.add(1);
            counters.took(ns, 1, thresholds.tracks());
            self.show(now, session, *found, words);
            if ns >= thresholds.notable_ns() {
                self.note_slow(now, session, *found, words, ns);
            }
        }
        for (id, error) in done.errors {
            self.stats.command(id).failed.add(1);
            self.stats.count_error(error.code());
        }
    }
}

/// Publishes the writes, after the removal of everything in `cleared`; the number of values that had expired.
/// What transactions have at keys stays.
fn publish(
    together: &Together<'_>,
    (store, head): (&Store, &mut LogHead),
    changes: &[(HashedKey<'_>, Change<'_>)],
    cleared: &[PositionRange],
) -> Result<usize, OutOfMemory> {
    if changes.is_empty() && cleared.is_empty() {
        return Ok(0);
    }
    let Scene { now, ranges, .. } = together.scene;
    let locked = |range: &PositionRange| store.positions_with_locks(*range);
    let names: Vec<Vec<u8>> =
        cleared.iter().flat_map(locked).flat_map(|position| keys_at(store, position)).collect();
    let whole = |range: &PositionRange| range.without_each(&locked(range)).collect::<Vec<_>>();
    let whole: Vec<PositionRange> = cleared.iter().flat_map(whole).collect();
    let removals = names.iter().map(|name| (HashedKey::new(name), Change::Remove));
    let is_last = |(key, _): &(HashedKey<'_>, Change<'_>)| {
        changes.iter().all(|(other, _)| other.bytes() != key.bytes())
    };
    let changes = removals.filter(is_last).chain(changes.iter().copied());
    let changes = changes.map(|change| stored(ranges, change));
    let expired = together.slots.publish_over(&whole, head, now, changes)?;
    together.slots.let_readers_in();
    if !cleared.is_empty() {
        // M11: under the same range table.
        for entry in ranges.entries() {
            entry.tracked.iter().for_each(|view| view.mark_range(entry.range));
        }
    }
    Ok(expired)
}

/// Why nothing of a transaction runs now, if nothing does.
fn early_end(ranges: &RangeTable, session: &Session, transaction: &Transaction) -> Option<CommandResult> {
    if flushes(transaction) {
        if !Flush::may_begin(ranges) {
            return Some(Err(crate::refusals::NOT_SERVED));
        }
        let moves = |role: &Role| match role {
            Role::Importing(_) => true,
            Role::Exporting(view) => view.is_by_cuts(),
            Role::Owned | Role::Elsewhere | Role::Lost | Role::TakingOver | Role::Unreadable => false,
        };
        if ranges.entries().iter().any(|entry| moves(&entry.role)) {
            return Some(Err(FLUSH_DURING_MOVE));
        }
    }
    if !is_over_all_keys(transaction) || session.route.waited_out {
        return None;
    }
    if ranges.is_unreadable(PositionRange::ALL) {
        return Some(Err(crate::refusals::NOT_SERVED));
    }
    if ranges.is_taking_over(PositionRange::ALL) {
        return Some(Ok(Flow::AwaitTable));
    }
    let (migration, range) = ranges.awaited_in(PositionRange::ALL)?;
    Some(Ok(Flow::Await(Awaited { migration, range, patience_us: WHOLE_PATIENCE_US })))
}

/// What this node owns, with all of its data.
fn owned(ranges: &RangeTable) -> Vec<PositionRange> {
    let owned = ranges.entries().iter().filter(|entry| matches!(entry.role, Role::Owned));
    owned.map(|entry| entry.range).collect()
}
