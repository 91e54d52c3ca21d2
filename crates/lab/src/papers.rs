//! The papers' reports of the same measures, as ratios: their machines are not this one.
//!
//! From a paper's absolute figures, the ratio is formed from two of the same experiment; its source describes
//! how.

use crate::cell::Scene;
use crate::figures::VALUE_BYTES;
use crate::variant::Variant;

/// One figure of a paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PaperFigure {
    /// Its measure in the lab.
    pub(crate) measure: &'static str,
    /// The protocol, by its name in the lab.
    pub(crate) variant: &'static str,
    /// The share of writes, in percent.
    pub(crate) write_percent: f64,
    /// The skew.
    pub(crate) distribution: &'static str,
    /// The figure, in the measure's unit.
    pub(crate) value: f64,
    /// Its source.
    pub(crate) source: &'static str,
}

const HIGH: &str = "zipf:0.99";
const B: f64 = 5.0;
const A: f64 = 50.0;
const FIGURE_1: &str = "Fulva (SRDS 2019), VI-B.1 and figure 1";
const FIGURE_1_DERIVED: &str = "Fulva (SRDS 2019), VI-B.1 and figure 1: Fulva's +41.9 %, +81.1 % over Rocksteady, +140.7 % over \
                                RAMCloud's source-driven migration";
const FIGURE_2: &str = "Fulva (SRDS 2019), VI-B.2 and figure 2";
const FIGURE_4: &str = "Fulva (SRDS 2019), VI-B.1 and figure 4a";
const FIGURE_8: &str = "Fulva (SRDS 2019), VI-C and figure 8";
const FIGURE_8_DERIVED: &str = "Fulva (SRDS 2019), VI-C and figure 8: 22.1 us, Fulva's own 12.1 us being 37.9 % below what was before; \
                                there a dispatch thread did the work, here those that serve";
const TABLE_1: &str = "Fulva (SRDS 2019), table I, of 20 GB moved";
const TABLE_1_LATENCY: &str = "Fulva (SRDS 2019), table I, by RAMCloud's mean before the migration";
const FIGURE_7: &str = "Fulva (SRDS 2019), figure 7";
const DOWNTIME: &str = "Fulva (SRDS 2019), VI-B.1: downtime";
const ROCKSTEADY_LATENCY: &str = "Rocksteady (Kulkarni's thesis), 2.4.2 and figure 2.10";

const fn b(measure: &'static str, variant: &'static str, value: f64, source: &'static str) -> PaperFigure {
    PaperFigure { measure, variant, write_percent: B, distribution: HIGH, value, source }
}

/// All of them.
pub(crate) const PAPER_FIGURES: &[PaperFigure] = &[
    b("during", "fulva", 1.419, FIGURE_1),
    b("during", "rocksteady", 1.419 / 1.811, FIGURE_1_DERIVED),
    b("during", "source-driven", 1.419 / 2.407, FIGURE_1_DERIVED),
    b("first", "fulva", 1.116, FIGURE_1),
    b("last", "fulva", 1.881, FIGURE_1),
    PaperFigure { write_percent: A, ..b("during", "fulva", 1.758, FIGURE_2) },
    PaperFigure { write_percent: A, ..b("first", "fulva", 1.567, FIGURE_2) },
    b("p50", "fulva", 0.621, FIGURE_4),
    b("p50", "fulva,tracking=off", 1.0, FIGURE_8),
    b("p50", "fulva,tracking=off,offloading=off", 0.621 * 22.1 / 12.1, FIGURE_8_DERIVED),
    b("write_gap", "source-driven", 702.9, DOWNTIME),
    b("extra_client", "fulva", 0.91 / 20.0, TABLE_1),
    b("extra_client", "rocksteady", 0.0, TABLE_1),
    b("extra_client", "source-driven", 0.0, TABLE_1),
    b("extra_server", "fulva", 0.63 / 20.0, TABLE_1),
    b("extra_server", "rocksteady", 0.72 / 20.0, TABLE_1),
    b("extra_server", "source-driven", 0.35 / 20.0, TABLE_1),
    b("tracking", "fulva", 67.4e6, FIGURE_7),
    b("lookup", "fulva", 180.0, FIGURE_7),
    b("after_p50", "rocksteady", 6.7 / 10.1, ROCKSTEADY_LATENCY),
    b("node_source_reads", "fulva", 13.53 / 18.14, TABLE_1_LATENCY),
    b("node_target_reads", "fulva", 11.36 / 18.14, TABLE_1_LATENCY),
    b("node_source_writes", "fulva", 32.01 / 42.57, TABLE_1_LATENCY),
    b("node_target_writes", "fulva", 23.63 / 42.57, TABLE_1_LATENCY),
    b("node_source_reads", "rocksteady", 10.12 / 18.14, TABLE_1_LATENCY),
    b("node_target_reads", "rocksteady", 62.97 / 18.14, TABLE_1_LATENCY),
    b("node_source_writes", "rocksteady", 33.28 / 42.57, TABLE_1_LATENCY),
    b("node_target_writes", "rocksteady", 24.22 / 42.57, TABLE_1_LATENCY),
    b("node_source_reads", "source-driven", 34.79 / 18.14, TABLE_1_LATENCY),
    b("node_source_writes", "source-driven", 73.16 / 42.57, TABLE_1_LATENCY),
];

/// Of TPC-C, where its rows are scattered and all orders are new: what the published code runs. Of its
/// throughput the paper says that Fulva's was similar to RAMCloud's migration.
const FIGURE_9: &[PaperFigure] = &[PaperFigure {
    measure: "transaction_gap",
    variant: "source-driven,rounds=0",
    write_percent: 0.0,
    distribution: "uniform",
    value: 701.0,
    source: "Fulva (SRDS 2019), VI-D and figure 9: downtime",
}];

