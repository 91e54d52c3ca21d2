//! The dispatcher's handling of commands with keys elsewhere, all or some of them.

use super::channels::Forwarded;
use super::progress::{Failure, Progress, Settled};
use super::{Ending, PATIENCE_US};
use crate::call::Flow;
use crate::dispatch::{Attempt, CROSSSLOT, Dispatcher, NOT_SERVED, redirect_error};
use crate::now::Now;
use crate::queue::Ticket;
use crate::range_table::Redirect;
use crate::request::{Clearance, Keys, Request};
use crate::routing::{Verdict, judge};
use crate::session::Session;
use sidle_cluster::NodeInfo;
use sidle_commands::ReplyError;
use sidle_commands::Split;
use sidle_resp::{ReplyWriter, RequestWriter};
use sidle_types::{MonotonicUs, fault};
use std::sync::Arc;

/// The owners of the keys still to be done, by number.
struct Places {
    here: Vec<usize>,
    elsewhere: Vec<(NodeInfo, Vec<usize>)>,
}

impl Dispatcher {
    /// Resumes a command that waited for other nodes, or for keys of its own part, and counts its memory from
    /// then on.
    #[cold]
    pub(crate) fn resume_forwarding(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        progress: Box<Progress>,
        ticket: Ticket,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let attempt = self.take_up(now, session, request, progress, ticket, out);
        let held_bytes = session.route.forward.as_ref().map_or(0, |progress| progress.held_bytes());
        session.client.collected.set(held_bytes as u64);
        attempt
    }

    fn take_up(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        mut progress: Box<Progress>,
        ticket: Ticket,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let Ok(mut ended) = self.lines.take_endings(ticket) else {
            let has_reader = session.sends_reply();
            return if has_reader { Attempt::ReplyTooLong } else { Attempt::Ran(Ok(Flow::Done)) };
        };
        if fault!(LostWriteIsForwardedAgain) {
            for (_, ending) in ended.iter_mut().filter(|(_, ending)| *ending == Ending::Broken) {
                *ending = Ending::MapChanged;
            }
        }
        match progress.settle(ended, request.found.spec.split) {
            Settled::Reply(reply) if reply.len() > self.executor.reply_bytes && session.sends_reply() => {
                Attempt::ReplyTooLong
            }
            Settled::Reply(reply) => {
                out.extend_from_slice(&reply);
                Attempt::Ran(Ok(Flow::Done))
            }
            Settled::Failed(failure) => Attempt::Ran(Err(progress.failed(failure))),
            Settled::GoOn { .. } if now.mono.since(progress.since) >= PATIENCE_US => {
                Attempt::Ran(Err(progress.failed(Failure::Unreachable)))
            }
            // Without a newer map than the last one the answer would be the same.
            Settled::GoOn { was_elsewhere: true } if progress.sent_under == self.executor.seen => {
                session.route.forward = Some(progress);
                Attempt::Parked(self.lines.park_to_look_again(now.mono, &mut self.parking))
            }
            Settled::GoOn { .. } => self.go_on(now, session, request, progress, out),
        }
    }

    /// Forwards a command, or its parts that are elsewhere.
    #[cold]
    pub(crate) fn forward(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let (keys, is_write) = (request.keys, request.found.spec.access.is_write());
        let progress = Box::new(Progress::new(now.mono, keys[0].slot(), is_write, keys.len()));
        self.go_on(now, session, request, progress, out)
    }

    fn go_on(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        progress: Box<Progress>,
        out: &mut Vec<u8>,
    ) -> Attempt {
        match self.places(request, &progress) {
            Err(error) if progress.has_done() => Attempt::Ran(Err(progress.refused(error))),
            Err(error) => Attempt::Refused(error),
            // All of it has arrived here meanwhile.
            Ok(Places { elsewhere, .. }) if elsewhere.is_empty() && !progress.has_done() => {
                self.attempt(now, session, request, out)
            }
            Ok(Places { here, elsewhere }) if elsewhere.is_empty() => {
                self.run_rest(now, session, request, progress, &here, out)
            }
            Ok(places) => {
                let ticket = self.send_parts(now.mono, session, request, progress, places);
                Attempt::Parked(ticket)
            }
        }
    }

