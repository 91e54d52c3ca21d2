//! The coordinator: who is a member, who owns what, which migrations run.
//!
//! # Invariants
//! 1. Every change is committed before anything is sent or announced because of it; after a failed commit
//!    nothing is.
//! 2. A range changes its owner only when a migration of it starts to run or is taken back (7), at an epoch
//!    above all earlier ones (M1).
//! 3. The end of a migration that ran is committed before its source may release anything (M8).
//! 4. Whatever was arranged with one incarnation of a node is void in its next: a restart ends every
//!    migration that the node prepared or ran. If it was the target, the end waits until the source is known
//!    to have frozen the range: with the end the target's new incarnation serves it (M1). One that runs goes
//!    on instead where the node's durable log goes back to the incarnation that took part: the commit that
//!    lets the new one in puts it in its place.
//! 5. Everything outside the metadata may be lost: a new coordinator on the same metadata asks again for
//!    whatever it needs (M10).
//! 6. When a range changes its owner, the target uses the new map before anybody else receives it, unless it
//!    is down. So a target expects the clients that the source redirects. In the other order the two would
//!    redirect clients to each other, and clients give up after 3 to 16 redirections.
//! 7. A range goes back to its source only if the source has been sent no map in which the migration runs.
//!    Then the source has served it throughout. The target serves only what the source has frozen, so nothing
//!    of it (M1). A coordinator that opens assumes every such map sent. While it is unknown whether the
//!    range's return is committed, none is sent.
//!
//! 8. A migration that gives its range bit by bit turns back in one change: it ends, and its way back runs.
//!    The target has settled before: nothing is in transit, and neither end's share of the range changes
//!    until it uses the map of that change. The source has noted its share, so that each may restart. So each
//!    position keeps its owner over the turn (M20). A way back never goes back as in 7: its target owns a
//!    share from the start.
//!
//! 9. What a dead node had is taken over by a change of owners in one commit, with an epoch of its log that
//!    no writer has. Nothing but a later incarnation of that node is a member from then on.
//!
//! 10. A coordinator whose store reports that another one has it sends nothing any more, of what waits
//!     either, and commits nothing. Before it knows, its messages carry its term. Whoever has heard of its
//!     successor drops them ([`HighestTerm`](crate::HighestTerm)).
//!
//! # Realises
//! Migration steps 1, 2 and 9 and cancellation. A migration is `Queued` (if an earlier one shares a node with
//! it), then `Preparing` (survey of the source; commit of the result; preparation of the target, by a copy if
//! the protocol copies first), then `Running` (the target owns the range), then `Done`; `Cancelled` only from
//! the first two, or of what is given bit by bit, until all is given; `Failed` from any of the three.
//!
//! When a node restarts without its data while a migration of its own runs, no answer can be both complete
//! and right. The coordinator chooses right: the target keeps the range, because only it knows which of the
//! source's frozen values are stale.
//! - The source restarted: what had not arrived is lost; the target answers "absent" for it.
//! - The target restarted, and the source may have frozen the range: the range's whole content is lost. The
//!   frozen copy is too, since newer writes may have been acknowledged for any of it. The target owns the
//!   range, with what its durable log has of it.
//!
//! A node that is only silent loses nothing: its migrations stall until it is back, or back in a new
//! incarnation. If the target restarts, is silent or fails before the source knows that the migration runs,
//! it does not run: the range goes back to the source (7).
//!
//! # Ownership
//! One thread, the control thread of the process that runs the coordinator. Call [`Coordinator::handle`] for
//! every message, and with [`CoordinatorInput::Timer`] once [`Coordinator::poll_timeout`] has passed. After
//! each call drain [`Coordinator::poll_transmit`] and [`Coordinator::poll_event`], then ask for the timeout
//! again. The driver drops a message to a node without a connection: it is repeated.

mod attempt;
mod event;
mod hindered;
mod joins;
mod maps;
mod members;
mod rebinding;
mod record;
mod report;
mod requests;
mod steps;
mod takeovers;
mod upgrade;
mod waits;

