//! From the files of a durable log to a store's content: the order of steps is the server's.

use super::LogFolder;
use sidle_log_copies::whole_end;
use sidle_log_files::{Closing, Damage, FileEnd, FileSet, LogFile, SurveyedFile, is_torn_beginning, survey};
use sidle_store::{Recovery, Repeated, Store};
use sidle_testbed::Disk;
use sidle_types::{CommitNumber, LogId, NodeId, PositionRange};
use sidle_wire::Place;
use std::io;

/// The name of a log that begins at this node, which has had so many before.
pub(super) fn log_of(node: NodeId, number: u8) -> LogId {
    let mut name = [7; 16];
    name[..8].copy_from_slice(&node.as_bytes()[..8]);
    name[15] -= number % 7;
    LogId(name)
}

/// Where a log ends that can be read, and its name; nothing if it has never had a file.
pub(crate) fn end_of(folder: &LogFolder) -> Option<(LogId, Place)> {
    let set = folder.read_record().ok()?.ok()??;
    if set.last < set.first {
        // Its only file was to be begun again.
        return Some((set.log, Place { file: set.first, at: 0 }));
    }
    let at = whole_end(&folder.read(set.last).ok()?, set.last, set.log)?;
    Some((set.log, Place { file: set.last, at }))
}

/// A log that goes on.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) folder: LogFolder,
    pub(crate) log: LogId,
    /// Its files, with their bytes.
    pub(crate) files: Vec<(u64, u64)>,
    /// The last commit.
    pub(crate) last: CommitNumber,
    /// Where the files have what the log has elsewhere.
    pub(crate) repeated: Repeated,
}

/// Reads the log on a disk into the empty store; a new log of this name, if there is none. The error is what
/// a start would report.
pub(crate) fn recover(disk: &Disk, new: LogId, store: &Store) -> Result<Resumed, String> {
    let folder = LogFolder::on(disk);
    let recorded = folder.read_record().map_err(refused)?.map_err(damaged)?;
    let mut reading = Reading {
        folder,
        recorded,
        surveyed: Vec::new(),
        files: Vec::new(),
        to_close: Vec::new(),
        to_remove: Vec::new(),
    };
    let repeated = reading.read_all(store).map_err(|why| format!("the log cannot be read: {why}"))?;
    reading.surveyed.reverse();
    reading.files.reverse();
    let survey = survey(&reading.surveyed).map_err(damaged)?;
    reading.end_files().map_err(refused)?;
    let Reading { mut folder, files, .. } = reading;
    let log = survey.log.unwrap_or(new);
    if let (Some(&(first, _)), Some(&(last, _))) = (files.first(), files.last()) {
        folder.record(FileSet { log, first, last }).map_err(refused)?;
    }
    Ok(Resumed { folder, log, files, last: survey.last, repeated })
}

/// Reads what a log's copy has in this range into the empty store, and changes nothing.
pub(crate) fn read_copy(disk: &Disk, log: LogId, range: PositionRange, store: &Store) -> Result<(), String> {
    let folder = LogFolder::on(&disk.image());
    let recorded = folder.read_record().map_err(refused)?.map_err(damaged)?;
    let recorded = recorded.filter(|set| set.log == log && set.first <= set.last).ok_or("it has no files")?;
    let mut reading = Reading {
        folder,
        recorded: Some(recorded),
        surveyed: Vec::new(),
        files: Vec::new(),
        to_close: Vec::new(),
        to_remove: Vec::new(),
    };
    let mut recovery = Recovery::begin_at(store, &[range]);
    loop {
        reading.read_once(&mut recovery).map_err(|why| format!("the copy cannot be read: {why}"))?;
        if !recovery.reads_on() {
            break;
        }
        (reading.surveyed, reading.files) = (Vec::new(), Vec::new());
        reading.to_close.clear();
    }
    let count = |kind, _, _, bytes: &[u8]| sidle_collections::count_in_chunk(kind, bytes);
    recovery.finish(&count).map_err(|why| why.to_string())?;
    Ok(())
}

fn refused(error: io::Error) -> String {
    error.to_string()
}

fn damaged(damage: Damage) -> String {
    format!("the log is damaged: {damage}")
}

struct Reading {
    folder: LogFolder,
    /// Which files there are to be.
    recorded: Option<FileSet>,
    /// Newest first.
    surveyed: Vec<SurveyedFile>,
    files: Vec<(u64, u64)>,
    to_close: Vec<(u64, Closing)>,
    /// Files that a death left, and nobody needs.
    to_remove: Vec<u64>,
}

