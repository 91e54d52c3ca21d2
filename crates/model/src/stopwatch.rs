//! How long the real code takes, for calibration.

/// Reads a clock in nanoseconds.
pub(crate) type ClockNs = fn() -> u64;

/// Time that pieces of work of one kind took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lap {
    /// Nanoseconds.
    pub(crate) ns: u64,
    /// Pieces of work.
    pub(crate) pieces: u64,
    /// Bytes that they were about.
    pub(crate) bytes: u64,
}

/// Times pieces of work while a model runs, if there is a clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopwatch {
    clock: Option<ClockNs>,
    /// What reading the clock twice takes itself.
    overhead_ns: u64,
    pub(crate) get: Lap,
    pub(crate) set: Lap,
    pub(crate) ask_get: Lap,
    pub(crate) ask_set: Lap,
    pub(crate) answer: Lap,
    pub(crate) pack: Lap,
    pub(crate) replay: Lap,
    pub(crate) message: Lap,
}

impl Stopwatch {
    /// One that times by this clock.
    pub(crate) fn by(clock: ClockNs) -> Stopwatch {
        let mut least_ns = u64::MAX;
        for _ in 0..1000 {
            let begun_ns = clock();
            least_ns = least_ns.min(clock() - begun_ns);
        }
        Stopwatch { clock: Some(clock), overhead_ns: least_ns, ..Stopwatch::default() }
    }

    /// Begins a piece of work.
    pub(crate) fn begin(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    /// What the piece of work took that began then.
    pub(crate) fn end(&self, begun_ns: u64) -> u64 {
        self.clock.map_or(0, |clock| (clock() - begun_ns).saturating_sub(self.overhead_ns))
    }
}

impl Lap {
    /// Adds a piece of work.
    pub(crate) fn add(&mut self, ns: u64, bytes: u64) {
        self.ns += ns;
        self.pieces += 1;
        self.bytes += bytes;
    }

    /// The mean of a piece.
    pub(crate) fn mean_ns(self) -> u64 {
        self.ns / self.pieces.max(1)
    }

    /// The mean of a KiB.
    pub(crate) fn ns_per_kib(self) -> u64 {
        self.ns * 1024 / self.bytes.max(1)
    }
}
