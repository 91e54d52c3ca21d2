//! A migration thread.
//!
//! In a sample a record represents many, and so does a bulk pull. Its cost is charged that many times, one
//! pull's worth per turn. Other work of the thread gets turns in between, as between the real pulls.

use crate::costs::Costs;
use crate::event::{Arrival, ControlMail, Output, Turn};
use crate::links::Class;
use crate::processors::{Pause, ThreadId};
use crate::stopwatch::Stopwatch;
use sidle_node::{ControlInput, Link, Mover, MoverCommand, MoverEvent, MoverReport, MoverStep, Table};
use sidle_pacing::{Load, SPARE_REST_US, SPARE_WINDOW_US};
use sidle_types::{MigrationId, MonotonicUs};
use sidle_wire::{FrameReader, Kind, Lane, Message};
use std::collections::{BTreeMap, VecDeque};

/// The resolution of tokio's timers.
const TIMER_US: u64 = 1000;

/// One end's state of a lane.
#[derive(Clone, Copy, Debug)]
struct Wire {
    lane: Lane,
    peer: ThreadId,
}

/// A migration thread.
pub(crate) struct MoverThread {
    pub(crate) id: ThreadId,
    pub(crate) mover: Mover,
    /// The movers of the other node.
    peers: Vec<ThreadId>,
    workers: Vec<ThreadId>,
    pub(crate) commands: VecDeque<MoverCommand>,
    opened: VecDeque<(MigrationId, Lane, Link)>,
    /// Arrived frames, by class.
    frames: [VecDeque<(Link, Vec<u8>)>; 2],
    wires: BTreeMap<Link, Wire>,
    last_link: u64,
    /// How many records each represents.
    weight: f64,
    /// The uncharged cost of the last bulk pull, charged a pull's worth at a time; and its outputs once all
    /// is charged.
    debt_ns: u64,
    slice_ns: u64,
    /// Whether it has slept since its last bulk work.
    is_cold: bool,
    /// How often it resumed bulk work.
    pub(crate) resumptions: u64,
    /// How many slices of moved records it released.
    pub(crate) releases: u64,
    held: Option<Output>,
    /// Whether it is the source of a migration.
    is_source: bool,
    /// Whether the source is releasing moved records: its only remaining timers.
    is_releasing: bool,
    pub(crate) next_probe_us: u64,
    /// How far the slowest worker was behind schedule at the last probe.
    pub(crate) lag_us: u64,
    pub(crate) spare: Spare,
    /// Bytes that it sent, each bulk record counted as many times as it represents others.
    pub(crate) sent_bytes: f64,
}

impl MoverThread {
    pub(crate) fn new(
        id: ThreadId,
        mover: Mover,
        (peers, workers): (Vec<ThreadId>, Vec<ThreadId>),
        weight: f64,
    ) -> MoverThread {
        MoverThread {
            id,
            mover,
            peers,
            workers,
            commands: VecDeque::new(),
            opened: VecDeque::new(),
            frames: [VecDeque::new(), VecDeque::new()],
            wires: BTreeMap::new(),
            last_link: 0,
            weight,
            debt_ns: 0,
            slice_ns: 0,
            is_cold: true,
            resumptions: 0,
            releases: 0,
            held: None,
            is_source: false,
            is_releasing: false,
            next_probe_us: 0,
            lag_us: 0,
            spare: Spare::default(),
            sent_bytes: 0.0,
        }
    }

    /// A message arrived. `from`: the sender, for lanes that another node opened.
    pub(crate) fn receive(&mut self, from: ThreadId, arrival: Arrival) {
        match arrival {
            Arrival::Lane { migration, lane, link } => self.opened.push_back((migration, lane, link)),
            Arrival::Frame { link, bytes, class } => {
                if let std::collections::btree_map::Entry::Vacant(place) = self.wires.entry(link)
                    && let Some(lane) = greeting(&bytes)
                {
                    place.insert(Wire { lane, peer: from });
                }
                self.frames[class as usize].push_back((link, bytes));
            }
            _ => unreachable!("movers are connected to movers"),
        }
    }

