//! The coordinator: who is a member, who owns what, which migrations run.
//!
//! # Invariants
//! 1. Every change is committed before anything is sent or told because of it; after a failed commit nothing
//!    is.
//! 2. A range changes its owner only when a migration of it starts to run or is taken back (7), at an epoch
//!    above all earlier ones (M1).
//! 3. The end of a migration that ran is committed before its source is told to release anything (M8).
//! 4. What was arranged with one incarnation of a node is void in its next incarnation: a restart ends every
//!    migration that the node prepared or ran. If it was the target, the end waits until the source is known
//!    to have frozen the range, because with the end the target's new incarnation serves it (M1).
//! 5. Everything that is kept outside the metadata can be lost: a new coordinator on the same metadata asks
//!    again for whatever it needs to go on (M10).
//! 6. When a range changes its owner the target, unless it is down, uses the new map before anybody else
//!    hears of it. Whom the source redirects is thus awaited at the target. The other way round each would
//!    send clients to the other, and clients give up after 3 to 16 redirections.
//! 7. A range goes back to its source only if the source has been sent no map in which the migration runs. Then
//!    the source has served it all along, and the target, which serves what the source has frozen, nothing
//!    of it (M1). A coordinator that opens takes every such map for sent, and while it is not known whether
//!    the range's return is written down, none is sent.
//!
//! # Realises
//! Migration steps 1, 2 and 9 and cancellation. A migration is `Queued` (if an earlier one shares a node with
//! it), then `Preparing` (survey of the source; the result is committed; preparation of the target, by a copy
//! where the protocol says so), then `Running` (ownership has gone to the target), then `Done`; `Cancelled`
//! only from the first two, `Failed` from any of the three.
//!
//! When a node restarts while a migration of its own runs, no answer can be both complete and right, so the
//! coordinator chooses right: the target keeps the range, because only it knows which of the source's frozen
//! values are stale.
//! - The source restarted: what had not arrived is lost; the target answers "absent" for it.
//! - The target restarted, and the source may have frozen the range: all that the range held is lost, the frozen copy included, since newer writes may
//!   have been acknowledged for any of it; the target owns the range, empty.
//!
//! A node that is only silent loses nothing: its migrations stall until it is back, or back in a new
//! incarnation. And where the target restarts, is silent or cannot go on before the source knows that the
//! migration runs, it does not: the range goes back to the source (7).
//!
//! # Ownership
//! One thread, the control thread of the process that runs the coordinator. Call [`Coordinator::handle`] for
//! every message, and with [`CoordinatorInput::Timer`] once [`Coordinator::poll_timeout`] has passed; after
//! each call take from [`Coordinator::poll_transmit`] and [`Coordinator::poll_event`] until both are empty,
//! then ask for the timeout anew. A message to a node without a connection is dropped by the driver: it is
//! repeated.

mod attempt;
mod joins;
mod members;
mod record;
mod report;
mod requests;
mod steps;
mod waits;

use crate::limits::{MAX_EVENTS, MAX_NODES, MAX_TRANSMIT, MAX_UNFINISHED, MAX_WAITS, REQUEST_WINDOW};
use crate::timing::{HEARTBEAT_INTERVAL_US, STANDSTILL_US};
use crate::{
    ClusterId, CoordinatorSays, Incarnation, KnownStart, MetaError, MetaStore, Metadata, MigrationState,
    NodeInfo, ReadProtocol, StartNumber, TabletMap, ToCoordinator, ToNode, timing,
};
use attempt::Attempt;
use members::Member;
use record::Record;
use sidle_types::{Fill, MapEpoch, MigrationId, MonotonicUs, NodeId, fault};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use waits::Wait;

/// What a new cluster starts with.
#[derive(Clone, Debug)]
pub struct Founding {
    /// The new cluster's name, drawn at random.
    pub cluster: ClusterId,
    /// The node whose process the coordinator runs in. Of a new cluster it is the first member, which owns
    /// every position; it joins like any other.
    pub first: NodeInfo,
    /// What that node's process drew.
    pub start: StartNumber,
}

/// What happens to a coordinator.
#[derive(Clone, Debug)]
pub enum CoordinatorInput {
    /// A node said something.
    Message(ToCoordinator),
    /// The conversation has ended over which this node was heard of last: its process may be gone. A driver
    /// that never says so makes a node that was restarted wait until its earlier incarnation counts as
    /// silent.
    Disconnected {
        /// The node.
        node: NodeId,
    },
    /// The time of [`Coordinator::poll_timeout`] has come.
    Timer,
}

