//! The clients' measurements, in windows.

use sidle_bench::latencies::AnsweredBy;
use sidle_bench::timeline::{Part, Piece, Timeline, WINDOW_NS, Window};
use sidle_client_core::Reason;
use std::collections::BTreeMap;

/// One load thread's measurements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    /// When the load began: earlier answers do not count.
    start_ns: Option<u64>,
    /// The part of the run that operations ending now belong to.
    pub(crate) part: Part,
    pieces: BTreeMap<Piece, Window>,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) wrong_values: u64,
    pub(crate) sph_bytes_max: u64,
    pub(crate) extra_bytes: u64,
}

/// The longest time without a success, over all clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gap {
    last_ns: Option<u64>,
    longest_ns: u64,
}

impl Gap {
    /// Counts from now on; the gap that is open now counts from its start.
    pub(crate) fn watch(&mut self) {
        self.longest_ns = 0;
    }

    /// There was a success.
    pub(crate) fn success(&mut self, now_ns: u64) {
        if let Some(last_ns) = self.last_ns {
            self.longest_ns = self.longest_ns.max(now_ns.saturating_sub(last_ns));
        }
        self.last_ns = Some(now_ns);
    }

    /// The longest so far, the open one included.
    pub(crate) fn longest_ns(&self, now_ns: u64) -> u64 {
        self.longest_ns.max(self.last_ns.map_or(0, |last_ns| now_ns.saturating_sub(last_ns)))
    }
}

impl Recorder {
    /// The load begins.
    pub(crate) fn start(&mut self, now_ns: u64) {
        *self = Recorder { start_ns: Some(now_ns), ..Recorder::default() };
    }

    fn window(&mut self, now_ns: u64) -> Option<&mut Window> {
        let number = now_ns.checked_sub(self.start_ns?)? / WINDOW_NS;
        Some(self.pieces.entry((number, self.part)).or_default())
    }

    /// An operation succeeded: whether it was a write, and which node's answer was used.
    pub(crate) fn answered(&mut self, is_write: bool, by: AnsweredBy, since_ns: u64, now_ns: u64) {
        let start_ns = self.start_ns.unwrap_or(now_ns);
        if let Some(window) = self.window(now_ns) {
            window.answered(is_write, by, now_ns.saturating_sub(since_ns), now_ns.saturating_sub(start_ns));
        }
    }

    /// Records whether a read returned the right value or absence.
    pub(crate) fn judge(&mut self, is_right: bool) {
        self.wrong_values += u64::from(!is_right);
    }

    /// A node answered with an error.
    pub(crate) fn refused(&mut self, text: &[u8]) {
        let code = text.split(|&byte| byte == b' ').next().unwrap_or(text);
        *self.errors.entry(String::from_utf8_lossy(code).into_owned()).or_default() += 1;
    }

    /// An operation got no answer.
    pub(crate) fn failed(&mut self, reason: &Reason) {
        *self.errors.entry(format!("{reason:?}")).or_default() += 1;
    }

    /// A node refused the client, or sent something that it could not parse.
    pub(crate) fn trouble(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }

    /// The client's tracking state, and the extra bytes since the last call.
    pub(crate) fn tracked(&mut self, now_ns: u64, extra_bytes: u64, sph_bytes: u64, bytes: u64) {
        self.extra_bytes += extra_bytes;
        self.sph_bytes_max = self.sph_bytes_max.max(sph_bytes);
        if extra_bytes + bytes > 0
            && let Some(window) = self.window(now_ns)
        {
            window.extra_bytes += extra_bytes;
            window.tracking_bytes = window.tracking_bytes.max(bytes);
        }
    }

    /// Adds everything to a timeline.
    pub(crate) fn hand_over(&self, timeline: &mut Timeline) {
        for (&piece, window) in &self.pieces {
            timeline.add(piece, window);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_that_has_not_ended_counts() {
        let mut gap = Gap::default();
        assert_eq!(gap.longest_ns(1_000), 0, "no operation has started");
        gap.success(1_000);
        gap.success(5_000);
        gap.watch();
        gap.success(6_000);
        assert_eq!((gap.longest_ns(6_500), gap.longest_ns(9_000)), (1_000, 3_000));
    }
}
