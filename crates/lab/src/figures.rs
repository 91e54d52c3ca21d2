//! The papers' own set: the cells for the figures of their evaluations, and nothing else.

use crate::cell::{Cell, Scene, SourceCpu};
use crate::matrix::add;
use crate::settings::{Database, Settings};
use crate::variant::Variant;
use sidle_bench::policy::PolicyWord;

/// Ablations and parameters varied by a paper, with whether a quick set has them too.
const ABLATIONS: [(&str, bool); 22] = [
    // Fulva, figure 8: tracking; offloading; both.
    ("fulva,tracking=off", true),
    ("fulva,offloading=off", true),
    ("fulva,tracking=off,offloading=off", false),
    // Fulva, section IV-B: sampled pulls; one miss in so many.
    ("fulva,sampling=off", true),
    ("fulva,sampling=1", false),
    ("fulva,sampling=100", false),
    // Rocksteady, figures 2.9 (b) and 2.13: no priority pulls; synchronous ones, one for each missing key,
    // for which its command waits.
    ("rocksteady,priority-pulls=0", true),
    ("rocksteady,missing=wait,priority-keys=1", true),
    // Rocksteady, figure 2.9 (c): the source keeps the ownership until everything is copied.
    ("rocksteady,ownership=source", true),
    // Rocksteady, section 2.4.5: the size of pulls, and how many partitions are pulled side by side.
    ("rocksteady,pull-bytes=16384", false),
    ("rocksteady,pull-bytes=65536", false),
    ("rocksteady,pull-bytes=131072", false),
    ("rocksteady,partitions=1", false),
    ("rocksteady,partitions=16", false),
    ("fulva,partitions=1", false),
    ("fulva,partitions=16", false),
    ("fulva,pull-bytes=16384", false),
    // The hottest keys are copied before the freeze.
    ("fulva,hot-first=on", true),
    ("rocksteady,missing=wait,hot-first=on", false),
    // Hand-off: who serves what is not given, hot keys in their turn, clients that are pushed nothing.
    ("handoff,uncovered=target", true),
    ("handoff,hot-first=off", false),
    ("handoff,digest=off", false),
];

/// The best variant found here of each protocol under the ablations' load, if it differs from its paper's,
/// with whether a quick set has it too.
const BEST: [(&str, bool); 4] = [
    ("fulva,missing=wait", true),
    ("rocksteady,missing=wait,pull-bytes=131072", true),
    ("zephyr,priority-keys=16", false),
    ("source-driven,pull-bytes=131072", false),
];

/// The policies of a frontier's points, with whether a quick set has them too. The default is in every
/// scene.
const POLICIES: [(&str, bool); 9] = [
    ("rate=10", true),
    ("rate=20", false),
    ("rate=40", false),
    ("deadline=3", true),
    ("deadline=10", false),
    ("deadline=30", false),
    // For nodes under quotas: objectives that the load alone keeps even on a shared machine. A broken one
    // makes a move crawl, and shows nothing else.
    ("slo-p99=2000", false),
    ("slo-p99=5000", true),
    ("slo-p99=10000", false),
];

/// The protocols measured under them.
const BY_POLICY: [&str; 2] = ["fulva", "rocksteady"];

/// A load under which every protocol is measured.
#[derive(Clone, Copy, Debug)]
struct Row {
    workload: &'static str,
    distribution: &'static str,
    value_bytes: usize,
    source_percent: u32,
    is_quick: bool,
}

const fn row(workload: &'static str, distribution: &'static str, is_quick: bool) -> Row {
    Row { workload, distribution, value_bytes: VALUE_BYTES, source_percent: 100, is_quick }
}

/// One of NetMigrate's: values of 64 bytes, 0 to 30 % writes, the source's processor at 100, 70 and 40 %.
const fn netmigrate(workload: &'static str, source_percent: u32) -> Row {
    Row { value_bytes: 64, source_percent, ..row(workload, HIGH, false) }
}

const HIGH: &str = "zipf:0.99";
const LOW: &str = "zipf:0.01";

/// The loads; the first is for the ablations and policies.
const ROWS: [Row; 13] = [
    // Fulva, figures 1, 4a, 4c, 6a, 7 and table I; Rocksteady, figures 2.9 and 2.10.
    row("b", HIGH, true),
    // Fulva, figures 2, 4b and 4d.
    row("a", HIGH, true),
    // Fulva, figures 5a and 6b.
    row("b", LOW, true),
    // Fulva, figure 5b.
    row("a", LOW, false),
    // NetMigrate: write ratios, and the source's processor at read only; of these a quick set has two, with
    // the others' values.
    row("c", HIGH, true),
    Row { source_percent: 40, ..row("c", HIGH, true) },
    netmigrate("c", 100),
    netmigrate("b", 100),
    netmigrate("10", 100),
    netmigrate("20", 100),
    netmigrate("30", 100),
    netmigrate("c", 70),
    netmigrate("c", 40),
];