    /// One piece of work.
    pub(crate) fn turn(
        &mut self,
        now: MonotonicUs,
        load: Load,
        costs: &Costs,
        pause: Pause,
        watch: &mut Stopwatch,
        turn: &mut Turn,
    ) {
        turn.cost_ns += costs.of_pause(pause) + if pause.of_thread { costs.poll_ns } else { 0 };
        self.is_cold |= pause.of_thread;
        self.mover.load(now, load);
        self.own_turn(now, costs, watch, turn);
        let [small, bulk] = &mut self.frames;
        let mut did_something = true;
        if let Some(command) = self.commands.pop_front() {
            turn.cost_ns += costs.message_ns;
            let (_, step) = &command;
            self.is_releasing |= self.is_source && matches!(step, MoverStep::Passed(Table::Over, _));
            self.is_source |= matches!(step, MoverStep::StartExport(..));
            self.mover.command(now, command);
        } else if let Some((migration, lane, link)) = self.opened.pop_front() {
            turn.cost_ns += costs.message_ns;
            self.mover.connected(now, migration, lane, link);
        } else if let Some((link, bytes)) = small.pop_front() {
            let copied_ns = Costs::of_bytes(costs.copy_ns_per_kib, bytes.len() as u64);
            turn.cost_ns += costs.read_ns + costs.message_ns + copied_ns;
            if carries_records(kind(&bytes)) {
                turn.cost_ns += Costs::of_bytes(costs.replay_ns_per_kib, bytes.len() as u64);
            }
            self.take(now, link, &bytes, watch, turn);
        } else if self.debt_ns > 0 {
            let slice_ns = self.debt_ns.min(self.slice_ns);
            turn.cost_ns += slice_ns;
            self.debt_ns -= slice_ns;
            if self.debt_ns == 0 {
                turn.outputs.extend(self.held.take());
            }
        } else if let Some((link, bytes)) = bulk.pop_front() {
            let per_kib = costs.copy_ns_per_kib + costs.replay_ns_per_kib;
            let takes_ns = costs.read_ns + Costs::of_bytes(per_kib, bytes.len() as u64);
            self.owe(takes_ns, costs, turn);
            self.take(now, link, &bytes, watch, turn);
        } else {
            did_something = false;
        }
        let sent = self.transmit(now, costs, watch, turn);
        turn.has_more = did_something || sent;
    }

    /// Charges a piece of bulk work: once now, the rest in later turns. If it is the first after a sleep, so
    /// would be each piece that it represents.
    fn owe(&mut self, takes_ns: u64, costs: &Costs, turn: &mut Turn) {
        let resumes = std::mem::take(&mut self.is_cold);
        self.resumptions += u64::from(resumes);
        self.slice_ns = takes_ns + if resumes { costs.bulk_resume_ns } else { 0 };
        turn.cost_ns += self.slice_ns;
        self.debt_ns = (self.slice_ns as f64 * (self.weight - 1.0)) as u64;
    }

    /// Runs due timers; only the release of records takes long.
    fn own_turn(&mut self, now: MonotonicUs, costs: &Costs, watch: &mut Stopwatch, turn: &mut Turn) {
        let releases = self.is_releasing && self.mover.poll_timeout(now).is_some_and(|due| due <= now);
        let begun_ns = watch.begin();
        self.mover.turn(now);
        if releases {
            self.releases += 1;
            watch.release.add(watch.end(begun_ns), 0);
            turn.cost_ns += costs.release_ns;
            self.slice_ns = costs.release_ns;
            self.debt_ns += (costs.release_ns as f64 * (self.weight - 1.0)) as u64;
        }
    }

    fn take(&mut self, now: MonotonicUs, link: Link, bytes: &[u8], watch: &mut Stopwatch, turn: &mut Turn) {
        let mut reader = FrameReader::new();
        reader.push(bytes);
        let frame = reader.next_frame().expect("nodes send sound frames").expect("and whole ones");
        let message = frame.message().expect("and sound messages");
        let begun_ns = watch.begin();
        let pending = self.mover.message(now, link, message);
        let took_ns = watch.end(begun_ns);
        let Some(pending) = pending else {
            watch.message.add(took_ns, bytes.len() as u64);
            return;
        };
        self.follow(turn);
        let begun_ns = watch.begin();
        self.mover.replay(now, pending);
        watch.replay.add(took_ns + watch.end(begun_ns), bytes.len() as u64);
    }

