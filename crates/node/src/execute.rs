//! The executor: locks a command's keys, runs it, publishes its writes, and does all that follows a write.
//!
//! The dispatcher has cleared the command. This file's steps happen for every command, so none can omit them:
//! memory is freed if needed, the call is counted, and changes to what is being copied are marked (M11).

use crate::call::{Call, CommandResult, Flow};
use crate::detours::Detours;
use crate::execute_once::{Means, run_once};
use crate::forward::{Hold, Holds};
use crate::goes_on::GoesOn;
use crate::keyspace::{NodeKeyspace, Reads, Scene, Together, Writes, stored};
use crate::locks::{self, awaits_transaction};
use crate::monitors::Shown;
use crate::now::Now;
use crate::observe::{SlowEntry, event_of, shown_arguments};
use crate::prepared::{writes, written_keys};
use crate::queue::WorkerIndex;
use crate::random::Random;
use crate::range_table::{RangeTable, Role};
use crate::request::{Clearance, Request, slots_of};
use crate::session::Session;
use crate::shared::{NodeParts, NodeShared};
use crate::stats::WorkerStats;
use crate::table::{CommandSpec, Found, NodeExecutor};
use crate::transaction::Transaction;
use sidle_commands::{
    Access, Blocking, CommandFlags, OverKeys, Overlay, Own, Progress, ReplyError, Run, StepSizes, Within,
};
use sidle_resp::ReplyWriter;
use sidle_store::{Commits, LogHead, SlotGuards, Store};
use sidle_types::{CommitNumber, HashedKey, Position, SLOT_COUNT, Slot, WallMs, fault};
use std::sync::Arc;
use typed_arena::Arena;

/// A write with more bytes gets room made first: it may take more memory at once than the cleaner keeps
/// ready.
pub(crate) const LARGE_REQUEST_BYTES: usize = 64 << 10;

/// Runs commands on one worker: its part of the store, and what commands borrow.
pub(crate) struct Executor {
    pub(crate) index: WorkerIndex,
    pub(crate) store: Arc<Store>,
    /// Where this worker appends.
    pub(crate) head: LogHead,
    /// The range table in use.
    pub(crate) ranges: Arc<RangeTable>,
    /// Its publication's number.
    pub(crate) seen: u64,
    /// The step in use of exports that are given bit by bit.
    pub(crate) step: u64,
    pub(crate) shared: Arc<NodeShared>,
    /// Whether commands take the long way.
    pub(crate) detours: Arc<Detours>,
    /// Keys of commands that this node carries out together with others.
    pub(crate) holds: Arc<Holds>,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) random: Random,
    /// The time in nanoseconds, from any start.
    pub(crate) stopwatch: Box<dyn Fn() -> u64 + Send>,
    /// The transaction that ran last, until its time is counted.
    pub(crate) executed: Option<Arc<Transaction>>,
    /// The longest reply.
    pub(crate) reply_bytes: usize,
    /// A command was refused, since nothing that it writes would be safe: that shows nothing of the data.
    pub(crate) is_refused: bool,
    /// Whether the latest request reached its command.
    pub(crate) has_run: bool,
    /// Whether the request holds its keys itself (F8).
    pub(crate) has_hold: bool,
    /// Where expiry continues.
    pub(crate) expires_from: Position,
    /// When a write without memory found nothing expired.
    pub(crate) nothing_expired_at: Option<WallMs>,
    /// The commit that has everything that replies show.
    pub(crate) shown: CommitNumber,
}

/// The slot where a worker starts to look for expired keys.
fn first_slot(index: WorkerIndex, workers: usize) -> Slot {
    let number = usize::from(SLOT_COUNT) * usize::from(index.0) / workers.max(1);
    Slot::new(number as u16).expect("below the number of slots")
}

/// Whether it is the EXEC of a transaction without writes; a spoilt one has none, and ends.
#[cold]
fn executes_no_write(session: &Session, found: Found) -> bool {
    found.spec.name == "exec"
        && session.transaction.as_deref().is_some_and(|transaction| !writes(transaction))
}

/// Whether it is a request that is to run once.
fn runs_once(request: Request<'_>) -> bool {
    matches!(request.found.spec.keys.within, Within::Command(_))
}

/// Whether it is about what transactions have at keys.
fn is_of_transactions(request: Request<'_>) -> bool {
    request.found.spec.flags.contains(CommandFlags::LOCKS)
}

