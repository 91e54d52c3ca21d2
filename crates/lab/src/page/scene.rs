//! One scene's pictures: every protocol under the same load.

use super::beside::{beside_papers, beside_ratios, capitalised};
use super::data::{Bar, BarChart, Line, LineChart, Meaning, Part, Section, XAxis, YAxis};
use super::policies::{policies, variants};
use super::series::{series, until_s};
use super::sources::Sources;
use super::winners::winners;
use crate::cell::Scene;
use crate::measures::{Unit, by_node, is_tracked, named};
use crate::papers::paper;
use crate::results::{CellRuns, Results};
use sidle_bench::report::{Report, TimelinePoint};
use sidle_bench::spread::Spread;
use sidle_bench::timeline::Part as PartOfRun;

/// The scene with everything.
pub(super) fn primary(results: &Results, scene: &Scene, sources: &mut Sources) -> Vec<Section> {
    let cells = results.principal(scene);
    let mut sections = Vec::from_iter(winners(results, scene, sources));
    sections.extend(timelines(&cells, scene, sources));
    sections.extend(extra_bytes(&cells, scene, sources));
    sections.extend(tracking(&cells, scene, sources));
    sections.extend(by_nodes(&cells, scene, sources));
    sections.extend(variants(results, scene));
    sections.extend(policies(results, scene));
    sections.extend(ablations(results, scene, sources));
    sections
}

/// Another scene, with less.
pub(super) fn other(results: &Results, scene: &Scene, sources: &mut Sources) -> Vec<Section> {
    let cells = results.principal(scene);
    let mut sections = Vec::from_iter(winners(results, scene, sources));
    sections.extend(timelines(&cells, scene, sources));
    sections.extend(extra_bytes(&cells, scene, sources));
    sections.extend(by_nodes(&cells, scene, sources));
    sections.extend(policies(results, scene));
    sections
}

type Of = fn(&Report, &TimelinePoint) -> Option<f64>;

/// The common x axis of all timelines of these cells.
fn shown_time(cells: &[&CellRuns]) -> Option<XAxis> {
    let until = until_s(cells);
    let times = cells.iter().flat_map(|cell| series(cell, until, |_, point| Some(point.operations as f64)));
    let range = times.fold(None, |range, (at, _)| {
        let (from, to) = range.unwrap_or((at, at));
        Some((at.min(from), at.max(to)))
    });
    range.map(|(from, to)| XAxis::Time { from, to })
}

/// A line for each cell with a value above 0.
fn over_time(cells: &[&CellRuns], y: YAxis, of: Of) -> Option<Part> {
    let until = until_s(cells);
    let line = |cell: &&CellRuns| {
        let points = series(cell, until, of);
        let end = cell.spread(|report| report.seconds).map(|seconds| seconds.median);
        let is_shown = points.iter().any(|(_, spread)| spread.max > 0.0);
        is_shown.then(|| Line::through(cell.cell.name(), cell.cell.variant.base(), &points, end))
    };
    let lines: Vec<Line> = cells.iter().filter_map(line).collect();
    let x = shown_time(cells).filter(|_| !lines.is_empty())?;
    Some(Part::Lines(LineChart { x, y, lines }))
}

fn timelines(cells: &[&CellRuns], scene: &Scene, sources: &mut Sources) -> Vec<Section> {
    let of_before: Of = |report, point| {
        let before = report.throughput.before.filter(|&before| before > 0.0);
        before.map(|before| point.operations as f64 * 10.0 / before)
    };
    let throughput = YAxis { reference: Some(1.0), ..YAxis::from_0("throughput / before", Unit::Ratio) };
    let latency = |label| YAxis { is_log: true, ..YAxis::from_0(label, Unit::Micros) };
    let sections = [
        Section::of(
            "Throughput over time",
            "Operations in each 100 ms by the median window before the move. Lines are medians over the runs, bands \
             go from the least to the most.",
            [over_time(cells, throughput, of_before), beside_papers(cells, scene, "during", sources)],
        ),
        Section::of(
            "Median latency over time",
            "Of all operations that ended in each 100 ms; equal ratios stand the same distance apart.",
            [
                over_time(cells, latency("median latency"), |_, point| point.p50),
                beside_papers(cells, scene, "p50", sources),
            ],
        ),
        Section::of(
            "99th percentile over time",
            "Of all operations that ended in each 100 ms.",
            [over_time(cells, latency("99th percentile"), |_, point| point.p99)],
        ),
    ];
    sections.into_iter().flatten().chain(tried_again(cells)).collect()
}

/// Where transactions are in each other's way.
fn tried_again(cells: &[&CellRuns]) -> Option<Section> {
    let per_commit: Of = |_, point| Some(point.tried_again? as f64 / point.operations.max(1) as f64);
    let y = YAxis::from_0("tried again / committed", Unit::Ratio);
    Section::of(
        "Transactions tried again over time",
        "How often one was aborted and tried again in each 100 ms, by those that were committed in it.",
        [over_time(cells, y, per_commit)],
    )
}

fn extra_bytes(cells: &[&CellRuns], scene: &Scene, sources: &mut Sources) -> Vec<Section> {
    let per_operation: Of = |_, point| {
        let extra = point.extra_bytes.unwrap_or(0) + point.extra_server_bytes.unwrap_or(0);
        (point.operations > 0).then(|| extra as f64 / point.operations as f64)
    };
    let over_time = Section::of(
        "Extra bytes of each operation over time",
        "At the clients and between the nodes together: second requests and replies, maps and progress, requests and \
         headers between the nodes, records sent twice.",
        [over_time(cells, YAxis::from_0("extra bytes / operation", Unit::Bytes), per_operation)],
    );
    let sides = [("at the clients", "extra_client"), ("between the nodes", "extra_server")];
    let groups = sides.map(|(side, key)| {
        let label = |cell: &CellRuns| format!("{}, {side}", cell.cell.variant);
        group(cells, scene, key, label, named(key).of, sources)
    });
    let totals = Section::of(
        "Extra bytes in total",
        "From the start of the move to the end of the load, by the bytes that moved. A diamond is the paper's figure.",
        [bars("extra bytes by the bytes that moved", Unit::Percent, None, groups)],
    );
    over_time.into_iter().chain(totals).collect()
}