pub use event::{CoordinatorEvent, CoordinatorInput, Founding};

use crate::bounds::Bounded;
use crate::limits::{MAX_NODES, MAX_UNFINISHED, REQUEST_WINDOW};
use crate::timing::{COMMIT_RETRY_US, HEARTBEAT_INTERVAL_US, STANDSTILL_US};
use crate::{
    ClusterId, CoordinatorSays, Heartbeat, KnownStart, Legacy, LogCopies, MetaError, MetaStore, Metadata,
    MigrationRecord, MigrationState, NodeInfo, NodeName, NodeSays, ReadProtocol, Refusal, Reply, RequestKey,
    StatusReport, TabletMap, Takeover, ToCoordinator, ToNode,
};
use attempt::{Attempt, Attempts, Speaker};
use event::Outbox;
use hindered::Hindered;
use joins::Judge;
use maps::Maps;
use members::{Member, Members, Process, incarnation_of, shown};
use rebinding::Rebinding;
use record::Record;
use report::Reporter;
use sidle_types::{Fill, MigrationId, MonotonicUs, NodeId, PositionRange, TabletEpoch, fault};
use std::sync::Arc;
use steps::{Step, Steps, questions};
use takeovers::FailedTakeovers;
use waits::Waits;

/// The coordinator's state machine. The module's header has its rules and the order of calls.
#[derive(Debug)]
pub struct Coordinator<M> {
    meta: M,
    /// As last committed, except that the numbers of migrations whose commit failed stay used.
    data: Metadata,
    read_protocol: ReadProtocol,
    record: Record,
    members: Members,
    attempts: Attempts,
    waits: Waits,
    failed_takeovers: FailedTakeovers,
    hindered: Hindered,
    /// Set while the store may differ from `data`: when to write `data` again.
    commit_retry_at: Option<MonotonicUs>,
    out: Outbox,
}

impl<M: MetaStore> Coordinator<M> {
    /// Opens the coordinator on the store's content, or founds a cluster in an empty store. `read_protocol`
    /// knows the protocols that a migration may name.
    ///
    /// # Errors
    /// An unreadable record, or one in a version that the program does not speak, is left unchanged.
    pub fn open(
        now: MonotonicUs,
        mut meta: M,
        founding: Founding,
        read_protocol: ReadProtocol,
    ) -> Result<Coordinator<M>, MetaError> {
        let (seat, speaks) = (founding.first.id, founding.speaks);
        let mut data = match meta.load()? {
            Some(data) => data,
            None => {
                let NodeInfo { id: node, incarnation, .. } = founding.first;
                let map = TabletMap::founded_by(founding.first).in_version(speaks.highest);
                let mut data = Metadata::new(founding.cluster, map);
                let (start, speaks) = (founding.start, Some(speaks));
                data.note_start(KnownStart { node, incarnation, start, speaks, log_since: None });
                meta.commit(&data)?;
                data
            }
        };
        data.check()?;
        upgrade::check_spoken(&data, speaks)?;
        let members = Members::new(now, seat, speaks, &data);
        data.leave_out_unsaid();
        let out = Outbox::of_term(meta.term());
        let attempts =
            data.unfinished().map(|record| (record.id, Attempt::taken_over(now, record))).collect();
        Ok(Coordinator {
            meta,
            data,
            read_protocol,
            record: Record::new(now),
            members,
            attempts,
            waits: Waits::default(),
            failed_takeovers: FailedTakeovers::default(),
            hindered: Hindered::default(),
            commit_retry_at: None,
            out,
        })
    }

    /// Handles an input.
    pub fn handle(&mut self, now: MonotonicUs, input: CoordinatorInput) {
        if self.is_deposed() {
            return;
        }
        if self.poll_timeout().is_some_and(|due| now > due.plus_us(STANDSTILL_US)) {
            // Its process or machine was paused: messages sent meanwhile have yet to arrive.
            self.members.listens_from = now.plus_us(2 * HEARTBEAT_INTERVAL_US);
        }
        match input {
            CoordinatorInput::Message(message) => self.message(now, message),
            CoordinatorInput::Disconnected { node } => {
                self.members.by_id.entry(node).and_modify(|member| member.disconnected = true);
            }
            CoordinatorInput::Timer => {}
        }
        self.keep_record(now);
        for node in self.members.suspect(now) {
            self.out.event(CoordinatorEvent::NodeSuspected { node });
        }
        self.advance(now);
        self.resend(now);
        self.answer_waits(now);
    }

