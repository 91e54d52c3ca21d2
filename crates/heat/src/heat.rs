//! A node's heat: windows of a second, the slots' sums, and what HOTKEYS tracks.

use crate::access::{Access, Usage};
use crate::session::Session;
use crate::slots::{SlotCounters, hottest};
use crate::summary::Summary;
use sidle_types::{Position, PositionRange, Slot, WallMs};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many windows are kept, and so the longest time that can be asked for, in seconds.
pub const MOST_SECONDS: usize = 60;
/// How many positions, and slots, the windows of the last [`DETAILED`] seconds list.
const LISTED: usize = 128;
const DETAILED: usize = 5;
/// How many of them older windows list.
const LISTED_LATER: usize = 32;

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
        window.keys.shorten(LISTED);
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
