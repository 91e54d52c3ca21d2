//! Runs a lab: round by round over all cells, each run a process of its own, each report a file.

use crate::cell::{Cell, costs_file};
use crate::child::{self, Ended};
use crate::folder::{FailedRun, Folder, FolderError, RunState, io, run_file};
use crate::lab_file::LabFile;
use crate::matrix::order;
use crate::program::Program;
use crate::settings::Settings;
use sidle_bench::report::Report;
use sidle_bench::terminal::Terminal;
use sidle_bench::words::{counted, duration};
use sidle_types::MigrationPolicy;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Records loaded, and read back, per second: less than measured on two cores.
const SWEPT_PER_S: f64 = 400_000.0;
/// Records moved per second, for nodes with one processor or less.
const MOVED_PER_S: f64 = 300_000.0;
/// Rows of TPC-C loaded and checked per second.
const ROWS_PER_S: f64 = 20_000.0;
/// Starting and stopping two nodes.
const START_S: f64 = 0.8;
/// A run that takes this many times its expected time will not end.
const PATIENCE: f64 = 5.0;
/// The least time before a run is given up.
const LEAST_PATIENCE: Duration = Duration::from_secs(90);
/// The same for a modelled run. A slow protocol is slow to model: many requests for every record
/// that moves.
const LEAST_PATIENCE_MODELLED: Duration = Duration::from_secs(900);

/// A moving record's bytes beside its key and value.
const HEADER_BYTES: usize = 28;
/// The factor on the time of a move that keeps to an objective; the exact value depends on the machine.
const OBJECTIVE: f64 = 3.0;
/// The factor for a move whose objective cannot be kept: it continues at a hundredth of a
/// core.
const CRAWL: f64 = 100.0;

/// Filling a model's nodes.
const MODEL_S: f64 = 3.0;
/// The time of a modelled second, and its increase for each processor of a node.
const MODELLED_S: f64 = 0.3;
const MODELLED_PROCESSOR_S: f64 = 0.4;
/// Measuring the cost of work, by the first modelled run with values of a size.
const CALIBRATION_S: f64 = 75.0;

/// The rough time of one run, before any was made.
pub fn expected_run_s(settings: &Settings, cell: &Cell) -> f64 {
    let load_s = expected_move_s(settings, cell) + 2.0 * settings.seconds as f64;
    if settings.modelled.is_some() {
        return MODEL_S + (MODELLED_S + MODELLED_PROCESSOR_S * settings.node_cpu) * load_s;
    }
    let swept_s = match cell.scene.workload.is_tpcc() {
        true => settings.database.rows() as f64 / ROWS_PER_S,
        false => 2.0 * settings.records as f64 / SWEPT_PER_S,
    };
    START_S + swept_s + load_s
}

/// The rough time of several runs, with the work before the first of them.
fn expected_s(folder: &Folder, settings: &Settings, runs: &[(&Cell, u32)]) -> f64 {
    let is_measured = |value_bytes| folder.file(&costs_file(settings.key_bytes, value_bytes)).exists();
    let sizes: BTreeSet<usize> = runs.iter().map(|(cell, _)| cell.scene.value_bytes).collect();
    let unmeasured =
        sizes.into_iter().filter(|&size| settings.modelled.is_some() && !is_measured(size)).count();
    let runs_s: f64 = runs.iter().map(|(cell, _)| expected_run_s(settings, cell)).sum();
    runs_s + CALIBRATION_S * unmeasured as f64
}

/// How long a run may take before it is given up, by its expected time.
fn patience(settings: &Settings, cell: &Cell, expected_s: f64) -> Duration {
    let least = if settings.modelled.is_some() { LEAST_PATIENCE_MODELLED } else { LEAST_PATIENCE };
    let crawl_s = match cell.policy.0 {
        MigrationPolicy::SloP99 { .. } => CRAWL * unhindered_move_s(settings),
        _ => 0.0,
    };
    Duration::from_secs_f64((PATIENCE * expected_s).max(crawl_s)).max(least)
}

/// The time of an unhindered move.
fn unhindered_move_s(settings: &Settings) -> f64 {
    let processors = if settings.modelled.is_some() { settings.node_cpu } else { 1.0 };
    settings.records as f64 / 2.0 / (MOVED_PER_S * processors.max(1.0))
}

fn expected_move_s(settings: &Settings, cell: &Cell) -> f64 {
    let moved = settings.records as f64 / 2.0;
    let unhindered_s = unhindered_move_s(settings);
    let record_bytes = settings.key_bytes + cell.scene.value_bytes + HEADER_BYTES;
    let by_policy_s = match cell.policy.0 {
        MigrationPolicy::Adaptive => 0.0,
        MigrationPolicy::Rate { bytes_per_s } => moved * record_bytes as f64 / bytes_per_s as f64,
        MigrationPolicy::Deadline { ms } => ms as f64 / 1e3,
        MigrationPolicy::SloP99 { .. } => OBJECTIVE * unhindered_s,
    };
    unhindered_s.max(by_policy_s)
}

