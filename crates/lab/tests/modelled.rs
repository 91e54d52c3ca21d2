//! `--modelled` as a user runs it: a demonstration, a lab, and refusals. Only facts that hold on any
//! machine are asserted.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;
use std::process::{Command, Output};

fn sidle_lab(folder: &Path, line: &str) -> Output {
    let arguments = line.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_sidle-lab")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(file: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn a_demonstration_measures_costs_keeps_them_and_repeats_itself() {
    let folder = tempfile::tempdir().unwrap();
    let line = "demo --modelled two-cores --costs costs.json --records 20000 --seconds 1 --cpus source=0.3,target=0.5";
    let ended = sidle_lab(folder.path(), line);
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(text(&ended.stdout).contains("modelled"), "{}", text(&ended.stdout));
    let costs = std::fs::read(folder.path().join("costs.json")).unwrap();
    let first = json(&folder.path().join("sidle-demo.json"));
    assert_eq!(first["modelled"]["machines"]["source"]["quota"]["processors"], 0.3);
    assert_eq!(first["modelled"]["costs"], serde_json::from_slice::<serde_json::Value>(&costs).unwrap());
    assert_eq!((&first["wrong_values"], &first["records"]), (&0.into(), &20_000.into()));
    assert!(folder.path().join("sidle-demo.html").exists());

    assert!(sidle_lab(folder.path(), line).status.success());
    assert_eq!(json(&folder.path().join("sidle-demo.json")), first, "the same costs, the same report");
    assert_eq!(std::fs::read(folder.path().join("costs.json")).unwrap(), costs);
}

#[test]
fn a_lab_runs_on_a_sample_and_says_what_is_modelled() {
    let folder = tempfile::tempdir().unwrap();
    let line = "run --out out --modelled paper --protocols fulva stop-and-copy fulva,offloading=off --records 1000000 --sample 20000 \
                --clients 16 --seconds 1 --repeat 1";
    let ended = sidle_lab(folder.path(), line);
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(text(&ended.stdout).contains("2 runs made, 0 found"), "{}", text(&ended.stdout));
    assert!(text(&ended.stderr).contains("offloading=off is left out"), "{}", text(&ended.stderr));
    let out = folder.path().join("out");
    assert!(out.join("costs_30B_100B.json").exists());
    let report = json(&out.join("stop-and-copy_b_zipf-0.99_100B_cpu100_r01.json"));
    assert_eq!(report["records"], 1_000_000);
    let stored = report["modelled"]["stored_records"].as_u64().unwrap();
    assert!((20_000..30_000).contains(&stored), "{stored}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("\"modelled\":{\"machines\":\"paper\",\"sample\":20000}"));
    assert!(page.contains("\"wrong_values\":0") && page.contains("\"lost_writes\":0"));
    assert!(page.contains("\"unread_runs\":0") && page.contains("\"odd\":[]"), "nothing is missing");
}

#[test]
fn what_cannot_be_modelled_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |line: &str, status: i32, why: &str| {
        let ended = sidle_lab(folder.path(), line);
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{line}: {said}");
        assert!(said.contains(why), "{line}: {said}");
    };
    refused(
        "demo --modelled moon",
        2,
        "'moon' is no machine: give 'paper', 'four-cores', 'two-cores' or a JSON file",
    );
    refused("demo --costs costs.json", 2, "--modelled");
    refused("demo --modelled paper --client plain", 2, "clients of Sidle's own");
    refused("demo --modelled paper --without-offloading", 2, "movers with threads of their own only");
    refused("run --out out --modelled moon", 2, "'moon' is no machine");
    std::fs::write(folder.path().join("machines.json"), "{\"source\": 1}").unwrap();
    refused("demo --modelled machines.json", 2, "machines.json: ");
    std::fs::write(folder.path().join("costs.json"), "nonsense").unwrap();
    refused("demo --modelled paper --costs costs.json", 1, "costs.json: ");
}
