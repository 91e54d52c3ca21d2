//! The pages as a browser lays them out, mainly on a telephone. Skipped if there is no `chromium`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod recorded;

use recorded::recorded;
use sidle_bench::report::{Interval, Percentiles, Report};
use sidle_lab::{Folder, Results};
use std::path::Path;
use std::process::{Command, Stdio};

/// The width of a telephone's screen, in CSS pixels.
const WIDTH: u32 = 390;

/// Sends its width, and its contents' width, to the page around it; then the figures of its tables of facts
/// that take more than a line, and the rows of cards that have room left.
const PROBE: &str = r#"<script>addEventListener("load", () => setTimeout(() => {
  const page = document.documentElement;
  const range = document.createRange();
  const isBroken = (cell) => {
    range.selectNodeContents(cell);
    return !/ [a-z]/.test(cell.textContent) && range.getBoundingClientRect().height > 24;
  };
  const broken = [...document.querySelectorAll(".facts td")].filter(isBroken).map((cell) => cell.textContent);
  const cards = document.getElementById("cards");
  const ends = new Map([...cards?.children ?? []].map((card) => [card.offsetTop, card.offsetLeft + card.offsetWidth]));
  const ragged = [...ends.values()].filter((end) => end < cards.offsetLeft + cards.offsetWidth - 1);
  parent.postMessage([`widths ${page.clientWidth} ${page.scrollWidth}`, ...broken, ...ragged].join(", "), "*");
}, 200));</script>"#;

fn has_browser() -> bool {
    let is_there = Command::new("chromium").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        eprintln!("skipped: there is no chromium to lay the pages out");
    }
    is_there
}

/// Lays a page out in a frame of a telephone's width: a browser's window cannot be that narrow. No figure is
/// broken, and no card stands alone.
fn assert_fits(page: &str) {
    if !has_browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = page.rsplit_once("</body>").unwrap();
    std::fs::write(folder.path().join("page.html"), format!("{before}{PROBE}</body>{after}")).unwrap();
    let frame = format!(
        r#"<title>nothing was sent</title><iframe src="page.html" width="{WIDTH}" height="844" style="border: 0"></iframe>
        <script>addEventListener("message", (sent) => {{ document.title = sent.data; }});</script>"#
    );
    let path = folder.path().join("frame.html");
    std::fs::write(&path, frame).unwrap();
    let title = title(&path, folder.path());
    assert_eq!(title, format!("widths {WIDTH} {WIDTH}"), "of the page, and of what is on it; what is broken");
}

/// The title that a document has once its scripts have run.
fn title(document: &Path, folder: &Path) -> String {
    let text = drawn(document, folder);
    let (_, rest) = text.split_once("<title>").unwrap_or_else(|| panic!("no document: {text}"));
    rest.split_once("</title>").unwrap().0.to_owned()
}

/// A document once its scripts have run.
fn drawn(document: &Path, folder: &Path) -> String {
    let ended = Command::new("chromium")
        // A telephone's scroll bars lie over the page and take none of its width.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", document.display()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// A run whose every figure and every word has the greatest length.
fn long_figures() -> Report {
    let mut report = Report {
        protocol: Some("rocksteady,missing=wait,pull-bytes=131072,partitions=16,priority-keys=16".into()),
        workload: "12.345678 % writes".into(),
        records: 1 << 48,
        records_moved: Some(1 << 48),
        bytes_moved: Some(u64::MAX >> 12),
        migration: Some(Interval { from_ms: 1_000.0, to_ms: 2_000.0 }),
        wrong_values: 123_456_789_012,
        ..Report::default()
    };
    report.load.distribution = format!("zipf:0.{}", "9".repeat(60));
    let long = Some(Percentiles { p50: 1.23e8, p99: 1.23e8, p999: 1.23e8, max: 1.23e8 });
    for part in [&mut report.latency_us.before, &mut report.latency_us.during, &mut report.latency_us.after] {
        (part.reads, part.writes) = (long, long);
    }
    report.throughput.before = Some(123_456_789.0);
    (report.double_reads, report.write_pause_ms) = (Some(1 << 48), Some(123.0));
    report.errors.insert("an_error_without_a_place_to_break_it_at_".repeat(3), 1_234_567);
    report.say_unmeasured(&"machine.disturbance.longest_still_ms.".repeat(3), "a reason");
    report
}

#[test]
fn a_runs_page_does_not_scroll_sideways() {
    assert_fits(&sidle_bench::page::page(&long_figures()));
    assert_fits(&sidle_bench::page::page(&Report { migration: None, ..long_figures() }));
}

#[test]
fn the_labs_page_does_not_scroll_sideways() {
    let folder = recorded();
    assert_fits(&sidle_lab::page(&Results::read(&Folder::to_read(folder.path())).unwrap()));
}

#[test]
fn a_card_whose_figure_is_missing_says_why() {
    if !has_browser() {
        return;
    }
    let mut report = Report { migration: Some(Interval::default()), ..Report::default() };
    report.say_unmeasured("lost_writes", "only 1 of 2 records could be read back");
    report.say_unmeasured("longest_gap_ms", "nobody probed");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, sidle_bench::page::page(&report)).unwrap();
    let drawn = drawn(&path, folder.path());
    let card = |name: &str, why: &str| {
        let (_, card) = drawn.split_once(&format!("<div class=\"name\">{name}</div>")).expect(name);
        let card = card.split("<div class=\"card").next().unwrap();
        assert!(card.contains("not measured") && card.contains(why), "{name}: {card}");
    };
    card("Lost writes", "only 1 of 2 records could be read back");
    card("Longest time without a read", "nobody probed");
    card("Longest time without a write", "nobody probed");
}
