//! What HOTKEYS tracks between START and STOP: the keys that take most processor time, and most bytes.

use crate::access::{Access, Usage};
use crate::space_saving::SpaceSaving;
use crate::summary::Summary;
use sidle_types::{Slot, WallMs};

/// What is tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Processor time.
    pub cpu: bool,
    /// Bytes of requests and replies.
    pub net: bool,
}

/// How to track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// What.
    pub metrics: Metrics,
    /// How many keys are shown.
    pub count: usize,
    /// For so many milliseconds; 0: until it is stopped.
    pub duration_ms: u64,
    /// What is shown is divided by so much: a sample of one in `ratio` commands would have seen as much.
    pub ratio: u64,
    /// Only keys of these slots, runs in ascending order; empty: of all.
    pub slots: Vec<(Slot, Slot)>,
    /// The process's processor time when it began, in the program and in the system, in microseconds.
    pub processor_us: [u64; 2],
}

/// One tracking session.
#[derive(Debug)]
pub struct Session {
    options: SessionOptions,
    began: WallMs,
    ended: Option<WallMs>,
    cpu: SpaceSaving,
    net: SpaceSaving,
    /// Of all accesses.
    all: Usage,
    /// Of those to the chosen slots.
    chosen: Usage,
}

/// What a session shows.
#[derive(Debug)]
pub struct SessionView {
    /// How it tracks.
    pub options: SessionOptions,
    /// Whether it goes on.
    pub is_active: bool,
    /// When it began.
    pub began: WallMs,
    /// How long it has tracked.
    pub duration_ms: u64,
    /// What all accesses took.
    pub all: Usage,
    /// What those to the chosen slots took.
    pub chosen: Usage,
    /// Keys by processor time, in nanoseconds.
    pub by_nanoseconds: Summary,
    /// Keys by bytes.
    pub by_bytes: Summary,
}

impl Session {
    /// A session that begins now.
    pub fn new(options: SessionOptions, now: WallMs) -> Session {
        Session {
            options,
            began: now,
            ended: None,
            cpu: SpaceSaving::default(),
            net: SpaceSaving::default(),
            all: Usage::default(),
            chosen: Usage::default(),
        }
    }

    /// Whether it tracks.
    pub fn is_active(&self) -> bool {
        self.ended.is_none()
    }

    /// Ends it; what it has tracked stays.
    pub fn stop(&mut self, now: WallMs) {
        self.ended.get_or_insert(now);
    }

    /// Ends it if its time is over.
    pub(crate) fn pass_time(&mut self, now: WallMs) {
        let over = WallMs(self.began.0.saturating_add(self.options.duration_ms));
        if self.options.duration_ms > 0 && now >= over {
            self.stop(over);
        }
    }

    /// Counts a sampled access.
    pub(crate) fn record(&mut self, access: Access<'_>) {
        if !self.is_active() {
            return;
        }
        let Access { position, key, usage } = access;
        self.all.add(usage);
        let is_chosen = |&(first, last): &(Slot, Slot)| (first..=last).contains(&position.slot());
        if !self.options.slots.is_empty() && !self.options.slots.iter().any(is_chosen) {
            return;
        }
        self.chosen.add(usage);
        if self.options.metrics.cpu {
            self.cpu.add(position, key, usage.nanoseconds, usage);
        }
        if self.options.metrics.net {
            self.net.add(position, key, usage.bytes(), usage);
        }
    }

    /// What it shows.
    pub fn view(&self, now: WallMs) -> SessionView {
        SessionView {
            options: self.options.clone(),
            is_active: self.is_active(),
            began: self.began,
            duration_ms: self.ended.unwrap_or(now).0.saturating_sub(self.began.0),
            all: self.all,
            chosen: self.chosen,
            by_nanoseconds: self.cpu.summary(),
            by_bytes: self.net.summary(),
        }
    }
}
