//! From a request to its outcome: the right to run, the keys, the decision, the command, the reply.
//!
//! Purpose: every command's single path. It never allocates, locks or hashes twice while this node owns
//! everything that the command touches.
//!
//! A parked request leaves only its ticket: the session is restored, so running the request again is like
//! running it first. The one exception is [`Flush`], which works in steps.

use crate::attempt::{Attempt, elsewhere, needs_old_values, refusal_to_queue, when_missing};
use crate::blocked::Blocked;
use crate::call::{Awaited, CommandResult, Flow};
use crate::commands::commands;
use crate::execute::Executor;
use crate::flush::{Flush, Wait};
use crate::forward::{Channels, Joints};
use crate::half::Half;
use crate::held_up::HeldUp;
use crate::locks::{Execs, Executed, Failed, awaits_any, claim_everything, keep_states, write_replies};
use crate::now::Now;
use crate::outcome::{Closing, Outcome};
use crate::parking::ParkingLot;
use crate::prepared::all_keys;
use crate::queue::{Ticket, ToMover, WorkerPort};
use crate::refusals::{
    CROSS_PROTOCOL, KEY_OF_SIDLE, NOT_SERVED, TOO_LONG, aborted, cannot_wait, is_paused, refusal, restriction,
};
use crate::request::{Clearance, Request, keys_of};
use crate::route::ExecHalf;
use crate::routing::{Verdict, judge};
use crate::session::{Replies, Session};
use crate::table::{Found, NodeExecutor};
use crate::transaction::Transaction;
use sidle_commands::{CommandTable, ReplyError};
use sidle_resp::ReplyWriter;
use sidle_types::{HashedKey, fault};
use std::sync::Arc;

/// The state before a command, to which it returns when it parks.
#[derive(Clone, Copy)]
struct Before {
    /// The length of the output.
    start: usize,
    replies: Replies,
}

/// Runs requests on one worker: it decides, executes, and parks commands.
pub(crate) struct Dispatcher {
    pub(crate) commands: &'static CommandTable<NodeExecutor>,
    /// Runs commands, and removes what has expired.
    pub(crate) executor: Executor,
    pub(crate) parking: ParkingLot,
    /// Commands that wait for what they are to take.
    pub(crate) blocked: Blocked,
    /// Commands that a pause holds up.
    pub(crate) held_up: HeldUp,
    /// Requests to other nodes.
    pub(crate) lines: Channels,
    /// Commands carried out together with other nodes.
    pub(crate) joints: Joints,
    /// Transactions over several nodes.
    pub(crate) execs: Execs,
    #[cfg(any(test, feature = "testing"))]
    pub(crate) hooks: crate::testing::Hooks,
}

impl Dispatcher {
    /// The dispatcher of a worker. `ports`: its ends of the queues, by mover.
    pub(crate) fn new(executor: Executor, ports: Vec<WorkerPort>) -> Dispatcher {
        Dispatcher {
            commands: commands(),
            executor,
            parking: ParkingLot::new(ports),
            blocked: Blocked::default(),
            held_up: HeldUp::default(),
            lines: Channels::default(),
            joints: Joints::default(),
            execs: Execs::default(),
            #[cfg(any(test, feature = "testing"))]
            hooks: crate::testing::Hooks::default(),
        }
    }

