//! Our figures beside papers': of single variants, and of one variant relative to another.

use super::data::{BesidePaper, BesidePapers, Part};
use super::sources::Sources;
use crate::cell::{Scene, SourceCpu};
use crate::measures::{Unit, named};
use crate::papers::{PAPER_RATIOS, PaperRatio, paper};
use crate::results::{CellRuns, Results};
use sidle_bench::report::Report;
use sidle_bench::spread::Spread;

/// The lab's value and a paper's of a measure, for each of these cells that a paper covers.
pub(super) fn beside_papers(
    cells: &[&CellRuns],
    scene: &Scene,
    key: &str,
    sources: &mut Sources,
) -> Option<Part> {
    let measure = named(key);
    let of = |cell: &&CellRuns| {
        let variant = &cell.cell.variant;
        let (figure, ours) = (paper(key, variant, scene)?, cell.spread(measure.of)?);
        let paper = sources.cite(figure.value, figure.source);
        Some(BesidePaper { name: variant.to_string(), ours, paper })
    };
    let figures: Vec<BesidePaper> = cells.iter().filter_map(of).collect();
    part(capitalised(measure.title), measure.unit, figures)
}

/// Our ratio of one variant to another and a paper's, for the papers' comparisons in this scene.
pub(super) fn beside_ratios(
    results: &Results,
    scene: &Scene,
    measure: &str,
    sources: &mut Sources,
) -> Option<Part> {
    let (what, of): (_, fn(&Report) -> Option<f64>) = match measure {
        "seconds" => ("Duration of the move", |report| report.seconds),
        "throughput" => ("Throughput during the move", |report| report.throughput.during),
        _ => return None,
    };
    let source_percent = match scene.source_cpu {
        SourceCpu::Percent(percent) => percent,
        SourceCpu::Shared => 100,
    };
    let is_here = |ratio: &&PaperRatio| {
        ratio.measure == measure
            && ratio.write_percent == scene.workload.write_percent()
            && ratio.source_cpu == source_percent
            && scene.distribution.to_string() == "zipf:0.99"
    };
    let cell = |name: &str| results.compared(scene).find(|cell| cell.cell.variant.to_string() == name);
    let beside = |ratio: &PaperRatio| {
        let ours = paired(cell(ratio.variant)?, cell(ratio.by)?, of)?;
        let paper = sources.cite(ratio.value, ratio.source);
        Some(BesidePaper { name: format!("{} / {}", ratio.variant, ratio.by), ours, paper })
    };
    let figures = PAPER_RATIOS.iter().filter(is_here).filter_map(beside).collect();
    part(format!("{what}, {}", scene.title()), Unit::Ratio, figures)
}

fn part(what: String, unit: Unit, figures: Vec<BesidePaper>) -> Option<Part> {
    (!figures.is_empty()).then_some(Part::BesidePapers(BesidePapers { what, unit, figures }))
}

/// The ratio within each round that measured both cells.
fn paired(one: &CellRuns, other: &CellRuns, of: fn(&Report) -> Option<f64>) -> Option<Spread> {
    let same_round = |report: &Report| other.reports.iter().find(|candidate| candidate.seed == report.seed);
    Spread::of(one.reports.iter().filter_map(|report| Some(of(report)? / of(same_round(report)?)?)))
}

/// The same with a capital first letter.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}
