//! A lab with a fake run program: which runs are made, in which order, which are skipped and
//! which files are left alone.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use sidle_bench::policy::PolicyWord;
use sidle_bench::report::{Disturbance, Interval, Report, TimelinePoint};
use sidle_bench::terminal::Terminal;
use sidle_lab::{
    Cell, Database, Folder, FolderError, LAB_FILE, LabFile, LabOutcome, LabPlan, Matrix, Program, Results,
    Settings, SourceCpu, Variant, run, run_file,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A folder with a lab in it and a fake program.
struct Bench {
    home: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench { home: tempfile::tempdir().unwrap() };
        let mut report = Report {
            protocol: Some("@protocol@".to_owned()),
            policy: Some(PolicyWord::default()),
            workload: "ycsb-@workload@".to_owned(),
            records: 1000,
            value_bytes: 100,
            migration: Some(Interval { from_ms: 1000.0, to_ms: 1100.0 }),
            seconds: Some(0.1),
            lost_writes: Some(0),
            timeline: vec![TimelinePoint::default(); 21],
            ..Report::default()
        };
        report.load.clients = 4;
        report.load.key_bytes = 30;
        report.load.tracking = true;
        report.load.distribution = "zipf:0.99".to_owned();
        let template = serde_json::to_string(&report).unwrap().replace("\"seed\":0", "\"seed\":@seed@");
        std::fs::write(bench.file("template"), template).unwrap();
        let script = r#"#!/bin/sh
here=$(dirname "$0")
while [ $# -gt 0 ]; do
  case "$1" in
    --json) json=$2 ;; --protocol) protocol=$2 ;; --seed) seed=$2 ;; --workload) workload=$2 ;;
  esac
  shift
done
echo "$protocol $workload $seed" >> "$here/log"
if [ -e "$here/broken-$protocol" ]; then echo "the $protocol is out of order" >&2; exit 3; fi
if [ -e "$here/slow" ]; then echo half > "$json"; exec sleep 60; fi
sed -e "s/@protocol@/$protocol/; s/@workload@/$workload/; s/@seed@/$seed/" "$here/template" > "$json"
"#;
        std::fs::write(bench.file("program"), script).unwrap();
        std::fs::set_permissions(bench.file("program"), std::fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn out(&self) -> PathBuf {
        self.file("out")
    }

    /// Runs of both workloads' cells, and the lines that the program wrote meanwhile.
    fn run(&self, plan: &LabPlan) -> (LabOutcome, Vec<String>) {
        let outcome = self.try_run(plan, false).unwrap();
        let log = std::fs::read_to_string(self.file("log")).unwrap_or_default();
        let _ = std::fs::remove_file(self.file("log"));
        (outcome, log.lines().map(str::to_owned).collect())
    }

    fn try_run(&self, plan: &LabPlan, stop: bool) -> Result<LabOutcome, FolderError> {
        run(plan, &Folder::to_run_in(&self.out())?, &Terminal::new(true), &AtomicBool::new(stop))
    }

    fn plan(&self, protocols: &[&str], workloads: &[&str], repeat: u32) -> LabPlan {
        let settings = Settings {
            database: Database::DEFAULT,
            modelled: None,
            records: 1000,
            seconds: 1,
            clients: 4,
            rate: None,
            key_bytes: 30,
            seed: 7,
            node_cpu: 0.4,
        };
        let matrix = Matrix {
            variants: protocols.iter().map(|text| text.parse().unwrap()).collect(),
            policies: vec![PolicyWord::default()],
            workloads: workloads.iter().map(|text| text.parse().unwrap()).collect(),
            distributions: vec!["zipf:0.99".parse().unwrap()],
            value_bytes: vec![100],
            source_cpus: vec![SourceCpu::Shared],
        };
        let this = Program::at(&self.file("program")).unwrap();
        let lab = LabFile::new(this, settings, repeat, matrix.cells());
        LabPlan { program: self.file("program"), lab, fresh: false, again_if_disturbed: false }
    }

    fn names(&self) -> Vec<String> {
        let names = Folder::to_read(&self.out()).names().unwrap();
        names.into_iter().filter(|name| !name.starts_with('.')).collect()
    }
}

