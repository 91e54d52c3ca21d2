//! A migration thread: one frame, one command or one connection per turn.

use super::pressure::{self, Pressure};
use super::{MOVERS, Process, host_of};
use crate::network::{Port, Side, Signal, StreamId};
use crate::world::{Actor, Fact, Thread, World};
use sidle_node::{
    CurrentTable, Link, Mover, MoverCommand, MoverEvent, MoverIndex, MoverPort, MoverReport, NodeParts, Now,
};
use sidle_store::RecordBatch;
use sidle_types::MigrationId;
use sidle_wire::{
    ChangedPullReply, FrameReader, Hello, Lane, Message, PriorityPullReply, PullReply, SampPullReply,
};
use std::collections::{BTreeMap, VecDeque};

/// In so many turns that wake workers of a node that gives a range bit by bit, one of them is held up.
const HELD_UP_ONE_IN: u64 = 4;
/// For so long at most.
const HELD_UP_US: u64 = 10_000;
/// A frame's cost for the mover.
const FRAME_CPU_US: u64 = 60;

struct LinkState {
    side: Side,
    reader: FrameReader,
    /// Its purpose; `None` for those that other nodes opened.
    wanted: Option<(MigrationId, Lane)>,
    is_open: bool,
}

pub(crate) struct MoverThread {
    pub(crate) mover: Mover,
    links: BTreeMap<StreamId, LinkState>,
    /// The control thread's commands.
    pub(super) commands: VecDeque<MoverCommand>,
    /// Connections that the control thread passed on, with the bytes read from them.
    pub(super) handed_over: VecDeque<(StreamId, FrameReader, Hello)>,
    cpu_us: u64,
    next_load_us: u64,
}

impl MoverThread {
    pub(super) fn new(parts: &NodeParts, index: MoverIndex, ports: Vec<MoverPort>) -> MoverThread {
        MoverThread {
            mover: Mover::new(parts, index, MOVERS, ports),
            links: BTreeMap::new(),
            commands: VecDeque::new(),
            handed_over: VecDeque::new(),
            cpu_us: 0,
            next_load_us: 0,
        }
    }

    /// What is in hand, in words, each with its count.
    pub(crate) fn in_hand(&self) -> Vec<(&'static str, usize)> {
        let own = [
            ("connections", self.links.len()),
            ("commands not heard", self.commands.len()),
            ("connections not taken over", self.handed_over.len()),
        ];
        self.mover.in_hand().into_iter().chain(own).filter(|(_, count)| *count > 0).collect()
    }

    /// How many messages to workers found their queue full.
    pub(crate) fn unsent(&self) -> usize {
        self.mover.unsent()
    }
}

impl Process {
    pub(super) fn mover_turn(&mut self, index: usize, now: Now, world: &mut World) {
        let thread = Thread::Mover(index);
        // A mover's turn ends such a wait, and has checked here first.
        if self.control.control.imports().any(|import| import.waits_for_turns()) {
            self.excused_at = now.mono;
        }
        self.load(index, now, world);
        self.movers[index].mover.turn(now.mono);
        self.drain_mover(index, now, world);
        if let Some(command) = self.movers[index].commands.pop_front() {
            self.movers[index].mover.command(now.mono, command);
            self.drain_mover(index, now, world);
        }
        if let Some((id, reader, hello)) = self.movers[index].handed_over.pop_front() {
            let state = LinkState { side: Side::Acceptor, reader, wanted: None, is_open: true };
            self.movers[index].links.insert(id, state);
            self.message(index, id, Message::Hello(hello), now, world);
            self.read_frames(index, id, now, world);
        }
        // A connection's bytes wait in it until it is taken over.
        if self.movers[index].handed_over.is_empty()
            && let Some((id, side, signal)) = self.mailbox(thread).pop_front()
        {
            self.mover_hears(index, id, side, signal, now, world);
        }
        let mover = &self.movers[index];
        let has_more = !mover.commands.is_empty()
            || !mover.handed_over.is_empty()
            || !self.mailboxes[&thread].is_empty();
        if has_more {
            world.wake(self.host, thread);
        }
        if let Some(due) = self.movers[index].mover.poll_timeout(now.mono) {
            // Never immediately again: a machine that is due may wait for something else.
            let at_us = self.setup.clock.instant(due).max(world.now_us + 1);
            world.turn_at(Actor::Thread(self.host, thread), at_us);
        }
        if self.setup.pressure != Pressure::None && !self.movers[index].mover.is_idle() {
            let at_us = self.movers[index].next_load_us;
            world.turn_at(Actor::Thread(self.host, thread), at_us);
        }
    }