    /// Runs one request, name first, and appends its reply to `out`.
    pub(crate) fn execute(
        &mut self,
        now: Now,
        session: &mut Session,
        args: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Outcome {
        match self.commands.resolve(args) {
            Ok(found) => self.run(now, session, found, &keys_of(found, args), args, out),
            Err(error) => self.refuse_unresolved(now, session, args, error, out),
        }
    }

    /// Answers a request with an unknown command or the wrong number of arguments. As in Redis, this comes
    /// before the check of the password. A request that a browser sends for an attacker ends the connection.
    #[cold]
    pub(crate) fn refuse_unresolved(
        &mut self,
        now: Now,
        session: &mut Session,
        args: &[&[u8]],
        error: ReplyError,
        out: &mut Vec<u8>,
    ) -> Outcome {
        if CROSS_PROTOCOL.iter().any(|word| args[0].eq_ignore_ascii_case(word)) {
            return Outcome::Close(Closing::CrossProtocol);
        }
        session.begin_command();
        let start = out.len();
        session.asking = false;
        let named = match &error {
            ReplyError::WrongArity(name) => self.commands.find_full_name(name.as_bytes()),
            _ => None,
        };
        session.client.touch(now.wall, named.map(|found| found.id));
        session.spoil_transaction();
        let error = match named {
            Some(found) => {
                self.executor.stats.command(found.id).rejected.add(1);
                refusal(session, found, error)
            }
            None => error,
        };
        self.write_error(session, error, out);
        self.finish(session, start, out)
    }

    /// Runs a command whose name and arity are valid, with its keys.
    #[inline]
    pub(crate) fn run(
        &mut self,
        now: Now,
        session: &mut Session,
        found: Found,
        keys: &[HashedKey<'_>],
        args: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Outcome {
        let before = Before { start: out.len(), replies: session.replies };
        session.begin_command();
        self.executor.is_refused = false;
        let request = Request { found, keys, args };
        if keys.iter().any(|key| key.is_beside()) {
            session.spoil_transaction();
            return self.refuse(session, found, KEY_OF_SIDLE, before.start, out);
        }
        // Of MONITOR, and of all else that is seldom there, this one load is what a command costs.
        if session.is_restricted() || self.executor.detours.is_any() {
            return self.run_on_detour(now, session, request, before, out);
        }
        self.run_permitted(now, session, request, before, out)
    }

    /// Runs a command where some are refused, held up or queued, and shows it to those that monitor the node.
    #[cold]
    fn run_on_detour(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        before: Before,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let was_shown = session.route.has_run_and_waits();
        self.executor.has_run = false;
        let outcome = match self.run_restricted(now, session, request, before, out) {
            Some(outcome) => outcome,
            None => self.run_permitted(now, session, request, before, out),
        };
        let is_shown = !matches!(outcome, Outcome::Parked(_)) || session.route.has_run_and_waits();
        if self.executor.has_run && is_shown && !was_shown {
            self.executor.show(now, session, request.found, request.args);
        }
        outcome
    }

    /// Runs a command where some are refused, held up or queued; `None` if this one is none of these.
    fn run_restricted(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        before: Before,
        out: &mut Vec<u8>,
    ) -> Option<Outcome> {
        let Request { found, args, .. } = request;
        if let Some((error, closing)) = restriction(session, &self.executor.shared, now.wall, request) {
            let error = refusal(session, found, error);
            let outcome = self.refuse(session, found, error, before.start, out);
            return Some(closing.map_or(outcome, Outcome::Close));
        }
        if let Some(outcome) = self.hold_up(now, session, request, before, out) {
            return Some(outcome);
        }
        if self.execs.takes_watch(&self.executor, session, request) {
            return Some(self.watch_over_nodes(now, session, request, before, out));
        }
        let transaction = session.transaction.clone()?;
        match found.spec.name {
            "exec" => {
                // A spoilt one looks at nothing.
                let watch = session.watch.clone().filter(|_| !transaction.is_spoilt());
                let keys = all_keys(&transaction, watch.iter().flat_map(|watch| watch.keys()));
                let request = Request { found, keys: &keys, args };
                let outcome = match self.execs.takes(&self.executor, session, &transaction, request) {
                    true => self.exec_over_nodes(now, session, request, &transaction, before, out),
                    false => self.run_permitted(now, session, request, before, out),
                };
                drop(keys);
                drop(watch);
                // While it waits it stays as it is.
                if !matches!(outcome, Outcome::Parked(_)) {
                    session.end_transaction();
                }
                Some(outcome)
            }
            "multi" | "discard" | "watch" | "quit" | "reset" => None,
            _ => {
                drop(transaction);
                Some(self.queue(now, session, request, before.start, out))
            }
        }
    }

    /// Runs an EXEC over keys of several nodes: the worker commits it.
    fn exec_over_nodes(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        transaction: &Arc<Transaction>,
        before: Before,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let (Before { start, replies }, found) = (before, request.found);
        let executed = match self.go_over_nodes(now, session, (request, Some(transaction)), replies) {
            Ok(executed) => executed,
            Err(ticket) => return Outcome::Parked(ticket),
        };
        let error = match executed {
            Ok(replies) => {
                let mut reply = ReplyWriter::bounded(out, session.version, self.executor.reply_bytes);
                write_replies(replies, &mut reply);
                match reply.is_cut() && session.sends_reply() {
                    true => return self.cut_off(session, found, start, out),
                    false => return self.finish(session, start, out),
                }
            }
            // Its client goes where its keys are.
            Err(Failed::Aborted(_)) if !session.crosses_slots => {
                return self.run_permitted(now, session, request, before, out);
            }
            Err(Failed::Aborted(error)) => aborted(&error),
            Err(Failed::Unknown(error)) => error,
        };
        self.executor.stats.command(found.id).failed.add(1);
        self.write_error(session, error, out);
        self.finish(session, start, out)
    }

    /// Watches keys of several nodes, which look at them.
    fn watch_over_nodes(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        Before { start, replies }: Before,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let executed = match self.go_over_nodes(now, session, (request, None), replies) {
            Ok(executed) => executed,
            Err(ticket) => return Outcome::Parked(ticket),
        };
        match keep_states(session, &self.executor.store, request.keys, executed) {
            Ok(()) => ReplyWriter::new(out, session.version).ok(),
            Err(error) => {
                self.executor.stats.command(request.found.id).failed.add(1);
                self.write_error(session, error, out);
            }
        }
        self.finish(session, start, out)
    }

    /// What became of a request that the nodes carry out, or the ticket under which it waits.
    fn go_over_nodes(
        &mut self,
        now: Now,
        session: &mut Session,
        what: (Request<'_>, Option<&Arc<Transaction>>),
        replies: Replies,
    ) -> Result<Executed, Ticket> {
        if !session.route.ticket.is_some_and(|ticket| self.execs.has(ticket)) {
            self.give_up_waiting(session);
        }
        let Dispatcher { execs, parking, executor, .. } = self;
        let executed = execs.go_on_with(now, executor, session, what, || parking.park_for_another_node());
        executed.inspect_err(|&ticket| (session.replies, session.route.ticket) = (replies, Some(ticket)))
    }

    /// Parks a command that is paused: nothing of it has run. As in Redis, clients learn at once that a key
    /// is another node's, and what would be queued waits, too.
    fn hold_up(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        Before { start, replies }: Before,
        out: &mut Vec<u8>,
    ) -> Option<Outcome> {
        if let Some(ticket) = session.route.ticket
            && self.held_up.remove(ticket)
        {
            self.parking.forget(ticket);
            session.route.ticket = None;
        }
        let (paused, until) = self.executor.shared.pause.at(now.mono)?;
        let ticket = session.route.ticket;
        let has_begun = session.route.has_begun()
            || ticket.is_some_and(|ticket| self.joints.has(ticket) || self.execs.has(ticket));
        if has_begun || !is_paused(session, request.found, paused) {
            return None;
        }
        self.give_up_waiting(session);
        if let Some(error) = refusal_to_queue(&self.executor, session, request) {
            session.spoil_transaction();
            return Some(self.refuse(session, request.found, error, start, out));
        }
        session.client.touch(now.wall, Some(request.found.id));
        let ticket = self.held_up.add(session.client.record(), until, &mut self.parking);
        session.replies = replies;
        session.route.ticket = Some(ticket);
        Some(Outcome::Parked(ticket))
    }

    /// A request that waits for its keys does so no more: it will again, or the nodes carry it out.
    fn give_up_waiting(&mut self, session: &mut Session) {
        if let Some(ticket) = session.route.ticket.take() {
            self.leave(ticket);
            session.route.asked.clear();
            session.route.place = None;
        }
    }

    /// Queues a command of a transaction.
    fn queue(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Request { found, args, .. } = request;
        session.client.touch(now.wall, Some(found.id));
        if let Some(error) = refusal_to_queue(&self.executor, session, request) {
            session.spoil_transaction();
            return self.refuse(session, found, error, start, out);
        }
        let most = self.executor.shared.config.query_buffer_bytes() as usize;
        let transaction = Arc::make_mut(session.transaction.get_or_insert_default());
        if !transaction.is_spoilt() && !transaction.queue(found.id, args, most) {
            session.spoil_transaction();
            return self.refuse(session, found, TOO_LONG, start, out);
        }
        session.note_transaction();
        ReplyWriter::new(out, session.version).simple("QUEUED");
        self.finish(session, start, out)
    }

    #[inline(always)]
    fn run_permitted(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        before: Before,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Before { start, replies } = before;
        // ASKING is for one command only. An owner serves a position to anyone, so nothing else depends on
        // it.
        let asking = std::mem::take(&mut session.asking);
        session.client.touch(now.wall, Some(request.found.id));
        let mut attempt = match session.route.ticket.take() {
            None => self.attempt(now, session, request, out),
            Some(ticket) => self.attempt_again(now, session, request, ticket, out),
        };
        if let Attempt::Elsewhere = attempt {
            attempt = self.forward(now, session, request, out);
        }
        if let Attempt::Ran(Ok(Flow::Done)) = attempt {
            let Dispatcher { blocked, executor, parking, .. } = self;
            let gave_turns = executor.shared.waiters.count() != 0 && request.found.spec.access.is_write();
            if !gave_turns {
                return self.finish(session, start, out);
            }
            match blocked.park_behind(now, session, request, &out[start..], (executor, parking)) {
                Some(ticket) => attempt = Attempt::Parked(ticket),
                None => return self.finish(session, start, out),
            }
        }
        while let Attempt::Ran(Ok(Flow::Block(at_most_ms))) = attempt {
            #[cfg(any(test, feature = "testing"))]
            self.hooks.found_nothing(&self.executor.store);
            if fault!(WaitsWithoutLook) && session.route.is_blind_next(at_most_ms) {
                attempt = Attempt::Parked(self.parking.park_for_a_turn());
                break;
            }
            let Dispatcher { blocked, executor, parking, .. } = self;
            attempt = match blocked.park(now, session, request, at_most_ms, (executor, parking)) {
                Some(ticket) => Attempt::Parked(ticket),
                None => self.attempt(now, session, request, out),
            };
        }
        self.conclude(session, request, attempt, start, out).unwrap_or_else(|ticket| {
            out.truncate(start);
            session.replies = replies;
            session.asking = asking;
            session.route.ticket = Some(ticket);
            Outcome::Parked(ticket)
        })
    }

    /// Runs a waiting command again, from its start or from its [`Progress`].
    ///
    /// [`Progress`]: crate::forward::Progress
    #[cold]
    fn attempt_again(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        ticket: Ticket,
        out: &mut Vec<u8>,
    ) -> Attempt {
        if let Some(joint) = self.joints.take(ticket) {
            return self.resume_joint(now, session, request, joint, out);
        }
        if let Some(reply) = self.blocked.take_reply(session) {
            out.extend(reply);
            return Attempt::Ran(Ok(Flow::Done));
        }
        if let Some(at_most_ms) = session.route.blind {
            return Attempt::Ran(Ok(Flow::Block(at_most_ms)));
        }
        if let Some(error) = self.blocked.run_again(now, session) {
            return Attempt::Ran(Err(error));
        }
        if let Some(why) = self.parking.take_refusal(ticket) {
            return Attempt::Ran(Err(cannot_wait(session, why)));
        }
        let asked = std::mem::take(&mut session.route.asked);
        session.route.waited_out = self.parking.take_waited_out(ticket);
        if self.parking.take_answered(ticket) {
            session.route.settled.extend(asked);
        }
        match session.route.forward.take() {
            Some(progress) => self.resume_forwarding(now, session, request, progress, ticket, out),
            None if session.route.place.is_some() => self.attempt_beside_holds(now, session, request, out),
            None => {
                if fault!(ParkedCommandRunsTwice) {
                    self.attempt(now, session, request, &mut Vec::new());
                }
                self.attempt(now, session, request, out)
            }
        }
    }

    /// Answers an attempt, unless its reply is written already, or parks the command and returns its ticket.
    #[cold]
    fn conclude(
        &mut self,
        session: &mut Session,
        request: Request<'_>,
        attempt: Attempt,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, Ticket> {
        let Request { found, keys, .. } = request;
        match attempt {
            Attempt::Ran(Ok(flow)) => match self.follow(session, flow, out)? {
                outcome @ (Outcome::Done | Outcome::Close(_)) => {
                    self.finish(session, start, out);
                    return Ok(outcome);
                }
                outcome => return Ok(outcome),
            },
            Attempt::Ran(Err(error)) => {
                let is_executing = found.spec.name == "exec" && session.transaction.is_some();
                let error = if is_executing { aborted(&error) } else { error };
                self.executor.stats.command(found.id).failed.add(1);
                self.write_error(session, error, out);
            }
            Attempt::ReplyTooLong => return Ok(self.cut_off(session, found, start, out)),
            Attempt::Refused(error) => return Ok(self.refuse(session, found, error, start, out)),
            Attempt::NotHereYet { migration, position, sample_one_in } => {
                if sample_one_in.is_some_and(|one_in| self.executor.random.draw(u64::from(one_in))) {
                    self.parking.offer(migration, ToMover::Sampled { migration, position });
                }
                // Named, so that a double read never pairs it with a frozen answer for another migration
                // (M4).
                use std::io::Write;
                write!(out, "+EMPTY {migration}\r\n").expect("writing to memory cannot fail");
            }
            Attempt::Retry(after_us, missing) => {
                self.parking.want(&missing, keys);
                let error = ReplyError::owned(format!("SIDLERETRY {after_us} the key is on its way"));
                self.write_error(session, error, out);
            }
            Attempt::Elsewhere => unreachable!("it has been forwarded"),
            Attempt::Parked(ticket) => return Err(ticket),
            Attempt::AwaitHold => return Err(self.lines.park_for_hold(&mut self.parking)),
            Attempt::AwaitActivation(migration) => return Err(self.parking.park_for_activation(migration)),
            Attempt::AwaitTable => return Err(self.parking.park_for_a_new_table()),
            Attempt::Pull(missing) => {
                let asked = missing.iter().map(|missing| (missing.migration, missing.key as u32));
                session.route.asked = asked.collect();
                return Err(self.parking.park_for_keys(&missing, keys));
            }
        }
        Ok(self.finish(session, start, out))
    }

    /// Answers a refused command.
    #[cold]
    fn refuse(
        &mut self,
        session: &mut Session,
        found: Found,
        error: ReplyError,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.executor.stats.command(found.id).rejected.add(1);
        self.write_error(session, error, out);
        self.finish(session, start, out)
    }

    /// Decides about the command, and runs it if it may run.
    #[inline(always)]
    pub(crate) fn attempt(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Attempt {
        if self.executor.holds.is_any() {
            return self.attempt_beside_holds(now, session, request, out);
        }
        self.attempt_freely(now, session, request, out)
    }

    /// The same while there are holds. What finds one in its way takes its place in their order, and holds
    /// its own keys while it runs: so none of either kind is passed over for ever (H1).
    #[cold]
    fn attempt_beside_holds(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let (keys, is_write) = (request.keys, request.found.spec.access.is_write());
        let place = session.route.place.take();
        let has_way = match &place {
            Some(place) => self.executor.grant(place, keys, request.found.spec),
            None => !self.executor.is_held(keys, is_write),
        };
        if !has_way {
            let (holds, worker) = (&self.executor.holds, self.executor.index);
            session.route.place = place.or_else(|| holds.request(keys, is_write, worker));
            return Attempt::AwaitHold;
        }
        self.executor.has_hold = place.is_some();
        let attempt = self.attempt_freely(now, session, request, out);
        self.executor.has_hold = false;
        if let Attempt::Elsewhere = attempt {
            session.route.place = place;
        }
        attempt
    }

    // Called, it would cost every command the copy of its outcome.
    #[inline(always)]
    fn attempt_freely(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let mut clearance = Clearance::default();
        if !self.executor.ranges.owns_everything() && !request.keys.is_empty() {
            match self.clear(now, session, request, out) {
                Ok(given) => clearance = given,
                Err(attempt) => return attempt,
            }
        }
        if fault!(HalfMsetVisible)
            && let Some(half) = Half::next(&self.executor.store, request)
        {
            return self.call_half(now, session, &half, &clearance, out);
        }
        let (result, is_cut) = self.call(now, session, request, &clearance, out);
        if fault!(HalfExecVisible) && session.route.exec_half == ExecHalf::First {
            session.route.exec_half = ExecHalf::Parked;
            return Attempt::Parked(self.parking.park_for_a_turn());
        }
        if is_cut && session.sends_reply() { Attempt::ReplyTooLong } else { Attempt::Ran(result) }
    }

    /// Runs half of an MSET; other connections have their turn after the first half.
    #[cold]
    fn call_half(
        &mut self,
        now: Now,
        session: &mut Session,
        half: &Half<'_>,
        clearance: &Clearance,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let start = out.len();
        let (result, _) = self.call(now, session, half.request(), clearance, out);
        if half.is_last || result.is_err() {
            return Attempt::Ran(result);
        }
        out.truncate(start);
        Attempt::Parked(self.parking.park_for_a_turn())
    }

    /// Decides whether a command may run here, and with which duties; otherwise its outcome.
    #[inline(always)]
    fn clear(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Clearance, Attempt> {
        let Request { keys, .. } = request;
        let needs_old = needs_old_values(request);
        let settled = &session.route.settled;
        let all = keys.iter().copied().enumerate();
        let mut judgement =
            judge(&self.executor.ranges, &self.executor.store, self.executor.step, all, needs_old, settled);
        if session.is_forwarded && fault!(ForwardedWithoutOwnershipCheck) {
            judgement.verdict = Verdict::Run;
        }
        let (is_aware, is_forwarded) = (session.is_aware(), session.is_forwarded);
        let mut report = |session: &mut Session| {
            if let Some(view) = judgement.import.filter(|_| is_aware) {
                session.route.reported.report(session.version, now.mono, view, out);
            }
        };
        match judgement.verdict {
            Verdict::Run => report(session),
            verdict @ (Verdict::Redirect(_) | Verdict::CrossSlot) => {
                return Err(elsewhere(&self.executor.ranges, session, request, verdict));
            }
            Verdict::AwaitActivation(migration) => return Err(Attempt::AwaitActivation(migration)),
            Verdict::AwaitTable => return Err(Attempt::AwaitTable),
            Verdict::NotHereYet(_) if !is_forwarded && self.is_left_to_source(request) => {
                return Err(Attempt::Elsewhere);
            }
            Verdict::NotHereYet(missing) => {
                let is_short = self.executor.store.is_short();
                let attempt = when_missing(session, request, judgement.import, missing, is_short);
                if let Attempt::NotHereYet { .. } = attempt {
                    report(session);
                }
                return Err(attempt);
            }
        }
        let mut clearance = Clearance::new(request, judgement.is_tracked, &judgement.unseen);
        if clearance.marks && fault!(MarkBeforeWrite) {
            self.executor.mark(keys);
            clearance.marks = false;
        }
        #[cfg(any(test, feature = "testing"))]
        self.hooks.judged(&self.executor.store);
        Ok(clearance)
    }

    /// Runs a cleared command; its result, and whether its reply was cut for its length.
    #[inline(always)]
    pub(crate) fn call(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        clearance: &Clearance,
        out: &mut Vec<u8>,
    ) -> (CommandResult, bool) {
        let result = self.executor.call(now, session, request, clearance, out);
        if !clearance.unseen.is_empty() {
            self.parking.report_unseen(&mut self.executor.head, &clearance.unseen);
        }
        result
    }

    /// Does what a command requires beyond its reply.
    #[cold]
    fn follow(&mut self, session: &mut Session, flow: Flow, out: &mut Vec<u8>) -> Result<Outcome, Ticket> {
        match flow {
            Flow::Done => Ok(Outcome::Done),
            Flow::Close => Ok(Outcome::Close(Closing::Asked)),
            Flow::Flush => self.flush(session, out),
            Flow::Await(Awaited { migration, range, patience_us }) => {
                session.route.awaited = Some(range);
                Err(self.parking.park_for_positions(migration, range, patience_us))
            }
            Flow::AwaitTable => Err(self.parking.park_for_a_new_table()),
            Flow::Block(_) => unreachable!("it is parked, or runs again"),
            Flow::GoesOn => {
                let (bytes, before) = session.route.goes_on.memory_bytes();
                session.client.note_progress(bytes, before);
                Err(self.parking.park_for_a_turn())
            }
            Flow::Held => Err(self.lines.park_for_hold(&mut self.parking)),
            Flow::Shutdown => Ok(Outcome::Shutdown),
            Flow::Control(request) => Ok(Outcome::Control(request)),
        }
    }

    /// Runs one step of the session's flush; `Err` when more are left.
    fn flush(&mut self, session: &mut Session, out: &mut Vec<u8>) -> Result<Outcome, Ticket> {
        let begun = session.route.goes_on.flush.take();
        if begun.is_none() && !Flush::may_begin(&self.executor.ranges) {
            self.write_error(session, NOT_SERVED, out);
            return Ok(Outcome::Done);
        }
        if begun.is_none() && self.executor.store.commits().is_some() {
            // All replies wait for its end. It begins when those before are sent: it waits for no client.
            session.route.goes_on.flush = Some(Flush::default());
            return Err(self.parking.park_for_a_turn());
        }
        let mut flush = begun.unwrap_or_default();
        let Executor { ranges, store, head, step, shared, holds, index, .. } = &mut self.executor;
        session.route.goes_on.claim.get_or_insert_with(|| claim_everything(&shared.claims, store));
        let is_held = |range| awaits_any(store, (holds, *index), range);
        if let Some(wait) = flush.step(ranges, (store, head), *step, &is_held, &mut self.parking) {
            session.route.goes_on.flush = Some(flush);
            return Err(match wait {
                Wait::Until(ticket) => ticket,
                Wait::ForVotes => self.lines.park_for_hold(&mut self.parking),
            });
        }
        drop(flush);
        // Its records are in this commit at last.
        self.executor.shows_all();
        ReplyWriter::new(out, session.version).ok();
        Ok(Outcome::Done)
    }

    /// Ends a connection whose command's reply is longer than the client may leave unread.
    #[cold]
    fn cut_off(&mut self, session: &mut Session, found: Found, start: usize, out: &mut Vec<u8>) -> Outcome {
        out.truncate(start);
        self.executor.stats.command(found.id).failed.add(1);
        let text = format!(
            "ERR the reply has more than {} bytes, the limit of what may stand unread: ask for less at once",
            self.executor.reply_bytes
        );
        self.write_error(session, ReplyError::owned(text), out);
        match self.finish(session, start, out) {
            // The connection carries other clients' requests too.
            outcome if session.is_forwarded => outcome,
            _ => Outcome::Close(Closing::ReplyTooLong),
        }
    }

    /// Ends a request that was answered.
    #[inline]
    fn finish(&mut self, session: &mut Session, start: usize, out: &mut Vec<u8>) -> Outcome {
        let taken = session.route.goes_on.end();
        if taken != 0 {
            session.client.note_progress(0, taken);
        }
        (session.route.synced_by, session.route.begun) = (None, None);
        session.route.place = None;
        session.route.settled.clear();
        (session.route.awaited, session.route.waited_out) = (None, false);
        session.route.behind = None;
        session.stop_waiting();
        if !session.sends_reply() {
            out.truncate(start);
        }
        Outcome::Done
    }

    #[cold]
    pub(crate) fn write_error(&mut self, session: &Session, error: ReplyError, out: &mut Vec<u8>) {
        self.executor.stats.count_error(error.code());
        ReplyWriter::new(out, session.version).error_bytes(&error.line());
    }
}
