//! A node's heat: windows of a second, the slots' sums, and what HOTKEYS tracks.

use crate::access::{Access, Usage};
use crate::session::Session;
use crate::slots::{SlotCounters, hottest};
use crate::space_saving::TRACKED;
use crate::summary::Summary;
use sidle_types::{Position, PositionRange, Slot, WallMs};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many windows are kept, and so the longest time that can be asked for, in seconds.
pub const MOST_SECONDS: usize = 60;
/// How many positions, and slots, the windows of the last [`DETAILED`] seconds list.
const LISTED: usize = TRACKED;
const DETAILED: usize = 5;
/// How many of them older windows list.
const LISTED_LATER: usize = 24;

/// One second of a node.
#[derive(Debug, Default)]
struct Window {
    keys: Summary,
    slots: Vec<(Slot, u64)>,
    /// Its length: the longest of the workers' windows that it is made of.
    us: u64,
    /// How many workers have handed theirs over.
    parts: usize,
}

#[derive(Debug, Default)]
struct Windows {
    /// Its number.
    second: u64,
    /// Parts of it are still to come.
    open: Window,
    /// The latest first.
    closed: VecDeque<Window>,
}

/// The last seconds of a node.
#[derive(Debug)]
pub struct Recent {
    /// The keys.
    pub keys: Summary,
    /// The slots with most accesses, each with their number; the hottest first.
    pub slots: Vec<(Slot, u64)>,
    /// The time that was looked at, in microseconds; 0: nothing was counted yet.
    pub us: u64,
}

/// A position and its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotPosition {
    /// The position.
    pub position: Position,
    /// Accesses a second: an estimate from samples, rather too few than too many.
    pub per_second: u64,
    /// How many of them may be writes.
    pub writes_per_second: u64,
}

/// A node's heat, shared by all of its threads.
#[derive(Debug)]
pub struct Heat {
    workers: usize,
    slots: SlotCounters,
    windows: Mutex<Windows>,
    /// Whether HOTKEYS tracks.
    tracks: AtomicBool,
    session: Mutex<Option<Session>>,
}

impl Heat {
    /// Of a node with so many workers.
    pub fn new(workers: usize) -> Heat {
        Heat {
            workers,
            slots: SlotCounters::default(),
            windows: Mutex::default(),
            tracks: AtomicBool::new(false),
            session: Mutex::default(),
        }
    }

    /// The slots' sums.
    pub fn slots(&self) -> &SlotCounters {
        &self.slots
    }

    /// Takes a worker's window of `us` microseconds, at the beginning of second `second`.
    pub(crate) fn hand_over(&self, second: u64, us: u64, keys: &Summary) {
        let mut windows = self.windows();
        // A worker that did not come in time takes part in the next window.
        if windows.open.parts > 0 && second > windows.second {
            windows.close(&self.slots);
        }
        windows.second = windows.second.max(second);
        let open = &mut windows.open;
        open.keys = Summary::merged([&open.keys, keys]);
        open.keys.shorten(LISTED);
        open.us = open.us.max(us);
        open.parts += 1;
        if open.parts >= self.workers {
            windows.close(&self.slots);
        }
    }

    /// The last seconds: `seconds` windows at most.
    pub fn recent(&self, seconds: usize) -> Recent {
        let windows = self.windows();
        let latest = || windows.closed.iter().take(seconds);
        let mut slots = BTreeMap::new();
        for &(slot, count) in latest().flat_map(|window| &window.slots) {
            *slots.entry(slot).or_default() += count;
        }
        Recent {
            keys: Summary::merged(latest().map(|window| &window.keys)),
            slots: hottest(slots.into_iter().collect(), LISTED),
            us: latest().map(|window| window.us).sum(),
        }
    }