impl Executor {
    /// The executor of a worker.
    pub(crate) fn new(parts: &NodeParts, index: WorkerIndex, seed: u64) -> Executor {
        Executor {
            index,
            store: Arc::clone(&parts.store),
            head: parts.store.log_head(),
            ranges: parts.published.table(),
            seen: 0,
            step: 0,
            shared: Arc::clone(&parts.shared),
            detours: Arc::clone(&parts.shared.detours),
            holds: Arc::clone(&parts.shared.holds),
            stats: Arc::clone(&parts.shared.workers[usize::from(index.0)]),
            random: Random::new(seed),
            stopwatch: Box::new(|| 0),
            executed: None,
            reply_bytes: 0,
            has_run: false,
            is_refused: false,
            has_hold: false,
            // Workers start apart, so that they do not visit the same slots.
            expires_from: Position::first_of(first_slot(index, parts.shared.workers.len())),
            nothing_expired_at: None,
            shown: CommitNumber::default(),
        }
    }

    /// Runs a cleared command; its result, and whether its reply was cut for its length.
    // Otherwise the compiler makes calls of these, and copies their results.
    #[inline(always)]
    pub(crate) fn call(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        clearance: &Clearance,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let Request { found, keys, args } = request;
        if !clearance.unseen.is_empty() {
            self.head.note_new_entries();
        }
        let is_write = found.spec.access.is_write() || found.spec.flags.contains(CommandFlags::WRITE);
        // A flush that has begun is a write that waits.
        if is_write
            && session.route.goes_on.flush.is_none()
            && let Some(why) = self.shared.durability.refuses_writes(self.shared.config.least_copies())
            && !executes_no_write(session, found)
        {
            self.is_refused = true;
            return (Err(ReplyError::owned(why)), false);
        }
        if found.spec.flags.contains(CommandFlags::DENYOOM) && !session.route.goes_on.has_begun() {
            let bytes: usize = args.iter().map(|arg| arg.len()).sum();
            if bytes >= LARGE_REQUEST_BYTES {
                self.store.make_room(bytes);
            }
        }
        let (mut result, mut is_cut) = self.call_once(now, session, request, out);
        if matches!(result, Err(ReplyError::OutOfMemory)) {
            (result, is_cut) = self.call_with_help(now, session, request, out);
        }
        self.has_run = true;
        let is_gated = found.spec.access.is_write() || !fault!(ReadsPassTheGate);
        if let Some(commits) = self.store.commits().filter(|_| is_gated) {
            self.shown = self.shown.max(shown_by(commits, request));
        }
        // A flush in steps is one call, and so is a command that goes on, or waits and runs again.
        if session.route.goes_on.flush.is_none()
            && !matches!(
                result,
                Ok(Flow::Await(_) | Flow::AwaitTable | Flow::Held | Flow::Block(_) | Flow::GoesOn)
            )
        {
            self.stats.command(found.id).calls.add(1);
        }
        let leaves_none = fault!(DecisionLeavesNoMark) && found.spec.name == "sidle.tx|decide";
        if clearance.marks && !leaves_none {
            match self.executed.as_deref().filter(|_| found.spec.name == "exec") {
                Some(transaction) => self.mark(&written_keys(transaction)),
                None => self.mark(keys),
            }
        }
        (result, is_cut)
    }

    /// The reply shows everything that was written so far.
    pub(crate) fn shows_all(&mut self) {
        self.shown = self.store.commits().map_or(self.shown, |commits| commits.open());
    }

    /// Runs a command again that found no memory, had no effect and wrote nothing, as soon as anything helps.
    #[cold]
    fn call_with_help(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let queued_bytes = session.transaction.as_ref().map_or(0, |transaction| transaction.bytes());
        let words_bytes = request.args.iter().map(|arg| arg.len()).sum::<usize>() + queued_bytes;
        // SETRANGE, COPY and others write more than they name.
        let bytes = words_bytes.max(self.head.take_refused_bytes());
        for helps in
            [|executor: &mut Executor, _, bytes| executor.store.has_room(bytes), Executor::expire_for]
        {
            if helps(self, now.wall, bytes) {
                let (result, is_cut) = self.call_once(now, session, request, out);
                if !matches!(result, Err(ReplyError::OutOfMemory)) {
                    return (result, is_cut);
                }
            }
        }
        if runs_once(request) {
            return self.call_exactly_once(now, session, request, true, out);
        }
        if is_of_transactions(request) {
            return self.call_for_transactions(now, session, request, true, out);
        }
        (Err(ReplyError::OutOfMemory), false)
    }

