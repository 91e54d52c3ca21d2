//! The files of a durable log on a simulated disk.

use sidle_log_files::{Closing, Write, file_name, number_of_file};
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
}

impl LogFolder {
    /// The folder on this disk, for the current process.
    pub(crate) fn on(disk: &Disk) -> LogFolder {
        LogFolder { folder: disk.mount(), open: None }
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

    /// Writes, in a file that is made if it is not there.
    pub(crate) fn write(&mut self, write: &Write<'_>) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|(number, _)| *number != write.file) {
            let name = file_name(write.file);
            let file = match self.folder.open(&name)? {
                Some(file) => file,
                None => {
                    let file = self.folder.create()?;
                    self.folder.rename(&[(&name, Some(&file))])?;
                    file
                }
            };
            self.open = Some((write.file, file));
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
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.open_file()?.sync()
    }

    /// Begins to sync it, while others write.
    pub(crate) fn begin_sync(&self) -> io::Result<SyncUnderWay> {
        self.open_file()?.begin_sync()
    }

    /// Syncs which files there are.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        self.folder.sync()
    }

    /// Closes a file, and syncs it.
    pub(crate) fn close(&mut self, number: u64, closing: &Closing) -> io::Result<()> {
        let file = self.named(number)?;
        file.set_bytes(closing.at)?;
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
        self.sync_names()
    }

    /// Removes a file for good: no later one goes before it.
    pub(crate) fn remove(&mut self, number: u64) -> io::Result<()> {
        self.open.take_if(|(open, _)| *open == number);
        self.folder.rename(&[(&file_name(number), None)])?;
        self.sync_names()
    }
}