    /// Passes the node's load to the mover.
    fn load(&mut self, index: usize, now: Now, world: &World) {
        let mover = &mut self.movers[index];
        if world.now_us < mover.next_load_us {
            return;
        }
        if let Some(load) = self.setup.pressure.load(world.now_us, mover.cpu_us) {
            mover.next_load_us = world.now_us + pressure::EVERY_US;
            mover.mover.load(now.mono, load);
        }
    }

    fn mover_hears(
        &mut self,
        index: usize,
        id: StreamId,
        side: Side,
        signal: Signal,
        now: Now,
        world: &mut World,
    ) {
        let mover = &mut self.movers[index];
        let Some(link) = mover.links.get_mut(&id) else {
            let mut handed_over = mover.handed_over.iter();
            assert!(handed_over.all(|(other, ..)| *other != id), "taken over before it is heard");
            // It was closed here meanwhile.
            world.close(id, side);
            return;
        };
        match signal {
            Signal::Opened => {
                let (migration, lane) = link.wanted.expect("only what was asked for is opened");
                link.is_open = true;
                world.tell(|| {
                    format!("node {}: migration {migration}: its {lane:?} lane is open", self.host.0)
                });
                mover.mover.connected(now.mono, migration, lane, Link(id.0));
            }
            // A connection that breaks before it is open could not be opened.
            Signal::Refused | Signal::Closed if !link.is_open => {
                let (migration, lane) = link.wanted.expect("only what was asked for is not open yet");
                mover.links.remove(&id);
                world.close(id, side);
                mover.mover.connect_failed(now.mono, migration, lane);
            }
            Signal::Bytes(bytes) => {
                link.reader.push(&bytes);
                self.read_frames(index, id, now, world);
            }
            Signal::Refused | Signal::Closed => {
                world.tell(|| format!("node {}: a lane ends", self.host.0));
                mover.links.remove(&id);
                world.close(id, side);
                mover.mover.closed(now.mono, Link(id.0));
            }
        }
        self.drain_mover(index, now, world);
    }

    fn read_frames(&mut self, index: usize, id: StreamId, now: Now, world: &mut World) {
        let Some(link) = self.movers[index].links.get_mut(&id) else { return };
        // Workers may run while a frame is handled.
        let mut reader = std::mem::take(&mut link.reader);
        while let Some(frame) = reader.next_frame().expect("nodes send whole, sound frames") {
            let message = frame.message().expect("nodes send sound messages");
            meet_large(&message, self.setup.piece_bytes as usize, world);
            self.message(index, id, message, now, world);
        }
        if let Some(link) = self.movers[index].links.get_mut(&id) {
            link.reader = reader;
        }
    }

    /// One frame. Its requests are sent before its records are replayed; workers may run in between.
    fn message(&mut self, index: usize, id: StreamId, message: Message<'_>, now: Now, world: &mut World) {
        if let Message::PriorityPullReply(reply) = &message
            && reply.piece.is_some()
        {
            self.excused_at = now.mono;
        }
        if let Message::CutReply(_) = &message {
            world.facts.push(Fact::Given(self.host));
        }
        let mover = &mut self.movers[index];
        mover.cpu_us += FRAME_CPU_US;
        let pending = mover.mover.message(now.mono, Link(id.0), message);
        self.drain_mover(index, now, world);
        let Some(pending) = pending else { return };
        world.facts.push(Fact::Replayed(self.host));
        world.checks.before_replay(self.host, &self.control.control, &self.parts.store);
        for worker in 0..self.workers.len() {
            if world.random.one_in(2) && self.step_worker(worker, now, world) {
                world.wake(self.host, Thread::Worker(worker));
            }
        }
        self.movers[index].mover.replay(now.mono, pending);
        self.drain_mover(index, now, world);
    }