    #[inline(always)]
    fn call_once(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let Request { found, keys, args } = request;
        let run = match found.spec.run {
            Run::OverKeys(run) => run,
            Run::Own(run) => return self.call_own_or_all(now, session, request, run, out),
        };
        if found.spec.locks_all_slots(keys.len()) || found.spec.is_over_unnamed(args) {
            return self.call_together(now, session, request, run, out);
        }
        if keys.len() > 1 {
            return self.call_reads(now, session, request, run, out);
        }
        let reply = ReplyWriter::bounded(out, session.version, self.reply_bytes);
        let outlines = Arena::with_capacity(0);
        let scene = Scene {
            now: now.wall,
            stats: &self.stats,
            shared: &self.shared,
            ranges: &self.ranges,
            random: &self.random,
            outlines: &outlines,
        };
        let (guard, slot);
        let (mut blocking, mut progress) = (Blocking::No, None);
        let keyspace = match keys {
            [key] if found.spec.access.is_write() => {
                slot = self.store.lock_slot(key.slot());
                if self.must_wait(keys, true) {
                    return (Ok(Flow::Held), false);
                }
                blocking = self.blocking(session, request);
                let GoesOn { restoring, aside, .. } = &mut session.route.goes_on;
                progress = Some(Progress { restoring, sizes: StepSizes::default() });
                NodeKeyspace::Writes(Writes { key: *key, slot: &slot, head: &mut self.head, aside, scene })
            }
            _ => {
                // X4, before it looks (H2).
                if self.is_locked(keys, false) {
                    return (Ok(Flow::Held), false);
                }
                guard = self.store.pin();
                NodeKeyspace::Reads(Reads { keys, guard: &guard, scene })
            }
        };
        let mut call = sidle_commands::Call { args, keyspace, now: now.wall, reply, blocking, progress };
        let result = run(&mut call);
        (result.map(|()| flow_of(call.blocking)), call.reply.is_cut())
    }

    /// Runs a command that only reads several keys: as if in one moment, in which no other command holds one
    /// of them (F8).
    fn call_reads(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        run: OverKeys<NodeExecutor>,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let Request { keys, args, .. } = request;
        let start = out.len();
        loop {
            let granted = self.holds.granted();
            if self.must_wait(keys, false) {
                return (Ok(Flow::Held), false);
            }
            let guard = self.store.pin();
            let outlines = Arena::with_capacity(0);
            let scene = Scene {
                now: now.wall,
                stats: &self.stats,
                shared: &self.shared,
                ranges: &self.ranges,
                random: &self.random,
                outlines: &outlines,
            };
            let keyspace = NodeKeyspace::Reads(Reads { keys, guard: &guard, scene });
            let reply = ReplyWriter::bounded(out, session.version, self.reply_bytes);
            let blocking = Blocking::No;
            let mut call =
                sidle_commands::Call { args, keyspace, now: now.wall, reply, blocking, progress: None };
            let result = run(&mut call);
            let is_cut = call.reply.is_cut();
            // H2
            if self.holds.granted() == granted {
                return (result.map(|()| Flow::Done), is_cut);
            }
            out.truncate(start);
        }
    }

    /// Runs a command that may write several keys, and publishes its writes in one step.
    // Inlined, it costs the commands on one key instructions.
    #[inline(never)]
    fn call_together(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        run: OverKeys<NodeExecutor>,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let Request { found, keys, args } = request;
        let start = out.len();
        let reply = ReplyWriter::bounded(out, session.version, self.reply_bytes);
        let outlines = Arena::with_capacity(0);
        let scene = Scene {
            now: now.wall,
            stats: &self.stats,
            shared: &self.shared,
            ranges: &self.ranges,
            random: &self.random,
            outlines: &outlines,
        };
        let has_all = found.spec.is_over_unnamed(args) && self.ranges.is_sole_owner();
        let slots = if has_all { Slot::all().collect() } else { slots_of(keys) };
        let together = Together { slots: SlotGuards::lock(&self.store, &slots), has_all, scene };
        if self.must_wait(keys, true) {
            return (Ok(Flow::Held), false);
        }
        let arena = bumpalo::Bump::new();
        let overlay = Overlay::new(&together, &arena, &outlines, keys);
        let keyspace = NodeKeyspace::Together(overlay);
        let blocking = self.blocking(session, request);
        let mut call =
            sidle_commands::Call { args, keyspace, now: now.wall, reply, blocking, progress: None };
        let result = run(&mut call).map(|()| flow_of(call.blocking));
        let is_cut = call.reply.is_cut();
        let NodeKeyspace::Together(overlay) = call.keyspace else { unreachable!("it was lent an overlay") };
        let changes = overlay.into_changes();
        if result.is_err() || changes.is_empty() {
            return (result, is_cut);
        }
        let changes = changes.iter().map(|&change| stored(&self.ranges, change));
        let Ok(expired) = together.slots.publish(&mut self.head, now.wall, changes) else {
            out.truncate(start);
            return (Err(ReplyError::OutOfMemory), false);
        };
        self.stats.expired.add(expired as u64);
        (Ok(Flow::Done), is_cut)
    }

