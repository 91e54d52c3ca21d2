//! The lab's page of six recorded runs of 5,000 records: facts that follow from the files, in the
//! page's JSON. The drawing is tested in `page_scripts`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod recorded;

use recorded::{recorded, shown};
use serde_json::{Value, json};
use sidle_lab::{Folder, Results, page};

fn drawn(folder: &tempfile::TempDir) -> (Results, Value) {
    let results = Results::read(&Folder::to_read(folder.path())).unwrap();
    let shown = shown(&page(&results));
    (results, shown)
}

fn sections(shown: &Value) -> &[Value] {
    shown["scenes"][0]["sections"].as_array().unwrap()
}

fn section<'a>(shown: &'a Value, title: &str) -> Option<&'a Value> {
    sections(shown).iter().find(|section| section["title"] == title)
}

/// The parts of a section that are of this kind.
fn parts<'a>(section: &'a Value, kind: &str) -> Vec<&'a Value> {
    section["parts"].as_array().unwrap().iter().filter(|part| part["kind"] == kind).collect()
}

fn table(shown: &Value) -> &Value {
    parts(section(shown, "Who wins on what").unwrap(), "winners")[0]
}

/// A number with two decimals.
fn rounded(value: &Value) -> String {
    format!("{:.2}", value.as_f64().unwrap())
}

