//! The control thread: the node's control, and the coordinator or the connection to it.

use super::seat::Seat;
use super::{HostSetup, Process, node_id};
use crate::disk::Disk;
use crate::network::{Port, Side, Signal, StreamId};
use crate::world::{Actor, Fact, HostId, Thread, World};
use sidle_cluster::{
    ControlMessage, Incarnation, LogCopies, MetaError, NodeInfo, StartNumber, Takeover, ToCoordinator, ToNode,
};
use sidle_migration::Tuning;
use sidle_node::{
    ControlEvent, ControlInput, ControlRequest, MoverIndex, MoverReport, MoverStep, NodeControl, NodeParts,
    Now, Table, WorkerIndex,
};
use sidle_types::{MigrationId, MonotonicUs};
use sidle_wire::{FrameReader, Message};
use std::collections::{BTreeMap, VecDeque};

/// The wait before it tries again to reach the coordinator, at least and at most.
const RECONNECT_US: (u64, u64) = (50_000, 2_000_000);
/// The longest delay of a doubled message's second arrival.
const ECHO_US: u64 = 3_000_000;
/// The machine that the coordinator runs on.
const COORDINATOR: HostId = HostId(0);

/// A worker's request to the control thread.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) stream: StreamId,
    pub(super) worker: WorkerIndex,
    pub(super) request: ControlRequest,
}

/// The control thread.
pub struct ControlThread {
    /// The real control.
    pub control: NodeControl,
    /// The coordinator, if it is here.
    pub seat: Option<Seat>,
    disk: Option<Disk>,
    /// When it had a turn last.
    pub last_turn: MonotonicUs,
    /// Until then the disk writes, and the thread waits.
    stalled_until_us: u64,
    /// The connection to the coordinator, if that is elsewhere.
    conversation: Option<(StreamId, FrameReader)>,
    is_open: bool,
    reconnect_at_us: u64,
    /// Connections of other nodes that have not announced their purpose, or go to the coordinator.
    guests: BTreeMap<StreamId, FrameReader>,
    pub(super) calls: VecDeque<Call>,
    pub(super) reports: VecDeque<(MigrationId, MoverReport)>,
    /// Messages of the coordinator that arrive a second time, and when (M10).
    echoes: VecDeque<(u64, ToNode)>,
    replies: BTreeMap<u64, (StreamId, WorkerIndex)>,
    last_tag: u64,
    /// Whether the node's data is there, so that it joins.
    takes_part: bool,
    /// Changes of its log's copies that are to be decided.
    pub(super) proposals: VecDeque<LogCopies>,
    /// What this node has taken over.
    pub(super) taken_over: VecDeque<(Takeover, Result<(), String>)>,
}

impl ControlThread {
    pub(super) fn new(
        now: MonotonicUs,
        (info, start, log_since): (NodeInfo, StartNumber, Option<Incarnation>),
        takes_part: bool,
        parts: &NodeParts,
        setup: &HostSetup,
        disk: Option<Disk>,
    ) -> Result<ControlThread, MetaError> {
        let seat = disk.as_ref().map(|disk| Seat::open(now, &info, start, setup.speaks, disk)).transpose()?;
        let tuning = Tuning {
            max_bytes_per_s: setup.max_bytes_per_s,
            piece_bytes: setup.piece_bytes,
            ..Tuning::default()
        };
        let mut control = NodeControl::new(now, info, start, None, parts.clone(), super::MOVERS, tuning);
        control.set_speaks(setup.speaks);
        control.set_log_since(log_since);
        if seat.is_some() && takes_part {
            control.handle(now, ControlInput::Connected);
        }
        Ok(ControlThread {
            control,
            seat,
            disk,
            last_turn: now,
            stalled_until_us: 0,
            conversation: None,
            is_open: false,
            reconnect_at_us: 0,
            guests: BTreeMap::new(),
            calls: VecDeque::new(),
            reports: VecDeque::new(),
            echoes: VecDeque::new(),
            replies: BTreeMap::new(),
            last_tag: 0,
            takes_part,
            proposals: VecDeque::new(),
            taken_over: VecDeque::new(),
        })
    }