/// What an operator may want to read in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorEvent {
    /// A node is a member, newly or in a new incarnation.
    NodeJoined {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Whether it was a member before, and so has lost its data.
        restarted: bool,
    },
    /// A node was not let in.
    JoinRefused {
        /// The node.
        node: NodeId,
        /// Why not.
        why: String,
    },
    /// A node is no member any more, on request or to make room.
    NodeForgotten {
        /// The node.
        node: NodeId,
    },
    /// A node claims to use a map that there has not been yet; it is not believed. If the coordinator's
    /// record was replaced by an older copy, ownership may be doubled.
    UnknownMap {
        /// The node.
        node: NodeId,
        /// The epoch of that map.
        claimed: MapEpoch,
        /// The epoch of the present map.
        present: MapEpoch,
    },
    /// The record had gone from where the next start looks for it, and was written there anew.
    RecordWrittenAnew,
    /// The record has gone from where the next start looks for it, and cannot be written there.
    RecordGone {
        /// Why not.
        error: MetaError,
    },
    /// A node has not been heard of for [`timing::SUSPECTED_AFTER_US`].
    NodeSuspected {
        /// The node.
        node: NodeId,
    },
    /// A suspected node was heard of again.
    NodeBack {
        /// The node.
        node: NodeId,
    },
    /// A migration has changed its state, and that is committed.
    Migration {
        /// The migration.
        migration: MigrationId,
        /// The new state.
        state: MigrationState,
    },
    /// Metadata could not be written; it will be tried again.
    CommitFailed {
        /// Why.
        error: MetaError,
    },
}

/// The coordinator's state machine. See the module's header for its rules and the order of calls.
#[derive(Debug)]
pub struct Coordinator<M> {
    meta: M,
    /// The node whose process it runs in.
    seat: NodeId,
    /// As last committed, except that numbers of migrations whose commit failed stay used.
    data: Metadata,
    read_protocol: ReadProtocol,
    record: Record,
    opened_at: MonotonicUs,
    /// Nobody's silence counts before: the coordinator stood still itself, and could not hear.
    listens_from: MonotonicUs,
    members: BTreeMap<NodeId, Member>,
    attempts: BTreeMap<MigrationId, Attempt>,
    /// Requests that wait for a migration's end.
    waits: Vec<Wait>,
    /// Set while the store may hold something else than `data`: when to write `data` again.
    commit_retry_at: Option<MonotonicUs>,
    transmit: VecDeque<ToNode>,
    events: VecDeque<CoordinatorEvent>,
}