    /// The next message to a node.
    pub fn poll_transmit(&mut self) -> Option<ToNode> {
        self.out.transmit.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<CoordinatorEvent> {
        self.out.events.pop_front()
    }

    /// When to call [`Coordinator::handle`] with [`CoordinatorInput::Timer`] if nothing else happens.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        if self.is_deposed() {
            return None;
        }
        let attempts =
            self.data.waiting.iter().filter_map(|record| self.attempts.get(&record.id)?.timeout(record));
        // No step precedes the next try of the commit.
        let attempts = attempts.map(|at| self.commit_retry_at.map_or(at, |retry| at.max(retry)));
        let others = [self.maps().timeout(), self.commit_retry_at, self.waits.timeout()];
        attempts.chain(others.into_iter().flatten()).chain([self.record.due_at()]).min()
    }

    /// Whether another coordinator has taken over (invariant 10). This one is of no use any more.
    pub const fn is_deposed(&self) -> bool {
        self.out.is_closed()
    }

    /// The name of the cluster.
    pub const fn cluster(&self) -> ClusterId {
        self.data.cluster
    }

    /// All its metadata, as last committed.
    pub const fn data(&self) -> &Metadata {
        &self.data
    }

    /// The present map.
    pub const fn map(&self) -> &Arc<TabletMap> {
        &self.data.map
    }

    /// The store.
    pub const fn meta(&self) -> &M {
        &self.meta
    }

    /// The store, to make it fail in tests or to close it.
    pub const fn meta_mut(&mut self) -> &mut M {
        &mut self.meta
    }

    /// Returns the store, and forgets everything that is not in it.
    pub fn into_meta(self) -> M {
        self.meta
    }

    /// The members on other nodes that are silent, or have sent nothing yet, except those whose address
    /// belongs to a member that sends. They may look for the coordinator at its former address, and can be
    /// sent its new one.
    pub fn silent_members(&self, now: MonotonicUs) -> impl Iterator<Item = &NodeInfo> {
        self.members.silent(now, &self.data.map)
    }

    /// Whether the range of a running migration goes back to its source if the target dies now (invariant 7).
    pub fn would_give_back(&self, id: MigrationId) -> bool {
        self.attempts.get(&id).is_some_and(|attempt| attempt.is_withheld)
    }

    /// The cluster as the coordinator sees it.
    pub fn report(&self, now: MonotonicUs) -> StatusReport {
        let Coordinator { data, members, attempts, record, failed_takeovers, hindered, .. } = self;
        let rebinding = self.rebinding();
        Reporter { data, members, attempts, record, rebinding, failed_takeovers, hindered }.report(now)
    }

    fn judge(&self, now: MonotonicUs) -> Judge<'_> {
        Judge { now, data: &self.data, members: &self.members }
    }

    fn maps(&self) -> Maps<'_> {
        let Coordinator { data, members, attempts, commit_retry_at, .. } = self;
        Maps { data, members, attempts, is_unsure: commit_retry_at.is_some() }
    }

    fn rebinding(&self) -> Rebinding<'_> {
        Rebinding { data: &self.data }
    }

    fn steps(&self) -> Steps<'_> {
        let Coordinator { data, members, attempts, read_protocol, .. } = self;
        Steps { data, members, attempts, read_protocol: *read_protocol }
    }

    /// Makes `next` the metadata (invariant 1). After an error the old metadata holds and nothing may be
    /// done. What the next start could not read is refused before it is written.
    fn commit(&mut self, now: MonotonicUs, next: Metadata) -> Result<(), MetaError> {
        if let Err(error) = next.check() {
            self.out.event(CoordinatorEvent::CommitFailed { error: error.clone() });
            return Err(error);
        }
        match self.meta.commit(&next) {
            Ok(()) => {
                self.data = next;
                self.commit_retry_at = None;
                self.record.failed = None;
                Ok(())
            }
            Err(_) if fault!(ActBeforeCommit) => {
                self.data = next;
                Ok(())
            }
            Err(MetaError::Deposed) => {
                self.depose();
                Err(MetaError::Deposed)
            }
            Err(error) => {
                // The store may still hold `next`, so the numbers in it stay used.
                self.data.next_migration = next.next_migration;
                self.commit_retry_at = Some(now.plus_us(COMMIT_RETRY_US));
                self.record.failed = Some(error.clone());
                self.out.event(CoordinatorEvent::CommitFailed { error: error.clone() });
                Err(error)
            }
        }
    }

    /// Another coordinator has the store.
    fn depose(&mut self) {
        if !self.is_deposed() {
            self.out.close();
            self.out.event(CoordinatorEvent::Deposed);
        }
    }

    /// How full its queues are.
    pub fn queues(&self) -> impl Iterator<Item = Fill> {
        let own = [
            Fill::new("migrations under way or queued", self.data.unfinished().count(), MAX_UNFINISHED),
            Fill::new("members", self.members.by_id.len(), MAX_NODES),
            Fill::new("attempts at migrations", self.attempts.len(), MAX_UNFINISHED),
            self.waits.queue(),
        ];
        let answers = |member: &Member| {
            Fill::new("answers kept for a node", member.refusals.len(), REQUEST_WINDOW as usize)
        };
        own.into_iter().chain(self.out.queues()).chain(self.members.by_id.values().map(answers))
    }

    fn message(&mut self, now: MonotonicUs, message: ToCoordinator) {
        // A message of the coordinator's own node arrives unparsed, so its bounds are checked here.
        if message.check_bounds().is_err() {
            return;
        }
        let ToCoordinator { from, incarnation, body } = message;
        let body = match body {
            NodeSays::Join { client_addr, bus_addr, cluster, start, speaks, log_since } => {
                let info = NodeInfo { id: from, incarnation, client_addr, bus_addr };
                return self.join(now, info, Process { start, speaks, log_since }, cluster);
            }
            NodeSays::AsksForLog { log } => {
                let taken_over = self.data.has_taken_over(from, log);
                let fate = CoordinatorSays::LogFate { log, taken_over };
                return self.out.send_to_life(from, incarnation, fate);
            }
            body => body,
        };
        if self.data.taken_over(from).is_some_and(|last| incarnation <= last) {
            return self.out.send_to_life(from, incarnation, CoordinatorSays::Superseded);
        }
        match self.data.map.node(from) {
            Some(member) if member.incarnation == incarnation => {}
            Some(member) if member.incarnation > incarnation => {
                return self.out.send_to_life(from, incarnation, CoordinatorSays::Superseded);
            }
            _ => return self.out.send_to_life(from, incarnation, CoordinatorSays::JoinAgain),
        }
        self.heard(now, from);
        match body {
            NodeSays::Join { .. } | NodeSays::AsksForLog { .. } => unreachable!("handled above"),
            NodeSays::Heartbeat(heartbeat) => self.heartbeat(from, heartbeat),
            NodeSays::Request { number, oldest_open, request } => {
                self.request(now, from, incarnation, number, oldest_open, request);
            }
            NodeSays::Copies { copies } if self.data.is_taken_over(from, &copies) => {
                // A later incarnation began with the log before it was taken over.
                self.out.send_to_life(from, incarnation, CoordinatorSays::Superseded);
            }
            NodeSays::Copies { copies } => self.copies(now, from, copies),
            NodeSays::TookOver { range, epoch } => self.took_over(now, from, range, epoch),
            NodeSays::CannotTakeOver { range, epoch, why } => {
                self.cannot_take_over(now, from, (range, epoch), why);
            }
            body => self.migration_message(now, from, body),
        }
    }

    /// Decides which copies of a member's log count, if that follows the present record. Answers with the
    /// record: what was decided before is answered again.
    fn copies(&mut self, now: MonotonicUs, node: NodeId, copies: LogCopies) {
        let is_spoken = self.data.map.version().has_log_copies();
        if is_spoken && copies.follows(self.data.copies_of(node)) {
            let mut next = self.data.clone();
            next.note_copies(node, copies);
            if self.commit(now, next).is_err() {
                return;
            }
        }
        let copies = self.data.copies_of(node).cloned();
        self.out.send(&self.data.map, node, CoordinatorSays::Copies { copies });
    }

    fn heartbeat(&mut self, node: NodeId, heartbeat: Heartbeat) {
        let (claimed, present) = (heartbeat.map_epoch, self.data.map.epoch());
        let Some(member) = self.members.get_mut(node) else { return };
        member.load = heartbeat.load;
        member.trouble = heartbeat.trouble;
        if claimed <= present {
            member.map_epoch = member.map_epoch.max(claimed);
        } else if member.claimed_epoch.replace(claimed).is_none() {
            // If believed, it would be sent no map any more, and would count as having frozen what it gave
            // away.
            self.out.event(CoordinatorEvent::UnknownMap { node, claimed, present });
        }
        for migration in heartbeat.holds {
            if !self.data.unfinished().any(|record| record.id == migration) && !fault!(EndToldOnce) {
                self.send_over(node, migration);
            }
        }
        let health = Some(self.members.health()).filter(|health| health.fingerprint() != heartbeat.health);
        let heard = CoordinatorSays::Heard { map_epoch: present, health };
        self.out.send(&self.data.map, node, heard);
        if self.members.speaks_of(node).is_none() {
            // An upgrade needs to know. Its join, the same as before, reports it.
            self.out.send(&self.data.map, node, CoordinatorSays::JoinAgain);
        }
    }

    /// Sends a node a migration's end; `None`: it is no longer remembered.
    fn send_over(&mut self, node: NodeId, migration: MigrationId) {
        let record = self.data.migration(migration).cloned().map(Box::new);
        let map_epoch = self.data.map.epoch();
        self.out.send(&self.data.map, node, CoordinatorSays::Over { migration, record, map_epoch });
    }

    /// Repeats whatever was not answered or acknowledged in time.
    fn resend(&mut self, now: MonotonicUs) {
        let map = Arc::clone(&self.data.map);
        for node in self.maps().due(now) {
            self.note_map_sent(now, node);
            self.out.send(&map, node, CoordinatorSays::MapUpdate { map: Arc::clone(&map) });
        }
        for (node, question) in questions(now, &self.data, &mut self.attempts, self.read_protocol) {
            self.out.send(&map, node, question);
        }
    }

    /// Notes that the node is being sent the present map.
    fn note_map_sent(&mut self, now: MonotonicUs, node: NodeId) {
        if let Some(member) = self.members.get_mut(node) {
            member.map_sent = Some((self.data.map.epoch(), now));
        }
        for record in self.data.map.migrations().iter().filter(|record| record.source == node) {
            self.attempts.entry(record.id).and_modify(|attempt| attempt.is_withheld = false);
        }
    }

    /// Takes in that a node has sent something.
    fn heard(&mut self, now: MonotonicUs, node: NodeId) {
        if self.members.heard(now, node) {
            self.out.event(CoordinatorEvent::NodeBack { node });
        }
    }

    /// Takes in a node's message about a migration that it takes part in (M9: anything else is dropped).
    fn migration_message(&mut self, now: MonotonicUs, from: NodeId, body: NodeSays) {
        let migration = match &body {
            NodeSays::Surveyed { migration, .. }
            | NodeSays::Prepared { migration }
            | NodeSays::PrepareRefused { migration, .. }
            | NodeSays::Progress { migration, .. }
            | NodeSays::Finished { migration, .. }
            | NodeSays::Broken { migration, .. } => *migration,
            NodeSays::Join { .. }
            | NodeSays::AsksForLog { .. }
            | NodeSays::Heartbeat(_)
            | NodeSays::Copies { .. }
            | NodeSays::TookOver { .. }
            | NodeSays::CannotTakeOver { .. }
            | NodeSays::Request { .. } => return,
        };
        let Some(record) = self.data.unfinished().find(|record| record.id == migration) else { return };
        let copies_before = self.steps().copies_in_preparation(record);
        let life = (from, incarnation_of(&self.data, from));
        let speaker = Speaker {
            is_source: (record.source, record.source_incarnation) == life,
            is_target: (record.target, record.target_incarnation) == life,
            shown: shown(&self.data, from),
        };
        let Some(attempt) = self.attempts.get_mut(&migration) else { return };
        if attempt.hear(now, record, copies_before, speaker, body) {
            self.answer_start(migration);
        }
    }

    /// Checks the record, and whether too many members are idle, if that is due. After a failed commit the
    /// next commit writes the record, or returns why not.
    fn keep_record(&mut self, now: MonotonicUs) {
        if now < self.record.due_at() {
            return;
        }
        self.record.checked_at = now;
        self.forget_surplus(now);
        if self.commit_retry_at.is_some() {
            return;
        }
        match self.record.look(&mut self.meta, &self.data) {
            Some(CoordinatorEvent::RecordGone { error: MetaError::Deposed }) => self.depose(),
            Some(event) => self.out.event(event),
            None => {}
        }
    }

    /// Answers the waits whose time is up, and those for migrations that are over.
    fn answer_waits(&mut self, now: MonotonicUs) {
        for RequestKey { node, incarnation, number } in self.waits.take_due(now, &self.data) {
            let reply = Reply::Status(Box::new(self.report(now)));
            self.out.send_to_life(node, incarnation, CoordinatorSays::Reply { number, reply });
        }
    }

    /// Takes every step that is due, unless the metadata cannot be written now.
    fn advance(&mut self, now: MonotonicUs) {
        if let Some(at) = self.commit_retry_at {
            // After a failed commit the store may hold what was not done; it must hold `data` before anything
            // follows.
            if now < at || self.commit(now, self.data.clone()).is_err() {
                return;
            }
        }
        while let Some((id, step)) = self.steps().due(now) {
            if self.take(now, id, step).is_err() {
                return;
            }
        }
        self.take_over_silent(now);
    }

    /// Commits a step, then does what follows from it.
    fn take(&mut self, now: MonotonicUs, id: MigrationId, step: Step) -> Result<(), MetaError> {
        let is_settled = matches!(step, Step::Settle);
        let is_withheld = matches!(step, Step::Run);
        let is_turn = matches!(step, Step::TurnBack);
        let next = self.steps().metadata_after(now, id, step);
        self.commit(now, next)?;
        if is_settled {
            // What its target reports goes on.
            return Ok(());
        }
        if let Some(record) = self.data.unfinished().find(|record| record.id == id) {
            // The reports so far belong to the state before; the next ones are asked for again.
            let mut attempt = Attempt::new(now, record);
            attempt.is_withheld = is_withheld;
            if let Some(before) = self.attempts.remove(&id) {
                if !record.partitions.is_empty() {
                    attempt.deadline = before.deadline;
                }
                attempt.go_on(before);
            }
            self.attempts.insert(id, attempt);
        }
        self.after_change(id);
        let back = self.data.migration(id).and_then(MigrationRecord::turned_back).filter(|_| is_turn);
        if let Some(record) = back.and_then(|back| self.data.map.migration(back)) {
            let (back, attempt) = (record.id, Attempt::new(now, record));
            self.attempts.insert(back, attempt);
            self.after_change(back);
        }
        Ok(())
    }

    /// Running migrations go on with this incarnation of a node, which is committed.
    fn rebound(&mut self, now: MonotonicUs, node: NodeId, rebound: Vec<MigrationId>) {
        for migration in rebound {
            let record = self.data.map.migration(migration).expect("it runs on");
            let is_target = record.target == node;
            let begins_anew = is_target || self.steps().was_by_cuts(record);
            if let Some(attempt) = self.attempts.get_mut(&migration) {
                // A source that died serves nothing any more.
                attempt.is_withheld &= record.source_log.is_none();
                if begins_anew {
                    attempt.begin_anew(now, record, is_target);
                }
            }
            self.out.event(CoordinatorEvent::GoesOn { migration });
        }
    }

    /// Announces a committed change: the event, the answer to the requester, and the end to both sides.
    fn after_change(&mut self, id: MigrationId) {
        let Some(record) = self.data.migration(id) else { return };
        let (source, target, range) = (record.source, record.target, record.range);
        let state = record.state.clone();
        let is_over = state.is_over();
        self.out.event(CoordinatorEvent::Migration { migration: id, state });
        self.answer_start(id);
        if is_over {
            self.failed_takeovers.forget(range);
            self.attempts.remove(&id);
            self.send_over(source, id);
            self.send_over(target, id);
        }
    }

    /// Has others take over what a node had that is down; in how many ranges that is under way.
    pub(super) fn take_over(&mut self, now: MonotonicUs, name: &NodeName, accepts_loss: bool) -> Reply {
        let begun = self.judge(now).node_called(name).and_then(|node| {
            let under_way = self.data.map.takeovers().iter().filter(|takeover| takeover.dead.from == node);
            let reads =
                |record: &&MigrationRecord| record.source_log.as_ref().is_some_and(|dead| dead.from == node);
            let under_way = under_way.count() + self.data.map.migrations().iter().filter(reads).count();
            let has_ended = self.data.taken_over(node) == Some(incarnation_of(&self.data, node));
            // What the node itself was to read of others is part of it.
            let of_others = |takeover: &&Takeover| takeover.dead.from != node && takeover.is_of_node(node);
            let all = under_way + self.data.map.takeovers().iter().filter(of_others).count();
            if has_ended {
                // A repeated request.
                return Ok(all);
            }
            match self.legacy_of(now, node, accepts_loss) {
                // The same, of a node that is back, and has nothing again.
                Err(Refusal::OwnsNothing { .. } | Refusal::StillUp { .. }) if under_way > 0 => Ok(all),
                Err(refusal) => Err(refusal),
                Ok(legacy) => {
                    let begun = self.take_over_legacy(now, &legacy);
                    begun.map_err(|error| Refusal::not_committed(&error))
                }
            }
        });
        begun.map_or_else(Reply::Refused, |ranges| Reply::TakesOver { ranges })
    }

    /// What others take over of a node. `accepts_loss`: also from copies at nodes that have restarted since,
    /// those of logs among them that the node was to read itself.
    fn legacy_of(&self, now: MonotonicUs, node: NodeId, accepts_loss: bool) -> Result<Legacy, Refusal> {
        let judge = self.judge(now);
        let source_logs = if accepts_loss { judge.source_logs_at_present(node) } else { Vec::new() };
        if source_logs.is_empty() {
            return judge.legacy_of(node, accepts_loss);
        }
        let data = self.data.with_source_logs(&source_logs);
        let legacy = Judge { data: &data, ..judge }.legacy_of(node, accepts_loss)?;
        Ok(Legacy { source_logs, ..legacy })
    }

    /// Has taken over what nodes had that have been silent for as long as they asked for. Their leases are
    /// over before anybody else serves that (Y10 of `sidle-log-copies`).
    fn take_over_silent(&mut self, now: MonotonicUs) {
        let mut hindered = Hindered::default();
        for node in self.judge(now).long_silent() {
            match self.judge(now).legacy_of(node, false) {
                Ok(legacy) if self.take_over_legacy(now, &legacy).is_err() => return,
                Ok(_) => {}
                Err(refusal) => hindered.note(node, &refusal),
            }
        }
        for (node, why) in self.hindered.replace(hindered) {
            self.out.event(CoordinatorEvent::NotTakenOver { node, why });
        }
    }

    /// Others own what a node had; in how many ranges something is to be read.
    fn take_over_legacy(&mut self, now: MonotonicUs, legacy: &Legacy) -> Result<usize, MetaError> {
        let node = legacy.dead.from;
        let mut next = self.data.clone();
        next.take_over(legacy);
        let why = format!("the node {} died; nothing has changed", shown(&self.data, node));
        for &id in &legacy.in_vain {
            next.end(id, MigrationState::Failed { why: why.clone() }, None);
        }
        self.commit(now, next)?;
        legacy.in_vain.iter().for_each(|&id| self.after_change(id));
        let ranges = legacy.takeovers.len() + legacy.exports.len();
        self.out.event(CoordinatorEvent::TakenOver { node, ranges });
        self.rebound(now, node, legacy.exports.clone());
        legacy.takeovers.iter().for_each(|takeover| self.succeeded(now, takeover));
        Ok(ranges)
    }

    /// If another node has taken the place of a migration's target, that is committed: it begins anew.
    fn succeeded(&mut self, now: MonotonicUs, takeover: &Takeover) {
        let record = self.data.map.migration_at(takeover.range.first()).filter(|_| takeover.import.is_some());
        let Some(record) = record else { return };
        let (migration, target) = (record.id, record.target);
        if let Some(attempt) = self.attempts.get_mut(&migration) {
            attempt.begin_anew(now, record, true);
        }
        self.out.event(CoordinatorEvent::HasAnotherTarget { migration, target });
    }

    /// A new owner has everything of its range.
    fn took_over(&mut self, now: MonotonicUs, node: NodeId, range: PositionRange, epoch: TabletEpoch) {
        if self.takeover_by(node, range, epoch).is_none() {
            return;
        }
        let mut next = self.data.clone();
        next.map = Arc::new(next.map.changed(|map| map.taken_over(range)));
        if self.commit(now, next).is_ok() {
            self.failed_takeovers.forget(range);
            self.out.event(CoordinatorEvent::TookOver { node, range });
        }
    }

    /// A new owner cannot read its range, for now. Another one that has not failed lately does it instead.
    fn cannot_take_over(
        &mut self,
        now: MonotonicUs,
        node: NodeId,
        (range, epoch): (PositionRange, TabletEpoch),
        why: String,
    ) {
        let Some(takeover) = self.takeover_by(node, range, epoch) else {
            return self.cannot_read_source_log(now, node, (range, epoch), why);
        };
        let is_new = self.failed_takeovers.add(now, range, node, &why);
        let instead = self.judge(now).instead_of(&takeover, &self.failed_takeovers);
        if let Some(takeover) = &instead {
            let mut next = self.data.clone();
            next.map = Arc::new(next.map.changed(|map| map.take_over(takeover.clone())));
            if self.commit(now, next).is_err() {
                return;
            }
            self.succeeded(now, takeover);
        }
        let instead = instead.map(|takeover| takeover.owner);
        if is_new || instead.is_some() {
            self.out.event(CoordinatorEvent::CannotTakeOver { node, range, why, instead });
        }
    }

    /// The target of a migration cannot read its dead source's log, for now. Nobody does it instead.
    fn cannot_read_source_log(
        &mut self,
        now: MonotonicUs,
        node: NodeId,
        (range, epoch): (PositionRange, TabletEpoch),
        why: String,
    ) {
        let is_it = |record: &&MigrationRecord| {
            let is_read = record.target == node && record.source_log.is_some();
            is_read && (record.range, record.epoch) == (range, epoch)
        };
        let is_read = self.data.map.migrations().iter().any(|record| is_it(&record));
        if is_read && self.failed_takeovers.add(now, range, node, &why) {
            self.out.event(CoordinatorEvent::CannotTakeOver { node, range, why, instead: None });
        }
    }

    /// What this node takes over of this range since this epoch.
    fn takeover_by(&self, node: NodeId, range: PositionRange, epoch: TabletEpoch) -> Option<Takeover> {
        let mut takeovers = self.data.map.takeovers().iter();
        takeovers.find(|takeover| takeover.owner == node && takeover.is_of(range, epoch)).cloned()
    }
}