    /// Takes all of a mover's outputs.
    fn drain_mover(&mut self, index: usize, now: Now, world: &mut World) {
        let (host, me) = (self.host, Actor::Thread(self.host, Thread::Mover(index)));
        let mover = &mut self.movers[index];
        loop {
            let mut is_idle = true;
            while let Some(event) = mover.mover.poll_event() {
                is_idle = false;
                match event {
                    MoverEvent::Connect { migration, lane, peer } => {
                        let id = world.open(me, host_of(peer), Port::Bus);
                        world.tell(|| {
                            format!("node {}: migration {migration}: opens its {lane:?} lane", host.0)
                        });
                        let (side, reader) = (Side::Opener, FrameReader::new().speaking(self.setup.speaks));
                        let state =
                            LinkState { side, reader, wanted: Some((migration, lane)), is_open: false };
                        mover.links.insert(id, state);
                    }
                    MoverEvent::Close(link, why) => {
                        let id = StreamId(link.0);
                        if let Some(state) = mover.links.remove(&id) {
                            world.tell(|| format!("node {} closes a lane: {why}", host.0));
                            world.close(id, state.side);
                        }
                    }
                    MoverEvent::Report(migration, report) => {
                        world.tell(|| format!("node {}: migration {migration}: {report:?}", host.0));
                        meet(&report, world);
                        if report == MoverReport::Activated {
                            world.facts.push(Fact::Activated(host));
                        }
                        self.control.reports.push_back((migration, report));
                        world.wake(host, Thread::Control);
                    }
                }
            }
            for (&id, link) in &mover.links {
                let mut out = Vec::new();
                while link.is_open
                    && !world.network.is_full(id, link.side)
                    && out.len() < OUTPUT_BYTES
                    && mover.mover.poll_transmit(now.mono, Link(id.0), &mut out)
                {
                    mover.cpu_us += FRAME_CPU_US;
                }
                if !out.is_empty() {
                    is_idle = false;
                    world.send(id, link.side, out);
                }
            }
            if is_idle {
                break;
            }
        }
        let mut woken = Vec::new();
        while let Some(worker) = mover.mover.poll_notify() {
            world.wake(host, Thread::Worker(usize::from(worker.0)));
            woken.push(Thread::Worker(usize::from(worker.0)));
        }
        if !woken.is_empty() && world.random.one_in(HELD_UP_ONE_IN) && gives_bit_by_bit(&self.parts.published)
        {
            // It takes a step long after the others.
            world.meet("a worker late for a step", 1);
            let (late, us) = (woken[world.random.index(woken.len())], world.random.magnitude(1, HELD_UP_US));
            world.hold_up(host, late, us);
        }
    }
}

/// Whether the node gives a range bit by bit.
fn gives_bit_by_bit(published: &CurrentTable) -> bool {
    published.table().exports().any(|view| view.is_by_cuts())
}

/// How many bytes are written to a connection at once.
pub(crate) const OUTPUT_BYTES: usize = 128 << 10;

/// Counts records larger than a piece that arrive whole, as in a version without pieces.
fn meet_large(message: &Message<'_>, piece_bytes: usize, world: &mut World) {
    let (Message::PullReply(PullReply { scope, batch, .. })
    | Message::SampPullReply(SampPullReply { scope, batch, .. })
    | Message::PriorityPullReply(PriorityPullReply { scope, batch, .. })
    | Message::ChangedPullReply(ChangedPullReply { scope, batch, .. })) = message
    else {
        return;
    };
    if !scope.version.has_pieces() {
        let records = RecordBatch::parse(batch).expect("nodes send sound records");
        let large = records.iter().filter(|record| record.packed_bytes() > piece_bytes);
        world.meet("large records whole", large.count() as u64);
    }
}

fn meet(report: &MoverReport, world: &mut World) {
    match report {
        MoverReport::Finished(counters) => {
            world.meet("imports", 1);
            world.meet("priority pulls", counters.priority_pulls);
            world.meet("sampled pulls", counters.samp_pulls);
            world.meet("pulls", counters.pulls);
            world.meet("pieces", counters.pieces);
            world.meet("collections chunk by chunk", counters.collections);
            world.meet("collections copied ahead", counters.collections_ahead);
            world.meet("bytes of patches", counters.patch_bytes);
            let gave_by_cuts = counters.cuts > 0;
            let hot = if gave_by_cuts { "hot positions given first" } else { "hot records copied ahead" };
            world.meet(hot, counters.hinted);
        }
        MoverReport::Stalled(true) => world.meet("stalls", 1),
        MoverReport::Failed(_) => world.meet("failed imports", 1),
        _ => {}
    }
}