    /// The node's data is there: it joins.
    pub(super) fn take_part(&mut self, now: MonotonicUs) {
        self.takes_part = true;
        if self.seat.is_some() {
            self.control.handle(now, ControlInput::Connected);
        }
    }

    /// Whether it waits for a write to the disk.
    pub fn is_writing(&self, world: &World) -> bool {
        world.now_us < self.stalled_until_us
    }

    /// The connection to the coordinator, if that is elsewhere.
    pub fn conversation(&self) -> Option<StreamId> {
        self.conversation.as_ref().map(|(id, _)| *id)
    }
}

impl Process {
    pub(super) fn control_turn(&mut self, now: Now, world: &mut World) {
        let me = Actor::Thread(self.host, Thread::Control);
        self.control.last_turn = now.mono;
        if self.stands_still(world) {
            return;
        }
        self.control_carries_out(now, world);
        self.reach_coordinator(world);
        while let Some((_, message)) = self.control.echoes.pop_front_if(|(due_us, _)| *due_us <= world.now_us)
        {
            self.control.control.handle(now.mono, ControlInput::Message(message));
            self.control_carries_out(now, world);
        }
        if let Some((id, side, signal)) = self.mailbox(Thread::Control).pop_front() {
            self.control_hears(id, side, signal, now, world);
        } else if let Some((migration, report)) = self.control.reports.pop_front() {
            self.control.control.handle(now.mono, ControlInput::Mover(migration, report));
        } else if let Some(Call { stream, worker, request }) = self.control.calls.pop_front() {
            self.control.last_tag += 1;
            let tag = self.control.last_tag;
            self.control.replies.insert(tag, (stream, worker));
            self.control.control.handle(now.mono, ControlInput::Request { tag, request });
        } else if let Some(copies) = self.control.proposals.pop_front() {
            self.control.control.handle(now.mono, ControlInput::Copies(copies));
        } else if let Some((Takeover { range, epoch, .. }, result)) = self.control.taken_over.pop_front() {
            let input = match result {
                Ok(()) => ControlInput::TookOver(range, epoch),
                Err(why) => ControlInput::TakeoverFails(range, epoch, why),
            };
            self.control.control.handle(now.mono, input);
        } else {
            self.control.control.handle(now.mono, ControlInput::Timer);
            if let Some(seat) = &mut self.control.seat {
                seat.tick(now.mono);
            }
        }
        self.control_carries_out(now, world);
        let control = &self.control;
        if !self.mailboxes[&Thread::Control].is_empty()
            || !control.reports.is_empty()
            || !control.calls.is_empty()
            || !control.proposals.is_empty()
            || !control.taken_over.is_empty()
        {
            world.wake(self.host, Thread::Control);
        }
        let timeouts = [
            control.control.poll_timeout(now.mono),
            control.seat.as_ref().and_then(|seat| seat.coordinator.poll_timeout()),
        ];
        let due = timeouts.into_iter().flatten().map(|due| self.setup.clock.instant(due));
        let echo = control.echoes.front().map(|(due_us, _)| *due_us);
        let is_alone = control.takes_part && control.seat.is_none() && control.conversation.is_none();
        let reconnect = is_alone.then_some(control.reconnect_at_us);
        if let Some(at_us) = due.chain(echo).chain(reconnect).min() {
            world.turn_at(me, at_us.max(world.now_us + 1));
        }
    }

    /// Connects to the coordinator, unless it is connected.
    fn reach_coordinator(&mut self, world: &mut World) {
        let control = &mut self.control;
        let is_due = control.takes_part && control.reconnect_at_us <= world.now_us;
        if control.seat.is_none() && control.conversation.is_none() && is_due {
            let me = Actor::Thread(self.host, Thread::Control);
            let id = world.open(me, COORDINATOR, Port::Bus);
            control.conversation = Some((id, FrameReader::new().speaking(self.setup.speaks)));
        }
    }

