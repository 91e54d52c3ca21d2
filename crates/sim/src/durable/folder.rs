//! The files of a durable log on a simulated disk.

use sidle_log_files::{Closing, Damage, FILE_SET_NAME, FileSet, Step, Write, file_name, number_of_file};
use sidle_testbed::{Disk, File, Folder, SyncUnderWay};
use std::io;

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
            Step::SyncNames => self.folder.sync(),
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
        let file = self.folder.create()?;
        file.write(0, &set.to_bytes())?;
        file.sync()?;
        self.folder.rename(&[(FILE_SET_NAME, Some(&file))])?;
        self.folder.sync()?;
        self.recorded = Some(set);
        Ok(())
    }

    /// Writes, in a file that is made if it is not there.
    fn write(&mut self, write: &Write<'_>) -> io::Result<()> {
        let name = file_name(write.file);
        if write.at == 0 {
            // One that could not be synced is never written again.
            let file = self.folder.create()?;
            self.folder.rename(&[(&name, Some(&file))])?;
            self.open = Some((write.file, file));
        } else if self.open.as_ref().is_none_or(|(number, _)| *number != write.file) {
            self.open = Some((write.file, self.named(write.file)?));
        }
        let mut bytes = write.head.clone();
        bytes.extend_from_slice(write.records);
        bytes.resize(bytes.len() + write.padding, 0);
        self.put(write.at as usize, &bytes)
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
    fn sync(&self) -> io::Result<()> {
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
