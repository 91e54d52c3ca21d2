//! A control thread: the node's control, and the coordinator if this node runs it.
//!
//! As in the server, messages between these two within a node are handled in one turn, and each input of the
//! thread is a turn of its own. It shares its node's quota with workers and movers: while the node is
//! throttled it waits, too.

use super::mover::fires_ns;
use crate::costs::Costs;
use crate::event::{Arrival, ControlMail, Output, Turn};
use crate::processors::{Pause, ThreadId};
use sidle_cluster::{
    ClusterId, Coordinator, CoordinatorInput, Founding, MemoryMetaStore, MigrationRecord, NodeInfo,
    StartNumber, TabletMap,
};
use sidle_node::{ControlEvent, ControlInput, ControlRequest, NodeControl};
use sidle_types::{MonotonicUs, NodeId, Speaks};
use std::collections::{BTreeMap, VecDeque};

/// A control thread.
pub(crate) struct ControlThread {
    pub(crate) id: ThreadId,
    control: NodeControl,
    seat: Option<Coordinator<MemoryMetaStore>>,
    own: NodeId,
    /// The control thread of the other node.
    peer: ThreadId,
    workers: Vec<ThreadId>,
    movers: Vec<ThreadId>,
    mail: VecDeque<ControlMail>,
    /// The requester of the answer with this number: a worker, and its connection's number.
    asked: BTreeMap<u64, (ThreadId, usize)>,
    last_tag: u64,
    /// When it is to be called again. Set after each turn, since part of it counts from then.
    due: Option<MonotonicUs>,
    /// How often it had work.
    pub(crate) turns: u64,
    /// How many decisions were stored.
    pub(crate) commits: u64,
}

impl ControlThread {
    /// `founds`: whether this node runs the coordinator.
    pub(crate) fn new(
        id: ThreadId,
        control: NodeControl,
        info: &NodeInfo,
        founds: bool,
        peer: ThreadId,
        (workers, movers): (Vec<ThreadId>, Vec<ThreadId>),
    ) -> ControlThread {
        let seat = founds.then(|| {
            let founding = Founding {
                cluster: ClusterId::from_bits(1),
                first: info.clone(),
                start: StartNumber::default(),
                speaks: Speaks::THIS_BUILD,
            };
            Coordinator::open(MonotonicUs(0), MemoryMetaStore::new(), founding, sidle_node::read_protocol)
                .expect("an empty store in memory opens")
        });
        ControlThread {
            id,
            control,
            seat,
            own: info.id,
            peer,
            workers,
            movers,
            mail: VecDeque::from([ControlMail::Input(ControlInput::Connected)]),
            asked: BTreeMap::new(),
            last_tag: 0,
            due: None,
            turns: 0,
            commits: 0,
        }
    }

    /// The coordinator's tablet map.
    pub(crate) fn map(&self) -> Option<&TabletMap> {
        self.seat.as_ref().map(|seat| &**seat.map())
    }

    /// The coordinator's record of the only migration, if it was requested.
    pub(crate) fn migration(&self) -> Option<&MigrationRecord> {
        self.seat.as_ref()?.data().all_migrations().next()
    }

    /// A message arrived.
    pub(crate) fn receive(&mut self, mail: ControlMail) {
        self.mail.push_back(mail);
    }

    /// Handles one message.
    pub(crate) fn turn(&mut self, now: MonotonicUs, costs: &Costs, pause: Pause, turn: &mut Turn) {
        turn.cost_ns += costs.of_pause(pause) + if pause.of_thread { costs.poll_ns } else { 0 };
        if let Some(mail) = self.mail.pop_front() {
            self.open(now, mail);
        } else if self.due.is_some_and(|due| due <= now) {
            if let Some(seat) = &mut self.seat {
                seat.handle(now, CoordinatorInput::Timer);
            }
            self.control.handle(now, ControlInput::Timer);
        } else {
            turn.outputs.extend(self.alarm());
            return;
        }
        self.carry_out(now, turn);
        self.turns += 1;
        turn.cost_ns += costs.control_ns;
        let commits = self.seat.as_ref().map_or(0, |seat| seat.meta().commits());
        turn.cost_ns += (commits - std::mem::replace(&mut self.commits, commits)) * costs.commit_ns;
        turn.has_more = !self.mail.is_empty();
        self.due = self.timeout(now).map(|due| due.max(now.plus_us(1)));
        turn.outputs.extend(self.alarm());
    }