/// The cells of a row in the table of winners: each one's standing, its figures, and a paper's.
fn row(shown: &Value, title: &str) -> Vec<String> {
    let rows = table(shown)["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["title"] == title).unwrap_or_else(|| panic!("no row {title}"));
    let cell = |cell: &Value| {
        let [median, min, max] = ["median", "min", "max"].map(|name| rounded(&cell["spread"][name]));
        let paper = rounded(&cell["paper"]["value"]);
        format!("{} {median} {min} .. {max} paper {paper}", cell["standing"].as_str().unwrap())
    };
    row["cells"].as_array().unwrap().iter().map(cell).collect()
}

const DURING: &str = "throughput during the move / before";

#[test]
fn the_table_has_medians_ranges_and_the_papers_figures() {
    let (results, shown) = drawn(&recorded());
    assert_eq!((results.runs(), results.cells.len(), results.odd.len()), (6, 3, 0));
    assert_eq!((&shown["runs"], &shown["cells"]), (&json!(6), &json!(3)));
    assert_eq!(shown["verdict"]["wrong_values"], 0);
    // 125010 / 143430 and 144200 / 150820; 137620 / 142210 and 145020 / 143380. The ranges do not meet.
    assert_eq!(
        row(&shown, DURING),
        ["behind 0.91 0.87 .. 0.96 paper 1.42", "wins 0.99 0.97 .. 1.01 paper 0.78"]
    );
    // 0.028622 / 0.054881 and 0.18247 / 0.029182: round by round.
    let beside = &parts(section(&shown, "Who wins on what").unwrap(), "beside_papers")[0]["figures"][0];
    assert_eq!(beside["name"], "rocksteady / fulva");
    assert_eq!(["median", "min", "max"].map(|name| rounded(&beside["ours"][name])), ["3.39", "0.52", "6.25"]);
    let sources: Vec<&str> =
        shown["sources"].as_array().unwrap().iter().map(|source| source.as_str().unwrap()).collect();
    for source in
        ["Fulva (SRDS 2019), VI-B.1 and figure 1", "Rocksteady (Kulkarni's thesis), 2.4.2 and figure 2.10"]
    {
        assert!(sources.contains(&source), "{source} is in the list");
    }
    assert!(sources.iter().all(|source| !source.contains("NetMigrate")), "nothing that it measured is here");
    let first = &table(&shown)["rows"][0]["cells"][0]["paper"];
    assert!(sources[first["source"].as_u64().unwrap() as usize].starts_with("Fulva (SRDS 2019), VI-B.1"));
}

#[test]
fn every_picture_has_its_data() {
    let (_, shown) = drawn(&recorded());
    for (title, kind) in [
        ("Throughput over time", "lines"),
        ("Median latency over time", "lines"),
        ("99th percentile over time", "lines"),
        ("Extra bytes of each operation over time", "lines"),
        ("Extra bytes in total", "bars"),
        ("What a client knows of the move", "lines"),
        ("Latency by node", "bars"),
        ("Duration against impact", "frontier"),
        ("Ablations and parameters", "bars"),
    ] {
        let section = section(&shown, title).unwrap_or_else(|| panic!("no section {title}"));
        assert!(!parts(section, kind).is_empty(), "{title} has {kind}");
        assert!(!section["about"].as_str().unwrap().is_empty());
    }
    assert_eq!(shown["across"], json!([]), "one share of writes has no axis");
    let throughput = parts(section(&shown, "Throughput over time").unwrap(), "lines")[0];
    for line in throughput["lines"].as_array().unwrap() {
        assert_eq!(line["runs"], 2, "{line}");
        let points = line["points"].as_array().unwrap();
        let is_whole = |point: &Value| {
            let [x, median, min, max] = [0, 1, 2, 3].map(|i| point[i].as_f64().unwrap());
            x.is_finite() && min <= median && median <= max
        };
        assert!(points.len() > 5 && points.iter().all(is_whole), "{line}");
        assert!(line["end"].as_f64().unwrap() > 0.0);
    }
    let ablations = &parts(section(&shown, "Ablations and parameters").unwrap(), "bars")[0]["groups"];
    let labels = ablations[0].as_array().unwrap().iter().map(|bar| bar["label"].as_str().unwrap());
    assert!(labels.eq(["fulva", "fulva,tracking=off"]), "the ablation is among the bars: {ablations}");
    assert!(shown["machine"]["no_quotas"].as_str().unwrap().starts_with("only root may"));
}

/// Writes the recorded runs of a protocol once more, as runs under another policy, and returns the page's
/// content.
fn under_policies(folder: &tempfile::TempDir, protocol: &str, policies: &[&str]) -> (Results, Value) {
    let path = folder.path().join("lab.json");
    let mut lab: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let scene = lab["cells"][0]["scene"].clone();
    for policy in policies {
        let cell = json!({"variant": protocol, "policy": policy, "scene": scene});
        lab["cells"].as_array_mut().unwrap().push(cell);
        for run in ["r01", "r02"] {
            let name = |policy: &str| format!("{protocol}{policy}_b_zipf-0.99_100B_shared_{run}.json");
            let text = std::fs::read_to_string(folder.path().join(name(""))).unwrap();
            let text = text.replace("\"policy\":\"adaptive\"", &format!("\"policy\":\"{policy}\""));
            std::fs::write(folder.path().join(name(&format!("_{policy}"))), text).unwrap();
        }
    }
    std::fs::write(path, lab.to_string()).unwrap();
    drawn(folder)
}

#[test]
fn a_protocol_under_several_policies_has_panels_of_its_own() {
    const TITLE: &str = "Policies: duration against impact";
    let folder = recorded();
    let (_, before) = drawn(&folder);
    assert!(section(&before, TITLE).is_none(), "one policy is no frontier");
    let (results, shown) = under_policies(&folder, "rocksteady", &["slo-p99=800", "rate=20"]);
    assert_eq!((results.runs(), results.odd.len()), (10, 0), "{:?}", results.odd);
    let section = section(&shown, TITLE).unwrap();
    let headings: Vec<&Value> = parts(section, "heading").iter().map(|part| &part["text"]).collect();
    assert_eq!(headings, ["rocksteady"], "fulva has one policy only");
    let panels = parts(section, "panels")[0]["panels"].as_array().unwrap();
    assert_eq!(panels.len(), 2, "throughput, and the 99th percentile");
    for panel in panels {
        let points = panel["points"].as_array().unwrap();
        assert!(
            points.iter().map(|point| &point["name"]).eq(["adaptive", "rate=20", "slo-p99=800"]),
            "{panel}"
        );
        assert!(points.iter().map(|point| &point["is_plain"]).eq([true, false, false]), "{panel}");
        assert_eq!(rounded(&points[0]["seconds"]["median"]), "0.11");
        assert!(panel["reach"]["impact"][0].as_f64() <= points[0]["impact"]["min"].as_f64());
    }
    assert_eq!(row(&shown, DURING), row(&before, DURING), "who wins, the default policy says");
}

#[test]
fn where_nothing_has_the_default_policy_another_is_compared_under() {
    let folder = recorded();
    under_policies(&folder, "rocksteady", &["rate=20"]);
    let path = folder.path().join("lab.json");
    let mut lab: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    lab["cells"].as_array_mut().unwrap().retain(|cell| cell["policy"] == "rate=20");
    std::fs::write(path, lab.to_string()).unwrap();
    let (_, shown) = drawn(&folder);
    assert_eq!(table(&shown)["names"], json!(["rocksteady, rate=20"]));
    assert!(section(&shown, "Throughput over time").is_some());
}

#[test]
fn the_page_is_whole_and_asks_nobody() {
    let folder = recorded();
    let failed = r#"{"cell":{"variant":"rocksteady","policy":"adaptive","scene":{"workload":"b","distribution":"zipf:0.99",
        "value_bytes":100,"source_cpu":"shared"}},"repeat":2,"reason":"</script><b>"}"#;
    std::fs::remove_file(folder.path().join("rocksteady_b_zipf-0.99_100B_shared_r02.json")).unwrap();
    std::fs::write(folder.path().join("rocksteady_b_zipf-0.99_100B_shared_r02.failed.json"), failed).unwrap();
    let page = page(&Results::read(&Folder::to_read(folder.path())).unwrap());
    assert!(!page.contains("{{"), "a mark was left");
    assert!(!page.contains("</script><b>"), "data must not end the script");
    assert_eq!(shown(&page)["verdict"]["failed"][0]["reason"], "</script><b>");
    let addresses = page.matches("http").count();
    let allowed = page.matches("http://www.w3.org/2000/svg").count() + page.matches("http-equiv").count();
    assert_eq!(addresses, allowed, "no address but the name of SVG");
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn wrong_answers_failures_and_odd_files_are_in_the_verdict() {
    let folder = recorded();
    let path = folder.path().join("fulva_b_zipf-0.99_100B_shared_r01.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"wrong_values\":0", "\"wrong_values\":3")).unwrap();
    std::fs::write(folder.path().join("rocksteady_b_zipf-0.99_100B_shared_r02.json"), "{").unwrap();
    std::fs::write(folder.path().join("zephyr_b_zipf-0.99_100B_shared_r01.json"), &text).unwrap();
    let failed = r#"{"cell":{"variant":"rocksteady","policy":"adaptive","scene":{"workload":"b","distribution":"zipf:0.99","value_bytes":100,
        "source_cpu":"shared"}},"repeat":2,"reason":"<gone>"}"#;
    std::fs::write(folder.path().join("rocksteady_b_zipf-0.99_100B_shared_r02.failed.json"), failed).unwrap();
    let (results, shown) = drawn(&folder);
    let verdict = &shown["verdict"];
    assert_eq!(verdict["wrong_values"], 3);
    assert_eq!(results.odd.iter().map(|(name, _)| &name[..6]).collect::<Vec<_>>(), ["rockst", "zephyr"]);
    assert_eq!(
        verdict["odd"][1],
        json!({ "file": "zephyr_b_zipf-0.99_100B_shared_r01.json", "reason": "no run of this lab" })
    );
    let failed = &verdict["failed"][0];
    assert_eq!((&failed["repeat"], &failed["reason"]), (&json!(2), &json!("<gone>")));
    assert!(failed["cell"].as_str().unwrap().starts_with("rocksteady: YCSB-B"), "{failed}");
}

