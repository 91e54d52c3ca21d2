//! The winners: one row for each measure, one column for each protocol.

use super::beside::beside_ratios;
use super::data::{Part, Section, Standing, Winners, WinnersCell, WinnersRow};
use super::sources::Sources;
use crate::cell::Scene;
use crate::measures::{Better, MEASURES, Measure};
use crate::papers::paper;
use crate::results::{CellRuns, Results};
use sidle_bench::spread::Spread;

/// The standing of each of some spreads.
fn standings(spreads: &[Option<Spread>], better: Better) -> Vec<Standing> {
    let value = |spread: &Spread| if better == Better::Higher { -spread.median } else { spread.median };
    let best = spreads.iter().flatten().min_by(|a, b| value(a).total_cmp(&value(b)));
    // A single one is better than no other.
    let Some(best) = best.filter(|_| spreads.iter().flatten().count() > 1) else {
        return vec![Standing::Behind; spreads.len()];
    };
    let meets = |spread: &Option<Spread>| spread.is_some_and(|spread| spread.overlaps(best));
    // One run has no range: what another run would have shown is unknown.
    let is_alone = spreads.iter().filter(|spread| meets(spread)).count() == 1 && best.runs > 1;
    let standing = |spread: &Option<Spread>| match (meets(spread), is_alone) {
        (true, true) => Standing::Wins,
        (true, false) => Standing::Ties,
        (false, _) => Standing::Behind,
    };
    spreads.iter().map(standing).collect()
}

/// The table of a scene.
pub(super) fn winners(results: &Results, scene: &Scene, sources: &mut Sources) -> Option<Section> {
    let cells = results.principal(scene);
    if cells.is_empty() {
        return None;
    }
    let table = Winners {
        names: cells.iter().map(|cell| cell.cell.name()).collect(),
        rows: MEASURES.iter().filter_map(|measure| row(measure, &cells, scene, sources)).collect(),
        runs: cells.iter().map(|cell| cell.reports.len()).collect(),
    };
    let mut ratios = |measure| beside_ratios(results, scene, measure, sources);
    let parts = [Some(Part::Winners(table)), ratios("seconds"), ratios("throughput")];
    Section::of("Who wins on what", "Medians with the range of the runs.", parts)
}

/// A measure of these cells, if any of them has it.
fn row(measure: &Measure, cells: &[&CellRuns], scene: &Scene, sources: &mut Sources) -> Option<WinnersRow> {
    let spreads: Vec<Option<Spread>> = cells.iter().map(|cell| cell.spread(measure.of)).collect();
    if spreads.iter().all(Option::is_none) {
        return None;
    }
    let standings = standings(&spreads, measure.better);
    let cells = cells.iter().zip(spreads).zip(standings).map(|((cell, spread), standing)| {
        let paper = sources.figure(paper(measure.key, &cell.cell.variant, scene));
        WinnersCell { spread, standing, paper }
    });
    Some(WinnersRow { title: measure.title, unit: measure.unit, cells: cells.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_wins_by_less_than_the_runs_lie_apart() {
        let of = |values: &[f64]| Spread::of(values.iter().copied());
        let apart = [of(&[1.0, 1.1]), of(&[1.2, 1.3]), None];
        use Standing::*;
        assert_eq!(standings(&apart, Better::Higher), [Behind, Wins, Behind]);
        assert_eq!(standings(&apart, Better::Lower), [Wins, Behind, Behind]);
        let close = [of(&[1.0, 1.25]), of(&[1.2, 1.3]), of(&[0.1, 0.2])];
        assert_eq!(standings(&close, Better::Higher), [Ties, Ties, Behind]);
        let single = [of(&[1.0]), of(&[2.0])];
        assert_eq!(standings(&single, Better::Higher), [Behind, Ties], "one run has no range");
        assert_eq!(standings(&[None], Better::Higher), [Behind]);
        assert_eq!(standings(&[None, of(&[1.0, 2.0])], Better::Higher), [Behind, Behind]);
    }
}
