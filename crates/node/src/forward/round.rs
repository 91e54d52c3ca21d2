//! The dispatcher's handling of joint commands: a round of parts at other nodes, then this node's own.

use super::channels::Forwarded;
use super::joint::{Ended, Joint};
use super::progress::{Failure, Progress, Settled};
use super::run::Places;
use super::{Ending, HOLD_US, PATIENCE_US};
use crate::attempt::{Attempt, needs_old_values};
use crate::call::Flow;
use crate::dispatch::Dispatcher;
use crate::execute::LARGE_REQUEST_BYTES;
use crate::now::Now;
use crate::queue::Ticket;
use crate::request::{Clearance, Request, keys_of};
use crate::routing::{Asked, Verdict, judge};
use crate::session::Session;
use crate::table::CommandFlags;
use sidle_commands::{ReplyError, Split};
use sidle_resp::{ReplyWriter, RequestWriter};
use sidle_store::Entry;
use sidle_types::{CommitNumber, HashedKey, WallMs, fault};
use std::sync::Arc;

impl Dispatcher {
    /// Begins a joint command, or a further round of one: holds all of its keys, then requests the parts that
    /// are elsewhere. This node's part comes last.
    pub(super) fn begin_joint(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        mut progress: Box<Progress>,
        places: Places,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let own: Vec<_> = places.here.iter().map(|&index| request.keys[index]).collect();
        let needs_old = needs_old_values(request);
        let keys = places.here.iter().copied().zip(own.iter().copied());
        let settled = &session.route.settled;
        match judge(&self.executor.ranges, &self.executor.store, self.executor.step, keys, needs_old, settled)
            .verdict
        {
            Verdict::Run => {}
            Verdict::AwaitActivation(migration) => {
                session.route.forward = Some(progress.without_hold());
                return Attempt::AwaitActivation(migration);
            }
            Verdict::AwaitTable => {
                session.route.forward = Some(progress.without_hold());
                return Attempt::AwaitTable;
            }
            Verdict::NotHereYet(missing) => {
                session.route.forward = Some(progress.without_hold());
                return Attempt::Pull(missing);
            }
            Verdict::Redirect(_) | Verdict::CrossSlot => unreachable!("these keys are served here"),
        }
        if !places.elsewhere.iter().all(|(node, _)| self.lines.has_room(node.id, session.version)) {
            session.route.forward = Some(progress.without_hold());
            return Attempt::Parked(self.lines.park_for_room(now.mono, &mut self.parking));
        }
        if !fault!(PartsWithoutHold) && !self.hold(request, &own, &mut progress) {
            session.route.forward = Some(progress);
            return Attempt::AwaitHold;
        }
        // The least of all: that is `None` if one of them is not to be asked.
        let nodes = places.elsewhere.iter().map(|(node, _)| node.id);
        let patience = nodes.map(|node| self.executor.shared.suspects.patience_us(node, now.mono));
        let Some(patience_us) = patience.min().unwrap_or(Some(HOLD_US)) else {
            return Attempt::Ran(Err(progress.failed(Failure::Unreachable)));
        };
        // Before any other part is made: without memory for this one the command would be done in part.
        if !self.has_room_for(now, request, &places.here) {
            return Attempt::Ran(Err(progress.refused(ReplyError::OutOfMemory)));
        }
        // None of its keys changes any more.
        if request.found.spec.split == Split::AllOrNone && own.iter().any(|&key| self.is_present(now, key)) {
            ReplyWriter::new(out, session.version).integer(0);
            return Attempt::Ran(Ok(Flow::Done));
        }
        let ticket = self.send_parts(now, session, request, progress, places, patience_us);
        self.conclude_joints(Some(now));
        Attempt::Parked(ticket)
    }

