//! The matrix: every combination of the listed values, each once.

use crate::cell::{Cell, Mix, Scene, Skew, SourceCpu};
use crate::variant::Variant;
use sidle_bench::policy::PolicyWord;
use sidle_workload::Random;

/// The values to combine.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Protocols, possibly with options.
    pub variants: Vec<Variant>,
    /// The bounds on a migration's load on the nodes.
    pub policies: Vec<PolicyWord>,
    /// Mixes of reads and writes.
    pub workloads: Vec<Mix>,
    /// How popular the records are.
    pub distributions: Vec<Skew>,
    /// Bytes of each value.
    pub value_bytes: Vec<usize>,
    /// The source's processor shares.
    pub source_cpus: Vec<SourceCpu>,
}

impl Matrix {
    /// All combinations, the protocol changing fastest.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for workload in &self.workloads {
            for distribution in &self.distributions {
                for &value_bytes in &self.value_bytes {
                    for &source_cpu in &self.source_cpus {
                        let scene = Scene {
                            workload: workload.clone(),
                            distribution: distribution.clone(),
                            value_bytes,
                            source_cpu,
                        };
                        let scene = scene.normal();
                        for &policy in &self.policies {
                            let of = |variant: &Variant| Cell {
                                variant: variant.clone(),
                                policy,
                                scene: scene.clone(),
                            };
                            add(&mut cells, self.variants.iter().map(of));
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Adds the cells that are missing.
pub fn add(cells: &mut Vec<Cell>, more: impl Iterator<Item = Cell>) {
    for cell in more {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
}

/// A round's order of the cells: another in each round, so that any drift (the
/// machine's temperature, its neighbours) affects all alike.
pub fn order(cells: usize, seed: u64, round: u32) -> Vec<usize> {
    let mut random = Random::new(seed, u64::from(round));
    let mut order: Vec<usize> = (0..cells).collect();
    for last in (1..cells).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

/// Adapts cells to a machine without quotas: it stands for a source at 100 %, and the cells with other
/// shares are left out. Returns how many were left out.
pub fn without_quotas(cells: Vec<Cell>) -> (Vec<Cell>, usize) {
    let all = cells.len();
    let shared = |mut cell: Cell| match cell.scene.source_cpu {
        SourceCpu::Shared => Some(cell),
        SourceCpu::Percent(100) => {
            cell.scene.source_cpu = SourceCpu::Shared;
            Some(cell)
        }
        SourceCpu::Percent(_) => None,
    };
    let mut kept = Vec::new();
    add(&mut kept, cells.into_iter().filter_map(shared));
    let left_out = all - kept.len();
    (kept, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn matrix() -> Matrix {
        fn list<T: std::str::FromStr<Err = String>>(texts: &[&str]) -> Vec<T> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        }
        Matrix {
            variants: list(&["fulva", "rocksteady,missing=wait,pull-bytes=65536", "fulva,tracking=off"]),
            policies: list(&["adaptive", "rate=20"]),
            workloads: list(&["a", "5%", "12.5"]),
            distributions: list(&["zipf:0.99", "uniform"]),
            value_bytes: vec![64, 100],
            source_cpus: list(&["100", "40%", "shared"]),
        }
    }

    #[test]
    fn every_combination_is_there_once_under_a_name_of_its_own() {
        let mut twice = matrix();
        twice.workloads.push("b".parse().unwrap());
        let cells = twice.cells();
        assert_eq!(cells.len(), 3 * 2 * 3 * 2 * 2 * 3, "5 % writes are YCSB-B");
        let slugs: BTreeSet<String> = cells.iter().map(Cell::slug).collect();
        assert_eq!(slugs.len(), cells.len());
        let plain = |c: char| c.is_ascii_alphanumeric() || "+-=._".contains(c);
        assert!(slugs.iter().all(|slug| slug.chars().all(plain)), "{slugs:?}");
        assert!(slugs.contains("rocksteady+missing=wait+pull-bytes=65536_12.5pct_zipf-0.99_64B_cpu40"));
        assert!(slugs.contains("fulva+tracking=off_b_uniform_100B_shared"));
        assert!(slugs.contains("fulva+tracking=off_rate=20_b_uniform_100B_shared"));
    }

    #[test]
    fn tpcc_is_one_scene_whatever_the_skews_and_sizes() {
        let tpcc = ["tpcc", "TPCC-new-orders-scattered"].map(|text| text.parse().unwrap());
        let cells = Matrix { workloads: tpcc.into(), ..matrix() }.cells();
        assert_eq!(cells.len(), 3 * 2 * 2 * 3, "protocols, policies, workloads, shares");
        let cell = cells.iter().find(|cell| cell.slug() == "fulva_tpcc-new-orders-scattered_cpu40").unwrap();
        assert_eq!(
            cell.scene.title(),
            "TPC-C's new orders with scattered rows, source at 40 % of a node's processor"
        );
        let settings = crate::figures::settings(true, 3).1;
        let line = cell.arguments(&settings, 2, std::path::Path::new("out.json")).join(" ");
        assert_eq!(
            line,
            "demo --quiet --stop-with-stdin --protocol fulva --policy adaptive --warehouses 4 --scale 10 --seconds 1 \
             --clients 64 --loop closed --seed 4 --cpus source=0.16,target=0.4 --json out.json --workload tpcc \
             --scattered --new-orders"
                .replace(
                    "source=0.16,target=0.4",
                    &cell.cpus(&settings).unwrap().map(|(name, share)| format!("{name}={share}")).join(",")
                )
        );
    }

    #[test]
    fn a_round_goes_through_all_cells_and_rounds_differ() {
        let (first, second) = (order(20, 7, 1), order(20, 7, 2));
        assert_ne!(first, second);
        assert_eq!(first, order(20, 7, 1), "the seed decides");
        assert_ne!(first, order(20, 8, 1));
        let sorted = |mut order: Vec<usize>| {
            order.sort_unstable();
            order
        };
        assert_eq!(sorted(first), (0..20).collect::<Vec<_>>());
        assert_eq!(sorted(second), (0..20).collect::<Vec<_>>());
        assert!(order(0, 1, 1).is_empty());
    }

    #[test]
    fn without_quotas_one_shared_machine_is_left() {
        let (cells, left_out) = without_quotas(matrix().cells());
        assert!(cells.iter().all(|cell| cell.scene.source_cpu == SourceCpu::Shared));
        assert_eq!((cells.len(), left_out), (72, 144));
    }
}