    /// Carries out the mover's outputs; returns whether there were any.
    fn transmit(&mut self, now: MonotonicUs, costs: &Costs, watch: &mut Stopwatch, turn: &mut Turn) -> bool {
        self.follow(turn);
        let mut has_sent = false;
        let links: Vec<(Link, Wire)> = self.wires.iter().map(|(&link, &wire)| (link, wire)).collect();
        for (link, Wire { lane, peer }) in links {
            // One bulk pull per turn, and none before the last one is paid.
            while lane == Lane::Priority || self.debt_ns == 0 {
                let mut bytes = Vec::new();
                let begun_ns = watch.begin();
                if !self.mover.poll_transmit(now, link, &mut bytes) {
                    break;
                }
                let took_ns = watch.end(begun_ns);
                has_sent = true;
                let length = bytes.len() as u64;
                let kind = kind(&bytes);
                let is_bulk = is_bulk(kind);
                let class = if is_bulk { Class::Bulk } else { Class::Small };
                let times = if is_bulk { self.weight } else { 1.0 };
                let weighted = length as f64 * times;
                self.sent_bytes += weighted;
                let arrival = Arrival::Frame { link, bytes, class };
                let output = Output::Send { to: peer, arrival, class, bytes: weighted as u64 };
                if !is_bulk {
                    turn.cost_ns += costs.write_ns + Costs::of_bytes(costs.copy_ns_per_kib, length);
                    if carries_records(kind) {
                        watch.pick.add(took_ns, length);
                        turn.cost_ns += Costs::of_bytes(costs.pick_ns_per_kib, length);
                    }
                    turn.outputs.push(output);
                    continue;
                }
                watch.pack.add(took_ns, length);
                let per_kib = costs.copy_ns_per_kib + costs.pack_ns_per_kib;
                self.owe(costs.write_ns + Costs::of_bytes(per_kib, length), costs, turn);
                if self.debt_ns > 0 {
                    self.held = Some(output);
                } else {
                    turn.outputs.push(output);
                }
                break;
            }
        }
        while let Some(worker) = self.mover.poll_notify() {
            turn.outputs.push(Output::Wake(self.workers[usize::from(worker.0)]));
        }
        if let Some(due) = self.mover.poll_timeout(now) {
            self.wake_at(due.max(now.plus_us(1)), turn);
        }
        has_sent
    }

    /// Sets an alarm.
    pub(super) fn wake_at(&self, at: MonotonicUs, turn: &mut Turn) {
        turn.outputs.push(Output::WakeAt(self.id, fires_ns(at)));
    }

    fn follow(&mut self, turn: &mut Turn) {
        while let Some(event) = self.mover.poll_event() {
            match event {
                MoverEvent::Connect { migration, lane, .. } => {
                    // Both ends use the same number: of the thread that opened it, and of the lane.
                    self.last_link += 1;
                    let link = Link((self.id as u64) << 32 | self.last_link);
                    let peer =
                        self.peers[usize::from(sidle_node::MoverIndex::of(migration, self.peers.len()).0)];
                    self.wires.insert(link, Wire { lane, peer });
                    turn.send(self.id, Arrival::Lane { migration, lane, link }, 0);
                }
                MoverEvent::Close(link, _) => {
                    self.wires.remove(&link);
                }
                MoverEvent::Report(migration, report) => {
                    self.is_releasing &= report != MoverReport::Ended;
                    turn.outputs
                        .push(Output::Notify(ControlMail::Input(ControlInput::Mover(migration, report))));
                }
            }
        }
    }
}

/// The part of the node's cores that is left to a mover, measured as in the server; a modelled machine runs
/// nothing else.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    at_us: u64,
    others_us: u64,
    permille: u64,
}

impl Spare {
    pub(crate) fn permille(&mut self, now_us: u64, mover_us: u64, node_us: u64, cores: u64) -> u64 {
        let wall_us = now_us - self.at_us;
        if wall_us >= SPARE_WINDOW_US {
            let others_us = node_us - mover_us;
            let others_permille = (others_us - self.others_us) * 1000 / wall_us;
            let was_rest = wall_us > SPARE_REST_US;
            self.permille = if was_rest { 0 } else { (cores * 1000).saturating_sub(others_permille) };
            (self.at_us, self.others_us) = (now_us, others_us);
        }
        self.permille
    }
}

/// The lane that a connection's first frame names.
fn greeting(bytes: &[u8]) -> Option<Lane> {
    let mut reader = FrameReader::new();
    reader.push(bytes);
    match reader.next_frame().ok()??.message().ok()? {
        Message::Hello(hello) => Some(hello.lane),
        _ => None,
    }
}

/// When the runtime's timer for this time fires: delayed by its resolution.
pub(super) fn fires_ns(at: MonotonicUs) -> u64 {
    at.0.next_multiple_of(TIMER_US) * 1000
}

/// Whether a frame carries records that represent others: not those requested singly, nor changed ones.
fn is_bulk(kind: Option<Kind>) -> bool {
    kind == Some(Kind::PullReply)
}

/// Whether it carries records at all.
fn carries_records(kind: Option<Kind>) -> bool {
    let small = [Kind::SampPullReply, Kind::PriorityPullReply, Kind::ChangedPullReply, Kind::CutReply];
    is_bulk(kind) || kind.is_some_and(|kind| small.contains(&kind))
}

fn kind(bytes: &[u8]) -> Option<Kind> {
    let mut reader = FrameReader::new();
    reader.push(bytes);
    Some(reader.next_frame().ok()??.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_at_whole_milliseconds_and_never_early() {
        let fires = [0, 1, 1_000, 1_001].map(|us| fires_ns(MonotonicUs(us)));
        assert_eq!(fires, [0, 1_000_000, 1_000_000, 2_000_000]);
    }
}
