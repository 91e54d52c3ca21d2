//! The contents of a lab's folder, read and sorted by cell.

use crate::cell::{Cell, Scene, is_costs_file};
use crate::folder::{FailedRun, Folder, FolderError, LAB_FILE, RunState, is_run_name, run_file};
use crate::lab_file::LabFile;
use crate::variant::Variant;
use sidle_bench::policy::PolicyWord;
use sidle_bench::report::Report;
use sidle_bench::spread::Spread;
use sidle_bench::words::counted;

/// The runs of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRuns {
    /// The cell.
    pub cell: Cell,
    /// Its complete reports used in figures, in the order of their numbers.
    pub reports: Vec<Report>,
    /// Those that the machine's host disturbed too much, unless there are no others.
    pub disturbed: Vec<Report>,
}

impl CellRuns {
    /// The runs of a cell, classified. The host does not know what is measured, so leaving out disturbed
    /// runs favours no side.
    pub(super) fn new(cell: Cell, reports: Vec<Report>) -> CellRuns {
        let (disturbed, quiet): (Vec<_>, Vec<_>) = reports.into_iter().partition(Report::is_disturbed);
        match quiet.is_empty() {
            true => CellRuns { cell, reports: disturbed, disturbed: Vec::new() },
            false => CellRuns { cell, reports: quiet, disturbed },
        }
    }

    /// All complete reports.
    pub fn all(&self) -> impl Iterator<Item = &Report> {
        self.reports.iter().chain(&self.disturbed)
    }

    /// A number of each run, together.
    pub fn spread(&self, of: impl Fn(&Report) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.values(of))
    }

    /// A number of each run.
    pub fn values(&self, of: impl Fn(&Report) -> Option<f64>) -> Vec<f64> {
        self.reports.iter().filter_map(of).collect()
    }
}

/// A lab's measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The matrix, the machine and the program.
    pub lab: LabFile,
    /// Cells with at least one complete run, in the lab's order.
    pub cells: Vec<CellRuns>,
    /// Runs that failed and were not repeated.
    pub failed: Vec<FailedRun>,
    /// Files with a run's name that are none of this lab's, with the reason.
    pub odd: Vec<(String, String)>,
}

impl Results {
    /// Reads a folder.
    pub fn read(folder: &Folder) -> Result<Results, FolderError> {
        let lab = folder.lab()?.ok_or_else(|| FolderError::NoLab { path: folder.path().to_owned() })?;
        let (mut cells, mut failed, mut odd, mut known) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for cell in &lab.cells {
            let mut reports = Vec::new();
            for repeat in 1..=lab.repeat {
                let name = run_file(cell, repeat);
                match folder.state(cell, repeat, &lab.settings) {
                    RunState::Complete(report) => reports.push(*report),
                    RunState::InTheWay(why) => odd.push((name.clone(), why)),
                    RunState::Missing => {}
                }
                failed.extend(folder.failure(cell, repeat));
                known.push(name);
            }
            if !reports.is_empty() {
                cells.push(CellRuns::new(cell.clone(), reports));
            }
        }
        let is_odd = |name: &&String| {
            is_run_name(name) && !name.ends_with(".failed.json") && !known.contains(name)
                || name.ends_with(".json") && !is_run_name(name) && !is_costs_file(name) && *name != LAB_FILE
        };
        let names = folder.names()?;
        odd.extend(names.iter().filter(is_odd).map(|name| (name.clone(), "no run of this lab".to_owned())));
        Ok(Results { lab, cells, failed, odd })
    }

    /// How many complete runs there are.
    pub fn runs(&self) -> usize {
        self.cells.iter().map(|cell| cell.all().count()).sum()
    }

    /// The same in words, and for how many cells.
    pub fn extent(&self) -> String {
        format!("{} of {}", counted(self.runs(), "complete run"), counted(self.cells.len(), "cell"))
    }

    /// How many runs are left out of the figures because the machine's host disturbed them.
    pub fn left_out(&self) -> usize {
        self.cells.iter().map(|cell| cell.disturbed.len()).sum()
    }

    /// The scenes, the one with the most measured first.
    pub fn scenes(&self) -> Vec<&Scene> {
        let mut scenes: Vec<&Scene> = Vec::new();
        for cell in &self.cells {
            if !scenes.contains(&&cell.cell.scene) {
                scenes.push(&cell.cell.scene);
            }
        }
        // A stable sort: among equals the lab's own order.
        scenes.sort_by_key(|scene| std::cmp::Reverse(self.of_scene(scene).count()));
        scenes
    }

    /// The cells of a scene.
    pub fn of_scene<'a>(&'a self, scene: &'a Scene) -> impl Iterator<Item = &'a CellRuns> {
        self.cells.iter().filter(move |cell| cell.cell.scene == *scene)
    }

    /// The policy under which a scene's protocols are compared: the default, or the first if nothing had
    /// that.
    pub fn policy(&self, scene: &Scene) -> PolicyWord {
        let policies = || self.of_scene(scene).map(|cell| cell.cell.policy);
        let default = policies().find(|policy| *policy == PolicyWord::default());
        default.or_else(|| policies().next()).unwrap_or_default()
    }

    /// The cells of a scene under its policy of comparison.
    pub fn compared<'a>(&'a self, scene: &'a Scene) -> impl Iterator<Item = &'a CellRuns> {
        let policy = self.policy(scene);
        self.of_scene(scene).filter(move |cell| cell.cell.policy == policy)
    }

    /// Those of them whose protocol is unchanged; all if none is, and all of TPC-C, which has no other place
    /// for them.
    pub fn principal<'a>(&'a self, scene: &'a Scene) -> Vec<&'a CellRuns> {
        let is_plain = |cell: &&CellRuns| cell.cell.variant.is_plain();
        match !scene.workload.is_tpcc() && self.compared(scene).any(|cell| is_plain(&cell)) {
            true => self.compared(scene).filter(is_plain).collect(),
            false => self.compared(scene).collect(),
        }
    }

    /// Each variant measured under several policies in a scene, with all of them, the default first.
    pub fn by_policy<'a>(&'a self, scene: &'a Scene) -> Vec<(&'a Variant, Vec<&'a CellRuns>)> {
        let mut groups: Vec<(&Variant, Vec<&CellRuns>)> = Vec::new();
        for cell in self.of_scene(scene) {
            match groups.iter_mut().find(|(variant, _)| **variant == cell.cell.variant) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((&cell.cell.variant, vec![cell])),
            }
        }
        groups.retain(|(_, cells)| cells.len() > 1);
        groups.iter_mut().for_each(|(_, cells)| cells.sort_by_key(|cell| cell.cell.policy));
        groups
    }

    /// The protocols' names in their order: a protocol keeps its colour on the whole page.
    pub fn protocols(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let known: Vec<Variant> = Variant::protocols();
        let measured = |name: &str| self.cells.iter().find(|cell| cell.cell.variant.base() == name);
        names.extend(
            known.iter().filter_map(|variant| measured(variant.base())).map(|cell| cell.cell.variant.base()),
        );
        names
    }
}
