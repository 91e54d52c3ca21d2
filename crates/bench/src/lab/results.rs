//! What a lab's folder holds, read and sorted by cell.

use crate::lab::cell::{Cell, Scene};
use crate::lab::folder::{
    FailedRun, Folder, FolderError, LAB_FILE, PAGE_FILE, RunState, is_run_name, run_file,
};
use crate::lab::settings::LabFile;
use crate::lab::spread::Spread;
use crate::lab::variant::Variant;
use crate::report::Report;

/// The runs of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRuns {
    /// The cell.
    pub cell: Cell,
    /// Its complete reports, in the order of their numbers.
    pub reports: Vec<Report>,
}

impl CellRuns {
    /// A number of each run, together.
    pub fn spread(&self, of: impl Fn(&Report) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.reports.iter().filter_map(of))
    }
}

/// What a lab has measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The matrix, what it ran on and with.
    pub lab: LabFile,
    /// Cells with at least one complete run, in the lab's order.
    pub cells: Vec<CellRuns>,
    /// Runs that failed and were not made again since.
    pub failed: Vec<FailedRun>,
    /// Files that look like runs and are none of this lab's, with the reason.
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
                cells.push(CellRuns { cell: cell.clone(), reports });
            }
        }
        let is_odd = |name: &&String| {
            is_run_name(name) && !name.ends_with(".failed.json") && !known.contains(name)
                || name.ends_with(".json") && !is_run_name(name) && *name != LAB_FILE && *name != PAGE_FILE
        };
        let names = folder.names()?;
        odd.extend(names.iter().filter(is_odd).map(|name| (name.clone(), "no run of this lab".to_owned())));
        Ok(Results { lab, cells, failed, odd })
    }

    /// How many complete runs there are.
    pub fn runs(&self) -> usize {
        self.cells.iter().map(|cell| cell.reports.len()).sum()
    }

    /// The scenes in which unchanged protocols were measured, the one with the most measured first.
    pub fn scenes(&self) -> Vec<&Scene> {
        let mut scenes: Vec<&Scene> = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.cell.variant.is_plain()) {
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

    /// Those of a scene whose protocol is unchanged.
    pub fn plain<'a>(&'a self, scene: &'a Scene) -> Vec<&'a CellRuns> {
        self.of_scene(scene).filter(|cell| cell.cell.variant.is_plain()).collect()
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
