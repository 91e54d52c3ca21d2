//! `sidle demo`, `bench` and `check-history` as a user runs them. No figure is asserted, only that every
//! answer was right and that the report is complete: a benchmark never decides a test.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use serde_json::Value as Json;
use std::io::{Read, Write};
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

/// The command lines of node processes whose files lie in the named folder.
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
fn the_conditions_of_tpcc_hold_after_half_of_it_has_moved() {
    for more in [&["--protocol", "handoff"][..], &["--scattered"], &["--new-orders"]] {
        let folder = tempfile::tempdir().unwrap();
        let line = ["demo", "--workload", "tpcc", "--warehouses", "2", "--scale", "1", "--seconds", "1"];
        let ended = sidle(folder.path(), &[&line[..], &["--clients", "8"], more].concat());
        assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
        assert!(text(&ended.stdout).contains("3.3.2.1 to 3.3.2.4 hold"), "{}", text(&ended.stdout));
        let report = json(&folder.path().join("sidle-demo.json"));
        assert_eq!(
            (&report["violations"], &report["errors"]),
            (&serde_json::json!([]), &serde_json::json!({}))
        );
        assert_eq!((&report["wrong_audits"], &report["failed_audits"]), (&Json::from(0), &Json::from(0)));
        for part in ["before", "during", "after"] {
            assert_eq!(report[part]["conflicts"]["moved"], 0, "{report}");
            assert!(part == "during" || report[part]["committed"].as_u64().unwrap() > 20, "{report}");
        }
        let kinds = report["kinds"].as_object().unwrap().len();
        assert_eq!(kinds, if more == ["--new-orders"] { 1 } else { 5 }, "{report}");
        assert!(report["records_moved"].as_u64().unwrap() > 100, "{report}");
    }
}

#[test]
fn a_bank_makes_and_loses_no_money_while_half_of_it_moves() {
    for protocol in ["fulva", "handoff"] {
        let folder = tempfile::tempdir().unwrap();
        let line =
            ["demo", "--workload", "bank", "--records", "20000", "--seconds", "1", "--accounts", "200"];
        let ended = sidle(folder.path(), &[&line[..], &["--protocol", protocol, "--clients", "16"]].concat());
        assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
        assert!(text(&ended.stderr).contains("sum 200,000 ("), "{}", text(&ended.stderr));
        assert!(text(&ended.stdout).contains("always the same"), "{}", text(&ended.stdout));
        let report = json(&folder.path().join("sidle-demo.json"));
        assert_eq!((&report["sum"], &report["sum_at_the_end"]), (&Json::from(200_000), &Json::from(200_000)));
        for nothing in ["wrong_sums", "failed_sums", "lost_transfers", "lost_writes"] {
            assert_eq!(report[nothing], 0, "{nothing}: {report}");
        }
        assert_eq!(report["errors"], Json::Object(Default::default()), "{report}");
        assert!(report["sums"].as_u64().unwrap() > 5, "{report}");
        for part in ["before", "during", "after"] {
            assert_eq!(report[part]["conflicts"]["moved"], 0, "{report}");
            assert!(part == "during" || report[part]["committed"].as_u64().unwrap() > 50, "{report}");
        }
        assert!(report["records_moved"].as_u64().unwrap() > 1_000, "{report}");
        assert!(!folder.path().join("sidle-demo.html").exists());
    }
}

#[test]
fn a_demo_kills_a_node_and_loses_nothing() {
    for victim in ["node", "target"] {
        let folder = tempfile::tempdir().unwrap();
        let records = if victim == "node" { "20000" } else { "100000" };
        // Slow enough to be killed in the middle.
        let policy = ["--policy", "rate=4"];
        let arguments = ["demo", "--kill", victim, "--records", records, "--seconds", "1", "--workload", "a"];
        let ended = sidle(folder.path(), &[&arguments[..], &policy].concat());
        assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
        let report = json(&folder.path().join("sidle-demo.json"));
        assert_eq!((&report["wrong_values"], &report["lost_writes"]), (&Json::from(0), &Json::from(0)));
        let kill = &report["kill"];
        assert_eq!(kill["victim"], victim);
        let figure = |name: &str| kill[name].as_f64().unwrap_or_else(|| panic!("{name}: {report}"));
        assert!(
            figure("taken_over_ms") > 900.0 && figure("recovered_ms") >= figure("taken_over_ms"),
            "{kill}"
        );
        assert!(figure("recovered_bytes") > 0.0, "{kill}");
        let end = if victim == "node" { Json::Null } else { Json::from("done") };
        assert_eq!(kill["migration_end"], end, "{kill}");
        assert!(report["longest_gap_ms"]["reads"].as_f64().unwrap() > 500.0, "nobody answers at first");
        let page = std::fs::read_to_string(folder.path().join("sidle-demo.html")).unwrap();
        assert!(page.contains("Bytes recovered"));
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
    assert_eq!(refused.status.code(), Some(2));
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
    assert_eq!(text(&good.stdout), "2 operations (0 of unknown fate, 0 refused) on 1 key: linearizable\n");
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
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(4), "{said}");
    assert!(said.contains("Start a node with `sidle server`, or name another server with --via"), "{said}");
}

