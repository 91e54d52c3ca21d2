//! One scene's pictures: what every protocol did under the same load.

use super::bars::{Bar, bars};
use super::frontier::{Frontier, Point, Reach};
use super::lines::{Line, LineChart};
use super::policies::policies;
use super::series::{series, until_s};
use super::svg::escape;
use super::table::winners;
use super::{Colours, Sources, chart, seconds, trimmed, with_range};
use crate::lab::cell::Scene;
use crate::lab::measures::{Unit, by_node, during, is_tracked, named};
use crate::lab::papers::paper;
use crate::lab::results::{CellRuns, Results};
use crate::lab::variant::Variant;
use crate::report::{Report, TimelinePoint};
use crate::timeline::Part;
use crate::words::{bytes, micros};

/// The scene with everything.
pub(super) fn primary(
    results: &Results,
    scene: &Scene,
    colours: &Colours<'_>,
    sources: &mut Sources,
) -> String {
    let cells = results.principal(scene);
    let mut html = format!("<h2 class=\"scene\">{}</h2>", escape(&scene.title()));
    html.push_str(&winners(results, scene, sources));
    html.push_str(&timelines(&cells, scene, colours, sources));
    html.push_str(&extra_bytes(&cells, scene, colours, sources));
    html.push_str(&tracking(results, scene, colours, sources));
    html.push_str(&by_nodes(&cells, scene, colours, sources));
    html.push_str(&duration_and_impact(results, scene, colours));
    html.push_str(&policies(results, scene, colours));
    html + &ablations(results, scene, colours, sources)
}

/// Another scene, folded up.
pub(super) fn other(
    results: &Results,
    scene: &Scene,
    colours: &Colours<'_>,
    sources: &mut Sources,
) -> String {
    let cells = results.principal(scene);
    let inside = winners(results, scene, sources)
        + &timelines(&cells, scene, colours, sources)
        + &extra_bytes(&cells, scene, colours, sources)
        + &by_nodes(&cells, scene, colours, sources)
        + &policies(results, scene, colours);
    format!("<details class=\"scene\"><summary>{}</summary>{inside}</details>\n", escape(&scene.title()))
}

type Of = fn(&Report, &TimelinePoint) -> Option<f64>;

fn lines(cells: &[&CellRuns], colours: &Colours<'_>, of: Of) -> Vec<Line> {
    let until = until_s(cells);
    let line = |cell: &&CellRuns| Line {
        name: cell.cell.name(),
        colour: colours.of(cell.cell.variant.base()),
        points: series(cell, until, of),
        end: cell.spread(|report| report.seconds).map(|seconds| seconds.median),
    };
    let lines = cells.iter().map(line);
    lines.filter(|line| line.points.iter().any(|(_, spread)| spread.max > 0.0)).collect()
}

/// What the x axis of all timelines of these cells covers.
fn covered(cells: &[&CellRuns]) -> Option<(f64, f64)> {
    let until = until_s(cells);
    let times = cells.iter().flat_map(|cell| series(cell, until, |_, point| Some(point.operations as f64)));
    times.fold(None, |range, (at, _)| {
        let (from, to) = range.unwrap_or((at, at));
        Some((at.min(from), at.max(to)))
    })
}

