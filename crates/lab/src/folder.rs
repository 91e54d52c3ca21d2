//! A lab's folder: which runs are present, which are missing, and what is in the way.

use crate::cell::{Cell, is_costs_file};
use crate::lab_file::LabFile;
use crate::settings::Settings;
use serde::{Deserialize, Serialize};
use sidle_bench::report::Report;
use sidle_bench::tpcc::TpccReport;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name of the lab's own file.
pub const LAB_FILE: &str = "lab.json";
/// The name of the lab's page.
pub const PAGE_FILE: &str = "report.html";
const FAILED: &str = ".failed.json";
/// A process being started holds its parent's resources for an instant, even a lock that was just
/// released.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
/// Unfinished; nothing with this ending is ever read.
const PART: &str = ".part";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refused access.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// `lab.json` is damaged, another version's or another program's.
    #[error("{} is not a lab's file of this version ({why}); move it away, or start anew with --fresh", path.display())]
    NotALab {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no `lab.json`.
    #[error("{} has no {LAB_FILE}: no lab has run there", path.display())]
    NoLab {
        /// The folder.
        path: PathBuf,
    },
    /// The runs of both could not be compared.
    #[error("the runs in {} cannot be compared with these: {differences}; use another folder, or start anew with --fresh", path.display())]
    Differs {
        /// The folder.
        path: PathBuf,
        /// What differs.
        differences: String,
    },
    /// The program's file has changed since the lab began.
    #[error("{} was built anew meanwhile, and runs of both could not be compared: start anew with --fresh", path.display())]
    Rebuilt {
        /// The program.
        path: PathBuf,
    },
    /// Another lab runs there.
    #[error("another lab runs in {}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedRun {
    /// Its cell.
    pub cell: Cell,
    /// Its number in the cell, from 1.
    pub repeat: u32,
    /// Why.
    pub reason: String,
}

/// The folder's state of one run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunState {
    /// Nothing, or a failure, which is tried again.
    Missing,
    /// Its report.
    Complete(Box<Report>),
    /// A file of its name that is not its report, and why.
    InTheWay(String),
}

/// A lab's folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    // Held while a lab runs here.
    _lock: Option<std::fs::File>,
}

/// The system's error about a file.
pub(crate) fn io(path: &Path) -> impl Fn(std::io::Error) -> FolderError {
    let path = path.to_owned();
    move |error| FolderError::Io { path: path.clone(), error }
}

/// The name of a run's report.
pub fn run_file(cell: &Cell, repeat: u32) -> String {
    format!("{}_r{repeat:02}.json", cell.slug())
}

