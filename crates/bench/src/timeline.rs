//! Windows of 100 ms: each load thread fills its own, the run adds them up.
//!
//! Each window has histograms of its own, for reads and for writes, by the answering node. A move cuts a
//! run into parts, and the windows of its beginning and end into pieces: operations right before and right
//! after a short move are not counted as the move's.

use crate::latencies::{AnsweredBy, ByNode};
use crate::report::{
    ByKind, Interval, Latency, MeanByKind, NodeLatencies, NodeLatency, Percentiles, Throughput,
    TimelinePoint, WINDOW_MS,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// The length of a window in nanoseconds.
pub const WINDOW_NS: u64 = WINDOW_MS * 1_000_000;
/// Answers are counted by node in slices of this length.
const SLICE_NS: u64 = 5_000_000;
const SLICES: usize = (WINDOW_NS / SLICE_NS) as usize;
/// Over so many slices a share of the answers is taken.
const SHARE_SLICES: usize = 5;

/// The parts into which a move cuts a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Part {
    /// Before it; the whole run if nothing moves.
    #[default]
    Before,
    /// While data moves.
    During,
    /// After it.
    After,
}

/// A window, or a piece of one: its number, and the part of the run that it belongs to.
pub type Piece = (u64, Part);

/// The operations of one window.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Reads that succeeded.
    pub reads: ByNode,
    /// Writes that succeeded.
    pub writes: ByNode,
    /// Bytes between clients and nodes beyond one request and reply per operation.
    pub extra_bytes: u64,
    /// The most bytes that one client held to know what has moved.
    pub tracking_bytes: u64,
    /// Nanoseconds that timed look-ups of where to read took.
    pub lookups_ns: u64,
    /// How many look-ups were timed.
    pub lookups: u64,
    slices: [Answers; SLICES],
}

/// Answers of a slice of time, by the node that gave them.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    source: u32,
    target: u32,
}

impl Answers {
    fn add(&mut self, other: Answers) {
        self.source += other.source;
        self.target += other.target;
    }
}

/// The target's share of the answers; 0 if there was none.
fn target_share(slices: &[Answers]) -> f64 {
    let mut sum = Answers::default();
    slices.iter().for_each(|&slice| sum.add(slice));
    f64::from(sum.target) / f64::from((sum.source + sum.target).max(1))
}

impl Window {
    /// Counts an operation that succeeded, so long after the start of the load.
    #[inline]
    pub fn answered(&mut self, is_write: bool, by: AnsweredBy, latency_ns: u64, since_start_ns: u64) {
        let latencies = if is_write { &mut self.writes } else { &mut self.reads };
        latencies.of(by).record(latency_ns);
        let slice = &mut self.slices[(since_start_ns % WINDOW_NS / SLICE_NS) as usize];
        match by {
            AnsweredBy::Source => slice.source += 1,
            AnsweredBy::Target => slice.target += 1,
        }
    }

    /// Operations that succeeded.
    pub fn operations(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    fn is_empty(&self) -> bool {
        self.operations() == 0 && self.extra_bytes == 0 && self.tracking_bytes == 0 && self.lookups == 0
    }

    fn add(&mut self, other: &Window) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.extra_bytes += other.extra_bytes;
        self.tracking_bytes = self.tracking_bytes.max(other.tracking_bytes);
        self.lookups_ns += other.lookups_ns;
        self.lookups += other.lookups;
        self.slices.iter_mut().zip(other.slices).for_each(|(slice, more)| slice.add(more));
    }

    fn reset(&mut self) {
        self.reads.reset();
        self.writes.reset();
        (self.extra_bytes, self.tracking_bytes, self.lookups_ns, self.lookups) = (0, 0, 0, 0);
        self.slices = Default::default();
    }
}

/// One thread's measuring: fills a window and hands it over once its time is up.
#[derive(Debug)]
pub struct Recorder {
    piece: Piece,
    window: Window,
    sink: std::sync::mpsc::Sender<(Piece, Window)>,
}

impl Recorder {
    /// A recorder that hands finished windows to `sink`.
    pub fn new(sink: std::sync::mpsc::Sender<(Piece, Window)>) -> Recorder {
        Recorder { piece: Piece::default(), window: Window::default(), sink }
    }

    /// The window of an instant, given in nanoseconds from the start of the load, in a part of the run.
    #[inline]
    pub fn at(&mut self, since_start_ns: u64, part: Part) -> &mut Window {
        let piece = (since_start_ns / WINDOW_NS, part);
        if piece != self.piece {
            self.hand_over();
            self.piece = piece;
        }
        &mut self.window
    }

    /// Hands over the unfinished window.
    pub fn hand_over(&mut self) {
        if !self.window.is_empty() {
            // After an abort the receiver is gone; the figures are not wanted then.
            let _ = self.sink.send((self.piece, self.window.clone()));
            self.window.reset();
        }
    }
}

