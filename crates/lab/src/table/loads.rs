//! The loads and the variants of the table.

use sidle_workload::{Distribution, Workload};

/// The variants, hand-off first; the last two are references.
pub const VARIANTS: [&str; 11] = [
    "handoff",
    "handoff,uncovered=load",
    "handoff,uncovered=target",
    "handoff,digest=off",
    "handoff,hot-first=off",
    "fulva",
    "fulva,hot-first=on",
    "rocksteady,missing=wait",
    "rocksteady,missing=wait,hot-first=on",
    "source-driven",
    "stop-and-copy",
];

/// The variants that stop or copy for long: no rival by their throughput.
pub(super) const REFERENCES: [&str; 2] = ["source-driven", "stop-and-copy"];

/// Shares of writes in percent, with their names.
const MIXES: [(&str, f64); 4] = [("A", 50.0), ("B", 5.0), ("C", 0.0), ("30 %", 30.0)];
const SKEWS: [f64; 2] = [0.99, 0.01];
/// The source's processors in percent of the target's.
const SOURCES: [u32; 3] = [100, 70, 40];
/// Rates of an open loop, in percent of what the closed loop reached before its move.
const RATES: [u32; 3] = [30, 60, 90];
/// The mixes under an open loop.
const OPEN_MIXES: [&str; 2] = ["A", "B"];

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The name of the mix: YCSB's letter, or the share of writes.
    pub mix: &'static str,
    /// The share of writes in percent.
    pub write_percent: f64,
    /// The exponent of the records' popularity.
    pub skew: f64,
    /// The source's processors in percent of the target's.
    pub source_percent: u32,
    /// The rate of an open loop in percent of what the closed loop reaches; a closed loop has none.
    pub rate_percent: Option<u32>,
}

impl Load {
    /// The mix in a load's form.
    pub fn workload(&self) -> Workload {
        Workload::with_write_ratio(self.write_percent)
    }

    /// How popular the records are.
    pub fn distribution(&self) -> Distribution {
        Distribution::Zipf(self.skew)
    }

    /// The same load as a closed loop.
    pub fn closed(&self) -> Load {
        Load { rate_percent: None, ..*self }
    }

    /// For people: `B, Zipf 0.99, source 40 %`.
    pub fn title(&self) -> String {
        let rate = self.rate_percent.map(|percent| format!(", rate {percent} %"));
        let Load { mix, skew, source_percent, .. } = self;
        format!("{mix}, Zipf {skew}, source {source_percent} %{}", rate.unwrap_or_default())
    }
}

/// All loads, the closed ones first: an open one's rate is known by the closed one.
pub fn loads() -> Vec<Load> {
    let mut closed = Vec::new();
    for (mix, write_percent) in MIXES {
        for skew in SKEWS {
            let of = |source_percent| Load { mix, write_percent, skew, source_percent, rate_percent: None };
            closed.extend(SOURCES.map(of));
        }
    }
    let is_open = |load: &&Load| load.source_percent == 100 && OPEN_MIXES.contains(&load.mix);
    let of = |load: &Load| RATES.map(|percent| Load { rate_percent: Some(percent), ..*load });
    let open: Vec<Load> = closed.iter().filter(is_open).flat_map(of).collect();
    closed.into_iter().chain(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_open_load_has_its_closed_one_before_it() {
        let loads = loads();
        assert_eq!(loads.len(), 4 * 2 * 3 + 2 * 2 * 3);
        for (place, load) in loads.iter().enumerate().filter(|(_, load)| load.rate_percent.is_some()) {
            assert!(loads[..place].contains(&load.closed()), "{}", load.title());
        }
    }

    #[test]
    fn every_variant_is_known() {
        for variant in VARIANTS {
            assert!(sidle_migration::protocol(variant).is_ok(), "{variant}");
        }
        assert!(REFERENCES.iter().all(|reference| VARIANTS.contains(reference)));
    }
}
