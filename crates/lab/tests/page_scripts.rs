//! The pages as their scripts draw them, on a document that records its contents. `node` runs the
//! scripts; without it these tests are skipped, and the pages' contents are still tested.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod recorded;

use recorded::{recorded, text_of};
use sidle_lab::{Folder, Results};
use std::process::{Command, Stdio};

/// The page as its scripts draw it; a test runs after them. None without `node`.
fn drawn(page: &str, test: Option<&str>) -> Option<String> {
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no node to run the pages' scripts with");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page).unwrap();
    let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page_scripts");
    let mut node = Command::new("node");
    node.arg(scripts.join("document.js")).arg(file).args(test.map(|test| scripts.join(test)));
    let ended = node.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Some(String::from_utf8(ended.stdout).unwrap())
}

fn lab_page(folder: &tempfile::TempDir) -> String {
    sidle_lab::page(&Results::read(&Folder::to_read(folder.path())).unwrap())
}

/// The row of the table of winners that begins like this, without its markup.
fn row(page: &str, title: &str) -> String {
    let start = page.find(&format!("<tr><th>{title}</th>")).unwrap_or_else(|| panic!("no row {title}"));
    text_of(&page[start..start + page[start..].find("</tr>").unwrap()])
}

/// Fails if the script took a missing figure or coordinate for a present one.
fn assert_whole(page: &str) {
    for wrong in ["NaN", "Infinity", "undefined", "null", "[object"] {
        let at = page.find(wrong);
        assert_eq!(at, None, "{wrong}: {}", &page[at.unwrap_or(0).saturating_sub(200)..][..250]);
    }
}

#[test]
fn charts_calculate_ticks_scales_and_places() {
    drawn(&lab_page(&recorded()), Some("charts.js"));
}

#[test]
fn the_labs_page_is_drawn_whole() {
    let Some(page) = drawn(&lab_page(&recorded()), None) else { return };
    assert_whole(&page);
    assert!(page.contains("Every answer was right."));
    assert!(page.contains("2 ways to move half of the data, live"));
    assert!(page.contains("6 complete runs of 3 cells"));
    // 125010 / 143430 and 144200 / 150820; 137620 / 142210 and 145020 / 143380.
    assert_eq!(
        row(&page, "throughput during the move / before"),
        "throughput during the move / before 0.91 0.87 .. 0.96 paper 1.42 1 0.99 0.97 .. 1.01 paper 0.78 2"
    );
    assert!(page.contains("<b class=\"wins\">0.99</b>"), "its range meets no other's");
    let text = text_of(&page);
    // 0.028622 / 0.054881 and 0.18247 / 0.029182: round by round.
    assert!(text.contains("rocksteady / fulva: 3.39 (0.52 .. 6.25), paper 1.00"), "{text}");
    assert!(text.contains("fulva,tracking=off"), "the ablation is among the bars");
    assert!(page.contains("polygon class=\"band f0\""), "two runs have a band");
    assert!(page.contains("path class=\"whisker\"") && page.contains("path class=\"paper\""));
    assert!(page.contains("circle class=\"end f1\""), "the end of the move");
    assert!(
        text.contains("This measures one shared machine, since there are no processor quotas (only root may")
    );
}

#[test]
fn each_section_of_the_data_is_drawn() {
    let page = lab_page(&recorded());
    let shown = recorded::shown(&page);
    let Some(drawn) = drawn(&page, None) else { return };
    let sections = shown["scenes"][0]["sections"].as_array().unwrap();
    for section in sections {
        assert!(drawn.contains(&format!("<h2>{}</h2>", section["title"].as_str().unwrap())), "{section}");
    }
    let is_chart =
        |part: &&serde_json::Value| ["lines", "bars", "frontier"].contains(&part["kind"].as_str().unwrap());
    let charts = sections.iter().flat_map(|section| section["parts"].as_array().unwrap()).filter(is_chart);
    assert_eq!(drawn.matches("role=\"img\"").count(), charts.count());
}

#[test]
fn the_page_of_a_run_is_drawn_whole() {
    let folder = recorded();
    let report = std::fs::read(folder.path().join("fulva_b_zipf-0.99_100B_shared_r01.json")).unwrap();
    let page = sidle_bench::page::page(&serde_json::from_slice(&report).unwrap());
    let Some(page) = drawn(&page, None) else { return };
    assert_whole(&page);
    assert!(page.contains("records moved live, by Fulva") && page.contains("Every answer was right."));
    for title in ["Throughput", "Latency", "Bytes moved", "Extra bytes", "The move", "The machine"] {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    assert!(page.contains("3 lines of"), "the latencies' three percentiles");
}