/// A lab to run.
#[derive(Clone, Debug)]
pub struct LabPlan {
    /// This program, whose `demo` is one run.
    pub program: PathBuf,
    /// The cells to measure.
    pub lab: LabFile,
    /// Whether to start anew.
    pub fresh: bool,
    /// Whether to repeat runs that the machine's host disturbed. One with a wrong answer stays.
    pub again_if_disturbed: bool,
}

/// A lab's outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabOutcome {
    /// Runs made successfully.
    pub made: usize,
    /// Runs present already.
    pub found: usize,
    /// Runs that failed, with the reason.
    pub failed: Vec<FailedRun>,
    /// Files with a run's name that are not its report, with the reason.
    pub in_the_way: Vec<(String, String)>,
    /// Runs, made or found, with a wrong answer, a lost write, or records that could not be read back.
    pub wrong: usize,
    /// Runs not made because the lab was interrupted.
    pub left: usize,
}

/// Makes the missing runs.
pub fn run(
    plan: &LabPlan,
    folder: &Folder,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<LabOutcome, FolderError> {
    let lab = folder.begin(plan.lab.clone(), plan.fresh)?;
    let running = Running { plan, folder, lab: &lab, terminal, stop };
    let (mut outcome, missing) = running.look();
    for (name, why) in &outcome.in_the_way {
        terminal.say(&format!("{name} is not overwritten: {why}"));
    }
    if missing.is_empty() {
        return Ok(outcome);
    }
    let cells = plan.lab.cells.len();
    terminal.say(&format!(
        "{} of {}, {} of them there already: about {}",
        counted(cells * plan.lab.repeat as usize, "run"),
        counted(cells, "cell"),
        outcome.found,
        duration(expected_s(folder, &lab.settings, &missing))
    ));
    running.make(&missing, &mut outcome)?;
    Ok(outcome)
}

/// A running lab.
struct Running<'a> {
    plan: &'a LabPlan,
    folder: &'a Folder,
    /// The folder's file, with what earlier labs measured there.
    lab: &'a LabFile,
    terminal: &'a Terminal,
    stop: &'a AtomicBool,
}

impl<'a> Running<'a> {
    /// The present runs, and the runs to make, in their order.
    fn look(&self) -> (LabOutcome, Vec<(&'a Cell, u32)>) {
        let (plan, settings) = (self.plan, &self.lab.settings);
        let cells = &plan.lab.cells;
        let (mut outcome, mut missing) = (LabOutcome::default(), Vec::new());
        for repeat in 1..=plan.lab.repeat {
            for index in order(cells.len(), settings.seed, repeat) {
                let cell = &cells[index];
                match self.folder.state(cell, repeat, settings) {
                    RunState::Missing => missing.push((cell, repeat)),
                    RunState::Complete(report)
                        if plan.again_if_disturbed && report.is_disturbed() && is_proven(&report) =>
                    {
                        missing.push((cell, repeat));
                    }
                    RunState::Complete(report) => {
                        outcome.found += 1;
                        outcome.wrong += usize::from(!is_proven(&report));
                    }
                    RunState::InTheWay(why) => outcome.in_the_way.push((run_file(cell, repeat), why)),
                }
            }
        }
        (outcome, missing)
    }

    /// Makes these runs, until the lab is stopped.
    fn make(&self, missing: &[(&Cell, u32)], outcome: &mut LabOutcome) -> Result<(), FolderError> {
        let (program, settings) = (&self.plan.program, &self.lab.settings);
        let line = self.terminal.live();
        // The runs' time divided by the expected time.
        let mut took = Vec::new();
        for (number, &(cell, repeat)) in missing.iter().enumerate() {
            outcome.left = missing.len() - number;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if Program::at(program).map_err(io(program))? != self.lab.sidle {
                return Err(FolderError::Rebuilt { path: program.clone() });
            }
            let slowness = mean(&took).unwrap_or(1.0);
            let left_s = slowness * expected_s(self.folder, settings, &missing[number..]);
            let run = format!("{} left, run {repeat} of {}", duration(left_s), cell.title());
            let show = || line.show_run(number, missing.len(), &run);
            let started = Instant::now();
            let this_s = expected_s(self.folder, settings, &missing[number..=number]);
            let limit = patience(settings, cell, slowness.max(1.0) * this_s);
            let (ended, report) = self.one(cell, repeat, limit, &show)?;
            outcome.wrong += usize::from(report.is_some_and(|report| !is_proven(&report)));
            match ended {
                Ended::Stopped => return Ok(()),
                Ended::Well => {
                    outcome.made += 1;
                    took.push(started.elapsed().as_secs_f64() / this_s);
                }
                Ended::Failed(reason) => {
                    self.terminal.say(&format!("run {repeat} of {} failed: {reason}", cell.title()));
                    let failed = FailedRun { cell: cell.clone(), repeat, reason };
                    self.folder.note_failure(&failed)?;
                    outcome.failed.push(failed);
                }
            }
            self.terminal.note(&format!(
                "{} of {}: {}, run {repeat}",
                number + 1,
                missing.len(),
                cell.title()
            ));
        }
        outcome.left = 0;
        Ok(())
    }

    /// Makes one run.
    fn one(
        &self,
        cell: &Cell,
        repeat: u32,
        limit: Duration,
        show: &dyn Fn(),
    ) -> Result<(Ended, Option<Box<Report>>), FolderError> {
        let (folder, settings) = (self.folder, &self.lab.settings);
        let name = run_file(cell, repeat);
        let part = folder.part(&name);
        // An interrupted run's leftovers are not a report.
        let _ = std::fs::remove_file(&part);
        let arguments = cell.arguments(settings, repeat, &part);
        let ended = child::run(&self.plan.program, &arguments, limit, self.stop, show);
        if ended == Ended::Stopped {
            let _ = std::fs::remove_file(&part);
            return Ok((ended, None));
        }
        match folder.part_state(cell, repeat, settings) {
            // Also if the run failed: the report of a run with wrong answers shows them.
            RunState::Complete(report) => {
                folder.rename_part(&name)?;
                if ended == Ended::Well {
                    folder.forget_failure(cell, repeat);
                }
                Ok((ended, Some(report)))
            }
            RunState::Missing if ended == Ended::Well => {
                Ok((Ended::Failed("it left no report".to_owned()), None))
            }
            RunState::Missing => Ok((ended, None)),
            RunState::InTheWay(why) => {
                let _ = std::fs::remove_file(&part);
                match ended {
                    Ended::Failed(_) => Ok((ended, None)),
                    _ => Ok((Ended::Failed(format!("its report is {why}")), None)),
                }
            }
        }
    }
}

/// Whether every answer was right and no acknowledged write was lost; modelled runs read
/// nothing back.
fn is_proven(report: &Report) -> bool {
    report.is_correct() && (report.lost_writes.is_some() || report.modelled.is_some())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Scene, SourceCpu};
    use crate::settings::{Database, OnModel};