/// A paper's ratio of one variant to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PaperRatio {
    /// The measure: one of the lab's, `throughput` in operations per second, or `speed` in bytes per
    /// second.
    pub(crate) measure: &'static str,
    /// The variant.
    pub(crate) variant: &'static str,
    /// The one it is compared with.
    pub(crate) by: &'static str,
    /// The share of writes, in percent.
    pub(crate) write_percent: f64,
    /// The source's processor share, in percent.
    pub(crate) source_cpu: u32,
    /// The ratio.
    pub(crate) value: f64,
    /// Its source.
    pub(crate) source: &'static str,
}

const NETMIGRATE: &str =
    "NetMigrate (FAST 2024), average throughput during the move, read only, keys of 4 and values of 64 bytes";
const DURATION: &str = "Fulva (SRDS 2019), VI-B.1: 32 s, RAMCloud's migration 41 s";
const NO_PRIORITY: &str = "Rocksteady (Kulkarni's thesis), 2.4.2 and figure 2.9: 904 and 758 MB/s";

const fn r(
    measure: &'static str,
    variant: &'static str,
    by: &'static str,
    value: f64,
    source: &'static str,
) -> PaperRatio {
    PaperRatio { measure, variant, by, write_percent: B, source_cpu: 100, value, source }
}

const fn n(variant: &'static str, source_cpu: u32, value: f64) -> PaperRatio {
    PaperRatio { write_percent: 0.0, source_cpu, ..r("throughput", variant, "fulva", value, NETMIGRATE) }
}

/// All of them.
pub(crate) const PAPER_RATIOS: &[PaperRatio] = &[
    r("seconds", "rocksteady", "fulva", 1.0, DURATION),
    r("seconds", "source-driven", "fulva", 41.0 / 32.0, DURATION),
    r("seconds", "rocksteady,priority-pulls=0", "rocksteady", 758.0 / 904.0, NO_PRIORITY),
    n("rocksteady", 100, 113.0 / 240.0),
    n("rocksteady", 70, 115.0 / 252.0),
    n("rocksteady", 40, 68.0 / 202.0),
    n("source-driven", 100, 446.0 / 240.0),
    n("source-driven", 70, 289.0 / 252.0),
    n("source-driven", 40, 152.0 / 202.0),
];

/// A paper's figure for a measure of this variant in this scene.
pub(crate) fn paper(measure: &str, variant: &Variant, scene: &Scene) -> Option<&'static PaperFigure> {
    let (skew, variant) = (scene.distribution.to_string(), variant.to_string());
    if scene.workload.is_tpcc() {
        let is_figure_9 = scene.workload.to_string() == "tpcc-new-orders-scattered" && is_whole(scene);
        return FIGURE_9.iter().find(|f| is_figure_9 && (f.measure, f.variant) == (measure, &*variant));
    }
    let percent = scene.workload.write_percent();
    PAPER_FIGURES.iter().find(|figure| {
        figure.measure == measure
            && figure.variant == variant
            && figure.distribution == skew
            && figure.write_percent == percent
            && scene.value_bytes == VALUE_BYTES
            && is_whole(scene)
    })
}

/// Scenes with less processor at the source are only NetMigrate's.
fn is_whole(scene: &Scene) -> bool {
    !matches!(scene.source_cpu, crate::cell::SourceCpu::Percent(percent) if percent < 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_follow_from_what_the_papers_print() {
        let of = |variant: &str| {
            PAPER_FIGURES.iter().find(|f| (f.measure, f.variant) == ("during", variant)).unwrap().value
        };
        // 1445.2 Kops is 81.1 % over Rocksteady's, and 41.9 % over the throughput before.
        let before = 1445.2 / of("fulva");
        assert!((before * of("rocksteady") * 1.811 - 1445.2).abs() < 1e-6);
        assert!((before * of("source-driven") * 2.407 - 1445.2).abs() < 1e-6);
        assert!(PAPER_FIGURES.iter().all(|figure| figure.value.is_finite() && !figure.source.is_empty()));
    }

    #[test]
    fn figure_9_is_of_what_its_code_runs() {
        let scene = |workload: &str| {
            Scene {
                workload: workload.parse().unwrap(),
                distribution: "uniform".parse().unwrap(),
                value_bytes: 100,
                source_cpu: "100".parse().unwrap(),
            }
            .normal()
        };
        let once = &"source-driven,rounds=0".parse().unwrap();
        assert_eq!(paper("transaction_gap", once, &scene("tpcc-new-orders-scattered")).unwrap().value, 701.0);
        assert_eq!(paper("transaction_gap", once, &scene("tpcc")), None);
        assert_eq!(paper("transaction_gap", once, &scene("b")), None);
    }

    #[test]
    fn a_figure_is_found_for_its_own_scene_only() {
        let scene = |workload: &str, cpu: &str| Scene {
            workload: workload.parse().unwrap(),
            distribution: "zipf:0.99".parse().unwrap(),
            value_bytes: 100,
            source_cpu: cpu.parse().unwrap(),
        };
        let fulva = &"fulva".parse().unwrap();
        assert_eq!(paper("during", fulva, &scene("b", "100")).unwrap().value, 1.419);
        assert_eq!(paper("during", fulva, &scene("a", "shared")).unwrap().value, 1.758);
        assert_eq!(paper("during", fulva, &scene("b", "40")), None);
        assert_eq!(paper("during", fulva, &Scene { value_bytes: 64, ..scene("b", "100") }), None);
        assert_eq!(paper("during", &"zephyr".parse().unwrap(), &scene("b", "100")), None);
        assert_eq!(paper("worst", fulva, &scene("b", "100")), None);
    }
}