/// A bar for each of these cells that has the figure.
fn group(
    cells: &[&CellRuns],
    scene: &Scene,
    key: &str,
    label: impl Fn(&CellRuns) -> String,
    of: impl Fn(&Report) -> Option<f64>,
    sources: &mut Sources,
) -> Vec<Bar> {
    let bar = |cell: &&CellRuns| {
        let variant = &cell.cell.variant;
        let spread: Spread = cell.spread(&of)?;
        let paper = sources.figure(paper(key, variant, scene));
        Some(Bar { label: label(cell), protocol: variant.base().to_owned(), spread, paper })
    };
    cells.iter().filter_map(bar).collect()
}

fn bars(
    label: impl Into<String>,
    unit: Unit,
    reference: Option<f64>,
    groups: impl IntoIterator<Item = Vec<Bar>>,
) -> Option<Part> {
    let groups: Vec<Vec<Bar>> = groups.into_iter().filter(|group| !group.is_empty()).collect();
    (!groups.is_empty()).then(|| Part::Bars(BarChart { label: label.into(), unit, reference, groups }))
}

fn tracking(cells: &[&CellRuns], scene: &Scene, sources: &mut Sources) -> Vec<Section> {
    // Only protocols whose source answers are tracked.
    let tracked: Vec<&CellRuns> =
        cells.iter().filter(|cell| cell.reports.iter().any(is_tracked)).copied().collect();
    let memory = YAxis::from_0("MCR and SPH", Unit::Bytes);
    let memory = Section::of(
        "What a client knows of the move",
        "The most memory of one client for MCR and SPH in each 100 ms; the paper's figure is of a longer move of \
         more records.",
        [
            over_time(&tracked, memory, |_, point| point.tracking_bytes.map(|bytes| bytes as f64)),
            beside_papers(&tracked, scene, "tracking", sources),
        ],
    );
    let lookups = Section::of(
        "What it costs to look it up",
        "Deciding which nodes to ask for a key, while data moves; timed in batches of 256.",
        [
            over_time(&tracked, YAxis::from_0("look-up", Unit::Nanos), |_, point| point.lookup_ns),
            beside_papers(&tracked, scene, "lookup", sources),
        ],
    );
    memory.into_iter().chain(lookups).collect()
}

fn by_nodes(cells: &[&CellRuns], scene: &Scene, sources: &mut Sources) -> Option<Section> {
    let mut groups = Vec::new();
    for (kind, is_write) in [("reads", false), ("writes", true)] {
        for (node, is_target) in [("source", false), ("target", true)] {
            let label = |cell: &CellRuns| format!("{kind} answered by the {node}: {}", cell.cell.variant);
            let of = |report: &Report| by_node(report, is_target, is_write, PartOfRun::During);
            groups.push(group(cells, scene, &format!("node_{node}_{kind}"), label, of, sources));
        }
    }
    Section::of(
        "Latency by node",
        "Mean latency during the move of the operations whose answer came from this node, by the mean of the same \
         kind before the move. A read that asked both nodes counts where its value came from.",
        [bars("mean latency during the move / before", Unit::Ratio, Some(1.0), groups)],
    )
}

fn ablations(results: &Results, scene: &Scene, sources: &mut Sources) -> Option<Section> {
    let of_base = |base: &str| -> Vec<&CellRuns> {
        let mut cells: Vec<&CellRuns> =
            results.compared(scene).filter(|cell| cell.cell.variant.base() == base).collect();
        cells.sort_by_key(|cell| !cell.cell.variant.is_plain());
        cells
    };
    let bases = results.protocols().into_iter().map(of_base);
    let changed: Vec<Vec<&CellRuns>> =
        bases.filter(|cells| cells.iter().any(|cell| !cell.cell.variant.is_plain())).collect();
    let mut parts = vec![meanings(results, scene)];
    for key in ["during", "p50", "p99", "seconds"] {
        let measure = named(key);
        let label = |cell: &CellRuns| cell.cell.variant.to_string();
        let groups: Vec<Vec<Bar>> =
            changed.iter().map(|cells| group(cells, scene, key, label, measure.of, sources)).collect();
        let reference = (measure.unit == Unit::Ratio).then_some(1.0);
        let Some(bars) = bars(measure.title, measure.unit, reference, groups) else { continue };
        parts.push(Some(Part::Heading { text: capitalised(measure.title) }));
        parts.push(Some(bars));
        parts.push(beside_ratios(results, scene, key, sources));
    }
    Section::of(
        "Ablations and parameters",
        "Each protocol as it is, then with one choice or more changed. Whiskers go from the least to the most of the \
         runs. A diamond is the paper's figure.",
        parts,
    )
}

/// The meanings of the changes in the scene's variants, each once.
fn meanings(results: &Results, scene: &Scene) -> Option<Part> {
    let mut changes: Vec<Meaning> = Vec::new();
    for (change, meaning) in results.compared(scene).flat_map(|cell| cell.cell.variant.meanings()) {
        if changes.iter().all(|known| known.change != change) {
            changes.push(Meaning { change, meaning });
        }
    }
    (!changes.is_empty()).then_some(Part::Meanings { changes })
}
