//! The lab's report as one HTML page: pictures in SVG, no scripts, no network, light and dark.

mod bars;
mod frontier;
mod lines;
mod policies;
mod scene;
mod series;
mod svg;
mod table;
mod whole;

use crate::lab::results::Results;
use crate::lab::settings::OnModel;
use crate::lab::spread::Spread;
use crate::report::{Report, STILL_LIMIT_MS, STOLEN_LIMIT};
use crate::words::{bytes, count};
use std::collections::BTreeMap;
use std::fmt::Write;
use svg::escape;

const STYLES: [&str; 2] = [include_str!("../../../assets/page.css"), include_str!("../../../assets/lab.css")];

/// The page's colours by protocol: each keeps its own on the whole page.
pub(crate) struct Colours<'a>(Vec<&'a str>);

/// How many there are in the style sheet.
const COLOURS: usize = 8;

impl Colours<'_> {
    fn of(&self, protocol: &str) -> usize {
        self.0.iter().position(|known| *known == protocol).unwrap_or(0) % COLOURS
    }
}

/// Draws the page.
pub fn page(results: &Results) -> String {
    let colours = Colours(results.protocols());
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>Sidle: the lab</title>\n<style>\n",
    );
    html.push_str(&STYLES.concat());
    html.push_str("</style>\n</head>\n<body>\n<main>\n");
    html.push_str(&head(results));
    html.push_str(&verdict(results));
    let scenes = results.scenes();
    let mut sources = Sources::default();
    if let Some((first, others)) = scenes.split_first() {
        html.push_str(&scene::primary(results, first, &colours, &mut sources));
        html.push_str(&whole::across(results, first, &colours, &mut sources));
        for scene in others {
            html.push_str(&scene::other(results, scene, &colours, &mut sources));
        }
    } else {
        html.push_str("<p>Nothing has been measured yet.</p>");
    }
    html.push_str(&sources.list());
    html.push_str(&about(results));
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn head(results: &Results) -> String {
    let protocols = results.protocols();
    let settings = &results.lab.settings;
    let pace = match settings.rate {
        Some(rate) => format!("open loop at {}", crate::words::rate(rate)),
        None => "closed loop (peak throughput)".to_owned(),
    };
    format!(
        "<header><p class=\"brand\">Sidle</p><h1>{} ways to move half of the data, live</h1>\
         <p id=\"subtitle\">{} · {} records with keys of {} bytes · {} clients, {pace} · {}</p></header>",
        protocols.len(),
        escape(&protocols.join(", ")),
        count(settings.records),
        settings.key_bytes,
        settings.clients,
        results.extent()
    )
}

/// Whether every answer was right, which runs failed, and which files were not understood.
fn verdict(results: &Results) -> String {
    let reports = || results.cells.iter().flat_map(|cell| cell.all());
    let wrong: u64 = reports().map(|report| report.wrong_values).sum();
    let lost: u64 = reports().filter_map(|report| report.lost_writes).sum();
    let is_unknown = |report: &&Report| report.lost_writes.is_none() && report.modelled.is_none();
    let unknown = reports().filter(is_unknown).count();
    let errors: u64 = reports().flat_map(|report| report.errors.values()).sum();
    let is_fine =
        wrong == 0 && lost == 0 && unknown == 0 && results.failed.is_empty() && results.odd.is_empty();
    let mut html = format!(
        "<section id=\"verdict\" role=\"status\"{}><strong>{}</strong> {} wrong values, {} lost writes, {} operations that ended in an error.",
        if is_fine { "" } else { " class=\"bad\"" },
        if wrong == 0 && lost == 0 { "Every answer was right." } else { "There were wrong answers." },
        count(wrong),
        count(lost),
        count(errors),
    );
    if unknown > 0 {
        let _ = write!(html, " In {unknown} runs not every record could be read back.");
    }
    let disturbed = reports().filter(|report| report.is_disturbed()).count();
    if disturbed > 0 {
        let _ = write!(
            html,
            "<br>In {disturbed} runs the machine stood still for more than {STILL_LIMIT_MS:.0} ms, or its host took more than {:.0} % of its processors: ",
            STOLEN_LIMIT * 100.0,
        );
        let left_out = results.left_out();
        let _ = match left_out == disturbed {
            true => write!(html, "they are left out of all figures."),
            false => write!(
                html,
                "{left_out} of them are left out of all figures, the others are all that their cells have."
            ),
        };
    }
    if !results.failed.is_empty() {
        html.push_str("<br><strong>Runs that failed:</strong><ul>");
        for failed in &results.failed {
            let (title, reason) = (escape(&failed.cell.title()), escape(&failed.reason));
            let _ = write!(html, "<li>{title}, run {}: {reason}</li>", failed.repeat);
        }
        html.push_str("</ul>");
    }
    if !results.odd.is_empty() {
        html.push_str("<br><strong>Files that are left out:</strong><ul>");
        for (name, why) in &results.odd {
            let _ = write!(html, "<li>{}: {}</li>", escape(name), escape(why));
        }
        html.push_str("</ul>");
    }
    html + "</section>\n"
}

