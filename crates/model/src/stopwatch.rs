//! Times the real code, for calibration.

/// Reads a clock in nanoseconds.
pub(crate) type ClockNs = fn() -> u64;

/// Times of pieces of work of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lap {
    /// Nanoseconds of each piece.
    times_ns: Vec<u64>,
    /// The total bytes they processed.
    bytes: u64,
}

/// One in this many pieces, the longest, is ignored: the machine was interrupted.
const PIECES_PER_OUTLIER: usize = 100;

/// Times pieces of work while a model runs, if there is a clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopwatch {
    clock: Option<ClockNs>,
    /// The cost of reading the clock twice.
    overhead_ns: u64,
    pub(crate) get: Lap,
    pub(crate) set: Lap,
    pub(crate) ask_get: Lap,
    pub(crate) ask_set: Lap,
    pub(crate) answer: Lap,
    pub(crate) pack: Lap,
    pub(crate) pick: Lap,
    pub(crate) replay: Lap,
    pub(crate) message: Lap,
    pub(crate) release: Lap,
}

impl Stopwatch {
    /// A stopwatch with this clock.
    pub(crate) fn by(clock: ClockNs) -> Stopwatch {
        let mut least_ns = u64::MAX;
        for _ in 0..1000 {
            let begun_ns = clock();
            least_ns = least_ns.min(clock() - begun_ns);
        }
        Stopwatch { clock: Some(clock), overhead_ns: least_ns, ..Stopwatch::default() }
    }

    /// Starts a piece of work.
    pub(crate) fn begin(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    /// The time of the piece of work started at `begun_ns`.
    pub(crate) fn end(&self, begun_ns: u64) -> u64 {
        self.clock.map_or(0, |clock| (clock() - begun_ns).saturating_sub(self.overhead_ns))
    }
}

impl Lap {
    /// Adds a piece of work, unless there is no clock.
    pub(crate) fn add(&mut self, ns: u64, bytes: u64) {
        if ns > 0 {
            self.times_ns.push(ns);
            self.bytes += bytes;
        }
    }

    /// The mean time of a piece.
    pub(crate) fn mean_ns(&self) -> u64 {
        let mut times_ns = self.times_ns.clone();
        times_ns.sort_unstable();
        times_ns.truncate(times_ns.len() - times_ns.len() / PIECES_PER_OUTLIER);
        times_ns.iter().sum::<u64>() / times_ns.len().max(1) as u64
    }

    /// The mean time per KiB.
    pub(crate) fn ns_per_kib(&self) -> u64 {
        self.mean_ns() * self.times_ns.len() as u64 * 1024 / self.bytes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pieces_do_not_count() {
        let mut lap = Lap::default();
        (0..198).for_each(|_| lap.add(10, 1024));
        (0..2).for_each(|_| lap.add(1_000_000, 1024));
        assert_eq!((lap.mean_ns(), lap.ns_per_kib()), (10, 10));
        assert_eq!((Lap::default().mean_ns(), Lap::default().ns_per_kib()), (0, 0));
    }
}
