//! From the files of a durable log to a store's content: the order of steps is the server's.

use super::LogFolder;
use sidle_log_files::{FileEnd, LogFile, LogId, SurveyedFile, is_torn_beginning, survey};
use sidle_store::{Recovery, Store};
use sidle_testbed::Disk;
use sidle_types::CommitNumber;

/// The name of a log that begins.
const LOG: LogId = LogId([7; 16]);

/// A log that goes on.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) folder: LogFolder,
    pub(crate) log: LogId,
    /// Its files, with their bytes.
    pub(crate) files: Vec<(u64, u64)>,
    /// The last commit.
    pub(crate) last: CommitNumber,
}

/// Reads the log on a disk into the empty store; a new log, if there is none. The error is what a start would
/// report.
pub(crate) fn recover(disk: &Disk, store: &Store) -> Result<Resumed, String> {
    let mut reading = Reading { folder: LogFolder::on(disk), surveyed: Vec::new(), files: Vec::new() };
    reading.read_all(store).map_err(|why| format!("the log cannot be read: {why}"))?;
    reading.surveyed.reverse();
    reading.files.reverse();
    let survey = survey(&reading.surveyed).map_err(|damage| format!("the log is damaged: {damage}"))?;
    let Reading { folder, files, .. } = reading;
    Ok(Resumed { folder, log: survey.log.unwrap_or(LOG), files, last: survey.last })
}

struct Reading {
    folder: LogFolder,
    /// Newest first.
    surveyed: Vec<SurveyedFile>,
    files: Vec<(u64, u64)>,
}

impl Reading {
    fn read_all(&mut self, store: &Store) -> Result<(), String> {
        let refused = |error: std::io::Error| error.to_string();
        let mut recovery = Recovery::begin(store);
        let numbers = self.folder.numbers().map_err(refused)?;
        let mut torn = None;
        for (place, &number) in numbers.iter().rev().enumerate() {
            let bytes = self.folder.read(number).map_err(refused)?;
            let log = self.surveyed.last().map(|file| file.log);
            match LogFile::open(&bytes, number, log) {
                Ok(file) => {
                    let is_last = place == usize::from(torn.is_some());
                    self.read(&mut recovery, &file, (number, bytes.len()), is_last)?;
                }
                Err(_) if place == 0 && is_torn_beginning(bytes.len() as u64) => torn = Some(number),
                Err(error) => return Err(format!("file {number}: {error}")),
            }
        }
        if let Some(number) = torn {
            self.folder.remove(number).map_err(refused)?;
        }
        let count = |kind, _, _, bytes: &[u8]| sidle_collections::count_in_chunk(kind, bytes);
        recovery.finish(&count).map_err(|why| why.to_string())?;
        Ok(())
    }

    /// Replays a file, and sees to it that the last one is closed and synced.
    fn read(
        &mut self,
        recovery: &mut Recovery<'_>,
        file: &LogFile<'_>,
        (number, bytes): (u64, usize),
        is_last: bool,
    ) -> Result<(), String> {
        let (mut last, mut wrong) = (None, None);
        let (end, closing) = file.blocks_and_closing(|block| {
            last = last.max(Some(block.commit));
            if wrong.is_none() {
                wrong = recovery.replay(block.records).err();
            }
        });
        if let Some(why) = wrong {
            return Err(format!("file {number}: {why}"));
        }
        let is_damaged = matches!(end, FileEnd::Damaged { .. });
        let length = if end == FileEnd::Closed { bytes } else { closing.at + closing.bytes.len() };
        self.surveyed.push(SurveyedFile { number, log: file.log(), first: file.first(), last, end });
        self.files.push((number, length as u64));
        let ended = match end {
            _ if !is_last || is_damaged => Ok(()),
            // G1: what follows may be written as soon as this returns.
            FileEnd::Closed => self.folder.sync_closed(number),
            _ => self.folder.close(number, &closing).and_then(|()| self.folder.sync_closed(number)),
        };
        ended.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_log_files::{LogWriter, Settings, Syncs};
    use sidle_store::StoreConfig;
    use sidle_testbed::Random;
    use sidle_types::MonotonicUs;

    const SETTINGS: Settings = Settings {
        syncs: Syncs::Every(1_000_000),
        file_bytes: 1 << 20,
        least_bytes: 1 << 30,
        share_percent: 200,
    };

    fn started(disk: &Disk) -> Result<Resumed, String> {
        let config = StoreConfig { memory_bytes: 16 << 20, is_durable: true, ..StoreConfig::default() };
        recover(disk, &Store::new(config).expect("a good configuration"))
    }

    /// Begins the next file, and does not come to sync its name.
    fn begin_file(resumed: Resumed) {
        let Resumed { mut folder, log, files, last } = resumed;
        let mut writer = LogWriter::new(SETTINGS, log, files, last, MonotonicUs(0));
        let head = writer.open().expect("a log goes on in a new file");
        folder.write(&head).expect("the disk has room");
        folder.sync().expect("the disk works");
    }

    #[test]
    fn a_later_files_name_is_never_on_the_disk_without_those_before() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let disk = Disk::new(10, Random::new(seed));
            begin_file(started(&disk).expect("a new log"));
            LogFolder::on(&disk).sync_names().expect("the disk works");
            for machine_dies in [false, true] {
                begin_file(started(&disk).expect("nothing was lost"));
                disk.settle();
                disk.crash(machine_dies, &mut random);
            }
            started(&disk).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
    }
}
