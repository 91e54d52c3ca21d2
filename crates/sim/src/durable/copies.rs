//! The copies of other machines' logs on a machine's disk.

use super::LogFolder;
use sidle_log_copies::{BackupStep, Found, check_of, whole_end};
use sidle_log_files::FileSet;
use sidle_node::CopyFiles;
use sidle_testbed::{Disk, DiskMood, Random};
use sidle_types::LogId;
use sidle_wire::Place;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file with a copy's epoch.
const EPOCH_NAME: &str = "epoch";

#[derive(Debug)]
struct Disks {
    sync_us: u64,
    mood: DiskMood,
    random: Random,
    disks: BTreeMap<LogId, Disk>,
}

/// The disks of a machine's copies, one for each. Copies of this are handles of the same.
#[derive(Clone, Debug)]
pub struct CopyDisks(Arc<Mutex<Disks>>);

impl CopyDisks {
    /// No copies, on disks that usually sync in this time.
    pub(crate) fn new(sync_us: u64, random: Random) -> CopyDisks {
        let mood = DiskMood::Good;
        CopyDisks(Arc::new(Mutex::new(Disks { sync_us, mood, random, disks: BTreeMap::new() })))
    }

    fn disks(&self) -> MutexGuard<'_, Disks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk of a log's copy, which is there from now on.
    fn disk(&self, log: LogId) -> Disk {
        let Disks { sync_us, mood, random, disks } = &mut *self.disks();
        let new = || {
            let disk = Disk::new(*sync_us, random.fork());
            disk.set_mood(*mood);
            disk
        };
        disks.entry(log).or_insert_with(new).clone()
    }

    /// The disks behave like this from now on.
    pub(crate) fn set_mood(&self, mood: DiskMood) {
        let disks = &mut *self.disks();
        disks.mood = mood;
        disks.disks.values().for_each(|disk| disk.set_mood(mood));
    }

    /// The disk of a log's copy, if there is one.
    pub(crate) fn of(&self, log: LogId) -> Option<Disk> {
        self.disks().disks.get(&log).cloned()
    }

    /// The process dies, with or without its machine.
    pub(crate) fn crash(&self, machine_dies: bool) {
        let Disks { random, disks, .. } = &mut *self.disks();
        disks.values().for_each(|disk| disk.crash(machine_dies, random));
    }
}

/// What is found of a copy, by a process that starts or after a failure. What no record names goes, and what
/// is torn: once the record is certainly on the disk, which else may name what is gone.
pub(crate) fn find_copy(folder: &mut LogFolder) -> io::Result<Option<Found>> {
    let set = folder.read_record()?.expect("it was written whole");
    set.map_or(Ok(()), |set| folder.record(set))?;
    let numbers = folder.numbers()?;
    let is_in = |set: &FileSet, number: u64| (set.first..=set.last).contains(&number);
    for &number in numbers.iter().filter(|number| set.is_none_or(|set| !is_in(&set, **number))) {
        folder.remove(number)?;
    }
    let Some(files) = set.filter(|set| set.first <= set.last) else { return Ok(None) };
    assert_eq!(files.missing(&numbers), None, "a recorded file is there");
    let last = folder.read(files.last)?;
    let end = whole_end(&last, files.last, files.log).expect("its head was synced");
    folder.cut_off(files.last, end)?;
    Ok(Some(Found { files, last: (end, check_of(&last[..end as usize])) }))
}

/// The files of all copies, for one process.
#[derive(Debug)]
pub(crate) struct CopyFolders {
    disks: CopyDisks,
    folders: BTreeMap<LogId, LogFolder>,
}

impl CopyFolders {
    pub(crate) fn on(disks: CopyDisks) -> CopyFolders {
        CopyFolders { disks, folders: BTreeMap::new() }
    }

    fn folder(&mut self, log: LogId) -> &mut LogFolder {
        self.folders.entry(log).or_insert_with(|| LogFolder::on(&self.disks.disk(log)))
    }

    /// Carries a step out. How long it takes.
    pub(crate) fn carry_out(&mut self, log: LogId, step: &BackupStep) -> (io::Result<()>, u64) {
        let folder = self.folder(log);
        let result = match step {
            BackupStep::KeepEpoch(epoch) => folder.keep(EPOCH_NAME, &epoch.to_le_bytes()),
            BackupStep::Record(set) => folder.record(*set),
            BackupStep::Write(Place { file, at }, bytes) => folder.write_bytes(*file, *at as usize, bytes),
            BackupStep::WriteAgain(file) => folder.write_again(*file),
            // In the simulator each write is synced, and nothing beside.
            BackupStep::Sync | BackupStep::BeginSync => folder.sync(),
            BackupStep::SyncNames => folder.sync_names(),
            BackupStep::Remove(file) => folder.remove(*file),
        };
        (result, self.disks.disk(log).take_stall_us())
    }

    /// A step is over.
    pub(crate) fn settle(&mut self, log: LogId) {
        self.disks.disk(log).settle();
    }
}

impl CopyFiles for CopyFolders {
    fn find(&mut self, log: LogId) -> io::Result<(u64, Option<Found>)> {
        let disk = self.disks.disk(log);
        let folder = self.folders.entry(log).insert_entry(LogFolder::on(&disk)).into_mut();
        let epoch = match folder.kept(EPOCH_NAME)? {
            Some(bytes) => {
                folder.keep(EPOCH_NAME, &bytes)?;
                u64::from_le_bytes(bytes.try_into().expect("it was written whole"))
            }
            None => 0,
        };
        let found = find_copy(folder)?;
        // A start waits for its disk.
        disk.settle();
        disk.take_stall_us();
        Ok((epoch, found))
    }

    fn size(&mut self, log: LogId) -> io::Result<u64> {
        let folder = self.folder(log);
        folder.numbers()?.into_iter().map(|number| Ok(folder.read(number)?.len() as u64)).sum()
    }

    fn read(&mut self, log: LogId, from: Place, most: usize) -> io::Result<(Vec<u8>, bool)> {
        let folder = self.folder(log);
        let bytes = folder.read(from.file)?;
        let rest = bytes.get(from.at as usize..).ok_or(io::ErrorKind::InvalidInput)?;
        let has_all = rest.len() <= most;
        Ok((rest[..rest.len().min(most)].to_vec(), has_all && folder.read(from.file + 1).is_ok()))
    }
}