fn counts(outcome: &LabOutcome) -> (usize, usize, usize, usize, usize) {
    (outcome.made, outcome.found, outcome.failed.len(), outcome.in_the_way.len(), outcome.left)
}

fn first_run(plan: &LabPlan) -> String {
    run_file(&plan.lab.cells[0], 1)
}

#[test]
fn rounds_go_over_all_cells_one_after_the_other() {
    let bench = Bench::new();
    let protocols: Vec<String> = Variant::protocols().iter().map(Variant::to_string).collect();
    let protocols: Vec<&str> = protocols.iter().map(String::as_str).collect();
    let plan = bench.plan(&protocols, &["a", "c"], 3);
    let (outcome, log) = bench.run(&plan);
    let cells = plan.lab.cells.len();
    assert_eq!(counts(&outcome), (3 * cells, 0, 0, 0, 0));
    let rounds: Vec<&[String]> = log.chunks(cells).collect();
    for (round, lines) in rounds.iter().enumerate() {
        assert!(
            lines.iter().all(|line| line.ends_with(&format!(" {}", 7 + round))),
            "round {round}: {lines:?}"
        );
        let different: std::collections::BTreeSet<&String> = lines.iter().collect();
        assert_eq!(different.len(), cells);
    }
    let order = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    assert_ne!(order(rounds[0]), order(rounds[1]), "each round draws its own order");
    assert_eq!(Results::read(&Folder::to_read(&bench.out())).unwrap().runs(), 3 * cells);
}

#[test]
fn what_is_there_is_not_made_again_and_a_larger_matrix_adds_to_it() {
    let bench = Bench::new();
    bench.run(&bench.plan(&["fulva"], &["a"], 1));
    let before = bench.names();
    let larger = bench.plan(&["fulva", "zephyr"], &["a"], 2);
    let (outcome, log) = bench.run(&larger);
    assert_eq!(counts(&outcome), (3, 1, 0, 0, 0));
    assert_eq!(log.len(), 3);
    assert!(!log.contains(&"fulva a 7".to_owned()));
    assert!(before.iter().all(|name| bench.names().contains(name)));
    let (again, log) = bench.run(&bench.plan(&["zephyr"], &["a"], 1));
    assert_eq!((counts(&again), log.len()), ((0, 1, 0, 0, 0), 0));
    let lab = Folder::to_read(&bench.out()).lab().unwrap().unwrap();
    assert_eq!((lab.cells.len(), lab.repeat), (2, 2), "a smaller matrix takes nothing away");
}

#[test]
fn runs_that_the_host_disturbed_are_made_again_on_request() {
    let bench = Bench::new();
    let plan = bench.plan(&["fulva", "zephyr", "rocksteady"], &["a"], 1);
    bench.run(&plan);
    let disturb = |cell: usize, wrong_values: u64| {
        let path = bench.out().join(run_file(&plan.lab.cells[cell], 1));
        let mut report: Report = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        report.machine.disturbance = Some(Disturbance { stolen: Some(0.5), ..Disturbance::default() });
        report.wrong_values = wrong_values;
        std::fs::write(path, serde_json::to_string(&report).unwrap()).unwrap();
    };
    disturb(0, 0);
    disturb(1, 1);
    assert_eq!(counts(&bench.run(&plan).0), (0, 3, 0, 0, 0), "not by itself");
    let (outcome, log) = bench.run(&LabPlan { again_if_disturbed: true, ..plan.clone() });
    assert_eq!((counts(&outcome), log), ((1, 2, 0, 0, 0), vec!["fulva a 7".to_owned()]));
    assert_eq!(outcome.wrong, 1, "what went wrong is not made good by another run");
}