fn over_time(cells: &[&CellRuns], y_label: &'static str, y_tick: fn(f64) -> String) -> LineChart<'static> {
    LineChart {
        x_label: "time from the start of the move; a dot is its end",
        y_label,
        x_tick: seconds,
        y_tick,
        is_log: false,
        reference: None,
        has_marks: false,
        x_values: Vec::new(),
        x_range: covered(cells),
        has_start: true,
    }
}

/// A line with what the lab has of a measure, and what a paper has, for each of these cells that a paper knows.
fn beside_papers(cells: &[&CellRuns], scene: &Scene, key: &str, sources: &mut Sources) -> String {
    let measure = named(key);
    let show = |value| measure.unit.show(value);
    let mut words = Vec::new();
    for cell in cells {
        let variant = &cell.cell.variant;
        let (Some(figure), Some(ours)) = (paper(key, variant, scene), cell.spread(measure.of)) else {
            continue;
        };
        words.push(format!(
            "{} {}, {}",
            escape(&variant.to_string()),
            escape(&with_range(&ours, show)),
            sources.cite(&escape(&show(figure.value)), figure.source)
        ));
    }
    if words.is_empty() {
        return String::new();
    }
    format!("<p class=\"papers\">{}: {}</p>", escape(&capitalised(measure.title)), words.join(" · "))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

fn timelines(cells: &[&CellRuns], scene: &Scene, colours: &Colours<'_>, sources: &mut Sources) -> String {
    let throughput = LineChart { reference: Some(1.0), ..over_time(cells, "throughput / before", trimmed) };
    let lines_of = |of: Of| lines(cells, colours, of);
    let mut html = chart(
        "Throughput over time",
        "Operations in each 100 ms by the median window before the move. Lines are medians over the runs, bands go from the least to the most.",
        &(throughput.draw(&lines_of(|report, point| {
            report
                .throughput
                .before
                .filter(|&before| before > 0.0)
                .map(|before| point.operations as f64 * 10.0 / before)
        })) + &beside_papers(cells, scene, "during", sources)),
    );
    let latency = |label| LineChart { is_log: true, ..over_time(cells, label, micros) };
    html += &chart(
        "Median latency over time",
        "Of all operations that ended in each 100 ms; equal ratios stand the same distance apart.",
        &(latency("median latency").draw(&lines_of(|_, point| point.p50))
            + &beside_papers(cells, scene, "p50", sources)),
    );
    html + &chart(
        "99th percentile over time",
        "Of all operations that ended in each 100 ms.",
        &latency("99th percentile").draw(&lines_of(|_, point| point.p99)),
    )
}

fn extra_bytes(cells: &[&CellRuns], scene: &Scene, colours: &Colours<'_>, sources: &mut Sources) -> String {
    let per_operation: Of = |_, point| {
        let extra = point.extra_bytes.unwrap_or(0) + point.extra_server_bytes.unwrap_or(0);
        (point.operations > 0).then(|| extra as f64 / point.operations as f64)
    };
    let mut html = chart(
        "Extra bytes of each operation over time",
        "At the clients and between the nodes together: second requests and replies, maps and progress, requests and headers between the nodes, records sent twice.",
        &over_time(cells, "extra bytes / operation", bytes).draw(&lines(cells, colours, per_operation)),
    );
    let mut totals = Vec::new();
    for (side, key) in [("at the clients", "extra_client"), ("between the nodes", "extra_server")] {
        for (index, cell) in cells.iter().enumerate() {
            let Some(spread) = cell.spread(named(key).of) else { continue };
            totals.push(Bar {
                label: format!("{}, {side}", cell.cell.variant),
                colour: colours.of(cell.cell.variant.base()),
                spread,
                paper: paper(key, &cell.cell.variant, scene),
                is_first_of_group: index == 0,
            });
        }
    }
    cite(&totals, sources);
    html += &chart(
        "Extra bytes in total",
        "From the start of the move to the end of the load, by the bytes that moved. A diamond is the paper's figure.",
        &bars(&totals, None, |value| Unit::Percent.show(value)),
    );
    html
}

/// Makes the sources of the bars' diamonds appear in the list.
fn cite(bars: &[Bar], sources: &mut Sources) {
    for paper in bars.iter().filter_map(|bar| bar.paper) {
        sources.number(paper.source);
    }
}

fn tracking(results: &Results, scene: &Scene, colours: &Colours<'_>, sources: &mut Sources) -> String {
    let cells: Vec<&CellRuns> = results.principal(scene);
    // Only protocols whose source answers are tracked at all.
    let tracked: Vec<&CellRuns> =
        cells.iter().filter(|cell| cell.reports.iter().any(is_tracked)).copied().collect();
    let memory = chart(
        "What a client knows of the move",
        "The most memory of one client for MCR and SPH in each 100 ms; the paper's figure is of a longer move of more records.",
        &(over_time(&tracked, "MCR and SPH", bytes)
            .draw(&lines(&tracked, colours, |_, point| point.tracking_bytes.map(|bytes| bytes as f64)))
            + &beside_papers(&tracked, scene, "tracking", sources)),
    );
    let lookups = chart(
        "What it costs to look it up",
        "Deciding which nodes to ask for a key, while data moves; timed in batches of 256.",
        &(over_time(&tracked, "look-up", |value| Unit::Nanos.show(value)).draw(&lines(
            &tracked,
            colours,
            |_, point| point.lookup_ns,
        )) + &beside_papers(&tracked, scene, "lookup", sources)),
    );
    memory + &lookups
}

fn by_nodes(cells: &[&CellRuns], scene: &Scene, colours: &Colours<'_>, sources: &mut Sources) -> String {
    let mut rows = Vec::new();
    for (kind, is_write) in [("reads", false), ("writes", true)] {
        for (node, is_target) in [("source", false), ("target", true)] {
            let key = format!("node_{node}_{kind}");
            let of = |cell: &&CellRuns| {
                let spread = cell.spread(|report| by_node(report, is_target, is_write, Part::During))?;
                Some(Bar {
                    label: format!("{kind} answered by the {node}: {}", cell.cell.variant),
                    colour: colours.of(cell.cell.variant.base()),
                    spread,
                    paper: paper(&key, &cell.cell.variant, scene),
                    is_first_of_group: false,
                })
            };
            let mut group: Vec<Bar> = cells.iter().filter_map(of).collect();
            if let Some(first) = group.first_mut() {
                first.is_first_of_group = true;
            }
            rows.extend(group);
        }
    }
    cite(&rows, sources);
    chart(
        "Latency by node",
        "Mean latency during the move of the operations whose answer came from this node, by the mean of the same kind before the move. A read that asked both nodes counts where its value came from.",
        &bars(&rows, Some(1.0), |value| Unit::Ratio.show(value)),
    )
}

fn duration_and_impact(results: &Results, scene: &Scene, colours: &Colours<'_>) -> String {
    let point = |cell: &CellRuns| {
        Some(Point {
            name: cell.cell.variant.to_string(),
            colour: colours.of(cell.cell.variant.base()),
            is_plain: cell.cell.variant.is_plain(),
            seconds: cell.spread(|report| report.seconds)?,
            impact: cell.spread(during)?,
        })
    };
    let points: Vec<Point> = results.compared(scene).filter_map(point).collect();
    let drawn = Frontier {
        width: 1080.0,
        height: 380.0,
        names: 300.0,
        impact: "throughput during / before",
        better: "up and left",
        is_log: false,
    };
    chart(
        "Duration against impact",
        "Throughput during the move by that before it, against how long the move took: a longer move costs its price for longer.",
        &Reach::of(&points).map_or_else(String::new, |reach| drawn.draw(&points, reach)),
    )
}

fn ablations(results: &Results, scene: &Scene, colours: &Colours<'_>, sources: &mut Sources) -> String {
    let changed = |cell: &&CellRuns| !cell.cell.variant.is_plain();
    let bases: Vec<&str> = results
        .protocols()
        .into_iter()
        .filter(|base| results.compared(scene).filter(changed).any(|cell| cell.cell.variant.base() == *base))
        .collect();
    let mut html = String::new();
    for key in ["during", "p50", "p99", "seconds"] {
        let measure = named(key);
        let mut rows = Vec::new();
        for base in &bases {
            let mut cells: Vec<&CellRuns> =
                results.compared(scene).filter(|cell| cell.cell.variant.base() == *base).collect();
            cells.sort_by_key(|cell| !cell.cell.variant.is_plain());
            for (index, cell) in cells.iter().enumerate() {
                let Some(spread) = cell.spread(measure.of) else { continue };
                rows.push(Bar {
                    label: cell.cell.variant.to_string(),
                    colour: colours.of(base),
                    spread,
                    paper: paper(key, &cell.cell.variant, scene),
                    is_first_of_group: index == 0,
                });
            }
        }
        cite(&rows, sources);
        let reference = (measure.unit == Unit::Ratio).then_some(1.0);
        let title = capitalised(measure.title);
        let ratios = super::whole::ratio_line(results, scene, key, sources);
        let body = bars(&rows, reference, |value| measure.unit.show(value));
        if !body.is_empty() {
            html += &format!("<h3>{}</h3>{body}{ratios}", escape(&title));
        }
    }
    let variants = results.compared(scene).map(|cell| &cell.cell.variant);
    chart(
        "Ablations and parameters",
        "Each protocol as it is, then with one choice or more changed. Whiskers go from the least to the most of the runs. A diamond is the paper's figure.",
        &(meanings(variants) + &html),
    )
}

/// What the changes of these variants mean, each once.
fn meanings<'a>(variants: impl Iterator<Item = &'a Variant>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (change, meaning) in variants.flat_map(Variant::meanings) {
        let line = format!("<b>{}</b>: {meaning}", escape(&change));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() { String::new() } else { format!("<p class=\"about\">{}.</p>", lines.join("; ")) }
}