    fn alarm(&self) -> Option<Output> {
        self.due.map(|due| Output::WakeAt(self.id, fires_ns(due)))
    }

    fn timeout(&self, now: MonotonicUs) -> Option<MonotonicUs> {
        let seat = self.seat.as_ref().and_then(Coordinator::poll_timeout);
        self.control.poll_timeout(now).into_iter().chain(seat).min()
    }

    fn open(&mut self, now: MonotonicUs, mail: ControlMail) {
        match mail {
            ControlMail::Input(input) => self.control.handle(now, input),
            ControlMail::Question { worker, connection, request } => {
                self.ask(now, worker, connection, request)
            }
            ControlMail::ToCoordinator(message) => {
                let seat = self.seat.as_mut().expect("messages for the coordinator arrive at its node");
                seat.handle(now, CoordinatorInput::Message(message));
            }
        }
    }

    fn ask(&mut self, now: MonotonicUs, worker: ThreadId, connection: usize, request: ControlRequest) {
        self.last_tag += 1;
        self.asked.insert(self.last_tag, (worker, connection));
        self.control.handle(now, ControlInput::Request { tag: self.last_tag, request });
    }

    /// Carries out the outputs of both machines.
    fn carry_out(&mut self, now: MonotonicUs, turn: &mut Turn) {
        loop {
            while let Some(event) = self.control.poll_event() {
                self.follow(event, turn);
            }
            if let Some(message) = self.control.poll_transmit() {
                match &mut self.seat {
                    Some(seat) => seat.handle(now, CoordinatorInput::Message(message)),
                    None => self.send(ControlMail::ToCoordinator(message), turn),
                }
            } else if let Some(message) = self.poll_local(turn) {
                self.control.handle(now, message);
            } else {
                return;
            }
        }
    }

    /// Sends the coordinator's messages for the other node; returns the next one for this node.
    fn poll_local(&mut self, turn: &mut Turn) -> Option<ControlInput> {
        let seat = self.seat.as_mut()?;
        while seat.poll_event().is_some() {}
        while let Some(message) = self.seat.as_mut()?.poll_transmit() {
            let is_local = message.to == self.own;
            let input = ControlInput::Message(message);
            if is_local {
                return Some(input);
            }
            self.send(ControlMail::Input(input), turn);
        }
        None
    }

    fn send(&self, mail: ControlMail, turn: &mut Turn) {
        turn.send(self.peer, Arrival::Control(Box::new(mail)), 0);
    }

    fn follow(&mut self, event: ControlEvent, turn: &mut Turn) {
        match event {
            ControlEvent::NotifyWorkers => {
                turn.outputs.extend(self.workers.iter().copied().map(Output::AwaitTable))
            }
            ControlEvent::Mover(mover, command) => {
                turn.outputs.push(Output::Command(self.movers[usize::from(mover.0)], command));
            }
            ControlEvent::Reply { tag, reply } => {
                let (worker, connection) = self.asked.remove(&tag).expect("it was requested");
                turn.outputs.push(Output::Answer { worker, connection, reply });
            }
            ControlEvent::Joined(_)
            | ControlEvent::Note(_)
            | ControlEvent::Copies(_)
            | ControlEvent::LogFate(..)
            | ControlEvent::TakeOver(_) => {}
            ControlEvent::JoinRefused(why) => unreachable!("a founding member was refused: {why}"),
            ControlEvent::Superseded => unreachable!("each node has one incarnation"),
        }
    }
}
