//! Windows of 100 ms: each load thread fills its own, the run adds them up.
//!
//! Latencies go into HDR histograms of two significant digits (1 %), one for reads and one for writes per window, so
//! that the parts of a run (before, during and after a move) can be put together from windows once it is known when
//! the move took place.

use crate::report::{ByKind, Interval, Latency, Percentiles, Throughput, TimelinePoint, WINDOW_MS};
use hdrhistogram::Histogram;

/// The length of a window in nanoseconds.
pub const WINDOW_NS: u64 = WINDOW_MS * 1_000_000;

/// Longer latencies are counted as this long (two minutes); the maximum is kept exactly.
const LONGEST_NS: u64 = 120_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 2;

/// Latencies of one kind of operation in one window.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u32>,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        // It grows with the longest latency that it has seen: an idle window costs next to nothing.
        let histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("two digits are within the bounds");
        Latencies { histogram, max_ns: 0 }
    }
}

impl Latencies {
    /// Counts one operation.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.record(latency_ns.clamp(1, LONGEST_NS)).expect("the histogram grows");
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// How many operations were counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("the histogram grows");
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The percentiles in microseconds, or `None` when nothing was counted.
    pub fn percentiles(&self) -> Option<Percentiles> {
        (self.count() > 0).then(|| {
            let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max_ns) as f64 / 1000.0;
            Percentiles { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: self.max_ns as f64 / 1000.0 }
        })
    }

    fn reset(&mut self) {
        self.histogram.reset();
        self.max_ns = 0;
    }
}

/// What happened in one window.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Reads that succeeded.
    pub reads: Latencies,
    /// Writes that succeeded.
    pub writes: Latencies,
    /// Bytes between clients and nodes beyond one request and reply per operation.
    pub extra_bytes: u64,
}

impl Window {
    /// Operations that succeeded.
    pub fn operations(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    fn add(&mut self, other: &Window) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.extra_bytes += other.extra_bytes;
    }

    fn reset(&mut self) {
        self.reads.reset();
        self.writes.reset();
        self.extra_bytes = 0;
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
        if self.window.operations() > 0 || self.window.extra_bytes > 0 {
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
        let index = number as usize;
        if self.moved_bytes.len() <= index {
            self.moved_bytes.resize(index + 1, 0);
        }
        self.moved_bytes[index] += bytes;
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
            let mut both = window.reads.clone();
            both.add(&window.writes);
            let percentiles = both.percentiles();
            TimelinePoint {
                at_ms: index as u64 * WINDOW_MS,
                operations: window.operations(),
                p50: percentiles.map(|p| p.p50),
                p99: percentiles.map(|p| p.p99),
                p999: percentiles.map(|p| p.p999),
                moved_bytes: moved.then(|| self.moved_bytes.get(index).copied().unwrap_or(0)),
                extra_bytes: extra.then_some(window.extra_bytes),
            }
        };
        self.windows.iter().enumerate().map(point).collect()
    }

    /// Throughput and latency of the three parts that a migration cuts the run into. Windows that the migration only
    /// touches count as during it.
    pub fn parts(&self, migration: Option<Interval>) -> (Throughput, Latency) {
        let end = self.windows.len();
        let (from, to) = migration.map_or((end, end), |migration| {
            let from = (migration.from_ms / WINDOW_MS as f64) as usize;
            let to = (migration.to_ms / WINDOW_MS as f64) as usize + 1;
            (from.min(end), to.min(end))
        });
        let (before, during, after) = (&self.windows[..from], &self.windows[from..to], &self.windows[to..]);
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

fn latencies(windows: &[Window]) -> ByKind {
    let (mut reads, mut writes) = (Latencies::default(), Latencies::default());
    for window in windows {
        reads.add(&window.reads);
        writes.add(&window.writes);
    }
    ByKind { reads: reads.percentiles(), writes: writes.percentiles() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(reads: u32, latency_ns: u64) -> Window {
        let mut window = Window::default();
        for _ in 0..reads {
            window.reads.record(latency_ns);
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
    fn percentiles_are_within_a_percent() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|us| latencies.record(us * 1000));
        let percentiles = latencies.percentiles().unwrap();
        for (seen, exact) in [(percentiles.p50, 500.0), (percentiles.p99, 990.0), (percentiles.p999, 999.0)] {
            assert!((seen - exact).abs() / exact < 0.01, "{seen} is not {exact}");
        }
        assert_eq!(percentiles.max, 1000.0);
    }

    #[test]
    fn a_recorder_hands_windows_over_in_turn() {
        let (sink, windows) = std::sync::mpsc::channel();
        let mut recorder = Recorder::new(sink);
        recorder.at(5).reads.record(10);
        recorder.at(WINDOW_NS - 1).reads.record(10);
        recorder.at(3 * WINDOW_NS).writes.record(10);
        recorder.hand_over();
        let numbers: Vec<(u64, u64)> =
            windows.try_iter().map(|(number, window)| (number, window.operations())).collect();
        assert_eq!(numbers, [(0, 2), (3, 1)]);
    }
}