    /// The hottest positions of a range in the last seconds, `most` at most, the hottest first: for who moves
    /// it. Only positions among the node's hottest can be in it.
    pub fn hottest_in(&self, range: PositionRange, most: usize, seconds: usize) -> Vec<HotPosition> {
        let Recent { keys, us, .. } = self.recent(seconds);
        let per_second = |count: u64| (u128::from(count) * 1_000_000 / u128::from(us.max(1))) as u64;
        let inside = keys.hottest().iter().filter(|hot| range.contains(hot.position));
        let rated = inside.map(|hot| HotPosition {
            position: hot.position,
            per_second: per_second(hot.at_least()),
            writes_per_second: per_second(hot.usage.writes),
        });
        rated.take(most).collect()
    }

    // ---- HOTKEYS ----

    /// Starts tracking; forgets what was tracked before.
    pub fn start_session(&self, session: Session) {
        *self.session() = Some(session);
        self.tracks.store(true, Relaxed);
    }

    /// Looks at the session, if there is one, or changes it; `now` ends one whose time is over.
    pub fn with_session<T>(&self, now: WallMs, look: impl FnOnce(&mut Option<Session>) -> T) -> T {
        let mut session = self.session();
        if let Some(session) = &mut *session {
            session.pass_time(now);
        }
        let seen = look(&mut session);
        self.tracks.store(session.as_ref().is_some_and(Session::is_active), Relaxed);
        seen
    }

