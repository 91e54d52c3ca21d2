//! Windows of 100 ms: each load thread fills its own, the run adds them up.
//!
//! Each window has histograms of its own, for reads and for writes, by whose answer was taken, so that the parts of a run (before, during and after a move) can be put together from windows once it is known when
//! the move took place.

use crate::latencies::ByNode;
use crate::report::{
    ByKind, Interval, Latency, MeanByKind, NodeLatencies, NodeLatency, Throughput, TimelinePoint, WINDOW_MS,
};

/// The length of a window in nanoseconds.
pub const WINDOW_NS: u64 = WINDOW_MS * 1_000_000;

/// What happened in one window.
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
}

impl Window {
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
    }

    fn reset(&mut self) {
        self.reads.reset();
        self.writes.reset();
        (self.extra_bytes, self.tracking_bytes, self.lookups_ns, self.lookups) = (0, 0, 0, 0);
    }
}

/// One thread's measuring: fills a window and hands it over when its time is up.
#[derive(Debug)]
pub struct Recorder {
    number: u64,
    window: Window,
    sink: std::sync::mpsc::Sender<(u64, Window)>,
}

impl Recorder {
    /// A recorder that hands finished windows, with their numbers, to `sink`.
    pub fn new(sink: std::sync::mpsc::Sender<(u64, Window)>) -> Recorder {
        Recorder { number: 0, window: Window::default(), sink }
    }

    /// The window of an instant, given in nanoseconds from the start of the load.
    #[inline]
    pub fn at(&mut self, since_start_ns: u64) -> &mut Window {
        let number = since_start_ns / WINDOW_NS;
        if number != self.number {
            self.hand_over();
            self.number = number;
        }
        &mut self.window
    }

    /// Hands the unfinished window over.
    pub fn hand_over(&mut self) {
        if !self.window.is_empty() {
            // Nobody listens once the run was broken off; the figures are then not wanted.
            let _ = self.sink.send((self.number, self.window.clone()));
            self.window.reset();
        }
    }
}

/// A whole run in windows.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    windows: Vec<Window>,
    moved_bytes: Vec<u64>,
    server_extra_bytes: Vec<u64>,
}

impl Timeline {
    /// Adds a thread's window.
    pub fn add(&mut self, number: u64, window: &Window) {
        let index = number as usize;
        if self.windows.len() <= index {
            self.windows.resize_with(index + 1, Window::default);
        }
        self.windows[index].add(window);
    }

    /// Notes bytes that arrived at the target in a window.
    pub fn add_moved_bytes(&mut self, number: u64, bytes: u64) {
        add_at(&mut self.moved_bytes, number, bytes);
    }

    /// Notes bytes between the nodes, beyond one copy of each record, in a window.
    pub fn add_server_extra_bytes(&mut self, number: u64, bytes: u64) {
        add_at(&mut self.server_extra_bytes, number, bytes);
    }

    /// How many windows there are.
    pub const fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether nothing was measured.
    pub const fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// The window with this number.
    pub fn window(&self, number: usize) -> Option<&Window> {
        self.windows.get(number)
    }

    /// Drops what lies behind the last whole window of a load that lasted `load_ns`.
    pub fn truncate(&mut self, load_ns: u64) {
        self.windows.truncate((load_ns / WINDOW_NS) as usize);
    }

    /// Bytes beyond the necessary between clients and nodes, over the whole run.
    pub fn extra_bytes(&self) -> u64 {
        self.windows.iter().map(|window| window.extra_bytes).sum()
    }

    /// The points of the report. `moved` says whether moved bytes were measured.
    pub fn points(&self, moved: bool, extra: bool) -> Vec<TimelinePoint> {
        let point = |(index, window): (usize, &Window)| {
            let mut both = window.reads.both();
            both.add(&window.writes.both());
            let percentiles = both.percentiles();
            TimelinePoint {
                at_ms: index as u64 * WINDOW_MS,
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
            }
        };
        self.windows.iter().enumerate().map(point).collect()
    }

    /// Throughput and latency of the three parts that a migration cuts the run into. Windows that the migration only
    /// touches count as during it.
    pub fn parts(&self, migration: Option<Interval>) -> (Throughput, Latency) {
        let [before, during, after] = self.cut(migration);
        let throughput = Throughput {
            // The first window holds the start of all clients.
            before: median(if before.len() > 1 { &before[1..] } else { before }),
            during: mean(during),
            during_worst_window: during.iter().map(Window::operations).min().map(per_second),
            after: median(after),
        };
        let latency =
            Latency { before: latencies(before), during: latencies(during), after: latencies(after) };
        (throughput, latency)
    }