/// Bytes of each value, as in Fulva's and Rocksteady's evaluations.
pub(crate) const VALUE_BYTES: usize = 100;
/// Bytes of each key there.
const KEY_BYTES: usize = 30;

fn adaptive(variant: Variant, scene: Scene) -> Cell {
    Cell { variant, policy: PolicyWord::default(), scene }
}

/// The cells of the papers' figures.
pub fn cells(quick: bool) -> Vec<Cell> {
    let scene = |row: Row| Scene {
        workload: row.workload.parse().expect("a workload of the list above"),
        distribution: row.distribution.parse().expect("a distribution of the list above"),
        value_bytes: row.value_bytes,
        source_cpu: SourceCpu::Percent(row.source_percent),
    };
    let mut cells = Vec::new();
    for row in ROWS.into_iter().filter(|row| row.is_quick || !quick) {
        add(&mut cells, Variant::protocols().into_iter().map(|variant| adaptive(variant, scene(row))));
    }
    if !quick {
        add(&mut cells, tpcc().into_iter());
    }
    let ablations = ABLATIONS.iter().chain(&BEST).filter(|&&(_, is_quick)| is_quick || !quick);
    let ablations = ablations.map(|(text, _)| text.parse().expect("a variant of the list above"));
    add(&mut cells, ablations.map(|variant| adaptive(variant, scene(ROWS[0]))));
    for (policy, _) in POLICIES.into_iter().filter(|&(_, is_quick)| is_quick || !quick) {
        let policy = policy.parse().expect("a policy of the list above");
        let protocols =
            Variant::protocols().into_iter().filter(|variant| BY_POLICY.contains(&variant.base()));
        add(&mut cells, protocols.map(|variant| Cell { policy, ..adaptive(variant, scene(ROWS[0])) }));
    }
    cells
}

/// The variants of Fulva's figure 9: the paper's two, what Sidle does by default, and others.
/// The paper's source-driven migration copies once and then stops (`rounds=0`).
const FIGURE_9: [&str; 6] =
    ["handoff", "fulva", "source-driven", "source-driven,rounds=0", "stop-and-copy", "rocksteady"];

/// The cells of Fulva's figure 9: TPC-C, new orders only as the published code has it and in the standard
/// mix, with scattered rows as there and by warehouse.
pub fn tpcc() -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in ["tpcc-new-orders-scattered", "tpcc-new-orders", "tpcc-scattered", "tpcc"] {
        let scene = Scene {
            workload: workload.parse().expect("a form of TPC-C"),
            distribution: HIGH.parse().expect("a distribution"),
            value_bytes: VALUE_BYTES,
            source_cpu: SourceCpu::Percent(100),
        };
        let scene = scene.normal();
        let variants = FIGURE_9.map(|text| text.parse().expect("a variant of the list above"));
        add(&mut cells, variants.into_iter().map(|variant| adaptive(variant, scene.clone())));
    }
    cells
}

/// The measurement of the papers' set: repeats, and the common settings of all runs.
pub fn settings(quick: bool, seed: u64) -> (u32, Settings) {
    let (repeat, records, seconds) = if quick { (3, 200_000, 1) } else { (5, 3_000_000, 5) };
    let node_cpu = Settings::default_node_cpu();
    (
        repeat,
        Settings {
            records,
            seconds,
            clients: 64,
            rate: None,
            key_bytes: KEY_BYTES,
            seed,
            node_cpu,
            database: Database::DEFAULT,
            modelled: None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::expected_run_s;

    #[test]
    fn every_protocol_is_in_every_scene_and_every_ablation_is_known() {
        for quick in [true, false] {
            let (transactions, cells): (Vec<Cell>, Vec<Cell>) =
                cells(quick).into_iter().partition(|cell| cell.scene.workload.is_tpcc());
            assert_eq!(transactions.len(), if quick { 0 } else { 24 }, "figure 9 is not quick");
            let plain: Vec<&Cell> = cells.iter().filter(|cell| cell.is_plain()).collect();
            let scenes: std::collections::BTreeSet<&Scene> = plain.iter().map(|cell| &cell.scene).collect();
            assert_eq!(plain.len(), scenes.len() * Variant::protocols().len());
            let ablations = ABLATIONS.iter().chain(&BEST);
            let ablations = ablations.filter(|&&(_, is_quick)| is_quick || !quick).count();
            let policies = POLICIES.iter().filter(|&&(_, is_quick)| is_quick || !quick).count();
            assert_eq!(cells.len() - plain.len(), ablations + BY_POLICY.len() * policies);
        }
        let (repeat, settings) = settings(true, 1);
        let quick_s: f64 = cells(true).iter().map(|cell| expected_run_s(&settings, cell)).sum();
        assert!(f64::from(repeat) * quick_s < 600.0, "a quick set takes ten minutes at most: {quick_s}");
        assert!(cells(true).iter().all(|cell| cells(false).contains(cell)), "quick is a part of the whole");
    }
}