    fn control_hears(&mut self, id: StreamId, side: Side, signal: Signal, now: Now, world: &mut World) {
        let is_conversation = self.control.conversation.as_ref().is_some_and(|(own, _)| *own == id);
        match signal {
            Signal::Opened if is_conversation => {
                self.control.is_open = true;
                self.control.control.handle(now.mono, ControlInput::Connected);
            }
            Signal::Opened => world.close(id, side),
            Signal::Refused | Signal::Closed => {
                world.close(id, side);
                self.control.guests.remove(&id);
                if let Some(seat) = &mut self.control.seat {
                    seat.disconnected(now.mono, id);
                }
                if is_conversation {
                    self.control.conversation = None;
                    self.control.is_open = false;
                    let wait_us = world.random.magnitude(RECONNECT_US.0, RECONNECT_US.1);
                    self.control.reconnect_at_us = world.now_us + wait_us;
                }
            }
            Signal::Bytes(bytes) if is_conversation => self.coordinator_says(&bytes, now, world),
            Signal::Bytes(bytes) if side == Side::Acceptor => self.guest_says(id, &bytes, now, world),
            Signal::Bytes(_) => {}
        }
    }

    fn coordinator_says(&mut self, bytes: &[u8], now: Now, world: &mut World) {
        let Some((_, reader)) = &mut self.control.conversation else { return };
        reader.push(bytes);
        let mut said = Vec::new();
        while let Some(frame) = reader.next_frame().expect("nodes send whole, sound frames") {
            match frame.message().expect("a sound frame") {
                Message::Control(json) => {
                    said.push(ControlMessage::from_json(json).expect("a sound message"))
                }
                other => panic!("the coordinator says {other:?}"),
            }
        }
        for message in said {
            let ControlMessage::ToNode(message) = message else { panic!("the coordinator asks itself") };
            if world.random.permille(self.setup.echoes_permille) {
                let due_us = world.now_us + world.random.magnitude(1, ECHO_US);
                self.control.echoes.push_back((due_us, message.clone()));
            }
            self.control.control.handle(now.mono, ControlInput::Message(message));
            self.control_carries_out(now, world);
        }
    }

    /// Another node announces its connection's purpose, or sends something to the coordinator.
    fn guest_says(&mut self, id: StreamId, bytes: &[u8], now: Now, world: &mut World) {
        let speaks = self.setup.speaks;
        let reader = self.control.guests.entry(id).or_insert_with(|| FrameReader::new().speaking(speaks));
        reader.push(bytes);
        let mut said = Vec::new();
        let mut hello = None;
        let (mut forward, mut copied) = (None, None);
        while let Some(frame) = reader.next_frame().expect("nodes send whole, sound frames") {
            match frame.message().expect("a sound frame") {
                Message::Hello(greeting) => {
                    hello = Some(greeting);
                    break;
                }
                Message::Forward(opening) => {
                    forward = Some(opening);
                    break;
                }
                Message::CopyHello(opening) => {
                    copied = Some(opening);
                    break;
                }
                Message::Control(json) => {
                    said.push(ControlMessage::from_json(json).expect("a sound message"))
                }
                other => panic!("a node opens a connection with {other:?}"),
            }
        }
        if let Some(forward) = forward {
            let reader = self.control.guests.remove(&id).expect("it was just read");
            return self.take_forwarded(id, forward, &reader.into_rest(), now, world);
        }
        if let Some(hello) = copied {
            let reader = self.control.guests.remove(&id).expect("it was just read");
            return self.take_copied(id, hello, reader, world);
        }
        if let Some(hello) = hello {
            let reader = self.control.guests.remove(&id).expect("it was just read");
            let mover = usize::from(MoverIndex::of(hello.scope.migration, self.movers.len()).0);
            self.movers[mover].handed_over.push_back((id, reader, hello));
            self.hand_over(id, Thread::Mover(mover), world);
            return;
        }
        for message in said {
            let ControlMessage::ToCoordinator(message) = message else { panic!("a node answers itself") };
            match &mut self.control.seat {
                Some(seat) => seat.handle(now.mono, message, Some(id), world),
                None => panic!("only the coordinator's machine is asked"),
            }
            self.control_carries_out(now, world);
        }
    }

    /// Whether the thread waits for the disk. If not, its data is written.
    fn stands_still(&mut self, world: &mut World) -> bool {
        let control = &mut self.control;
        let Some(disk) = &control.disk else { return false };
        control.stalled_until_us = control.stalled_until_us.max(world.now_us) + disk.take_stall_us();
        if world.now_us < control.stalled_until_us {
            world.turn_at(Actor::Thread(self.host, Thread::Control), control.stalled_until_us);
            return true;
        }
        if disk.settle() {
            world.facts.push(Fact::Committed);
        }
        false
    }