    /// Requests the parts that are elsewhere.
    fn send_parts(
        &mut self,
        now: Now,
        session: &Session,
        request: Request<'_>,
        mut progress: Box<Progress>,
        places: Places,
        patience_us: u64,
    ) -> Ticket {
        let Places { here, elsewhere } = places;
        progress.sent_under = self.executor.seen;
        let nodes = elsewhere.iter().map(|(node, _)| node.id).collect();
        let mut requests = Vec::new();
        for (part, (node, keys)) in elsewhere.into_iter().enumerate() {
            progress.send(part, &keys);
            let mut bytes = Vec::new();
            RequestWriter::new(&mut bytes).request(&request.part(&keys));
            requests.push((node, bytes));
        }
        self.executor.stats.forwarded.add(requests.len() as u64);
        let joint = Joint {
            ranges: Arc::clone(&self.executor.ranges),
            seen: self.executor.seen,
            found: request.found,
            version: session.version,
            words: request.part(&here).iter().map(|&word| word.into()).collect(),
            settled: among(&here, &session.route.settled),
            here,
            nodes,
            shown: CommitNumber::default(),
            has_client: true,
            ended: None,
            progress,
        };
        let reply_bytes = joint.progress.reply_bytes();
        let command = Forwarded {
            until: joint.progress.since.plus_us(PATIENCE_US).min(now.mono.plus_us(patience_us)),
            version: session.version,
            collected: Arc::clone(&session.client.collected),
            reply_bytes,
            other_bytes: joint.progress.held_bytes() - reply_bytes + joint.words_bytes(),
            most_bytes: self.executor.reply_bytes,
            is_joint: true,
        };
        let ticket = self.lines.send(now.mono, command, requests, &mut self.parking);
        self.joints.by_ticket.insert(ticket, joint);
        ticket
    }