#[test]
fn corrupt_and_foreign_files_are_told_and_left_alone() {
    let bench = Bench::new();
    let plan = bench.plan(&["fulva", "zephyr"], &["a"], 1);
    bench.run(&plan);
    let (fulva, zephyr) =
        (bench.out().join(first_run(&plan)), bench.out().join(run_file(&plan.lab.cells[1], 1)));
    let foreign = std::fs::read_to_string(&zephyr).unwrap();
    std::fs::write(&fulva, &foreign).unwrap();
    std::fs::write(&zephyr, &foreign[..foreign.len() / 2]).unwrap();
    let (outcome, log) = bench.run(&plan);
    assert_eq!((counts(&outcome), log.len()), ((0, 0, 0, 2, 0), 0));
    let why = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        outcome.in_the_way.iter().find(|(odd, _)| odd == name).unwrap().1.clone()
    };
    assert_eq!(why(&fulva), "another run's report, by its protocol");
    assert!(why(&zephyr).starts_with("not a complete report: EOF"), "{}", why(&zephyr));
    assert_eq!(std::fs::read_to_string(&fulva).unwrap(), foreign);
    let results = Results::read(&Folder::to_read(&bench.out())).unwrap();
    assert_eq!((results.runs(), results.odd.len()), (0, 2), "nor are they drawn");

    std::fs::write(bench.out().join("notes.txt"), "mine").unwrap();
    let (anew, log) = bench.run(&LabPlan { fresh: true, ..plan });
    assert_eq!((counts(&anew), log.len()), ((2, 0, 0, 0, 0), 2));
    assert!(bench.names().contains(&"notes.txt".to_owned()), "what is not the lab's stays");
}

#[test]
fn a_run_that_fails_is_noted_and_the_lab_goes_on() {
    let bench = Bench::new();
    std::fs::write(bench.file("broken-rocksteady"), "").unwrap();
    let plan = bench.plan(&["fulva", "rocksteady", "zephyr"], &["a"], 2);
    let (outcome, log) = bench.run(&plan);
    assert_eq!((counts(&outcome), log.len()), ((4, 0, 2, 0, 0), 6));
    let failed = &Results::read(&Folder::to_read(&bench.out())).unwrap().failed;
    assert_eq!(failed.len(), 2);
    assert_eq!(failed[0].reason, "the rocksteady is out of order (exit status: 3)");
    std::fs::remove_file(bench.file("broken-rocksteady")).unwrap();
    let (outcome, _) = bench.run(&plan);
    assert_eq!(counts(&outcome), (2, 4, 0, 0, 0));
    assert_eq!(Results::read(&Folder::to_read(&bench.out())).unwrap().failed, []);
}

/// The fake program knows neither policies nor whose threads move data.
#[test]
fn a_report_of_another_policy_or_other_threads_is_no_run() {
    let bench = Bench::new();
    let mut plan = bench.plan(&["fulva", "zephyr,offloading=off"], &["a"], 1);
    plan.lab.cells[0].policy = "rate=20".parse().unwrap();
    let (outcome, log) = bench.run(&plan);
    assert_eq!((counts(&outcome), log.len()), ((0, 0, 2, 0, 0), 2));
    let mut why: Vec<&str> = outcome.failed.iter().map(|failed| failed.reason.as_str()).collect();
    why.sort_unstable();
    assert_eq!(
        why,
        [
            "its report is another run's report, by its policy",
            "its report is another run's report, by which threads its nodes moved data on",
        ]
    );
}

#[test]
fn a_run_with_wrong_answers_counts_now_and_when_it_is_found_again() {
    let bench = Bench::new();
    let template = std::fs::read_to_string(bench.file("template")).unwrap();
    std::fs::write(bench.file("template"), template.replace("\"wrong_values\":0", "\"wrong_values\":2"))
        .unwrap();
    let plan = bench.plan(&["fulva"], &["a"], 1);
    assert_eq!(bench.run(&plan).0.wrong, 1);
    let (again, log) = bench.run(&plan);
    assert_eq!((again.wrong, again.found, log.len()), (1, 1, 0));
}

#[test]
fn an_interrupted_lab_stops_its_run_and_goes_on_later() {
    let bench = Bench::new();
    let plan = bench.plan(&["fulva", "zephyr"], &["a"], 1);
    std::fs::write(bench.file("slow"), "").unwrap();
    let stop = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !bench.file("log").exists() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        run(&plan, &Folder::to_run_in(&bench.out()).unwrap(), &Terminal::new(true), &stop).unwrap()
    });
    assert_eq!(counts(&outcome), (0, 0, 0, 0, 2));
    assert_eq!(bench.names(), [LAB_FILE], "no half of a run");
    std::fs::remove_file(bench.file("slow")).unwrap();
    std::fs::remove_file(bench.file("log")).unwrap();
    assert_eq!(counts(&bench.run(&plan).0), (2, 0, 0, 0, 0));
}