/// A whole run in windows.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pieces: BTreeMap<Piece, Window>,
    moved_bytes: Vec<u64>,
    server_extra_bytes: Vec<u64>,
}

impl Timeline {
    /// Adds a thread's window.
    pub fn add(&mut self, piece: Piece, window: &Window) {
        self.pieces.entry(piece).or_default().add(window);
    }

    /// Records bytes that arrived at the target in a window.
    pub fn add_moved_bytes(&mut self, number: u64, bytes: u64) {
        add_at(&mut self.moved_bytes, number, bytes);
    }

    /// Records bytes between the nodes, beyond one copy of each record, in a window.
    pub fn add_server_extra_bytes(&mut self, number: u64, bytes: u64) {
        add_at(&mut self.server_extra_bytes, number, bytes);
    }

    /// How many windows there are.
    pub fn len(&self) -> usize {
        self.pieces.last_key_value().map_or(0, |(&(number, _), _)| number as usize + 1)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Operations per second, and latencies of reads, in a window with any operations.
    pub fn seen_in(&self, number: u64) -> Option<(f64, Option<Percentiles>)> {
        self.pieces_of(number).next()?;
        let window = self.window(number);
        Some((per_second(window.operations()), window.reads.both().percentiles()))
    }

    /// Drops everything behind the last whole window of a load that lasted `load_ns`.
    pub fn truncate(&mut self, load_ns: u64) {
        self.pieces.split_off(&(load_ns / WINDOW_NS, Part::Before));
    }

    /// Bytes beyond the necessary between clients and nodes, over the whole run.
    pub fn extra_bytes(&self) -> u64 {
        self.pieces.values().map(|window| window.extra_bytes).sum()
    }

    /// The points of the report. `moved`: whether moved bytes were measured.
    pub fn points(&self, moved: bool, extra: bool) -> Vec<TimelinePoint> {
        let point = |number: u64| {
            let window = self.window(number);
            let mut both = window.reads.both();
            both.add(&window.writes.both());
            let percentiles = both.percentiles();
            let index = number as usize;
            TimelinePoint {
                at_ms: number * WINDOW_MS,
                operations: window.operations(),
                p50: percentiles.map(|p| p.p50),
                p99: percentiles.map(|p| p.p99),
                p999: percentiles.map(|p| p.p999),
                moved_bytes: moved.then(|| self.moved_bytes.get(index).copied().unwrap_or(0)),
                extra_bytes: extra.then_some(window.extra_bytes),
                extra_server_bytes: (moved && !self.server_extra_bytes.is_empty())
                    .then(|| self.server_extra_bytes.get(index).copied().unwrap_or(0)),
                tracking_bytes: moved.then_some(window.tracking_bytes),
                lookup_ns: (window.lookups > 0).then(|| window.lookups_ns as f64 / window.lookups as f64),
                ..TimelinePoint::default()
            }
        };
        (0..self.len() as u64).map(point).collect()
    }

    /// Throughput and latency of the three parts that a migration cuts the run into. Medians are of windows
    /// entirely in their part; the worst window is one that the migration touches.
    pub fn parts(&self, migration: Option<Interval>) -> (Throughput, Latency) {
        let all = self.len() as u64;
        let touched = migration.map_or(all..all, |migration| {
            let number = |ms: f64| (ms / WINDOW_MS as f64) as u64;
            number(migration.from_ms).min(all)..(number(migration.to_ms) + 1).min(all)
        });
        let [before, during, after] =
            [0..touched.start, touched.clone(), touched.end..all].map(|range| self.operations_in(range));
        let moving_ms = migration.map_or(0.0, |migration| migration.to_ms - migration.from_ms);
        let moving_operations = self.sum_of(Part::During).operations();
        let throughput = Throughput {
            // The first window holds the start of all clients.
            before: median(if before.len() > 1 { &before[1..] } else { &before }),
            during: (moving_ms > 0.0).then(|| moving_operations as f64 * 1000.0 / moving_ms),
            during_worst_window: during.into_iter().min().map(per_second),
            after: median(&after),
        };
        let [before, during, after] = PARTS.map(|part| latencies(&self.sum_of(part)));
        (throughput, Latency { before, during, after })
    }

    /// Mean latencies of the same parts, by the answering node.
    pub fn by_node(&self) -> NodeLatency {
        let [before, during, after] = PARTS.map(|part| means_by_node(&self.sum_of(part)));
        NodeLatency { before, during, after }
    }

    /// How long after the request to move the target answered half of what it answers after the move, to
    /// 5 ms: from there on for 25 ms.
    pub fn relief_ms(&self, migration: Interval) -> Option<f64> {
        let after = target_share(&self.sum_of(Part::After).slices);
        if after == 0.0 {
            return None;
        }
        let slices: Vec<Answers> =
            (0..self.len() as u64).flat_map(|number| self.window(number).slices).collect();
        let slice_ms = SLICE_NS as f64 / 1e6;
        let first = (migration.from_ms / slice_ms) as usize;
        let mut shares = slices.get(first..)?.windows(SHARE_SLICES).map(target_share);
        let found = shares.position(|share| share >= after / 2.0)?;
        Some(((first + found) as f64 * slice_ms - migration.from_ms).max(0.0))
    }

    /// The sum of one part.
    fn sum_of(&self, part: Part) -> Window {
        sum(self.pieces.iter().filter(|&(&(_, of), _)| of == part).map(|(_, window)| window))
    }

    /// A whole window.
    fn window(&self, number: u64) -> Window {
        sum(self.pieces_of(number))
    }

    fn pieces_of(&self, number: u64) -> impl Iterator<Item = &Window> {
        self.pieces.range((number, Part::Before)..=(number, Part::After)).map(|(_, window)| window)
    }

    /// How many operations ended in each of these windows.
    fn operations_in(&self, numbers: Range<u64>) -> Vec<u64> {
        numbers.map(|number| self.pieces_of(number).map(Window::operations).sum()).collect()
    }
}

const PARTS: [Part; 3] = [Part::Before, Part::During, Part::After];

fn per_second(operations: u64) -> f64 {
    operations as f64 * 1000.0 / WINDOW_MS as f64
}

fn median(counts: &[u64]) -> Option<f64> {
    let mut counts = counts.to_vec();
    counts.sort_unstable();
    counts.get(counts.len() / 2).map(|&count| per_second(count))
}

fn add_at(bytes_of: &mut Vec<u64>, number: u64, bytes: u64) {
    let index = number as usize;
    if bytes_of.len() <= index {
        bytes_of.resize(index + 1, 0);
    }
    bytes_of[index] += bytes;
}

fn sum<'w>(windows: impl Iterator<Item = &'w Window>) -> Window {
    let mut sum = Window::default();
    windows.for_each(|window| sum.add(window));
    sum
}

