//! A worker's part: it draws requests, and counts what they touched.

use crate::access::Access;
use crate::heat::Heat;
use crate::sampler::Sampler;
use crate::space_saving::SpaceSaving;
use sidle_types::{MonotonicUs, WallMs};

/// The length of a window.
const WINDOW_US: u64 = 1_000_000;

/// A drawn request that has run, and whose time is not known yet.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    /// Its place in the batch.
    pub place: usize,
    /// Bytes of the request.
    pub bytes_in: usize,
    /// Bytes of the reply.
    pub bytes_out: usize,
    /// How many requests it stands for.
    pub weight: u32,
}

/// What one worker counts.
#[derive(Debug, Default)]
pub struct WorkerHeat {
    sampler: Sampler,
    noted: Vec<Noted>,
    keys: SpaceSaving,
    /// When the window began; `None` until the first tick.
    began: Option<MonotonicUs>,
}

impl WorkerHeat {
    /// Draws among the next `requests`, 32 at most: a bit for each, the first the lowest. `draw`: random
    /// bits.
    #[inline]
    pub fn plan(&mut self, requests: usize, draw: impl FnMut() -> u64) -> u32 {
        self.sampler.plan(requests, draw)
    }

    /// A request that was drawn has run.
    #[cold]
    pub fn note(&mut self, place: usize, bytes_in: usize, bytes_out: usize) {
        self.noted.push(Noted { place, bytes_in, bytes_out, weight: self.sampler.weight() });
    }

    /// Whether requests are noted.
    #[inline]
    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Takes a noted request, whose time is known now; none is left behind the last.
    pub fn take_noted(&mut self) -> Option<Noted> {
        self.noted.pop()
    }

    /// Counts a sampled access.
    pub fn record(&mut self, heat: &Heat, now: WallMs, access: Access<'_>) {
        self.keys.add(access.position, access.key, access.usage.operations, access.usage);
        heat.slots().add(access.position.slot(), access.usage);
        heat.track(now, access);
    }

    /// The memory that it takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        size_of::<WorkerHeat>() + self.keys.bytes() + self.noted.capacity() * size_of::<Noted>()
    }

    /// Call it a few times a second: hands the window over once its second has ended. `draw`: random bits.
    pub fn tick(&mut self, heat: &Heat, now: MonotonicUs, draw: u64) {
        let began = *self.began.get_or_insert(now);
        let second = now.0 / WINDOW_US;
        if second == began.0 / WINDOW_US {
            return;
        }
        let us = now.since(began);
        heat.hand_over(second, us, &self.keys.summary());
        self.keys.clear();
        self.sampler.begin_window(us, draw);
        self.began = Some(now);
    }
}