#[test]
fn runs_that_cannot_be_compared_do_not_share_a_folder() {
    let bench = Bench::new();
    let plan = bench.plan(&["fulva"], &["a"], 1);
    bench.run(&plan);
    let mut other = plan.clone();
    other.lab.settings.records = 500;
    let refused = bench.try_run(&other, false).unwrap_err().to_string();
    assert!(refused.contains("records was 1000, now 500"), "{refused}");
    std::fs::write(bench.out().join(LAB_FILE), "{").unwrap();
    assert!(matches!(bench.try_run(&plan, false), Err(FolderError::NotALab { .. })));
    let current = std::fs::read_to_string(bench.out().join(LAB_FILE)).unwrap_or_default();
    assert_eq!(current, "{", "what is not understood is left alone");
    std::fs::write(bench.out().join(LAB_FILE), r#"{"format":1,"cells":[{"variant":"fulva"}]}"#).unwrap();
    let refused = bench.try_run(&plan, false).unwrap_err().to_string();
    assert!(refused.contains("its format is 1, and this program's is 3"), "{refused}");
    let held = Folder::to_run_in(&bench.out()).unwrap();
    assert!(matches!(bench.try_run(&plan, false), Err(FolderError::Busy { .. })));
    drop(held);
    assert!(bench.try_run(&LabPlan { fresh: true, ..plan }, false).is_ok());
}

#[test]
fn runs_of_two_builds_do_not_share_a_folder() {
    let bench = Bench::new();
    bench.run(&bench.plan(&["fulva"], &["a"], 1));
    let build_anew = "echo '# anew' >> \"$0\"\n";
    let script = std::fs::read_to_string(bench.file("program")).unwrap();
    std::fs::write(bench.file("program"), format!("{script}{build_anew}")).unwrap();
    let plan = bench.plan(&["fulva", "zephyr"], &["a"], 1);
    let refused = bench.try_run(&plan, false).unwrap_err().to_string();
    assert!(refused.contains("cannot be compared with these: it was sidle "), "{refused}");

    let anew = LabPlan { fresh: true, ..plan };
    assert!(matches!(bench.try_run(&anew, false), Err(FolderError::Rebuilt { .. })), "its first run does it");
    let results = Results::read(&Folder::to_read(&bench.out())).unwrap();
    assert_eq!(results.runs(), 1, "what was measured before stays, and nothing came after");
}

#[test]
fn a_program_that_is_gone_is_not_said_to_be_another() {
    let bench = Bench::new();
    let script = std::fs::read_to_string(bench.file("program")).unwrap();
    std::fs::write(bench.file("program"), format!("{script}rm \"$0\"\n")).unwrap();
    let plan = bench.plan(&["fulva"], &["a"], 2);
    let gone = bench.try_run(&plan, false).unwrap_err();
    assert!(matches!(gone, FolderError::Io { .. }), "{gone}");
    assert!(gone.to_string().contains("program"), "{gone}");
}

#[test]
fn a_cell_asks_for_what_its_report_must_say() {
    let settings = Settings {
        database: Database::DEFAULT,
        modelled: None,
        records: 1000,
        seconds: 2,
        clients: 4,
        rate: Some(500.0),
        key_bytes: 30,
        seed: 7,
        node_cpu: 0.4,
    };
    let cell = Cell {
        variant: "fulva,tracking=off,offloading=off,sampling=off".parse().unwrap(),
        policy: "rate=20".parse().unwrap(),
        scene: sidle_lab::Scene {
            workload: "12.5%".parse().unwrap(),
            distribution: "uniform".parse().unwrap(),
            value_bytes: 64,
            source_cpu: "70".parse().unwrap(),
        },
    };
    let line = cell.arguments(&settings, 3, Path::new("x.json")).join(" ");
    assert_eq!(
        line,
        "demo --quiet --stop-with-stdin --protocol fulva,sampling=off --policy rate=20 --distribution uniform --value-bytes 64 --key-bytes 30 \
         --records 1000 --seconds 2 --clients 4 --loop open --rate 500 --seed 9 --cpus source=0.28,target=0.4 --json x.json \
         --write-ratio 12.5 --without-tracking --without-offloading"
    );
}