impl<M: MetaStore> Coordinator<M> {
    /// Opens the coordinator on what the store holds, or founds a cluster in an empty one. `read_protocol`
    /// knows the protocols that a migration may ask for.
    pub fn open(
        now: MonotonicUs,
        mut meta: M,
        founding: Founding,
        read_protocol: ReadProtocol,
    ) -> Result<Coordinator<M>, MetaError> {
        let seat = founding.first.id;
        let data = match meta.load()? {
            Some(data) => data,
            None => {
                let NodeInfo { id: node, incarnation, .. } = founding.first;
                let mut data = Metadata::new(founding.cluster, TabletMap::founded_by(founding.first));
                data.note_start(KnownStart { node, incarnation, start: founding.start });
                meta.commit(&data)?;
                data
            }
        };
        data.check()?;
        let members = data.map.nodes().iter().map(|node| (node.id, Member::default())).collect();
        let attempts = data.unfinished().map(|record| (record.id, Attempt::new(now, record))).collect();
        Ok(Coordinator {
            meta,
            seat,
            data,
            read_protocol,
            record: Record::new(now),
            opened_at: now,
            listens_from: now,
            members,
            attempts,
            waits: Vec::new(),
            commit_retry_at: None,
            transmit: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: MonotonicUs, input: CoordinatorInput) {
        if self.poll_timeout().is_some_and(|due| now > due.plus_us(STANDSTILL_US)) {
            // Its process was paused, or the whole machine was: what was said meanwhile is still to be heard.
            self.listens_from = now.plus_us(2 * HEARTBEAT_INTERVAL_US);
        }
        match input {
            CoordinatorInput::Message(message) => self.message(now, message),
            CoordinatorInput::Disconnected { node } => {
                self.members.entry(node).and_modify(|member| member.disconnected = true);
            }
            CoordinatorInput::Timer => {}
        }
        self.keep_record(now);
        self.suspect(now);
        self.advance(now);
        self.resend(now);
        self.answer_waits(now);
    }

    /// The next message to a node.
    pub fn poll_transmit(&mut self) -> Option<ToNode> {
        self.transmit.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<CoordinatorEvent> {
        self.events.pop_front()
    }

    /// When to call [`Coordinator::handle`] with [`CoordinatorInput::Timer`] if nothing else happens.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let members = self.members.iter().filter_map(|(&node, member)| self.member_timeout(node, member));
        let attempts =
            self.data.waiting.iter().filter_map(|record| self.attempts.get(&record.id)?.timeout(record));
        // No step is taken before the commit is tried again.
        let attempts = attempts.map(|at| self.commit_retry_at.map_or(at, |retry| at.max(retry)));
        let record = [self.record.due_at()];
        members.chain(attempts).chain(self.commit_retry_at).chain(self.wait_timeout()).chain(record).min()
    }

    /// The name of the cluster.
    pub const fn cluster(&self) -> ClusterId {
        self.data.cluster
    }

    /// Everything that it keeps, as last committed.
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

    /// The store, to let it fail in tests or to close it.
    pub const fn meta_mut(&mut self) -> &mut M {
        &mut self.meta
    }

    /// Gives the store back, and forgets everything that is not in it.
    pub fn into_meta(self) -> M {
        self.meta
    }

    /// Makes `next` the metadata (invariant 1). After an error the old metadata holds and nothing may be
    /// done. What could not be read at the next start is refused before it is written.
    fn commit(&mut self, now: MonotonicUs, next: Metadata) -> Result<(), MetaError> {
        if let Err(error) = next.check() {
            self.event(CoordinatorEvent::CommitFailed { error: error.clone() });
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
            Err(error) => {
                // The store may hold `next` all the same, so the numbers that it gives away stay used.
                self.data.next_migration = next.next_migration;
                self.commit_retry_at = Some(now.plus_us(timing::COMMIT_RETRY_US));
                self.record.failed = Some(error.clone());
                self.event(CoordinatorEvent::CommitFailed { error: error.clone() });
                Err(error)
            }
        }
    }

    /// How full its queues are.
    pub fn queues(&self) -> impl Iterator<Item = Fill> {
        let own = [
            Fill::new("migrations under way or queued", self.data.unfinished().count(), MAX_UNFINISHED),
            Fill::new("members", self.members.len(), MAX_NODES),
            Fill::new("attempts at migrations", self.attempts.len(), MAX_UNFINISHED),
            Fill::new("requests that wait for a migration's end", self.waits.len(), MAX_WAITS),
            Fill::new("messages of the coordinator", self.transmit.len(), MAX_TRANSMIT),
            Fill::new("events of the coordinator", self.events.len(), MAX_EVENTS),
        ];
        let answers = |member: &Member| {
            Fill::new("answers kept for a node", member.refusals.len(), REQUEST_WINDOW as usize)
        };
        own.into_iter().chain(self.members.values().map(answers))
    }

    fn send(&mut self, to: NodeId, body: CoordinatorSays) {
        if let Some(node) = self.data.map.node(to) {
            let incarnation = node.incarnation;
            self.send_to_life(to, incarnation, body);
        }
    }

    fn send_to_life(&mut self, to: NodeId, incarnation: Incarnation, body: CoordinatorSays) {
        if self.transmit.len() == MAX_TRANSMIT {
            self.transmit.pop_front();
        }
        self.transmit.push_back(ToNode { to, incarnation, start: None, body });
    }

    /// Sends something to one process, whoever else has the same incarnation.
    fn send_to_start(
        &mut self,
        to: NodeId,
        incarnation: Incarnation,
        start: Option<StartNumber>,
        body: CoordinatorSays,
    ) {
        self.send_to_life(to, incarnation, body);
        self.transmit.back_mut().expect("it is there").start = start;
    }

    fn event(&mut self, event: CoordinatorEvent) {
        assert!(self.events.len() < MAX_EVENTS, "the driver does not take the coordinator's events");
        self.events.push_back(event);
    }
}