    /// Runs a command about the node, an EXEC, or a request that is to run once.
    fn call_own_or_all(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        run: Own<NodeExecutor>,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        match session.transaction.clone() {
            Some(transaction) if request.found.spec.name == "exec" && !transaction.is_spoilt() => {
                let (result, is_cut) = self.call_all(now, session, request.keys, &transaction, out);
                if result == Ok(Flow::Done) {
                    self.executed = Some(transaction);
                }
                (result, is_cut)
            }
            _ if runs_once(request) => self.call_exactly_once(now, session, request, false, out),
            _ if is_of_transactions(request) => self.call_for_transactions(now, session, request, false, out),
            _ => self.call_own(now, session, request.args, run, None, out),
        }
    }

    /// Runs a request that is to run once. `is_short`: no memory was found.
    #[inline(never)]
    fn call_exactly_once(
        &mut self,
        now: Now,
        session: &Session,
        request: Request<'_>,
        is_short: bool,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let outlines = Arena::with_capacity(0);
        let scene = Scene {
            now: now.wall,
            stats: &self.stats,
            shared: &self.shared,
            ranges: &self.ranges,
            random: &self.random,
            outlines: &outlines,
        };
        let (holds, has_hold, index) = (&self.holds, self.has_hold, self.index);
        let (store, head, most) = (&*self.store, &mut self.head, self.reply_bytes);
        let must_wait = |keys: &[HashedKey<'_>]| {
            holds.is_any() && !has_hold && holds.forbid(keys, true, index)
                || awaits_transaction(store, (holds, index), keys, true)
        };
        run_once(Means { store, head, scene, must_wait, most, is_short }, request, session.version, out)
    }

    /// Tells or asks a key something of a transaction, or prepares a part of one.
    #[inline(never)]
    fn call_for_transactions(
        &mut self,
        now: Now,
        session: &Session,
        request: Request<'_>,
        is_short: bool,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let outlines = Arena::with_capacity(0);
        let scene = Scene {
            now: now.wall,
            stats: &self.stats,
            shared: &self.shared,
            ranges: &self.ranges,
            random: &self.random,
            outlines: &outlines,
        };
        let means = locks::Means {
            store: &self.store,
            head: &mut self.head,
            scene,
            holds: &self.holds,
            claims: &self.shared.claims,
            worker: self.index,
            has_hold: self.has_hold,
            most: self.reply_bytes,
            is_short,
        };
        (locks::run(means, request, session.version, out), false)
    }

    /// Runs a command about the node. `room`: of a command in a transaction, what it may write.
    pub(crate) fn call_own(
        &self,
        now: Now,
        session: &mut Session,
        args: &[&[u8]],
        run: Own<NodeExecutor>,
        room: Option<usize>,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let reply = ReplyWriter::bounded(out, session.version, room.unwrap_or(self.reply_bytes));
        let mut call = Call {
            args,
            store: &self.store,
            now: now.wall,
            mono: now.mono,
            worker: self.index,
            random: self.random.next(),
            reply,
            session,
            stats: &self.stats,
            shared: &self.shared,
            ranges: &self.ranges,
            is_locked: room.is_some(),
        };
        let result = run(&mut call);
        (result, call.reply.is_cut())
    }

    /// Whether a command may wait whose keys are locked: not before those who have the turn (B2).
    #[inline]
    fn blocking(&self, session: &Session, request: Request<'_>) -> Blocking {
        if !request.found.spec.flags.contains(CommandFlags::BLOCKING) || session.is_forwarded {
            return Blocking::No;
        }
        let wait = session.route.wait.as_ref();
        if wait.is_some_and(|wait| wait.is_over) {
            return Blocking::Over;
        }
        if self.shared.waiters.are_before(wait.map(|wait| wait.places.id()), request.awaited_keys()) {
            return Blocking::Behind;
        }
        if wait.is_some() { Blocking::Again } else { Blocking::May }
    }

    /// The stopwatch's reading.
    #[inline]
    pub(crate) fn reading_ns(&self) -> u64 {
        (self.stopwatch)()
    }

