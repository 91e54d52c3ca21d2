//! The dispatcher's handling of commands with keys elsewhere, all or some of them.

use super::channels::Forwarded;
use super::progress::{Progress, Settled};
use super::{Ending, PATIENCE_US};
use crate::attempt::Attempt;
use crate::call::Flow;
use crate::dispatch::Dispatcher;
use crate::now::Now;
use crate::queue::Ticket;
use crate::range_table::Redirect;
use crate::refusals::{CROSSSLOT, NOT_SERVED, cannot_be_split, redirect_error, several_owners};
use crate::request::Request;
use crate::routing::Missing;
use crate::session::Session;
use sidle_cluster::NodeInfo;
use sidle_commands::{CommandFlags, ReplyError, Split};
use sidle_migration::ImportView;
use sidle_resp::RequestWriter;
use sidle_types::{MonotonicUs, NodeId, fault};
use smallvec::smallvec;
use std::sync::Arc;

/// The owners of the keys still to be done, by number.
pub(super) struct Places {
    pub(super) here: Vec<usize>,
    pub(super) elsewhere: Vec<(NodeInfo, Vec<usize>)>,
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
            Settled::GoOn { was_elsewhere } => {
                self.again(now, session, request, progress, was_elsewhere, out)
            }
        }
    }

    /// Continues with the keys that are left.
    pub(super) fn again(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        progress: Box<Progress>,
        was_elsewhere: bool,
        out: &mut Vec<u8>,
    ) -> Attempt {
        if let Some(error) = progress.overdue(now.mono) {
            return Attempt::Ran(Err(error));
        }
        if was_elsewhere && let Some(import) = self.left_to_source(request) {
            // It is in transit.
            let migration = import.id();
            return Attempt::Pull(smallvec![Missing { migration, key: 0 }]);
        }
        // Without a newer map than the last one the answer would be the same.
        if was_elsewhere && progress.sent_under == self.executor.seen {
            session.route.forward = Some(progress);
            return Attempt::Parked(self.lines.park_to_look_again(now.mono, &mut self.parking));
        }
        self.go_on(now, session, request, progress, out)
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
        if request.found.spec.flags.contains(CommandFlags::TRANSACTION) {
            return Attempt::Refused(several_owners(
                &self.executor.ranges,
                request.found.spec.name,
                request.keys,
            ));
        }
        let (keys, is_write) = (request.keys, request.found.spec.access.is_write());
        let mut progress = Box::new(Progress::new(now.mono, keys[0].slot(), is_write, keys.len()));
        progress.hold = session.route.place.take();
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
        match self.places(request, &progress, session) {
            Err(error) if progress.has_done() => Attempt::Ran(Err(progress.refused(error))),
            Err(error) => Attempt::Refused(error),
            // All of it has arrived here meanwhile.
            Ok(Places { elsewhere, .. }) if elsewhere.is_empty() && !progress.has_done() => {
                // Its own hold would be in its way.
                drop(progress);
                match self.attempt(now, session, request, out) {
                    // Its range began to arrive meanwhile, and it is left to the source.
                    Attempt::Elsewhere => self.forward(now, session, request, out),
                    attempt => attempt,
                }
            }
            Ok(mut places) => match (&places.here[..], places.elsewhere.len()) {
                ([], 1) if !progress.has_done() => {
                    let (node, _) = places.elsewhere.remove(0);
                    Attempt::Parked(self.send_whole(now.mono, session, request, progress, node))
                }
                _ => self.begin_joint(now, session, request, progress, places, out),
            },
        }
    }

    /// The owners of the keys still to be done; an error if there is none to forward to.
    ///
    /// An opted-in client knows positions, and this one request of its belongs to the shown owner.
    fn places(
        &self,
        request: Request<'_>,
        progress: &Progress,
        session: &Session,
    ) -> Result<Places, ReplyError> {
        let keys = request.keys;
        let spec = request.found.spec;
        // Before any part is sent: a part that ran could not be taken back.
        if !spec.keys.are_whole(request.args.len()) {
            return Err(ReplyError::WrongArity(spec.name));
        }
        let mut places = Places { here: Vec::new(), elsewhere: Vec::new() };
        for index in progress.todo() {
            let position = keys[index].position();
            if let Some(import) = self.left_to_source(request) {
                places.elsewhere.push((self.member(import.source()), vec![index]));
                continue;
            }
            let entry = self.executor.ranges.entry_at(position);
            if entry.role.is_served() {
                places.here.push(index);
                continue;
            }
            match self.executor.ranges.redirect(position) {
                Redirect::NotServed => return Err(NOT_SERVED),
                // F3: starting again at another node would repeat what is done.
                Redirect::Moved(slot, shown) if !progress.has_done() && !session.forwards_all => {
                    let is_one_slot = keys.iter().all(|key| key.slot() == slot);
                    let to = if session.capa_sidle {
                        Redirect::Ask(slot, shown)
                    } else {
                        Redirect::Moved(slot, shown)
                    };
                    return Err(if is_one_slot { redirect_error(to) } else { CROSSSLOT });
                }
                Redirect::Moved(..) | Redirect::Ask(..) => {}
            }
            match places.elsewhere.iter_mut().find(|(node, _)| node.id == entry.owner) {
                Some((_, of_node)) => of_node.push(index),
                None => places.elsewhere.push((self.member(entry.owner), vec![index])),
            }
        }
        let nodes = usize::from(!places.here.is_empty()) + places.elsewhere.len();
        let most = match spec.split {
            Split::Never => 1,
            // The last of them decides, and this node's part is the last.
            Split::AllOrNone if places.here.is_empty() => 1,
            Split::AllOrNone => 2,
            Split::Each | Split::Sum | Split::AllOk => usize::MAX,
        };
        if nodes > most {
            Err(cannot_be_split(&self.executor.ranges, request.found.spec.name, keys[0].slot()))
        } else {
            Ok(places)
        }
    }

    /// The import whose source serves the only key of a command until its turn comes.
    pub(crate) fn left_to_source(&self, request: Request<'_>) -> Option<&ImportView> {
        let [key] = request.keys else { return None };
        self.executor.ranges.left_to_source(key.position(), self.executor.store.is_short())
    }

    /// Whether a command waits for its key at the node that gives it: nobody serves a large collection while
    /// all of it is in transit. One that may stay there for its client's sake, or needs other keys, does not.
    #[cold]
    pub(crate) fn is_left_to_source(&self, request: Request<'_>) -> bool {
        let flags = request.found.spec.flags;
        let stays = flags.contains(CommandFlags::BLOCKING) || flags.contains(CommandFlags::TRANSACTION);
        !stays && self.left_to_source(request).is_some()
    }

    fn member(&self, node: NodeId) -> NodeInfo {
        let member = self.executor.ranges.map().node(node);
        member.expect("an owner, or a migration's source, is a member").clone()
    }

    /// Sends the command as it is to the owner of all of its keys.
    fn send_whole(
        &mut self,
        now: MonotonicUs,
        session: &mut Session,
        request: Request<'_>,
        progress: Box<Progress>,
        node: NodeInfo,
    ) -> Ticket {
        let mut progress = progress.without_hold();
        let version = session.version;
        if !self.lines.has_room(node.id, version) {
            session.route.forward = Some(progress);
            return self.lines.park_for_room(now, &mut self.parking);
        }
        progress.sent_under = self.executor.seen;
        progress.send_whole();
        let mut bytes = Vec::new();
        RequestWriter::new(&mut bytes).request(request.args);
        self.executor.stats.forwarded.add(1);
        let command = Forwarded {
            until: progress.since.plus_us(PATIENCE_US),
            version,
            collected: Arc::clone(&session.client.collected),
            reply_bytes: 0,
            other_bytes: progress.held_bytes(),
            most_bytes: self.executor.reply_bytes,
            is_joint: false,
        };
        session.route.forward = Some(progress);
        self.lines.send(now, command, vec![(node, bytes)], &mut self.parking)
    }
}