/// A server that sends this reply to every request.
fn server_that_answers(reply: &'static [u8]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            while matches!(stream.read(&mut request), Ok(1..)) {
                let _ = stream.write_all(reply);
            }
        }
    });
    address
}

#[test]
fn bench_says_what_to_do_about_a_server_that_is_not_what_it_takes_it_for() {
    let folder = tempfile::tempdir().unwrap();
    for (reply, hint) in [
        (&b"-ERR unknown command 'SIDLE.MAP', with args beginning with: \r\n"[..], "With --client plain"),
        (b"-NOAUTH Authentication required.\r\n", "Give it with --password or in SIDLE_PASSWORD"),
    ] {
        let via = server_that_answers(reply);
        let ended = sidle(folder.path(), &["bench", "--via", &via, "--records", "10"]);
        assert_eq!(ended.status.code(), Some(1));
        assert!(text(&ended.stderr).contains(hint), "{}", text(&ended.stderr));
    }
}

#[test]
fn reads_that_find_no_record_are_told_once_with_the_remedy() {
    let (node, folder) =
        (support::Node::start(&support::NodeOptions::default()), tempfile::tempdir().unwrap());
    let line = ["bench", "--no-load", "--workload", "c", "--records", "1000", "--seconds", "1", "--via"];
    let ended = sidle(folder.path(), &[&line[..], &[&node.address()]].concat());
    let (shown, said) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(5), "{said}");
    assert!(shown.contains(" found no record\n"), "{shown}");
    for of_a_move in ["source", "target", "move"] {
        assert!(!shown.contains(of_a_move), "nothing moved: {shown}");
    }
    assert_eq!(said.matches("found no record").count(), 1, "{said}");
    assert!(said.ends_with(" found no record: load them first (without --no-load)\n"), "{said}");
}

/// A run of minutes must not find at its end that its figures cannot be written.
#[test]
fn files_that_cannot_be_written_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (line, status) in [
        ("demo --json missing/run.json", 1),
        ("demo --html missing/run.html", 1),
        ("demo --json one --html one", 2),
        ("bench --json missing/run.json", 1),
        ("bench --html missing/run.html", 1),
        ("bench --history one --json one", 2),
    ] {
        // No server is running: a refusal after asking one would end with another status.
        let nobody = if line.starts_with("bench") { " --via 127.0.0.1:1" } else { "" };
        let line = format!("{line}{nobody}");
        let ended = sidle(folder.path(), &line.split(' ').collect::<Vec<_>>());
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{line}: {said}");
        assert!(
            said.contains("cannot write missing/run.") || said.contains("both name one"),
            "{line}: {said}"
        );
        assert!(ended.stdout.is_empty() && !said.contains("two nodes"), "{line}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_bench_shows_what_it_has_and_says_so() {
    let node = support::Node::start(&support::NodeOptions::default());
    let bench = Command::new(env!("CARGO_BIN_EXE_sidle"))
        .args(["bench", "--records", "1000", "--seconds", "600", "--via", &node.address()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&bench);
    // More than loading takes.
    support::eventually("the load is measured", || {
        let info = node.client().try_request(&["INFO", "stats"])?;
        let info = text(info.as_bytes()?);
        let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"))?;
        (line.trim().parse::<u64>().ok()? > 20_000).then_some(())
    });
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = bench.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("the figures are of what ran until then"));
    assert!(text(&ended.stdout).contains("(the median window of 100 ms)"), "{}", text(&ended.stdout));
}

#[test]
fn a_summary_is_printed_though_its_file_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let ended = sidle(folder.path(), &["demo", "--records", "2000", "--seconds", "1", "--json", "/dev/full"]);
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("cannot write /dev/full"), "{}", text(&ended.stderr));
    assert!(text(&ended.stdout).contains("lost writes        0"), "{}", text(&ended.stdout));
    assert!(folder.path().join("sidle-demo.html").exists(), "the page could be written");
}

#[test]
fn names_that_do_not_exist_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (line, told) in [
        ("demo --protocol teleport", "the protocols are fulva"),
        ("demo --protocol fulva,speed=9", "speed"),
        ("demo --policy fast", "give adaptive, rate=MB/S"),
        ("demo --workload z", "'z'"),
        ("demo --distribution normal", "'normal'"),
    ] {
        let ended = sidle(folder.path(), &line.split(' ').collect::<Vec<_>>());
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(told), "{line}: {said}");
    }
}