    /// Enters a command that took long into SLOWLOG and LATENCY.
    #[cold]
    pub(crate) fn note_slow(&self, now: Now, session: &Session, found: Found, args: &[&[u8]], ns: u64) {
        let thresholds = self.shared.config.thresholds();
        if thresholds.is_spike(ns) {
            let event = event_of(found.spec.flags.contains(CommandFlags::FAST));
            self.shared.spikes.enter(event, (now.wall.0 / 1000, ns / 1_000_000));
        }
        if thresholds.is_slow(ns) && !found.spec.flags.contains(CommandFlags::SKIP_SLOWLOG) {
            let entry = SlowEntry {
                id: 0,
                at_seconds: now.wall.0 / 1000,
                microseconds: ns / 1000,
                arguments: shown_arguments(found.spec.name, args),
                address: session.client.address.clone(),
                name: session.client.details().name.clone(),
            };
            self.shared.slow_log.enter(entry, thresholds.log_length());
        }
    }

    /// A command has run: the connections that monitor the node are shown it.
    #[cold]
    pub(crate) fn show(&self, now: Now, session: &Session, found: Found, args: &[&[u8]]) {
        if !self.shared.monitors.is_any() {
            return;
        }
        let at_us = now.wall_us(self.reading_ns());
        let CommandSpec { name, flags, .. } = *found.spec;
        let command = Shown { at_us, address: &session.client.address, name, flags, args };
        self.shared.monitors.show(&command, self.reply_bytes);
    }

    /// Whether another command holds one of these keys (F8); it then waits for the end of a hold.
    #[inline]
    pub(crate) fn is_held(&self, keys: &[HashedKey<'_>], is_write: bool) -> bool {
        self.holds.is_any() && !self.has_hold && self.holds.forbid(keys, is_write, self.index)
    }

    /// Whether a transaction has locked one of these keys. The worker is then woken when one has ended.
    #[inline]
    fn is_locked(&self, keys: &[HashedKey<'_>], writes: bool) -> bool {
        awaits_transaction(&self.store, (&self.holds, self.index), keys, writes)
    }

    /// Whether a command waits for another one that holds one of these keys, or for a transaction.
    #[inline]
    pub(crate) fn must_wait(&self, keys: &[HashedKey<'_>], writes: bool) -> bool {
        self.is_held(keys, writes) || self.is_locked(keys, writes)
    }

    /// Grants a hold of these keys to a request of this command, unless an earlier one conflicts (H2), or a
    /// transaction has locked one. What belongs to transactions meets locks by their own rules (X14).
    pub(crate) fn grant(&self, hold: &Hold, keys: &[HashedKey<'_>], spec: &CommandSpec) -> bool {
        let _slots = SlotGuards::lock(&self.store, &slots_of(keys));
        let meets_locks = spec.flags.contains(CommandFlags::LOCKS);
        (meets_locks || !self.is_locked(keys, spec.access.is_write())) && hold.grant(self.index)
    }

    /// A sampled command has run on a key at this position: where the range is given bit by bit, what is hot
    /// goes first.
    #[cold]
    pub(crate) fn note_access(&self, position: Position) {
        if let Role::Exporting(view) = &self.ranges.entry_at(position).role {
            view.note_access(position, self.step);
        }
    }

    /// M11: marks changes to what is being copied. After the write, and under the same range table.
    #[cold]
    pub(crate) fn mark(&self, keys: &[HashedKey<'_>]) {
        for key in keys {
            self.ranges.entry_at(key.position()).mark(key.position(), self.step);
        }
    }
}

/// The commit that has what a command's reply shows, and its writes. What describes the node waits for
/// nothing: an operator sees it while the disk fails.
fn shown_by(commits: &Commits, request: Request<'_>) -> CommitNumber {
    let Request { found, keys, args } = request;
    let CommandSpec { access, flags, .. } = found.spec;
    let is_of_data = flags.contains(CommandFlags::READONLY)
        || flags.contains(CommandFlags::WRITE)
        || !matches!(access, Access::NoKeys);
    match keys.iter().map(|key| commits.latest_of(key.slot())).max() {
        Some(latest) if !found.spec.is_over_unnamed(args) => latest,
        // A walk, a count, a flush.
        _ if is_of_data => commits.open(),
        _ => CommitNumber::default(),
    }
}

/// How a command ended.
#[inline]
fn flow_of(blocking: Blocking) -> Flow {
    match blocking {
        Blocking::Waits(at_most_ms) => Flow::Block(at_most_ms),
        Blocking::GoesOn => Flow::GoesOn,
        _ => Flow::Done,
    }
}
