//! `sidle-lab` as a user runs it: two cells of tiny runs, resumed, and their page. No figure is asserted.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;
use std::process::{Command, Output};

fn sidle_lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidle-lab")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A run has its nodes' files there.
fn is_running(temporary: &Path) -> bool {
    std::fs::read_dir(temporary).unwrap().count() > 0
}

fn wait_for_a_run(temporary: &Path) {
    let started = std::time::Instant::now();
    while !is_running(temporary) {
        assert!(started.elapsed().as_secs() < 60, "a run was to start");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

const LAB: [&str; 14] = [
    "run",
    "--out",
    "out",
    "--protocols",
    "fulva,tracking=off",
    "rocksteady,offloading=off",
    "--source-cpus",
    "shared",
    "--records",
    "2000",
    "--seconds",
    "1",
    "--repeat",
    "1",
];

#[test]
fn two_cells_are_measured_drawn_and_not_measured_twice() {
    let folder = tempfile::tempdir().unwrap();
    let ended = sidle_lab(folder.path(), &LAB);
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(text(&ended.stdout).contains("2 runs made, 0 found"), "{}", text(&ended.stdout));
    let out = folder.path().join("out");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        page.contains("\"protocols\":[\"fulva\",\"rocksteady\"]") && page.contains("\"wrong_values\":0"),
        "{page}"
    );
    let report = |run: &str| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(out.join(run)).unwrap()).unwrap()
    };
    let on_workers = report("rocksteady+offloading=off_b_zipf-0.99_100B_shared_r01.json");
    assert_eq!((&on_workers["movers_on_workers"], &on_workers["lost_writes"]), (&true.into(), &0.into()));
    let report = report("fulva+tracking=off_b_zipf-0.99_100B_shared_r01.json");
    assert_eq!(report["movers_on_workers"], false);
    assert_eq!(report["load"]["tracking"], false);
    assert_eq!(report["single_target_reads"], 0, "nothing that was learnt is used");
    assert!(report["mean_latency_by_node_us"]["during"]["source"].is_object());

    let again = sidle_lab(folder.path(), &LAB);
    assert!(text(&again.stdout).contains("0 runs made, 2 found"), "{}", text(&again.stdout));
    std::fs::remove_file(out.join("report.html")).unwrap();
    assert!(sidle_lab(folder.path(), &["report", "out"]).status.success());
    assert!(out.join("report.html").exists());

    let compared = sidle_lab(folder.path(), &["compare", "out", "--with", "out", "--within", "0"]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    let said = text(&compared.stdout);
    assert!(said.contains("fulva,tracking=off: YCSB-B (5 % writes)"), "{said}");
    let verdict: Vec<&str> = said.lines().last().unwrap().split(' ').collect();
    assert_eq!(verdict[0], verdict[2], "a lab agrees with itself: {said}");
    assert!(said.ends_with(" figures are within 0 % of B's\n"), "{said}");
    let json = sidle_lab(folder.path(), &["compare", "out", "--with", "out", "--within", "0", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("nothing but JSON");
    assert_eq!(json["of"].to_string(), verdict[2], "the tables count the same");
    assert_eq!((&json["agree"], json["cells"].as_array().unwrap().len()), (&json["of"], 2));
    let seconds =
        json["cells"][0]["figures"].as_array().unwrap().iter().find(|it| it["measure"] == "seconds");
    let seconds = seconds.expect("it is among the usual ones");
    assert_eq!((&seconds["unit"], &seconds["a"]), (&"seconds".into(), &seconds["b"]));
    assert!(seconds["a"]["median"].as_f64().unwrap() > 0.0 && seconds["a"]["runs"] == 1, "{seconds}");
    let unknown = sidle_lab(folder.path(), &["compare", "out", "--with", "out", "--measures", "beauty"]);
    assert_eq!(unknown.status.code(), Some(2));
    let nowhere = sidle_lab(folder.path(), &["compare", "out", "--with", "nowhere"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text(&nowhere.stderr).contains("no lab has run there"), "{}", text(&nowhere.stderr));
}

#[test]
fn a_policy_is_measured_beside_the_default_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let line = "run --out out --protocols fulva --policies adaptive rate=1 --source-cpus shared --records 10000 --seconds 1 \
                --repeat 1";
    let ended = sidle_lab(folder.path(), &line.split_whitespace().collect::<Vec<_>>());
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    let out = folder.path().join("out");
    let report = std::fs::read_to_string(out.join("fulva_rate=1_b_zipf-0.99_100B_shared_r01.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["policy"], "rate=1");
    // 5,000 records of 158 bytes at a megabyte per second; a share of that is available from the start.
    assert!(report["seconds"].as_f64().unwrap() > 0.4, "{}", report["seconds"]);
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains("\"Policies"));
    let refused = sidle_lab(folder.path(), &["run", "--out", "out", "--policies", "rate=fast"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("give megabytes a second"), "{}", text(&refused.stderr));
}

#[test]
fn a_protocol_that_does_not_exist_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let refused = sidle_lab(folder.path(), &["run", "--out", "out", "--protocols", "teleport"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("there is no migration protocol 'teleport'"),
        "{}",
        text(&refused.stderr)
    );
    if rustix::process::geteuid().is_root() {
        let line =
            "run --out out --protocols fulva --source-cpus 20 --node-cpu 0.4 --records 1000 --repeat 1";
        let refused = sidle_lab(folder.path(), &line.split(' ').collect::<Vec<_>>());
        let said = text(&refused.stderr);
        // Without quotas, no cell is left.
        let (status, why) = match said.contains("no processor quotas") {
            true => (1, "no cell is left to measure"),
            false => (2, "a share of 0.08 of a processor cannot be given"),
        };
        assert_eq!(refused.status.code(), Some(status), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let nothing = sidle_lab(folder.path(), &["report", "out"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing.stderr).contains("no lab has run there"), "{}", text(&nothing.stderr));
}

#[test]
fn an_interrupted_lab_leaves_no_half_of_a_run_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let lab = Command::new(env!("CARGO_BIN_EXE_sidle-lab"))
        .args(["run", "--out", "out", "--source-cpus", "shared", "--records", "2000", "--seconds", "60"])
        .current_dir(folder.path())
        .env("TMPDIR", &temporary)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_a_run(&temporary);
    let pid = rustix::process::Pid::from_raw(lab.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = lab.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    assert!(
        text(&ended.stderr).contains("The same command, without --fresh, goes on in out"),
        "{}",
        text(&ended.stderr)
    );
    assert!(!is_running(&temporary), "its files are gone, and so are its nodes");
    let names = std::fs::read_dir(folder.path().join("out")).unwrap();
    let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| name == "lab.json" || name == ".lock"), "{names:?}");
}

#[test]
fn a_lab_whose_program_is_built_anew_draws_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    // In processes of their own: a program that this one had open for writing cannot be started while another
    // test starts one.
    let shell = |script: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).env("LAB", env!("CARGO_BIN_EXE_sidle-lab")).current_dir(folder.path());
        assert!(shell.status().unwrap().success(), "{script}");
    };
    shell("cp \"$LAB\" sidle-lab");
    let lab = Command::new(folder.path().join("sidle-lab"))
        .args(LAB)
        .current_dir(folder.path())
        .env("TMPDIR", &temporary)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_a_run(&temporary);
    // Another file with the same behaviour immediately replaces it: the run that has begun starts its nodes
    // from either.
    shell("cp sidle-lab built && echo >> built && mv built sidle-lab");
    let ended = lab.wait_with_output().unwrap();
    assert!(!ended.status.success());
    assert!(text(&ended.stderr).contains("built anew"), "{}", text(&ended.stderr));
    assert!(text(&ended.stdout).contains("1 complete run of "), "{}", text(&ended.stdout));
    assert!(folder.path().join("out/report.html").exists());
}

/// Figure 9 of Fulva's paper in small: TPC-C's reports are read, drawn, and not made again.
#[test]
fn tpcc_is_measured_under_a_move_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let lab = [
        &["run", "--out", "out", "--protocols", "handoff", "--workloads", "tpcc-new-orders-scattered"][..],
        &["--warehouses", "2", "--scale", "1", "--clients", "8", "--seconds", "1", "--repeat", "1"],
        &["--source-cpus", "shared"],
    ]
    .concat();
    let ended = sidle_lab(folder.path(), &lab);
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    let out = folder.path().join("out");
    let run = out.join("handoff_tpcc-new-orders-scattered_shared_r01.json");
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(run).unwrap()).unwrap();
    assert_eq!(
        (&report["violations"], &report["transactions"]),
        (&serde_json::json!([]), &"new-order".into())
    );
    assert!(report["longest_gap_ms"].as_f64().unwrap() > 0.0, "{report}");
    let committed: u64 = report["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .map(|window| window["committed"].as_u64().unwrap())
        .sum();
    assert!(committed > 40, "{report}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for drawn in
        ["TPC-C's new orders with scattered rows", "longest time without a transaction", "\"lost_writes\":0"]
    {
        assert!(page.contains(drawn), "{drawn}: {page}");
    }
    let again = sidle_lab(folder.path(), &lab);
    assert!(text(&again.stdout).contains("0 runs made, 1 found"), "{}", text(&again.stdout));
}
