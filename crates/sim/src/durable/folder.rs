//! The files of a durable log on a simulated disk.

use sidle_log_files::{Closing, Damage, FILE_SET_NAME, FileSet, Step, Write, file_name, number_of_file};
use sidle_node::CopiesRecord;
use sidle_testbed::{Disk, File, Folder, SyncUnderWay};
use std::io;

/// The file with what is known of the log's copies.
const COPIES_NAME: &str = "copies";
/// The disk's write size: a death may come between two of them.
const WRITE_BYTES: usize = 4096;

/// The folder of a log's files, for one process.
#[derive(Debug)]
pub(crate) struct LogFolder {
    folder: Folder,
    /// The file that is written, with its number.
    open: Option<(u64, File)>,
    /// Which files there are to be, as last recorded.
    recorded: Option<FileSet>,
}

impl LogFolder {
    /// The folder on this disk, for the current process.
    pub(crate) fn on(disk: &Disk) -> LogFolder {
        LogFolder { folder: disk.mount(), open: None, recorded: None }
    }

    /// The numbers of the files, in order.
    pub(crate) fn numbers(&self) -> io::Result<Vec<u64>> {
        let names = self.folder.names()?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of_file(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn named(&self, number: u64) -> io::Result<File> {
        self.folder.open(&file_name(number))?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// All bytes of a file.
    pub(crate) fn read(&self, number: u64) -> io::Result<Vec<u8>> {
        self.named(number)?.content()
    }

    /// Carries out a step of the log writer that it waits for.
    pub(crate) fn carry_out(&mut self, step: Step<'_>) -> io::Result<()> {
        match step {
            Step::Record(set) => self.record(set),
            Step::Write(write) => self.write(&write),
            Step::Sync => self.sync(),
            Step::SyncNames => self.sync_names(),
            Step::Remove(file) => self.remove(file),
            // Nobody removes files of a simulated disk.
            Step::Check(_) => Ok(()),
            Step::BeginSync | Step::EndSync => panic!("it has a time of its own"),
        }
    }

    /// Which files there are to be, if that is recorded.
    pub(crate) fn read_record(&self) -> io::Result<Result<Option<FileSet>, Damage>> {
        let Some(file) = self.folder.open(FILE_SET_NAME)? else { return Ok(Ok(None)) };
        Ok(FileSet::read(&file.content()?).map(Some))
    }

    /// Records which files there are to be, whole or not at all.
    pub(crate) fn record(&mut self, set: FileSet) -> io::Result<()> {
        if self.recorded == Some(set) {
            return Ok(());
        }
        // Until it is synced it may be either.
        self.recorded = None;
        self.keep(FILE_SET_NAME, &set.to_bytes())?;
        self.recorded = Some(set);
        Ok(())
    }

    /// The log has files up to this one: it came from a copy.
    pub(crate) fn extend_record(&mut self, last: u64) -> io::Result<()> {
        match self.read_record()? {
            Ok(Some(set)) if set.last < last => self.record(FileSet { last, ..set }),
            _ => Ok(()),
        }
    }

    /// Puts these bytes in the place of a file, whole or not at all, and for good.
    pub(crate) fn keep(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.folder.create()?;
        file.write(0, bytes)?;
        file.sync()?;
        self.folder.rename(&[(name, Some(&file))])?;
        self.folder.sync()
    }

    /// The same for a file of the log.
    pub(crate) fn replace(&mut self, number: u64, bytes: &[u8]) -> io::Result<()> {
        self.open = None;
        self.keep(&file_name(number), bytes)
    }

    /// Keeps what is known of the log's copies.
    pub(crate) fn keep_copies(&mut self, record: &CopiesRecord) -> io::Result<()> {
        self.keep(COPIES_NAME, &record.to_json())
    }

    /// What was kept of that.
    pub(crate) fn known_copies(&self) -> CopiesRecord {
        let kept = self.kept(COPIES_NAME).expect("the disk works");
        kept.map_or_else(CopiesRecord::default, |json| CopiesRecord::from_json(&json).expect("it is whole"))
    }

    /// What was kept under a name, if anything was.
    pub(crate) fn kept(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.folder.open(name)?.map(|file| file.content()).transpose()
    }

    /// Writes, in a file that is made if it is not there.
    fn write(&mut self, write: &Write<'_>) -> io::Result<()> {
        let mut bytes = write.head.clone();
        bytes.extend_from_slice(write.records);
        bytes.resize(bytes.len() + write.padding, 0);
        self.write_bytes(write.file, write.at as usize, &bytes)
    }

    /// The same with these bytes.
    pub(crate) fn write_bytes(&mut self, number: u64, at: usize, bytes: &[u8]) -> io::Result<()> {
        if at == 0 {
            // One that could not be synced is never written again.
            let file = self.folder.create()?;
            self.folder.rename(&[(&file_name(number), Some(&file))])?;
            self.open = Some((number, file));
        } else if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
            self.open = Some((number, self.named(number)?));
        }
        self.put(at, bytes)
    }

    /// Writes a whole file again, and syncs it: an earlier process may have failed to.
    pub(crate) fn write_again(&mut self, number: u64) -> io::Result<()> {
        let file = self.named(number)?;
        file.write(0, &file.content()?)?;
        file.sync()?;
        self.open = Some((number, file));
        Ok(())
    }

    /// What is behind this byte of a file goes.
    pub(crate) fn cut_off(&mut self, number: u64, at: u64) -> io::Result<()> {
        self.named(number)?.set_bytes(at as usize)
    }

    /// Syncs which files there are.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        self.folder.sync()
    }

    fn put(&self, mut at: usize, bytes: &[u8]) -> io::Result<()> {
        let file = self.open_file()?;
        for piece in bytes.chunks(WRITE_BYTES) {
            file.write(at, piece)?;
            at += piece.len();
        }
        Ok(())
    }

    fn open_file(&self) -> io::Result<&File> {
        self.open.as_ref().map(|(_, file)| file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Syncs the file that was written last.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.open_file()?.sync()
    }

    /// Begins to sync it, while others write.
    pub(crate) fn begin_sync(&self) -> io::Result<SyncUnderWay> {
        self.open_file()?.begin_sync()
    }

    /// Closes a file, and syncs it.
    pub(crate) fn close(&mut self, number: u64, closing: &Closing) -> io::Result<()> {
        let file = self.named(number)?;
        file.set_bytes(closing.at)?;
        if closing.writes_again {
            file.write(0, &file.content()?)?;
        }
        self.open = Some((number, file));
        if closing.syncs_before {
            self.sync()?;
        }
        self.put(closing.at, &closing.bytes)?;
        self.sync()?;
        self.open = None;
        Ok(())
    }

    /// Syncs a file that was closed, and its name: its process may have died before it did either.
    pub(crate) fn sync_closed(&self, number: u64) -> io::Result<()> {
        self.named(number)?.sync()?;
        self.folder.sync()
    }

    /// Removes a file for good: no later one goes before it.
    pub(crate) fn remove(&mut self, number: u64) -> io::Result<()> {
        self.open.take_if(|(open, _)| *open == number);
        self.folder.rename(&[(&file_name(number), None)])?;
        self.folder.sync()
    }
}
