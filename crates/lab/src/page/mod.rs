//! The lab's report as one HTML page: its content is [`LabPage`], one JSON document in the page, and the
//! page's script draws it. No network, light and dark, and readable without a pointer.
//!
//! The content and its names are decided here; its look is decided by `assets/lab.js`,
//! `assets/charts.js` and `assets/lab.css`.

mod across;
mod beside;
mod data;
mod policies;
mod scene;
mod series;
mod sources;
mod winners;

pub use data::{
    Bar, BarChart, BesidePaper, BesidePapers, Cited, Failed, Frontier, FrontierPoint, LabPage, Line,
    LineChart, LinePoint, Meaning, OddFile, Part, Reach, SceneSections, Section, Standing, Verdict, Winners,
    WinnersCell, WinnersRow, XAxis, YAxis,
};

use crate::results::Results;
use sidle_bench::page::{Parts, STYLE};
use sidle_bench::report::{Report, STILL_LIMIT_MS, STOLEN_LIMIT};
use sources::Sources;

/// Draws the page.
pub fn page(results: &Results) -> String {
    let parts = Parts {
        title: "Sidle: the lab",
        main: include_str!("../../assets/lab.html"),
        styles: &[STYLE, include_str!("../../assets/lab.css")],
        scripts: &[include_str!("../../assets/charts.js"), include_str!("../../assets/lab.js")],
    };
    parts.page(&LabPage::of(results))
}

impl LabPage {
    /// The page's content for these results.
    pub fn of(results: &Results) -> LabPage {
        let mut sources = Sources::default();
        let all = results.scenes();
        let (mut scenes, mut across) = (Vec::new(), Vec::new());
        // In the page's order, by which the sources are numbered.
        if let Some((first, others)) = all.split_first() {
            let sections = scene::primary(results, first, &mut sources);
            scenes.push(SceneSections { title: first.title(), sections });
            across = across::across(results, first, &mut sources);
            scenes.extend(others.iter().map(|scene| SceneSections {
                title: scene.title(),
                sections: scene::other(results, scene, &mut sources),
            }));
        }
        LabPage {
            protocols: results.protocols().into_iter().map(str::to_owned).collect(),
            runs: results.runs(),
            cells: results.cells.len(),
            settings: results.lab.settings.clone(),
            machine: results.lab.machine.clone(),
            sidle: results.lab.sidle.to_string(),
            verdict: Verdict::of(results),
            scenes,
            across,
            sources: sources.into_list(),
        }
    }
}

impl Verdict {
    fn of(results: &Results) -> Verdict {
        let reports = || results.cells.iter().flat_map(|cell| cell.all());
        let is_unread = |report: &&Report| report.lost_writes.is_none() && report.modelled.is_none();
        let failed = results.failed.iter().map(|failed| Failed {
            cell: failed.cell.title(),
            repeat: failed.repeat,
            reason: failed.reason.clone(),
        });
        let odd = results.odd.iter().cloned().map(|(file, reason)| OddFile { file, reason });
        Verdict {
            wrong_values: reports().map(|report| report.wrong_values).sum(),
            lost_writes: reports().filter_map(|report| report.lost_writes).sum(),
            errors: reports().flat_map(|report| report.errors.values()).sum(),
            unread_runs: reports().filter(is_unread).count(),
            disturbed_runs: reports().filter(|report| report.is_disturbed()).count(),
            left_out_runs: results.left_out(),
            still_limit_ms: STILL_LIMIT_MS,
            stolen_limit: STOLEN_LIMIT,
            failed: failed.collect(),
            odd: odd.collect(),
        }
    }
}
