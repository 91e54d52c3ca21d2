//! Who wins on what: one row for each measure, one column for each protocol.

use super::svg::escape;
use super::{Sources, whole};
use crate::lab::cell::Scene;
use crate::lab::measures::{Better, MEASURES, Measure};
use crate::lab::papers::paper;
use crate::lab::results::{CellRuns, Results};
use crate::lab::spread::Spread;
use std::fmt::Write;

/// How a protocol stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Better than all others, by more than the runs lie apart.
    Wins,
    /// Its range meets the best one's: which of them is better is not known.
    Ties,
    /// Neither.
    Behind,
}

/// How each of some spreads stands.
pub(super) fn standings(spreads: &[Option<Spread>], better: Better) -> Vec<Standing> {
    let value = |spread: &Spread| if better == Better::Higher { -spread.median } else { spread.median };
    let best = spreads.iter().flatten().min_by(|a, b| value(a).total_cmp(&value(b)));
    // Alone nobody is better than anybody.
    let Some(best) = best.filter(|_| spreads.iter().flatten().count() > 1) else {
        return vec![Standing::Behind; spreads.len()];
    };
    let meets = |spread: &Option<Spread>| spread.is_some_and(|spread| spread.overlaps(best));
    // One run has no range: nothing can be said of what another run would have given.
    let is_alone = spreads.iter().filter(|spread| meets(spread)).count() == 1 && best.runs > 1;
    let standing = |spread: &Option<Spread>| match (meets(spread), is_alone) {
        (true, true) => Standing::Wins,
        (true, false) => Standing::Ties,
        (false, _) => Standing::Behind,
    };
    spreads.iter().map(standing).collect()
}

/// The table of a scene.
pub(super) fn winners(results: &Results, scene: &Scene, sources: &mut Sources) -> String {
    let cells = results.principal(scene);
    if cells.is_empty() {
        return String::new();
    }
    let mut html = "<section class=\"table wide winners\"><h2>Who wins on what</h2><p class=\"about\">Medians with the range of the runs. \
                    <b class=\"wins\">Best</b>: its range meets no other's. <b class=\"ties\">Level</b>: with the best one's range in common, which is better is not known.</p>\
                    <table><thead><tr><th></th>"
        .to_owned();
    for cell in &cells {
        let _ = write!(html, "<th class=\"number\">{}</th>", escape(&cell.cell.name()));
    }
    html.push_str("</tr></thead><tbody>");
    for measure in &MEASURES {
        row(&mut html, measure, &cells, scene, sources);
    }
    let runs: Vec<String> =
        cells.iter().map(|cell| format!("<td class=\"number soft\">{}</td>", cell.reports.len())).collect();
    let _ = write!(html, "<tr><th>runs</th>{}</tr></tbody></table>", runs.concat());
    html.push_str(&whole::ratio_line(results, scene, "seconds", sources));
    html.push_str(&whole::ratio_line(results, scene, "throughput", sources));
    html + "</section>\n"
}

fn row(html: &mut String, measure: &Measure, cells: &[&CellRuns], scene: &Scene, sources: &mut Sources) {
    let spreads: Vec<Option<Spread>> = cells.iter().map(|cell| cell.spread(measure.of)).collect();
    if spreads.iter().all(Option::is_none) {
        return;
    }
    let _ = write!(html, "<tr><th>{}</th>", escape(measure.title));
    for ((cell, spread), standing) in cells.iter().zip(&spreads).zip(standings(&spreads, measure.better)) {
        let paper = paper(measure.key, &cell.cell.variant, scene)
            .map(|figure| format!("<br>{}", sources.cite(&measure.unit.show(figure.value), figure.source)));
        let Some(spread) = spread else {
            let _ = write!(html, "<td class=\"number soft\">–{}</td>", paper.unwrap_or_default());
            continue;
        };
        let class = match standing {
            Standing::Wins => "wins",
            Standing::Ties => "ties",
            Standing::Behind => "behind",
        };
        let show = |value| escape(&measure.unit.show(value));
        let range = match spread.runs {
            1 => String::new(),
            _ => format!("<br><small>{} .. {}</small>", show(spread.min), show(spread.max)),
        };
        let _ = write!(
            html,
            "<td class=\"number\"><b class=\"{class}\">{}</b>{range}{}</td>",
            show(spread.median),
            paper.unwrap_or_default()
        );
    }
    html.push_str("</tr>");
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
