//! The papers' own set: the cells that the figures of their evaluations need, and nothing else.

use crate::lab::cell::{Cell, Scene, SourceCpu};
use crate::lab::matrix::add;
use crate::lab::settings::Settings;
use crate::lab::variant::Variant;

/// Ablations and parameters that a paper varies, with whether a quick set has them too.
const ABLATIONS: [(&str, bool); 14] = [
    // Fulva, figure 8 and section IV-B: tracking; sampled pulls; one miss in so many.
    ("fulva,tracking=off", true),
    ("fulva,sampling=off", true),
    ("fulva,sampling=1", false),
    ("fulva,sampling=100", false),
    // Rocksteady, figures 2.9 (b) and 2.13: no priority pulls; one for each missing key, for which its command waits.
    ("rocksteady,priority-pulls=0", true),
    ("rocksteady,missing=wait,priority-keys=1", true),
    // Rocksteady, section 2.4.5: the size of pulls, and how many partitions are pulled side by side.
    ("rocksteady,pull-bytes=16384", false),
    ("rocksteady,pull-bytes=65536", false),
    ("rocksteady,pull-bytes=131072", false),
    ("rocksteady,partitions=1", false),
    ("rocksteady,partitions=16", false),
    ("fulva,partitions=1", false),
    ("fulva,partitions=16", false),
    ("fulva,pull-bytes=16384", false),
];

/// Scenes in which every protocol is measured: workload, skew, the source's processor, and whether a quick set has it.
const SCENES: [(&str, &str, u32, bool); 9] = [
    // Fulva, figures 1, 4a, 4c, 6a, 7 and table I; Rocksteady, figures 2.9 and 2.10.
    ("b", "zipf:0.99", 100, true),
    // Fulva, figures 2, 4b and 4d.
    ("a", "zipf:0.99", 100, true),
    // Fulva, figures 5a and 6b.
    ("b", "zipf:0.01", 100, true),
    // Fulva, figure 5b.
    ("a", "zipf:0.01", 100, false),
    // NetMigrate: write ratios, and the source's processor at read only.
    ("c", "zipf:0.99", 100, true),
    ("10", "zipf:0.99", 100, false),
    ("20", "zipf:0.99", 100, false),
    ("30", "zipf:0.99", 100, true),
    ("c", "zipf:0.99", 70, false),
];

/// The scene with the most overloaded source, which a quick set has too.
const OVERLOADED: (&str, &str, u32, bool) = ("c", "zipf:0.99", 40, true);

/// Bytes of each value, as in Fulva's and Rocksteady's evaluations.
const VALUE_BYTES: usize = 100;
/// Bytes of each key there.
const KEY_BYTES: usize = 30;

/// The cells of the papers' figures.
pub fn cells(quick: bool) -> Vec<Cell> {
    let scene = |(workload, skew, cpu, _): (&str, &str, u32, bool)| Scene {
        workload: workload.parse().expect("a workload of the list above"),
        distribution: skew.parse().expect("a distribution of the list above"),
        value_bytes: VALUE_BYTES,
        source_cpu: SourceCpu::Percent(cpu),
    };
    let wanted = |&(_, _, _, is_quick): &(&str, &str, u32, bool)| is_quick || !quick;
    let mut cells = Vec::new();
    for row in SCENES.into_iter().chain([OVERLOADED]).filter(wanted) {
        let of = |variant| Cell { variant, scene: scene(row) };
        add(&mut cells, Variant::protocols().into_iter().map(of));
    }
    let ablations = ABLATIONS.iter().filter(|&&(_, is_quick)| is_quick || !quick);
    // One that this program's protocols do not know is no part of its figures.
    let known = ablations.filter_map(|(text, _)| text.parse().ok());
    add(&mut cells, known.map(|variant| Cell { variant, scene: scene(SCENES[0]) }));
    cells
}

/// How the papers' set is measured: repeats, and what all runs have in common.
pub fn settings(quick: bool, seed: u64) -> (u32, Settings) {
    let (repeat, records, seconds) = if quick { (3, 300_000, 1) } else { (5, 3_000_000, 5) };
    let node_cpu = Settings::default_node_cpu();
    (repeat, Settings { records, seconds, clients: 64, rate: None, key_bytes: KEY_BYTES, seed, node_cpu })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_is_in_every_scene_and_every_ablation_is_known() {
        for quick in [true, false] {
            let cells = cells(quick);
            let plain: Vec<&Cell> = cells.iter().filter(|cell| cell.variant.is_plain()).collect();
            let scenes: std::collections::BTreeSet<&Scene> = plain.iter().map(|cell| &cell.scene).collect();
            assert_eq!(plain.len(), scenes.len() * Variant::protocols().len());
            let ablations = ABLATIONS.iter().filter(|&&(_, is_quick)| is_quick || !quick).count();
            assert_eq!(cells.len() - plain.len(), ablations);
        }
        assert!(cells(true).iter().all(|cell| cells(false).contains(cell)), "quick is a part of the whole");
    }
}