/// A lab's file; of another format, only the format is known.
fn read_lab(text: &str) -> Result<LabFile, String> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if format != LabFile::FORMAT {
        let present = LabFile::FORMAT;
        return Err(format!("its format is {format}, and this program's is {present}"));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Folder {
    /// The folder of a lab to run; made if missing. One lab at a time.
    pub fn to_run_in(path: &Path) -> Result<Folder, FolderError> {
        std::fs::create_dir_all(path).map_err(io(path))?;
        let lock_path = path.join(".lock");
        let lock = std::fs::File::create(&lock_path).map_err(io(&lock_path))?;
        let asked = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Folder { path: path.to_owned(), _lock: Some(lock) }),
                Err(std::fs::TryLockError::WouldBlock) if asked.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(LOCK_PATIENCE / 50);
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    return Err(FolderError::Busy { path: path.to_owned() });
                }
                Err(std::fs::TryLockError::Error(error)) => return Err(io(&lock_path)(error)),
            }
        }
    }

    /// The folder of a lab to read.
    pub fn to_read(path: &Path) -> Folder {
        Folder { path: path.to_owned(), _lock: None }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// `lab.json`, if a lab has run here.
    pub fn lab(&self) -> Result<Option<LabFile>, FolderError> {
        let path = self.file(LAB_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(&path)(error)),
        };
        let lab = read_lab(&text).map_err(|why| FolderError::NotALab { path, why })?;
        Ok(Some(lab))
    }

    /// Begins a lab here or continues the present one. `fresh` first removes an earlier lab's
    /// files.
    pub fn begin(&self, new: LabFile, fresh: bool) -> Result<LabFile, FolderError> {
        if fresh {
            self.clear()?;
        }
        let lab = match self.lab()? {
            Some(old) => old
                .extend(&new)
                .map_err(|differences| FolderError::Differs { path: self.path.clone(), differences })?,
            None => new,
        };
        let text = serde_json::to_string_pretty(&lab).expect("a lab's file is plain data");
        self.write(LAB_FILE, &(text + "\n"))?;
        Ok(lab)
    }

    /// Removes the files with a lab's names, and no others.
    fn clear(&self) -> Result<(), FolderError> {
        for name in self.names()? {
            let is_known = [LAB_FILE, PAGE_FILE].contains(&name.as_str()) || is_costs_file(&name);
            if is_known || name.ends_with(PART) || is_run_name(&name) {
                let path = self.file(&name);
                std::fs::remove_file(&path).map_err(io(&path))?;
            }
        }
        Ok(())
    }

    /// The names of all files, in order.
    pub fn names(&self) -> Result<Vec<String>, FolderError> {
        let entries = std::fs::read_dir(&self.path).map_err(io(&self.path))?;
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Writes a file whole or not at all.
    pub fn write(&self, name: &str, text: &str) -> Result<(), FolderError> {
        let part = self.file(&format!("{name}{PART}"));
        std::fs::write(&part, text).map_err(io(&part))?;
        self.rename_part(name)
    }

    /// The path of a run's report until it is whole.
    pub fn part(&self, name: &str) -> PathBuf {
        self.file(&format!("{name}{PART}"))
    }

    /// Gives the file written to [`part`](Self::part) its name.
    pub fn rename_part(&self, name: &str) -> Result<(), FolderError> {
        let path = self.file(name);
        std::fs::rename(self.part(name), &path).map_err(io(&path))
    }

    /// The state of a run.
    pub fn state(&self, cell: &Cell, repeat: u32, settings: &Settings) -> RunState {
        read_run(&self.file(&run_file(cell, repeat)), cell, repeat, settings)
    }

    /// The state of an unfinished run's output.
    pub fn part_state(&self, cell: &Cell, repeat: u32, settings: &Settings) -> RunState {
        read_run(&self.part(&run_file(cell, repeat)), cell, repeat, settings)
    }

    /// Records that a run failed.
    pub fn note_failure(&self, failed: &FailedRun) -> Result<(), FolderError> {
        let text = serde_json::to_string_pretty(failed).expect("a failure is plain data");
        self.write(&failure_file(&failed.cell, failed.repeat), &(text + "\n"))
    }

    /// Removes a run's failure, since it has succeeded.
    pub fn forget_failure(&self, cell: &Cell, repeat: u32) {
        // There is usually none.
        let _ = std::fs::remove_file(self.file(&failure_file(cell, repeat)));
    }

    /// The failure of a run, if it has one.
    pub fn failure(&self, cell: &Cell, repeat: u32) -> Option<FailedRun> {
        let text = std::fs::read_to_string(self.file(&failure_file(cell, repeat))).ok()?;
        serde_json::from_str(&text).ok()
    }
}

fn failure_file(cell: &Cell, repeat: u32) -> String {
    run_file(cell, repeat).replace(".json", FAILED)
}

/// Whether a file's name is one of a run or of a failed run: `..._r07.json`.
pub fn is_run_name(name: &str) -> bool {
    let stem = name.strip_suffix(FAILED).or_else(|| name.strip_suffix(".json"));
    let number = stem.and_then(|stem| stem.rsplit_once("_r"));
    number.is_some_and(|(_, digits)| digits.len() >= 2 && digits.bytes().all(|digit| digit.is_ascii_digit()))
}

fn read_run(path: &Path, cell: &Cell, repeat: u32, settings: &Settings) -> RunState {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return RunState::Missing,
        Err(error) => return RunState::InTheWay(error.to_string()),
    };
    let read = match cell.scene.workload.is_tpcc() {
        true => serde_json::from_str::<TpccReport>(&text).map(|report| report.measured()),
        false => serde_json::from_str::<Report>(&text),
    };
    match read {
        Ok(report) => match cell.check(settings, repeat, &report) {
            Ok(()) => RunState::Complete(Box::new(report)),
            Err(why) => RunState::InTheWay(why),
        },
        Err(error) => RunState::InTheWay(format!("not a complete report: {error}")),
    }
}