    /// Tells HOTKEYS of a sampled access.
    pub(crate) fn track(&self, now: WallMs, access: Access<'_>) {
        if self.tracks.load(Relaxed) {
            self.with_session(now, |session| {
                if let Some(session) = session {
                    session.record(access);
                }
            });
        }
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    /// Everything that was accessed.
    pub fn total(&self) -> Usage {
        self.keys.total()
    }
}

impl Windows {
    /// S3: of older windows less is kept.
    fn close(&mut self, slots: &SlotCounters) {
        let mut window = std::mem::take(&mut self.open);
        window.slots = slots.end_second(LISTED);
        self.closed.push_front(window);
        self.closed.truncate(MOST_SECONDS);
        if let Some(older) = self.closed.get_mut(DETAILED) {
            older.keys.shorten(LISTED_LATER);
            older.slots.truncate(LISTED_LATER);
            older.slots.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Hot;
    use crate::worker::WorkerHeat;
    use sidle_types::{MonotonicUs, SLOT_COUNT};

    fn read(key: &[u8]) -> Access<'_> {
        let usage =
            Usage { operations: 1, bytes_in: 30, bytes_out: 100, nanoseconds: 500, ..Usage::default() };
        Access { position: Position::of_key(key), key, usage }
    }

    fn tick(heat: &Heat, workers: &mut [WorkerHeat], ms: u64) {
        workers.iter_mut().for_each(|worker| worker.tick(heat, MonotonicUs(ms * 1000), 0));
    }

    /// The hottest keys with their counts.
    fn keys(heat: &Heat, seconds: usize) -> Vec<(String, u64)> {
        let recent = heat.recent(seconds);
        let named = |hot: &Hot| (String::from_utf8_lossy(hot.key.bytes()).into_owned(), hot.at_least());
        recent.keys.hottest().iter().map(named).collect()
    }

    #[test]
    fn a_second_is_shown_once_all_workers_have_ended_it_or_the_next_is_over() {
        let heat = Heat::new(2);
        let mut workers = [WorkerHeat::default(), WorkerHeat::default()];
        tick(&heat, &mut workers, 10_400);
        (0..3).for_each(|_| workers[0].record(&heat, WallMs(0), read(b"a")));
        (0..2).for_each(|_| workers[1].record(&heat, WallMs(0), read(b"a")));
        workers[1].record(&heat, WallMs(0), read(b"b"));
        tick(&heat, &mut workers, 10_900);
        tick(&heat, &mut workers[..1], 11_030);
        assert_eq!(keys(&heat, 60), []);
        tick(&heat, &mut workers[1..], 11_080);
        assert_eq!(keys(&heat, 60), [("a".into(), 5), ("b".into(), 1)]);
        assert_eq!(heat.recent(60).us, 680_000);
        // The second worker stalls.
        workers[0].record(&heat, WallMs(0), read(b"c"));
        tick(&heat, &mut workers[..1], 12_000);
        assert_eq!(keys(&heat, 1), [("a".into(), 5), ("b".into(), 1)]);
        workers[0].record(&heat, WallMs(0), read(b"d"));
        tick(&heat, &mut workers[..1], 13_000);
        assert_eq!(keys(&heat, 1), [("c".into(), 1)]);
        assert_eq!(keys(&heat, 2).len(), 3);
        // It comes back, and takes part in the second that is open.
        workers[1].record(&heat, WallMs(0), read(b"d"));
        tick(&heat, &mut workers[1..], 13_500);
        assert_eq!(keys(&heat, 1), [("d".into(), 2)]);
    }

    #[test]
    fn seconds_pass_and_old_ones_go() {
        let heat = Heat::new(1);
        let mut worker = [WorkerHeat::default()];
        tick(&heat, &mut worker, 0);
        for second in 1..=100 {
            let key = second.to_string();
            worker[0].record(&heat, WallMs(0), read(key.as_bytes()));
            tick(&heat, &mut worker, second * 1000);
        }
        let recent = heat.recent(usize::MAX);
        assert_eq!((recent.keys.hottest().len(), recent.us), (60, 60_000_000));
        assert_eq!(recent.total().operations, 60);
        assert_eq!(recent.slots.len(), 60);
        assert!(keys(&heat, 60).iter().all(|(key, _)| key.parse::<u64>().expect("a number") > 40));
        // A second in which nothing happens counts for the rate.
        tick(&heat, &mut worker, 101_000);
        assert_eq!((keys(&heat, 1), heat.recent(1).us), (vec![], 1_000_000));
    }

    #[test]
    fn the_hottest_of_a_range_are_rated() {
        let heat = Heat::new(1);
        let mut worker = [WorkerHeat::default()];
        tick(&heat, &mut worker, 0);
        for _ in 0..2 {
            for key in 0..300_u64 {
                (0..key).for_each(|_| worker[0].record(&heat, WallMs(0), read(&key.to_le_bytes())));
            }
            let second = heat.recent(9).us / 1_000_000 + 1;
            tick(&heat, &mut worker, second * 1000);
        }
        let half = PositionRange::of_slots(Slot::new(0).unwrap(), Slot::new(8191).unwrap()).unwrap();
        let hottest = heat.hottest_in(half, 10, 2);
        let inside = |key: &u64| half.contains(Position::of_key(&key.to_le_bytes()));
        let expected: Vec<(Position, u64)> = (0..300)
            .rev()
            .filter(inside)
            .take(10)
            .map(|key| (Position::of_key(&key.to_le_bytes()), key))
            .collect();
        let found: Vec<(Position, u64)> = hottest.iter().map(|hot| (hot.position, hot.per_second)).collect();
        assert_eq!(found, expected);
        assert!(hottest.iter().all(|hot| hot.writes_per_second == 0));
        assert_eq!(heat.hottest_in(half, 0, 2), []);
    }

    /// S3, and the figures in the crate's description.
    #[test]
    fn memory_is_bounded_as_described() {
        let heat = Heat::new(1);
        let mut worker = [WorkerHeat::default()];
        tick(&heat, &mut worker, 0);
        for second in 1..=70_u64 {
            for key in 0..2_000_u64 {
                worker[0].record(&heat, WallMs(0), read(&(second * 1_000_000 + key).to_le_bytes()));
            }
            tick(&heat, &mut worker, second * 1000);
        }
        let windows = heat.windows();
        let bytes = |window: &Window| {
            size_of_val(window.keys.hottest()) + size_of_val(&window.slots[..]) + size_of::<Window>()
        };
        let all: usize = windows.closed.iter().map(bytes).sum();
        assert!(all <= 310 << 10, "{all}");
        assert!(worker[0].bytes() <= 20 << 10, "{}", worker[0].bytes());
        assert!(heat.slots().bytes() <= 704 << 10, "{}", heat.slots().bytes());
        assert_eq!(usize::from(SLOT_COUNT) * 44, heat.slots().bytes());
    }
}