#[test]
fn runs_that_the_host_disturbed_are_left_out_unless_there_are_no_others() {
    let folder = recorded();
    let disturb = |name: &str| {
        let path = folder.path().join(name);
        let mut report: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        report["machine"]["disturbance"] =
            json!({ "stolen": 0.02, "longest_still_ms": 120.0, "still_ms": 300.0 });
        std::fs::write(path, report.to_string()).unwrap();
    };
    let names = Folder::to_read(folder.path()).names().unwrap();
    let runs: Vec<&String> = names.iter().filter(|name| name.contains("_r0")).collect();
    let of = |run: &str, cell: &str| {
        runs.iter().find(|name| name.starts_with(cell) && name.contains(run)).unwrap()
    };
    disturb(of("_r01", "fulva_b"));
    let verdict = |shown: &Value| {
        ["disturbed_runs", "left_out_runs"].map(|name| shown["verdict"][name].as_u64().unwrap())
    };
    assert_eq!(verdict(&drawn(&folder).1), [1, 1]);
    disturb(of("_r01", "rocksteady"));
    disturb(of("_r02", "rocksteady"));
    let (results, shown) = drawn(&folder);
    assert_eq!((results.runs(), results.left_out()), (6, 1));
    // One of Fulva's two is left; Rocksteady keeps its only one.
    assert_eq!(
        row(&shown, DURING),
        ["behind 0.96 0.96 .. 0.96 paper 1.42", "wins 0.99 0.97 .. 1.01 paper 0.78"]
    );
    assert_eq!(verdict(&shown), [3, 1]);
    assert_eq!(shown["verdict"]["still_limit_ms"], 50.0);
}
