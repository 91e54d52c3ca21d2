//! The lab's page from six recorded runs of 5,000 records: facts that follow from the files, not pixels.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod recorded;

use recorded::recorded;
use sidle_bench::lab::{Folder, Results, page};

fn drawn(folder: &tempfile::TempDir) -> (Results, String) {
    let results = Results::read(&Folder::to_read(folder.path())).unwrap();
    let page = page(&results);
    (results, page)
}

/// The row of the table of who wins that begins so, without its markup.
fn row(page: &str, title: &str) -> String {
    let start = page.find(&format!("<tr><th>{title}</th>")).unwrap_or_else(|| panic!("no row {title}"));
    let row = &page[start..start + page[start..].find("</tr>").unwrap()];
    let mut text = String::new();
    let mut is_tag = false;
    for c in row.chars() {
        match c {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                text.push(' ');
            }
            c if !is_tag => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_table_has_medians_ranges_and_the_papers_figures() {
    let (results, page) = drawn(&recorded());
    assert_eq!((results.runs(), results.cells.len(), results.odd.len()), (6, 3, 0));
    assert!(page.contains("Every answer was right."));
    // 125010 / 143430 and 144200 / 150820; 137620 / 142210 and 145020 / 143380.
    assert_eq!(
        row(&page, "throughput during the move / before"),
        "throughput during the move / before 0.91 0.87 .. 0.96 paper 1.42 1 0.99 0.97 .. 1.01 paper 0.78 2"
    );
    assert!(page.contains("<b class=\"wins\">0.99</b>"), "its range meets no other's");
    // 0.028622 / 0.054881 and 0.18247 / 0.029182: round by round.
    assert!(page.contains("rocksteady / fulva: 3.39 (0.52 .. 6.25), <span class=\"paper\""), "{page}");
    for source in
        ["Fulva (IPDPS 2020), VI-B.1 and figure 1", "Rocksteady (Kulkarni's thesis), 2.4.2 and figure 2.10"]
    {
        assert!(page.contains(&format!("<li>{source}")), "{source} is in the list");
    }
    assert!(!page.contains("NetMigrate"), "nothing that it measured is here");
}

#[test]
fn every_picture_is_there_and_whole() {
    let (_, page) = drawn(&recorded());
    for title in [
        "Throughput over time",
        "Median latency over time",
        "99th percentile over time",
        "Extra bytes of each operation over time",
        "Extra bytes in total",
        "What a client knows of the move",
        "Latency by node",
        "Duration against impact",
        "Ablations and parameters",
    ] {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    assert!(!page.contains("<h2>By the share of writes</h2>"), "one share has no axis");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(
        !page.contains("NaN") && !page.contains("inf,") && !page.contains("inf\""),
        "every coordinate is a number"
    );
    assert!(page.contains("fulva,tracking=off"), "the ablation is among the bars");
    assert!(
        page.contains("This measures one shared machine, since there are no processor quotas (only root may")
    );
}

/// Writes the recorded runs of a protocol once more, as runs under another policy, and gives the page.
fn under_policies(folder: &tempfile::TempDir, protocol: &str, policies: &[&str]) -> (Results, String) {
    let path = folder.path().join("lab.json");
    let mut lab: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let scene = lab["cells"][0]["scene"].clone();
    for policy in policies {
        let cell = serde_json::json!({"variant": protocol, "policy": policy, "scene": scene});
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
    const TITLE: &str = "<h2>Policies: duration against impact</h2>";
    let folder = recorded();
    assert!(!drawn(&folder).1.contains(TITLE), "one policy is no frontier");
    let before = row(&drawn(&folder).1, "throughput during the move / before");
    let (results, page) = under_policies(&folder, "rocksteady", &["slo-p99=800", "rate=20"]);
    assert_eq!((results.runs(), results.odd.len()), (10, 0), "{:?}", results.odd);
    let section = &page[page.find(TITLE).unwrap()..];
    let section = &section[..section.find("</section>").unwrap()];
    assert_eq!(section.matches("<h3>").count(), 1);
    assert!(section.contains("<h3>rocksteady</h3>"), "fulva has one policy only");
    for panel in section.split("<figure>").skip(1) {
        let large: Vec<&str> = panel.split("r=\"7\"><title>").skip(1).collect();
        assert!(large.len() == 1 && large[0].starts_with("adaptive: 0.11 s, "), "{large:?}");
        assert!(panel.contains(">rate=20</text>") && panel.contains(">slo-p99=800</text>"));
    }
    assert_eq!(section.matches("<figure>").count(), 2, "throughput, and the 99th percentile");
    assert_eq!(
        row(&page, "throughput during the move / before"),
        before,
        "who wins, the default policy says"
    );
}

#[test]
fn where_nothing_has_the_default_policy_another_is_compared_under() {
    let folder = recorded();
    under_policies(&folder, "rocksteady", &["rate=20"]);
    let path = folder.path().join("lab.json");
    let mut lab: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    lab["cells"].as_array_mut().unwrap().retain(|cell| cell["policy"] == "rate=20");
    std::fs::write(path, lab.to_string()).unwrap();
    let page = drawn(&folder).1;
    assert!(page.contains("<th class=\"number\">rocksteady, rate=20</th>"));
    assert!(page.contains("<h2>Throughput over time</h2>"));
}

#[test]
fn the_page_is_whole_and_asks_nobody() {
    let (_, page) = drawn(&recorded());
    assert!(!page.contains("<script"));
    assert_eq!(page.matches("http").count(), page.matches("http-equiv").count(), "no address");
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn wrong_answers_failures_and_odd_files_are_said_first() {
    let folder = recorded();
    let path = folder.path().join("fulva_b_zipf-0.99_100B_shared_r01.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"wrong_values\":0", "\"wrong_values\":3")).unwrap();
    std::fs::write(folder.path().join("rocksteady_b_zipf-0.99_100B_shared_r02.json"), "{").unwrap();
    std::fs::write(folder.path().join("zephyr_b_zipf-0.99_100B_shared_r01.json"), &text).unwrap();
    let failed = r#"{"cell":{"variant":"rocksteady","policy":"adaptive","scene":{"workload":"b","distribution":"zipf:0.99","value_bytes":100,
        "source_cpu":"shared"}},"repeat":2,"reason":"<gone>"}"#;
    std::fs::write(folder.path().join("rocksteady_b_zipf-0.99_100B_shared_r02.failed.json"), failed).unwrap();
    let (results, page) = drawn(&folder);
    assert!(page.contains("There were wrong answers.") && page.contains("3 wrong values"));
    assert_eq!(results.odd.iter().map(|(name, _)| &name[..6]).collect::<Vec<_>>(), ["rockst", "zephyr"]);
    assert!(page.contains("zephyr_b_zipf-0.99_100B_shared_r01.json: no run of this lab"));
    assert!(page.contains("run 2: &lt;gone&gt;"));
    let verdict = page.find("id=\"verdict\"").unwrap();
    assert!(verdict < page.find("Who wins on what").unwrap());
}

#[test]
fn runs_that_the_host_disturbed_are_left_out_unless_there_are_no_others() {
    let folder = recorded();
    let disturb = |name: &str| {
        let path = folder.path().join(name);
        let mut report: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        report["machine"]["disturbance"] =
            serde_json::json!({ "stolen": 0.02, "longest_still_ms": 120.0, "still_ms": 300.0 });
        std::fs::write(path, report.to_string()).unwrap();
    };
    let names = Folder::to_read(folder.path()).names().unwrap();
    let runs: Vec<&String> = names.iter().filter(|name| name.contains("_r0")).collect();
    let of = |run: &str, cell: &str| {
        runs.iter().find(|name| name.starts_with(cell) && name.contains(run)).unwrap()
    };
    disturb(of("_r01", "fulva_b"));
    assert!(drawn(&folder).1.contains("processors: they are left out of all figures."));
    disturb(of("_r01", "rocksteady"));
    disturb(of("_r02", "rocksteady"));
    let (results, page) = drawn(&folder);
    assert_eq!((results.runs(), results.left_out()), (6, 1));
    let during = row(&page, "throughput during the move / before");
    // One of Fulva's two is left; Rocksteady keeps what is all that it has.
    assert_eq!(
        during,
        "throughput during the move / before 0.96 paper 1.42 1 0.99 0.97 .. 1.01 paper 0.78 2"
    );
    assert!(page.contains("In 3 runs the machine stood still for more than 50 ms"), "{page}");
    assert!(page.contains("1 of them are left out of all figures"), "{page}");
}