    /// Executes all of the machines' outputs, unless the disk is slow.
    fn control_carries_out(&mut self, now: Now, world: &mut World) {
        loop {
            if self.stands_still(world) {
                return;
            }
            while let Some(event) = self.control.control.poll_event() {
                self.follow(event, world);
            }
            let control = &mut self.control;
            if let Some(message) = control.control.poll_transmit() {
                match (&mut control.seat, &control.conversation) {
                    (Some(seat), _) => seat.handle(now.mono, message, None, world),
                    (None, Some((id, _))) if control.is_open => say(*id, Side::Opener, frame(message), world),
                    // M10: it is repeated once there is a connection.
                    (None, _) => {}
                }
            } else if let Some((message, over)) = control.seat.as_mut().and_then(|seat| seat.poll(world)) {
                match over {
                    None => control.control.handle(now.mono, ControlInput::Message(message)),
                    Some(id) => {
                        let mut out = Vec::new();
                        Message::write_control(&ControlMessage::from(message).to_json(), &mut out)
                            .expect("control messages are small");
                        say(id, Side::Acceptor, out, world);
                    }
                }
            } else {
                return;
            }
        }
    }

    fn follow(&mut self, event: ControlEvent, world: &mut World) {
        let host = self.host;
        match event {
            ControlEvent::Copies(copies) => self.copies_decided(copies, world),
            ControlEvent::NotifyWorkers => {
                self.wake_copies(world);
                for worker in 0..self.workers.len() {
                    world.wake(host, Thread::Worker(worker));
                }
            }
            ControlEvent::Mover(mover, command) => {
                let (id, step) = &command;
                world.tell(|| format!("node {}: migration {id}: {}", host.0, step.name()));
                let is_source = self.control.control.agent().migrations.sources.contains_key(id);
                match step {
                    MoverStep::Passed(Table::Frozen, _) => world.facts.push(Fact::Frozen(host, *id)),
                    MoverStep::Passed(Table::Over, _) if is_source => {
                        world.facts.push(Fact::Released(host, *id))
                    }
                    _ => {}
                }
                let index = usize::from(mover.0);
                self.movers[index].commands.push_back(command);
                world.wake(host, Thread::Mover(index));
            }
            ControlEvent::Reply { tag, reply } => {
                if let Some((stream, worker)) = self.control.replies.remove(&tag) {
                    let index = usize::from(worker.0);
                    self.workers[index].answers.push_back((stream, reply));
                    world.wake(host, Thread::Worker(index));
                }
            }
            ControlEvent::Joined(_) => world.tell(|| format!("node {} is a member", host.0)),
            ControlEvent::JoinRefused(why) => {
                let is_told = why.contains("set 'starts' in its node.json to");
                world.meet("older copies told what to set", u64::from(is_told));
                world.tell(|| format!("node {} is not let in: {why}", host.0));
            }
            ControlEvent::TakeOver(task) => {
                world.tell(|| format!("node {} takes {} over", host.0, task.takeover.range));
                let takeovers = self.log.as_mut().and_then(|log| log.takeovers.as_mut());
                takeovers.expect("all nodes have copies, or none").begin(task);
                world.wake(host, Thread::Takeovers);
            }
            // Its log was taken over while it began with it: the process ends.
            ControlEvent::Superseded if self.log.as_ref().is_some_and(|log| log.backups.is_some()) => {
                world.facts.push(Fact::Deposed(host));
            }
            ControlEvent::Superseded => panic!("two processes run with the identity {}", node_id(host)),
            ControlEvent::LogFate(..) => {}
            ControlEvent::Note(text) => world.tell(|| format!("node {}: {text}", host.0)),
        }
    }
}

/// M10: a full connection drops it; the side that needs it repeats it.
fn say(id: StreamId, from: Side, frame: Vec<u8>, world: &mut World) {
    if !world.network.is_full(id, from) {
        world.send(id, from, frame);
    }
}

fn frame(message: ToCoordinator) -> Vec<u8> {
    let mut out = Vec::new();
    Message::write_control(&ControlMessage::from(message).to_json(), &mut out)
        .expect("control messages are small");
    out
}
