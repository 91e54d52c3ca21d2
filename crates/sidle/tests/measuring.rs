//! `sidle demo`, `bench` and `check-history` as a user runs them. No figure is asserted, only that every
//! answer was right and that the report says what it should: a benchmark never decides a test.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use serde_json::Value as Json;
use std::path::Path;
use std::process::{Command, Output};

fn sidle(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidle")).args(arguments).current_dir(folder).output().unwrap()
}

fn json(path: &Path) -> Json {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The command lines of node processes whose files lie in the folder named.
fn leftovers(marker: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(text(&line).replace('\0', " "))
    });
    processes.filter(|line| line.contains("--dir") && line.contains(marker)).collect()
}

fn demo(client: &str) -> Json {
    let folder = tempfile::tempdir().unwrap();
    let ended = sidle(
        folder.path(),
        &[
            "demo",
            "--records",
            "20000",
            "--seconds",
            "1",
            "--workload",
            "a",
            "--client",
            client,
            "--seed",
            "5",
        ],
    );
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    let page = std::fs::read_to_string(folder.path().join("sidle-demo.html")).unwrap();
    assert!(page.contains("uPlot") && page.contains("ycsb-a"));
    json(&folder.path().join("sidle-demo.json"))
}

#[test]
fn demo_moves_half_and_loses_nothing() {
    for client in ["sidle", "plain"] {
        let report = demo(client);
        assert_eq!(
            (&report["wrong_values"], &report["lost_writes"]),
            (&Json::from(0), &Json::from(0)),
            "{report}"
        );
        assert_eq!(report["errors"], Json::Object(Default::default()), "{report}");
        let moved = report["records_moved"].as_u64().unwrap();
        // About half of 20000, less those that the load had written at the target before they arrived.
        assert!((1..15_000).contains(&moved), "{moved}");
        for figure in ["seconds", "mb_per_s", "write_pause_ms"] {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{figure}: {report}");
        }
        assert!(report["longest_gap_ms"]["reads"].is_f64() && report["longest_gap_ms"]["writes"].is_f64());
        assert!(report["timeline"].as_array().unwrap().len() >= 20);
        assert_eq!(report["unmeasured"].as_object().unwrap().get("priority_pulls"), None, "{report}");
    }
}

#[test]
fn a_demo_says_where_its_nodes_ran() {
    let folder = tempfile::tempdir().unwrap();
    let demo = |lists: &str| {
        let arguments = ["demo", "--records", "5000", "--seconds", "1", "--cpu-lists", lists];
        sidle(folder.path(), &arguments)
    };
    let last = support::last_cpu();
    let ended = demo(&format!("source={last},target={last}"));
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    let said = format!("(source on {last}, target on {last})");
    assert!(text(&ended.stdout).contains(&said), "{}", text(&ended.stdout));
    let report = json(&folder.path().join("sidle-demo.json"));
    assert_eq!(report["machine"]["cpu_lists"], serde_json::json!({ "source": last, "target": last }));

    let refused = demo("target=1023");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("processors 1023"), "{}", text(&refused.stderr));
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_sidle"))
        .args(["demo", "--records", "5000", "--seconds", "60"])
        .current_dir(folder.path())
        .env("TMPDIR", &temporary)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let marker = temporary.display().to_string();
    let started = std::time::Instant::now();
    while leftovers(&marker).len() < 2 {
        assert!(started.elapsed().as_secs() < 60, "two nodes were to start");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(demo.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(leftovers(&marker), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "its files are gone");
    assert!(!folder.path().join("sidle-demo.json").exists(), "no report of half a run");
}

#[test]
fn what_a_killed_demo_leaves_the_next_one_removes() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_sidle"))
            .args(["demo", "--records", "5000", "--seconds", "60"])
            .current_dir(folder.path())
            .env("TMPDIR", &temporary)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let folders = || {
        let entries = std::fs::read_dir(&temporary).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<std::collections::BTreeSet<_>>()
    };
    let marker = temporary.display().to_string();
    let wait_for_nodes = |count: usize| {
        let started = std::time::Instant::now();
        while leftovers(&marker).len() != count {
            assert!(started.elapsed().as_secs() < 60, "{count} nodes were to run: {:?}", leftovers(&marker));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let mut killed = start();
    wait_for_nodes(2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_for_nodes(0);
    let left = folders();
    assert_eq!(left.len(), 1, "a killed program cannot remove anything");

    let mut next = start();
    wait_for_nodes(2);
    assert_eq!(folders().len(), 1);
    assert!(folders().is_disjoint(&left), "the folder of the killed one is gone");
    let pid = rustix::process::Pid::from_raw(next.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(next.wait().unwrap().code(), Some(130));
    assert_eq!(folders().len(), 0);
}

#[test]
fn check_history_judges_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let line = |op: &str, arg: &str, result: &str, call: u32| {
        format!(
            r#"{{"client":1,"op":"{op}","key":"k","arg":{arg},"result":{result},"call_ns":{call},"return_ns":{},"outcome":"ok"}}"#,
            call + 1
        )
    };
    let write =
        |name: &str, lines: &[String]| std::fs::write(folder.path().join(name), lines.join("\n")).unwrap();
    let set = line("set", "\"v\"", "\"OK\"", 1);
    write("good", &[set.clone(), line("get", "null", "\"v\"", 5)]);
    write("bad", &[set.clone(), line("get", "null", "null", 5)]);
    write("broken", &[set, "{".to_owned()]);

    let good = sidle(folder.path(), &["check-history", "good"]);
    assert!(good.status.success());
    assert_eq!(text(&good.stdout), "2 operations (0 of unknown fate, 0 refused) on 1 keys: linearizable\n");
    let bad = sidle(folder.path(), &["check-history", "bad"]);
    assert_eq!(bad.status.code(), Some(5));
    assert!(text(&bad.stdout).contains("client 1 get -> null"), "{}", text(&bad.stdout));
    let broken = sidle(folder.path(), &["check-history", "broken"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken.stderr).contains("broken: line 2: not an operation"), "{}", text(&broken.stderr));
}

#[test]
fn page_draws_an_earlier_report_and_refuses_what_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let report = sidle_bench::report::Report { workload: "ycsb-c".into(), ..Default::default() };
    std::fs::write(folder.path().join("run.json"), serde_json::to_string(&report).unwrap()).unwrap();
    std::fs::write(folder.path().join("other.json"), "{}").unwrap();
    let drawn = sidle(folder.path(), &["bench", "page", "run.json", "--html", "run.html"]);
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    assert!(std::fs::read_to_string(folder.path().join("run.html")).unwrap().contains("ycsb-c"));
    let refused = sidle(folder.path(), &["bench", "page", "other.json", "--html", "other.html"]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn bench_says_at_once_that_nobody_answers() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = sidle(folder.path(), &["bench", "--via", &format!("127.0.0.1:{port}"), "--records", "10"]);
    assert_eq!(ended.status.code(), Some(4), "{}", text(&ended.stderr));
}