    const SETTINGS: Settings = Settings {
        database: Database::DEFAULT,
        modelled: None,
        records: 600_000,
        seconds: 1,
        clients: 1,
        rate: None,
        key_bytes: 30,
        seed: 1,
        node_cpu: 0.4,
    };

    fn cell(policy: &str, value_bytes: usize) -> Cell {
        let scene = Scene {
            workload: "b".parse().unwrap(),
            distribution: "uniform".parse().unwrap(),
            value_bytes,
            source_cpu: SourceCpu::Shared,
        };
        Cell { variant: "fulva".parse().unwrap(), policy: policy.parse().unwrap(), scene }
    }

    #[test]
    fn the_first_modelled_run_with_values_of_a_size_measures_costs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::to_read(dir.path());
        let on_model = OnModel { machines: "two-cores".to_owned(), sample: 1 };
        let modelled = Settings { modelled: Some(on_model), ..SETTINGS };
        let [small, large] = [100, 1000].map(|value_bytes| cell("adaptive", value_bytes));
        let runs = [(&small, 1), (&small, 2), (&large, 1)];
        let calibration_s = |settings| {
            let runs_s: f64 = runs.iter().map(|(cell, _)| expected_run_s(settings, cell)).sum();
            expected_s(&folder, settings, &runs) - runs_s
        };
        assert_eq!((calibration_s(&SETTINGS), calibration_s(&modelled)), (0.0, 2.0 * CALIBRATION_S));
        std::fs::write(folder.file(&costs_file(30, 100)), "").unwrap();
        assert_eq!(calibration_s(&modelled), CALIBRATION_S);
    }

    #[test]
    fn modelled_moves_take_less_on_larger_machines_unless_held_back() {
        let on_model = OnModel { machines: "paper".to_owned(), sample: 1 };
        let large = Settings { modelled: Some(on_model), node_cpu: 8.0, ..SETTINGS };
        let move_s = |policy| expected_move_s(&large, &cell(policy, 100));
        assert_eq!((move_s("adaptive"), move_s("deadline=10")), (0.125, 10.0));
    }

    #[test]
    fn a_policy_that_holds_a_move_back_is_waited_for() {
        let move_s = |policy| expected_move_s(&SETTINGS, &cell(policy, 100));
        assert_eq!(move_s("adaptive"), 1.0);
        assert_eq!(move_s("rate=15.8"), 3.0);
        assert_eq!(move_s("rate=1000"), 1.0, "a rate that is not reached holds nothing back");
        assert_eq!((move_s("deadline=10"), move_s("deadline=0.1")), (10.0, 1.0));
    }

    #[test]
    fn a_move_that_crawls_for_its_objective_is_not_given_up() {
        let patience_s = |policy, expected_s| patience(&SETTINGS, &cell(policy, 100), expected_s).as_secs();
        assert_eq!((patience_s("adaptive", 4.0), patience_s("adaptive", 40.0)), (90, 200));
        assert_eq!((patience_s("slo-p99=2000", 4.0), patience_s("slo-p99=2000", 40.0)), (100, 200));
    }
}
