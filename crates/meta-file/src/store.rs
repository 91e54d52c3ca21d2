//! The store: open, load, commit.
//!
//! # Invariants
//! 1. A commit is on disk, whole, when [`FileMetaStore::commit`] returns `Ok`: written aside, synced,
//!    renamed, the name synced. A damaged store is refused. It is never rolled back to an earlier map: later
//!    ownership epochs have been handed out (M1).
//! 2. An existing store is never taken for a new one, however damaged, foreign or empty. A file gets the
//!    store's name only when it is whole.
//! 3. Nothing relies on bytes of an earlier incarnation, or from before a failed commit: opening rewrites
//!    what it reads, as a commit does. What a process reads may exist only in the page cache. After a failed
//!    sync the system may count pages as clean, and the next sync succeeds without them. That holds for names
//!    as for bytes.
//! 4. A commit goes to the file that the next start opens, or is refused. A file that was removed while open
//!    takes every write and is lost with the process. A removed store is rewritten from the metadata to
//!    commit; a file in its place is left alone.
//!
//! # Ownership
//! The control thread of the process that runs the coordinator. The file is locked against other processes.

use crate::format::{Unreadable, decode, encode};
use crate::medium::{FileMedium, Medium, Whereabouts};
use sidle_cluster::{MetaError, MetaStore, Metadata, Place};
use std::io;
use std::path::Path;

/// A metadata store in one file.
#[derive(Debug)]
pub struct FileMetaStore<M: Medium = FileMedium> {
    medium: M,
    /// Whether the stored metadata is durable: false after a failed commit until it is rewritten.
    is_durable: bool,
}

impl FileMetaStore {
    /// Opens the store in this file, or creates it if there is no file. Its folder must exist.
    ///
    /// # Errors
    /// Why the store is unusable, and what to do. The existing file is unchanged.
    pub fn open(path: &Path) -> Result<FileMetaStore, MetaError> {
        FileMetaStore::open_on(FileMedium::new(path))
    }
}

impl<M: Medium> FileMetaStore<M> {
    /// Opens the store on this medium, or creates it if there is none.
    ///
    /// # Errors
    /// Why the store is unusable, and what to do. The existing store is unchanged.
    pub fn open_on(medium: M) -> Result<FileMetaStore<M>, MetaError> {
        let mut store = FileMetaStore { medium, is_durable: false };
        let content = match store.read()? {
            Some(content) => store.understood(&content).map(|_| content)?,
            None => encode(None),
        };
        store.replace(&content)?;
        Ok(store)
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>, MetaError> {
        self.medium.read().map_err(|error| self.refused(&error))
    }

    fn understood(&self, content: &[u8]) -> Result<Option<Metadata>, MetaError> {
        decode(content).map_err(|unreadable| unreadable_store(&self.medium.name(), &unreadable))
    }

    /// Replaces the store with this content, atomically.
    fn replace(&mut self, content: &[u8]) -> Result<(), MetaError> {
        self.is_durable = false;
        let replaced = put(&mut self.medium, content);
        if replaced.is_err() {
            // Report the first error; a file left aside does no harm.
            let _ = self.medium.discard_aside();
        }
        self.is_durable = replaced.is_ok();
        replaced.map_err(|error| self.refused(&error))
    }

    /// Writes a store with this metadata where the old one was removed.
    fn write_anew(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        let restored = self.medium.restore().map_err(|error| self.refused(&error));
        restored.and_then(|()| self.replace(&encode(Some(metadata)))).map_err(|error| {
            let name = self.medium.name();
            MetaError::Failed(format!(
                "{name} has gone, with the record of the cluster, and cannot be written anew: {error}. \
                 Until it can, the cluster is not changed; do not stop this node"
            ))
        })
    }

    fn refused(&self, error: &io::Error) -> MetaError {
        let name = self.medium.name();
        if error.kind() == io::ErrorKind::WouldBlock {
            return MetaError::Failed(format!(
                "{name} is in use by another process: two coordinators cannot share a data directory, stop the \
                 other one"
            ));
        }
        MetaError::Failed(format!(
            "cannot use {name}: {error}. Check the disk and the file's owner, then start again"
        ))
    }
}

/// The steps in the order that invariants 1 and 2 need.
fn put(medium: &mut impl Medium, content: &[u8]) -> io::Result<()> {
    medium.create_aside()?;
    medium.write_aside(content)?;
    medium.sync_aside()?;
    medium.rename_aside()?;
    medium.sync_name()
}

impl<M: Medium> MetaStore for FileMetaStore<M> {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        let gone = || Unreadable::Damaged("it has gone".to_owned());
        let content = self.read()?.ok_or_else(|| unreadable_store(&self.medium.name(), &gone()))?;
        let metadata = self.understood(&content)?;
        if !self.is_durable {
            self.replace(&content)?;
        }
        Ok(metadata)
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        match self.keep(metadata)? {
            Place::WrittenAnew => Ok(()),
            Place::Kept => self.replace(&encode(Some(metadata))),
        }
    }

    fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError> {
        let name = self.medium.name();
        match self.medium.whereabouts() {
            Ok(Whereabouts::InPlace) => Ok(Place::Kept),
            Ok(Whereabouts::Gone) => self.write_anew(metadata).map(|()| Place::WrittenAnew),
            Ok(Whereabouts::Replaced) => Err(MetaError::Failed(format!(
                "{name} is not the file any more that this coordinator writes: somebody has put another in \
                 its place. Move that away while the node runs, and the record is written anew; until then \
                 the cluster is not changed"
            ))),
            Err(error) => Err(MetaError::Failed(format!(
                "{name} cannot be looked for: {error}. Until it can, the cluster is not changed"
            ))),
        }
    }
}

fn unreadable_store(name: &str, unreadable: &Unreadable) -> MetaError {
    MetaError::Failed(match unreadable {
        Unreadable::OtherVersion(version) => format!(
            "{name} is {version}, which this version of sidle does not read. It was not overwritten. Start the \
             version that wrote it"
        ),
        Unreadable::Damaged(why) => format!(
            "{name} is not readable cluster metadata ({why}). It was not overwritten. Put a copy of it back, taken \
             since the last change of the cluster. Without one, stop all nodes and start them with empty data \
             directories: a new cluster, without the old one's data"
        ),
    })
}

#[cfg(test)]
mod tests;