    /// The owners of the keys still to be done; an error if there is none to forward to.
    fn places(&self, request: Request<'_>, progress: &Progress) -> Result<Places, ReplyError> {
        let keys = request.keys;
        let spec = request.found.spec;
        // Before any part is sent: a part that ran could not be taken back.
        if !spec.keys.are_whole(request.args.len()) {
            return Err(ReplyError::WrongArity(spec.name));
        }
        let mut places = Places { here: Vec::new(), elsewhere: Vec::new() };
        for index in progress.todo() {
            let position = keys[index].position();
            let entry = self.executor.ranges.entry_at(position);
            if entry.role.is_served() {
                places.here.push(index);
                continue;
            }
            match self.executor.ranges.redirect(position) {
                Redirect::NotServed => return Err(NOT_SERVED),
                // F3: starting again at another node would repeat what is done.
                Redirect::Moved(slot, _) if !progress.has_done() => {
                    let is_one_slot = keys.iter().all(|key| key.slot() == slot);
                    let error = || redirect_error(self.executor.ranges.redirect(position));
                    return Err(if is_one_slot { error() } else { CROSSSLOT });
                }
                Redirect::Moved(..) | Redirect::Ask(..) => {}
            }
            match places.elsewhere.iter_mut().find(|(node, _)| node.id == entry.owner) {
                Some((_, of_node)) => of_node.push(index),
                None => {
                    let node = self.executor.ranges.map().node(entry.owner).expect("every owner is a member");
                    places.elsewhere.push((node.clone(), vec![index]));
                }
            }
        }
        let nodes = usize::from(!places.here.is_empty()) + places.elsewhere.len();
        match nodes > 1 && spec.split == Split::Never {
            true => Err(self.cannot_be_split(request)),
            false => Ok(places),
        }
    }

    /// Sends each part to its owner; this node's part comes last, when the others are done.
    fn send_parts(
        &mut self,
        now: MonotonicUs,
        session: &mut Session,
        request: Request<'_>,
        mut progress: Box<Progress>,
        places: Places,
    ) -> Ticket {
        let Places { here, elsewhere } = places;
        let version = session.version;
        if !elsewhere.iter().all(|(node, _)| self.lines.has_room(node.id, version)) {
            session.route.forward = Some(progress);
            return self.lines.park_for_room(now, &mut self.parking);
        }
        progress.sent_under = self.executor.seen;
        progress.is_whole = here.is_empty() && elsewhere.len() == 1 && !progress.has_done();
        let mut requests = Vec::new();
        for (part, (node, keys)) in elsewhere.into_iter().enumerate() {
            progress.send(part, &keys);
            let mut bytes = Vec::new();
            match progress.is_whole {
                true => RequestWriter::new(&mut bytes).request(request.args),
                false => RequestWriter::new(&mut bytes).request(&request.part(&keys)),
            }
            requests.push((node, bytes));
        }
        self.executor.stats.forwarded.add(requests.len() as u64);
        let reply_bytes = progress.reply_bytes();
        let command = Forwarded {
            since: progress.since,
            version,
            collected: Arc::clone(&session.client.collected),
            reply_bytes,
            other_bytes: progress.held_bytes() - reply_bytes,
            most_bytes: self.executor.reply_bytes,
        };
        session.route.forward = Some(progress);
        self.lines.send(now, command, requests, &mut self.parking)
    }

    /// Runs the rest of a command over these keys, which are here, and answers it.
    fn run_rest(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        mut progress: Box<Progress>,
        here: &[usize],
        out: &mut Vec<u8>,
    ) -> Attempt {
        let spec = request.found.spec;
        if !here.is_empty() {
            let needs_old = self.needs_old_values(request);
            let keys = here.iter().map(|&index| (index, request.keys[index]));
            let settled = &session.route.settled;
            let judgement = judge(&self.executor.ranges, &self.executor.store, keys, needs_old, settled);
            let clearance = Clearance::new(request, judgement.is_tracked, &judgement.unseen);
            match judgement.verdict {
                Verdict::Run => {}
                Verdict::AwaitActivation(migration) => {
                    session.route.forward = Some(progress);
                    return Attempt::AwaitActivation(migration);
                }
                Verdict::NotHereYet(missing) => {
                    session.route.forward = Some(progress);
                    return Attempt::Pull(missing);
                }
                Verdict::Redirect(_) | Verdict::CrossSlot => unreachable!("these keys are served here"),
            }
            let args = request.part(here);
            let keys: Keys<'_> = here.iter().map(|&index| request.keys[index]).collect();
            let part = Request { found: request.found, keys: &keys, args: &args };
            let mut reply = Vec::new();
            let (result, is_cut) = self.call(now, session, part, &clearance, &mut reply);
            if let Err(error) = result {
                return Attempt::Ran(Err(progress.refused(error)));
            }
            if is_cut {
                return Attempt::ReplyTooLong;
            }
            if let Err(failure) = progress.take_in(here, &reply, spec.split) {
                return Attempt::Ran(Err(progress.failed(failure)));
            }
        }
        let mut reply = ReplyWriter::bounded(out, session.version, self.executor.reply_bytes);
        progress.write(spec.split, &mut reply);
        if reply.is_cut() && session.sends_reply() {
            Attempt::ReplyTooLong
        } else {
            Attempt::Ran(Ok(Flow::Done))
        }
    }

    fn cannot_be_split(&self, request: Request<'_>) -> ReplyError {
        let name = request.found.spec.name.to_ascii_uppercase();
        let slot = request.keys[0].slot();
        let own =
            self.executor.ranges.map().node(self.executor.ranges.node()).expect("this node is a member");
        let to = &own.client_addr;
        ReplyError::owned(format!(
            "SIDLESPLIT {name} needs all of its keys on one node, and they lie on two, since hash slot {slot} \
             is split between nodes: move what others own of the slot here (sidle migrate --slots {slot} --to \
             {to}), or name keys of one node only"
        ))
    }
}