    /// Mean latencies of the same parts, by whose answer was taken.
    pub fn by_node(&self, migration: Interval) -> NodeLatency {
        let [before, during, after] = self.cut(Some(migration)).map(means_by_node);
        NodeLatency { before, during, after }
    }

    /// Before, during and after.
    fn cut(&self, migration: Option<Interval>) -> [&[Window]; 3] {
        let end = self.windows.len();
        let (from, to) = migration.map_or((end, end), |migration| {
            let from = (migration.from_ms / WINDOW_MS as f64) as usize;
            let to = (migration.to_ms / WINDOW_MS as f64) as usize + 1;
            (from.min(end), to.min(end))
        });
        [&self.windows[..from], &self.windows[from..to], &self.windows[to..]]
    }
}

fn per_second(operations: u64) -> f64 {
    operations as f64 * 1000.0 / WINDOW_MS as f64
}

fn median(windows: &[Window]) -> Option<f64> {
    let mut counts: Vec<u64> = windows.iter().map(Window::operations).collect();
    counts.sort_unstable();
    counts.get(counts.len() / 2).map(|&count| per_second(count))
}

fn mean(windows: &[Window]) -> Option<f64> {
    let sum: u64 = windows.iter().map(Window::operations).sum();
    (!windows.is_empty()).then(|| per_second(sum) / windows.len() as f64)
}

fn add_at(bytes_of: &mut Vec<u64>, number: u64, bytes: u64) {
    let index = number as usize;
    if bytes_of.len() <= index {
        bytes_of.resize(index + 1, 0);
    }
    bytes_of[index] += bytes;
}

fn sums(windows: &[Window]) -> (ByNode, ByNode) {
    let (mut reads, mut writes) = (ByNode::default(), ByNode::default());
    for window in windows {
        reads.add(&window.reads);
        writes.add(&window.writes);
    }
    (reads, writes)
}

fn latencies(windows: &[Window]) -> ByKind {
    let (reads, writes) = sums(windows);
    ByKind { reads: reads.both().percentiles(), writes: writes.both().percentiles() }
}

fn means_by_node(windows: &[Window]) -> NodeLatencies {
    let (reads, writes) = sums(windows);
    let ([source_reads, target_reads], [source_writes, target_writes]) = (reads.means(), writes.means());
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
        for (number, reads) in [(0, 1), (1, 10), (2, 20), (3, 30), (4, 5), (5, 7), (6, 40)] {
            timeline.add(number, &window(reads, 1000 * (number + 1)));
        }
        let (throughput, latency) = timeline.parts(Some(Interval { from_ms: 410.0, to_ms: 560.0 }));
        assert_eq!(throughput.before, Some(200.0), "the median of windows 1 to 3");
        assert_eq!(throughput.during, Some(60.0));
        assert_eq!(throughput.during_worst_window, Some(50.0));
        assert_eq!(throughput.after, Some(400.0));
        assert_eq!(latency.after.reads.unwrap().max, 7.0);
        assert_eq!(latency.during.writes, None);
    }

    #[test]
    fn without_a_migration_everything_is_before() {
        let mut timeline = Timeline::default();
        timeline.add(2, &window(3, 500));
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
        timeline.add(0, &answered(|window| &mut window.reads, AnsweredBy::Source, &[20]));
        timeline.add(1, &answered(|window| &mut window.reads, AnsweredBy::Source, &[10]));
        timeline.add(1, &answered(|window| &mut window.reads, AnsweredBy::Target, &[2, 4]));
        timeline.add(2, &answered(|window| &mut window.writes, AnsweredBy::Target, &[7]));
        let by_node = timeline.by_node(Interval { from_ms: 100.0, to_ms: 150.0 });
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
    fn a_point_has_what_the_clients_track_and_what_the_nodes_send_beyond() {
        let mut timeline = Timeline::default();
        for bytes in [500, 300] {
            timeline
                .add(1, &Window { tracking_bytes: bytes, lookups_ns: 90, lookups: 3, ..Window::default() });
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
    fn a_recorder_hands_windows_over_in_turn() {
        let (sink, windows) = std::sync::mpsc::channel();
        let mut recorder = Recorder::new(sink);
        recorder.at(5).reads.of(AnsweredBy::Source).record(10);
        recorder.at(WINDOW_NS - 1).reads.of(AnsweredBy::Target).record(10);
        recorder.at(3 * WINDOW_NS).writes.of(AnsweredBy::Source).record(10);
        recorder.hand_over();
        let numbers: Vec<(u64, u64)> =
            windows.try_iter().map(|(number, window)| (number, window.operations())).collect();
        assert_eq!(numbers, [(0, 2), (3, 1)]);
    }
}
