//! The table as Markdown: what decides; the rest is in the CSV.

use super::loads::REFERENCES;
use super::{FIGURES, Figure, Load, Row, VARIANTS, column};
use sidle_bench::spread::Spread;

/// The variants whose mean and tail are shown for every load.
const SHOWN: [&str; 6] = [
    "handoff",
    "handoff,uncovered=load",
    "handoff,uncovered=target",
    "fulva",
    "fulva,hot-first=on",
    "rocksteady,missing=wait",
];
/// Within this share of the best is as good.
const WITHIN: f64 = 0.05;
/// Whose tail is the measure.
const TAIL: &str = "fulva";

/// All parts of the table.
pub fn markdown(rows: &[Row]) -> String {
    let (closed, open): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.load.rate_percent.is_none());
    let mut text = overview(&closed);
    for (title, key) in [("Throughput", "mean"), ("p99 of reads", "p99")] {
        text += &format!("\n{title} by load:\n\n{}", by_load(&closed, column(key)));
    }
    if !open.is_empty() {
        text += &format!("\nOpen loop, p99 of reads:\n\n{}", by_load(&open, column("p99")));
    }
    text + "\n" + &verdicts(&closed)
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "))
}

fn heading(cells: Vec<String>) -> String {
    let rule = cells.iter().map(|_| "---".to_owned()).collect::<Vec<_>>();
    line(cells) + &format!("|{}|\n", rule.join("|"))
}

/// Each variant over all loads: the median, with the least and the most where these decide.
fn overview(rows: &[&Row]) -> String {
    let headings = FIGURES.iter().map(|figure| figure.title.to_owned());
    let mut text = heading(std::iter::once(String::new()).chain(headings).collect());
    for variant in VARIANTS {
        let of_variant = || rows.iter().filter(|row| row.variant == variant);
        if of_variant().next().is_none() {
            continue;
        }
        let cell = |figure: &Figure| {
            let spread = Spread::of(of_variant().filter_map(|row| row.figure(figure)));
            let show = figure.show;
            match spread {
                None => String::new(),
                Some(spread) if ["mean", "p99"].contains(&figure.key) => {
                    format!("{} ({} .. {})", show(spread.median), show(spread.min), show(spread.max))
                }
                Some(spread) => show(spread.median),
            }
        };
        text += &line(std::iter::once(format!("`{variant}`")).chain(FIGURES.iter().map(cell)));
    }
    text
}

/// A figure of the shown variants under each load.
fn by_load(rows: &[&Row], figure: &Figure) -> String {
    let names = SHOWN.iter().map(|variant| format!("`{variant}`"));
    let mut text = heading(std::iter::once("load".to_owned()).chain(names).collect());
    for load in loads_of(rows) {
        let cell = |variant: &&str| {
            let value = row(rows, variant, load).and_then(|row| row.figure(figure));
            value.map(figure.show).unwrap_or_default()
        };
        text += &line(std::iter::once(load.title()).chain(SHOWN.iter().map(cell)));
    }
    text
}

fn loads_of(rows: &[&Row]) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    for row in rows {
        if !loads.contains(&row.load) {
            loads.push(row.load);
        }
    }
    loads
}

fn row<'a>(rows: &[&'a Row], variant: &str, load: Load) -> Option<&'a Row> {
    rows.iter().find(|row| row.variant == variant && row.load == load).copied()
}

/// Under how many loads a variant is as good as the best by its mean, and no worse than Fulva in its tail.
fn verdicts(rows: &[&Row]) -> String {
    let headings = ["", "within 5 % of the best mean", "p99 at most Fulva's", "at most 5 % above", "both"];
    let mut text = heading(headings.map(str::to_owned).to_vec());
    let loads = loads_of(rows);
    for variant in SHOWN {
        let judged = loads.iter().filter_map(|&load| judge(rows, variant, load));
        let judged: Vec<Judged> = judged.collect();
        if judged.is_empty() {
            continue;
        }
        let count = |is: fn(&Judged) -> bool| {
            format!("{} of {}", judged.iter().filter(|judged| is(judged)).count(), judged.len())
        };
        text += &line([
            format!("`{variant}`"),
            count(|judged| judged.mean >= 1.0 - WITHIN),
            count(|judged| judged.tail <= 1.0),
            count(|judged| judged.tail <= 1.0 + WITHIN),
            count(|judged| judged.mean >= 1.0 - WITHIN && judged.tail <= 1.0 + WITHIN),
        ]);
    }
    text
}

/// A variant's mean by the best one's, and its tail by Fulva's.
struct Judged {
    mean: f64,
    tail: f64,
}

fn judge(rows: &[&Row], variant: &str, load: Load) -> Option<Judged> {
    let (mean, tail) = (column("mean"), column("p99"));
    let own = row(rows, variant, load)?;
    let rivals = rows.iter().filter(|row| row.load == load && !REFERENCES.contains(&row.variant));
    let best = rivals.filter_map(|row| row.figure(mean)).reduce(f64::max)?;
    let measure = row(rows, TAIL, load)?.figure(tail)?;
    Some(Judged { mean: own.figure(mean)? / best, tail: own.figure(tail)? / measure })
}

#[cfg(test)]
mod tests {
    use super::super::loads;
    use super::*;
    use sidle_bench::report::{ByKind, Latency, Percentiles, Report, Throughput};

    fn row_of(variant: &'static str, during: f64, p99: f64) -> Row {
        let reads =
            |p99| ByKind { reads: Some(Percentiles { p99, ..Percentiles::default() }), ..ByKind::default() };
        let report = Report {
            throughput: Throughput { before: Some(100.0), during: Some(during), ..Throughput::default() },
            latency_us: Latency { before: reads(10.0), during: reads(p99), ..Latency::default() },
            ..Report::default()
        };
        Row { variant, load: loads()[0], reports: vec![report] }
    }

    #[test]
    fn a_variant_is_judged_by_the_best_mean_and_fulvas_tail() {
        let rows = [
            row_of("handoff", 154.0, 9.0),
            row_of("fulva", 140.0, 9.0),
            row_of("stop-and-copy", 900.0, 90.0),
        ];
        let text = markdown(&rows);
        assert!(text.contains("| `handoff` | 1.54 (1.54 .. 1.54) | 0.90 (0.90 .. 0.90) |"), "{text}");
        assert!(text.contains("| A, Zipf 0.99, source 100 % | 1.54 |  |  | 1.40 |"), "{text}");
        assert!(text.contains("| `handoff` | 1 of 1 | 1 of 1 | 1 of 1 | 1 of 1 |"), "{text}");
        assert!(text.contains("| `fulva` | 0 of 1 | 1 of 1 | 1 of 1 | 0 of 1 |"), "{text}");
    }
}