impl Reading {
    /// Reads all files that there are to be. Where they have what the log has elsewhere.
    fn read_all(&mut self, store: &Store) -> Result<Repeated, String> {
        let mut recovery = Recovery::begin(store);
        self.read_once(&mut recovery)?;
        let count = |kind, _, _, bytes: &[u8]| sidle_collections::count_in_chunk(kind, bytes);
        let repeated = recovery.take_repeated();
        recovery.finish(&count).map_err(|why| why.to_string())?;
        Ok(repeated)
    }

    fn read_once(&mut self, recovery: &mut Recovery<'_>) -> Result<(), String> {
        let mut numbers = self.folder.numbers().map_err(refused)?;
        let first = self.recorded.map_or(0, |set| set.first);
        self.to_remove = numbers.iter().copied().filter(|number| *number < first).collect();
        numbers.retain(|number| *number >= first);
        if let Some(number) = self.recorded.and_then(|set| set.missing(&numbers)) {
            return Err(Damage::Missing(number).to_string());
        }
        for (place, &number) in numbers.iter().rev().enumerate() {
            let bytes = self.folder.read(number).map_err(refused)?;
            let log = self.surveyed.last().map(|file| file.log);
            // G6: the head of a file that is recorded was synced.
            let may_be_torn = place == 0 && self.recorded.is_none_or(|set| number > set.last);
            match LogFile::open(&bytes, number, log) {
                Ok(file) => self.read(recovery, &file, (number, bytes.len()))?,
                Err(_) if may_be_torn && is_torn_beginning(bytes.len() as u64) => {
                    self.to_remove.insert(0, number)
                }
                Err(error) => return Err(format!("file {number}: {error}")),
            }
        }
        Ok(())
    }

    /// Replays a file.
    fn read(
        &mut self,
        recovery: &mut Recovery<'_>,
        file: &LogFile<'_>,
        (number, bytes): (u64, usize),
    ) -> Result<(), String> {
        let (mut last, mut wrong) = (None, None);
        let (end, closing) = file.blocks_and_closing(|block| {
            last = last.max(Some(block.commit));
            if wrong.is_none() {
                wrong = recovery.replay_of(number, block.place().start, block.records).err();
            }
        });
        if let Some(why) = wrong {
            return Err(format!("file {number}: {why}"));
        }
        let length = if end == FileEnd::Closed { bytes } else { closing.at + closing.bytes.len() };
        self.surveyed.push(SurveyedFile { number, log: file.log(), first: file.first(), last, end });
        self.files.push((number, length as u64));
        if end != FileEnd::Closed {
            self.to_close.push((number, closing));
        }
        Ok(())
    }

    /// Cuts torn ends off, so that the log can go on behind these files, the oldest first.
    fn end_files(&mut self) -> io::Result<()> {
        for (number, closing) in self.to_close.iter().rev() {
            self.folder.close(*number, closing)?;
        }
        // G1: what closed the last file may not be on the disk yet.
        if let Some((last, _)) = self.files.last() {
            self.folder.sync_closed(*last)?;
        }
        self.to_remove.iter().try_for_each(|&number| self.folder.remove(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_log_files::{LogWriter, Settings, Step, Syncs};
    use sidle_store::StoreConfig;
    use sidle_testbed::Random;
    use sidle_types::MonotonicUs;

    const SETTINGS: Settings = Settings {
        syncs: Syncs::Every(1_000_000),
        file_bytes: 1 << 20,
        least_bytes: 1 << 30,
        share_percent: 200,
        judged_bytes: 1000,
    };

    fn started(disk: &Disk) -> Result<Resumed, String> {
        let config = StoreConfig { memory_bytes: 16 << 20, is_durable: true, ..StoreConfig::default() };
        recover(disk, LogId([7; 16]), &Store::new(config).expect("a good configuration"))
    }

    /// Begins the next file, and does not come to sync its name.
    fn begin_file(resumed: Resumed) {
        let Resumed { mut folder, log, files, last, .. } = resumed;
        let mut writer = LogWriter::new(SETTINGS, log, files, last, MonotonicUs(0));
        let head = writer.open().expect("a log goes on in a new file");
        [Step::Write(head), Step::Sync]
            .into_iter()
            .for_each(|step| folder.carry_out(step).expect("the disk works"));
    }

    #[test]
    fn a_later_files_name_is_never_on_the_disk_without_those_before() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let disk = Disk::new(10, Random::new(seed));
            begin_file(started(&disk).expect("a new log"));
            LogFolder::on(&disk).carry_out(Step::SyncNames).expect("the disk works");
            for machine_dies in [false, true] {
                begin_file(started(&disk).expect("nothing was lost"));
                disk.settle();
                disk.crash(machine_dies, &mut random);
            }
            started(&disk).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
    }
}