    /// Holds the command's keys; otherwise it waits for the end of another hold.
    fn hold(&mut self, request: Request<'_>, own: &[HashedKey<'_>], progress: &mut Progress) -> bool {
        let (holds, index) = (&self.executor.holds, self.executor.index);
        if progress.hold.is_none() {
            progress.hold = holds.request(request.keys, progress.is_write, index);
        }
        progress.hold.as_ref().is_some_and(|hold| self.executor.grant(hold, own, request.found.spec))
    }

    /// Whether there is memory for this node's part, if it takes any.
    fn has_room_for(&mut self, now: Now, request: Request<'_>, here: &[usize]) -> bool {
        if !request.found.spec.flags.contains(CommandFlags::DENYOOM) || here.is_empty() {
            return true;
        }
        let bytes = request.part(here).iter().map(|word| word.len()).sum();
        let is_ample = bytes < LARGE_REQUEST_BYTES && !self.executor.store.is_short();
        is_ample || self.executor.store.has_room(bytes) || self.executor.expire_for(now.wall, bytes)
    }

    fn is_present(&self, now: Now, key: HashedKey<'_>) -> bool {
        match self.executor.store.pin().get(key) {
            Entry::Value(record) => !record.is_expired(now.wall),
            Entry::Tombstone(_) | Entry::Absent => false,
        }
    }

    /// Concludes joint commands whose parts at other nodes have all ended. `now`: a new range table alone
    /// leads to no part of this node's.
    pub(crate) fn conclude_joints(&mut self, now: Option<Now>) {
        let shown = self.executor.shown;
        while let Some(ticket) = self.lines.poll_joint_over() {
            let Some(mut joint) = self.joints.take(ticket) else { continue };
            let ended = match self.lines.take_endings(ticket) {
                Ok(endings) => self.end_of_round(now, &mut joint, endings),
                Err(_) => Ended::ReplyTooLong,
            };
            let goes_on = matches!(ended, Ended::Again { .. });
            if !goes_on || !joint.progress.is_write || !joint.progress.has_done() {
                joint.progress.hold = None;
            }
            joint.ended = Some(ended);
            if joint.has_client {
                self.joints.by_ticket.insert(ticket, joint);
                self.parking.wake(ticket);
            }
        }
        assert_eq!(self.executor.shown, shown, "C5: each part is shown by its own command's reply");
    }

    fn end_of_round(&mut self, now: Option<Now>, joint: &mut Joint, endings: Vec<(u32, Ending)>) -> Ended {
        for (part, ending) in &endings {
            if let (Ending::Silent | Ending::Unreachable, Some(now)) = (ending, now) {
                self.executor.shared.suspects.add(joint.nodes[*part as usize], now.mono);
            }
        }
        let split = joint.found.spec.split;
        match joint.progress.settle(endings, split) {
            Settled::Reply(_) => unreachable!("a joint command has no whole at another node"),
            Settled::Failed(failure) => Ended::Failed(joint.progress.failed(failure)),
            Settled::GoOn { was_elsewhere } if joint.progress.todo().ne(joint.here.iter().copied()) => {
                if !joint.progress.is_write {
                    joint.progress.start_again();
                }
                Ended::Again { was_elsewhere }
            }
            // A part was refused its condition.
            Settled::GoOn { .. } if split == Split::AllOrNone && !joint.progress.has_any() => {
                joint.reply(self.executor.reply_bytes)
            }
            Settled::GoOn { .. } => {
                let now = now.expect("the last of other nodes' parts was answered just now");
                match self.run_own_part(now, joint) {
                    Ok(()) => joint.reply(self.executor.reply_bytes),
                    Err(Some(error)) => Ended::Failed(error),
                    Err(None) => Ended::ReplyTooLong,
                }
            }
        }
    }

    /// Runs this node's part; `None` if its reply is too long.
    fn run_own_part(&mut self, now: Now, joint: &mut Joint) -> Result<(), Option<ReplyError>> {
        if joint.here.is_empty() {
            return Ok(());
        }
        let words: Vec<&[u8]> = joint.words.iter().map(|word| &word[..]).collect();
        let keys = keys_of(joint.found, &words);
        let part = Request { found: joint.found, keys: &keys, args: &words };
        let needs_old = needs_old_values(part);
        // D4, and the barrier waits for it: see `Joints::oldest_table`.
        let current = std::mem::replace(&mut self.executor.ranges, Arc::clone(&joint.ranges));
        let clearance = {
            let keys = keys.iter().copied().enumerate();
            let judgement = judge(
                &joint.ranges,
                &self.executor.store,
                self.executor.step,
                keys,
                needs_old,
                &joint.settled,
            );
            assert!(matches!(judgement.verdict, Verdict::Run), "D3: what was here when it began has gone");
            Clearance::new(part, judgement.is_tracked, &judgement.unseen)
        };
        let mut session = self.joints.session.take().unwrap_or_else(|| {
            let client = self.executor.shared.clients.unlisted(String::new(), WallMs(0));
            Box::new(Session::forwarded(client, joint.version))
        });
        session.version = joint.version;
        let mut reply = Vec::new();
        self.executor.has_hold = joint.progress.hold.is_some();
        let shown = std::mem::take(&mut self.executor.shown);
        let (result, is_cut) = self.call(now, &mut session, part, &clearance, &mut reply);
        if !fault!(OwnPartPassesTheGate) {
            joint.shown = std::mem::replace(&mut self.executor.shown, shown);
        }
        self.executor.has_hold = false;
        self.executor.has_run = false;
        self.executor.ranges = current;
        self.joints.session = Some(session);
        if let Err(error) = result {
            return Err(Some(joint.progress.refused(error)));
        }
        if is_cut {
            return Err(None);
        }
        let taken = joint.progress.take_in(&joint.here, &reply, joint.found.spec.split);
        taken.map_err(|failure| Some(joint.progress.failed(failure)))
    }

    /// Continues a joint command for its client, after its parts have ended.
    #[cold]
    pub(crate) fn resume_joint(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        joint: Joint,
        out: &mut Vec<u8>,
    ) -> Attempt {
        session.client.collected.set(0);
        let has_reader = session.sends_reply();
        // Its time counts for the command.
        self.executor.has_run = true;
        self.executor.shown = self.executor.shown.max(joint.shown);
        match joint.ended.expect("it is woken when it has ended") {
            Ended::Reply(reply) => {
                out.extend_from_slice(&reply);
                Attempt::Ran(Ok(Flow::Done))
            }
            Ended::Failed(error) => Attempt::Ran(Err(error)),
            Ended::ReplyTooLong if has_reader => Attempt::ReplyTooLong,
            Ended::ReplyTooLong => Attempt::Ran(Ok(Flow::Done)),
            Ended::Again { was_elsewhere } => {
                self.executor.has_run = false;
                self.again(now, session, request, joint.progress, was_elsewhere, out)
            }
        }
    }

    /// A command's client has gone. What may have begun elsewhere goes on, so that nobody sees half of it.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.parking.forget(ticket);
        self.blocked.forget(ticket);
        self.held_up.remove(ticket);
        self.execs.left(ticket);
        let joint = self.joints.by_ticket.get_mut(&ticket);
        match joint.filter(|joint| joint.progress.is_write && self.lines.has_begun(ticket)) {
            Some(joint) => {
                joint.has_client = false;
                self.lines.leave_alone(ticket);
            }
            None => {
                self.joints.by_ticket.remove(&ticket);
                self.lines.forget(ticket);
            }
        }
    }
}

/// Of what an import has answered for, what belongs to these keys, by their place among them.
fn among(keys: &[usize], settled: &Asked) -> Asked {
    let place = |&(migration, key): &(_, u32)| {
        let place = keys.iter().position(|&index| index == key as usize)?;
        Some((migration, place as u32))
    };
    settled.iter().filter_map(place).collect()
}