fn latencies(window: &Window) -> ByKind {
    ByKind {
        reads: window.reads.both().percentiles(),
        writes: window.writes.both().percentiles(),
        ..ByKind::default()
    }
}

fn means_by_node(window: &Window) -> NodeLatencies {
    let ([source_reads, target_reads], [source_writes, target_writes]) =
        (window.reads.means(), window.writes.means());
    NodeLatencies {
        source: MeanByKind { reads: source_reads, writes: source_writes },
        target: MeanByKind { reads: target_reads, writes: target_writes },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latencies::AnsweredBy;
    use crate::report::MeanLatency;

    fn window(reads: u32, latency_ns: u64) -> Window {
        let mut window = Window::default();
        for _ in 0..reads {
            window.reads.of(AnsweredBy::Source).record(latency_ns);
        }
        window
    }

    #[test]
    fn parts_are_cut_where_the_migration_was() {
        let mut timeline = Timeline::default();
        let pieces = [
            (0, Part::Before, 1),
            (1, Part::Before, 10),
            (2, Part::Before, 20),
            (3, Part::Before, 30),
            // Window 4: a tenth before, the rest while data moves; window 5: six tenths of it, the rest after
            // it.
            (4, Part::Before, 8),
            (4, Part::During, 4),
            (5, Part::During, 2),
            (5, Part::After, 9),
            (6, Part::After, 40),
        ];
        for (number, part, reads) in pieces {
            timeline.add((number, part), &window(reads, 1000 * (number + 1)));
        }
        let (throughput, latency) = timeline.parts(Some(Interval { from_ms: 410.0, to_ms: 560.0 }));
        assert_eq!(throughput.before, Some(200.0), "the median of windows 1 to 3");
        assert_eq!(throughput.during, Some(40.0), "six operations in 150 ms");
        assert_eq!(throughput.during_worst_window, Some(110.0), "whole windows");
        assert_eq!(throughput.after, Some(400.0));
        assert_eq!(latency.before.reads.unwrap().max, 5.0, "the tenth of window 4");
        assert_eq!((latency.during.reads.unwrap().max, latency.after.reads.unwrap().p50), (6.0, 7.0));
        assert_eq!(latency.during.writes, None);
        assert_eq!(timeline.points(false, false)[4].operations, 12, "a point is a whole window");
        assert_eq!(timeline.seen_in(5).map(|(rate, _)| rate), Some(110.0));
        assert_eq!(timeline.seen_in(7), None);
        timeline.truncate(599_999_999);
        assert_eq!(timeline.len(), 5, "window 5 was not over");
    }

    #[test]
    fn without_a_migration_everything_is_before() {
        let mut timeline = Timeline::default();
        timeline.add((2, Part::Before), &window(3, 500));
        let (throughput, latency) = timeline.parts(None);
        assert_eq!((throughput.before, throughput.during, throughput.after), (Some(30.0), None, None));
        assert!(latency.before.reads.is_some());
        assert_eq!(timeline.points(false, true)[0].p50, None, "an empty window has no latency");
    }

    #[test]
    fn the_parts_tell_whose_answers_were_taken() {
        let mut timeline = Timeline::default();
        let answered = |kind: fn(&mut Window) -> &mut ByNode, node, latencies_us: &[u64]| {
            let mut window = Window::default();
            latencies_us.iter().for_each(|us| kind(&mut window).of(node).record(us * 1000));
            window
        };
        let mut add = |number, part, window: Window| timeline.add((number, part), &window);
        add(0, Part::Before, answered(|window| &mut window.reads, AnsweredBy::Source, &[20]));
        add(1, Part::During, answered(|window| &mut window.reads, AnsweredBy::Source, &[10]));
        add(1, Part::During, answered(|window| &mut window.reads, AnsweredBy::Target, &[2, 4]));
        add(2, Part::After, answered(|window| &mut window.writes, AnsweredBy::Target, &[7]));
        let by_node = timeline.by_node();
        let about = |mean: Option<MeanLatency>| mean.map(|mean| (mean.operations, mean.mean.round() as u64));
        assert_eq!(about(by_node.before.source.reads), Some((1, 20)));
        assert_eq!(about(by_node.before.target.reads), None);
        assert_eq!(about(by_node.during.source.reads), Some((1, 10)));
        assert_eq!(about(by_node.during.target.reads), Some((2, 3)));
        assert_eq!(about(by_node.after.target.writes), Some((1, 7)));
        let (_, latency) = timeline.parts(Some(Interval { from_ms: 100.0, to_ms: 150.0 }));
        assert_eq!(latency.during.reads.unwrap().max, 10.0, "both nodes' together");
    }

    #[test]
    fn relief_is_when_the_target_answers_half_of_what_it_will() {
        let mut timeline = Timeline::default();
        let mut add = |from_ms: u64, to_ms: u64, part, target_of_8: u64| {
            for ms in from_ms..to_ms {
                let mut window = Window::default();
                for n in 0..8 {
                    let by = if n < target_of_8 { AnsweredBy::Target } else { AnsweredBy::Source };
                    window.answered(n == 7, by, 1000, ms * 1_000_000);
                }
                timeline.add((ms / WINDOW_MS, part), &window);
            }
        };
        add(0, 310, Part::Before, 0);
        add(310, 342, Part::During, 1);
        add(342, 420, Part::During, 2);
        add(420, 600, Part::After, 4);
        let interval = Interval { from_ms: 310.0, to_ms: 420.0 };
        assert_eq!(timeline.relief_ms(interval), Some(35.0), "to 5 ms after 32 ms");
        let only_before = Interval { from_ms: 700.0, to_ms: 800.0 };
        assert_eq!(timeline.relief_ms(only_before), None);
        assert_eq!(Timeline::default().relief_ms(interval), None);
    }

    #[test]
    fn a_point_has_what_the_clients_track_and_what_the_nodes_send_beyond() {
        let mut timeline = Timeline::default();
        for bytes in [500, 300] {
            let window = Window { tracking_bytes: bytes, lookups_ns: 90, lookups: 3, ..Window::default() };
            timeline.add((1, Part::During), &window);
        }
        timeline.add_server_extra_bytes(1, 70);
        let points = timeline.points(true, true);
        let seen = |index: usize| {
            let point = points[index];
            (point.tracking_bytes, point.lookup_ns, point.extra_server_bytes)
        };
        assert_eq!(seen(0), (Some(0), None, Some(0)));
        assert_eq!(seen(1), (Some(500), Some(30.0), Some(70)));
        assert_eq!(timeline.points(false, true)[1].extra_server_bytes, None, "nothing moved");
    }

    #[test]
    fn a_recorder_hands_over_when_a_window_or_a_part_ends() {
        let (sink, windows) = std::sync::mpsc::channel();
        let mut recorder = Recorder::new(sink);
        recorder.at(5, Part::Before).reads.of(AnsweredBy::Source).record(10);
        recorder.at(WINDOW_NS - 2, Part::Before).reads.of(AnsweredBy::Target).record(10);
        recorder.at(WINDOW_NS - 1, Part::During).reads.of(AnsweredBy::Target).record(10);
        recorder.at(3 * WINDOW_NS, Part::During).writes.of(AnsweredBy::Source).record(10);
        recorder.hand_over();
        let seen: Vec<(Piece, u64)> =
            windows.try_iter().map(|(piece, window)| (piece, window.operations())).collect();
        assert_eq!(seen, [((0, Part::Before), 2), ((0, Part::During), 1), ((3, Part::During), 1)]);
    }
}