/// What is measured, how, and on what.
fn about(results: &Results) -> String {
    let machine = &results.lab.machine;
    let settings = &results.lab.settings;
    let modelled = settings.modelled.as_ref().map_or_else(String::new, |OnModel { machines, sample }| {
        format!(
            "<p><strong>These machines are modelled</strong> ({}): the nodes, the coordinator and the clients run their real code on virtual time, \
             in one thread. Each use of a processor is charged with what it takes on the machine named here (costs_*.json), threads take turns \
             on modelled cores, and what they send takes its time on a modelled link. Not modelled: caches and memory bandwidth that threads share, the \
             system's own work, loss of packets. Of the records {sample} are in memory, all popular ones among them; each of the others stands for as \
             many where records travel in bulk.</p>",
            escape(machines)
        )
    });
    let quotas = match &machine.no_quotas {
        _ if settings.modelled.is_some() => {
            format!("A node at 100 % has {:.2} processors.", settings.node_cpu)
        }
        None => format!(
            "A node at 100 % has {:.2} of a processor, the source less where it says so; the clients have the rest of the machine. \
             A process that has used its share up stalls for the rest of the period (2.5 ms at least): the latencies contain that.",
            settings.node_cpu
        ),
        Some(why) => format!(
            "This measures one shared machine, since there are no processor quotas ({}).",
            escape(why)
        ),
    };
    format!(
        "<footer><h2>What is measured</h2>{modelled}<p>Two nodes and the clients are processes of one machine: {} processors ({}), {}, {}. {quotas} \
         The load lasts {} s before the move and again after it. Every cell is measured in rounds, each round in another order; figures are medians over the \
         runs with the range from the least to the most. Compare ratios within a run, not absolute figures with another machine's: the papers' machines had \
         other networks and many times the cores, so that only shapes and ratios can be held against theirs.</p>\
         <p>Latencies count from the instant that an operation was {}. Extra bytes are those beyond one request and one reply for each operation and one copy of each record. \
         MCR and SPH are what a client knows of the move; one client here is all clients of a load thread. \
         Measured with sidle {}; the runs' own reports lie beside this page.</p></footer>",
        machine.cores,
        escape(&machine.processor),
        bytes(machine.memory_bytes as f64),
        escape(&machine.system),
        settings.seconds,
        if settings.rate.is_some() { "due" } else { "sent, on a saturated machine" },
        escape(&results.lab.sidle.to_string()),
    )
}

/// Where the papers' figures on this page are written.
#[derive(Debug, Default)]
pub(crate) struct Sources(BTreeMap<&'static str, usize>, Vec<&'static str>);

impl Sources {
    /// The number of a source on this page.
    fn number(&mut self, source: &'static str) -> usize {
        let next = self.1.len() + 1;
        let number = *self.0.entry(source).or_insert(next);
        if number == next {
            self.1.push(source);
        }
        number
    }

    /// A paper's figure with the number of its source.
    fn cite(&mut self, shown: &str, source: &'static str) -> String {
        let number = self.number(source);
        format!("<span class=\"paper\" title=\"{}\">paper {shown}<sup>{number}</sup></span>", escape(source))
    }

    fn list(&self) -> String {
        if self.1.is_empty() {
            return String::new();
        }
        let items: String = self.1.iter().map(|source| format!("<li>{}</li>", escape(source))).collect();
        format!(
            "<section class=\"table wide\" id=\"papers\"><h2>What the papers report</h2><ol>{items}</ol></section>\n"
        )
    }
}

/// A chart with its heading.
fn chart(title: &str, about: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!(
        "<section class=\"chart\"><h2>{}</h2><p class=\"about\">{}</p>{body}</section>\n",
        escape(title),
        escape(about)
    )
}

/// A median, with the range where several runs have one.
fn with_range(spread: &Spread, show: impl Fn(f64) -> String) -> String {
    match spread.runs {
        1 => show(spread.median),
        _ => format!("{} ({} .. {})", show(spread.median), show(spread.min), show(spread.max)),
    }
}

fn seconds(value: f64) -> String {
    let value = if value.abs() < 1e-9 { 0.0 } else { value };
    format!("{} s", trimmed(value))
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
