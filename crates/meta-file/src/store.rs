//! The store: opening, loading, committing.
//!
//! # Invariants
//! 1. A commit is on disk, whole, when [`FileMetaStore::commit`] returns without an error: written aside,
//!    synced, named, the name synced. A damaged store is refused, never rolled back to an earlier map, whose
//!    ownership epochs have been given since (M1).
//! 2. What is there is never taken for a new store, however damaged, foreign or empty it is. A file has the
//!    store's name only when it is whole.
//! 3. Nothing is built on bytes of an earlier incarnation, or from before a failed commit: opening writes
//!    what it reads aside, syncs it, and names it, as a commit does. What a process reads back may stand in
//!    the system's memory and nowhere else: after a sync that failed the system may take what it could not
//!    write for written, and the next sync succeeds without it. That goes for names as for bytes.
//! 4. A commit goes to the file that the next start opens, or is refused: a file that was removed while it is
//!    open takes every write and is gone with the process. A store that has gone is written anew, from what
//!    is to be committed; one that somebody put in its place is left alone.
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
    /// Whether what is read is durable: not after a failed commit, until it has been written again.
    is_durable: bool,
}

impl FileMetaStore {
    /// Opens the store in this file, or creates it where there is no such file. Its folder must be there.
    ///
    /// # Errors
    /// Why it cannot be used, and what to do. What is there stays as it is.
    pub fn open(path: &Path) -> Result<FileMetaStore, MetaError> {
        FileMetaStore::open_on(FileMedium::new(path))
    }
}

impl<M: Medium> FileMetaStore<M> {
    /// Opens the store on this medium, or creates it where there is none.
    ///
    /// # Errors
    /// Why it cannot be used, and what to do. What is there stays as it is.
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

    /// Puts a store with this content in the place of what is there, whole or not at all.
    fn replace(&mut self, content: &[u8]) -> Result<(), MetaError> {
        self.is_durable = false;
        let replaced = put(&mut self.medium, content);
        if replaced.is_err() {
            // The reason counts; what is left here is in nobody's way.
            let _ = self.medium.discard_aside();
        }
        self.is_durable = replaced.is_ok();
        replaced.map_err(|error| self.refused(&error))
    }

    /// Writes a store with this metadata where there is none any more.
    fn write_anew(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        let restored = self.medium.restore().map_err(|error| self.refused(&error));
        restored.and_then(|()| self.replace(&encode(Some(metadata)))).map_err(|error| {
            let name = self.medium.name();
            MetaError(format!(
                "{name} has gone, with the record of the cluster, and cannot be written anew: {error}. \
                 Until it can, the cluster is not changed; do not stop this node"
            ))
        })
    }

    fn refused(&self, error: &io::Error) -> MetaError {
        let name = self.medium.name();
        if error.kind() == io::ErrorKind::WouldBlock {
            return MetaError(format!(
                "{name} is in use by another process: two coordinators cannot share a data directory, stop the \
                 other one"
            ));
        }
        MetaError(format!(
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
            Ok(Whereabouts::Replaced) => Err(MetaError(format!(
                "{name} is not the file any more that this coordinator writes: somebody has put another in \
                 its place. Move that away while the node runs, and the record is written anew; until then \
                 the cluster is not changed"
            ))),
            Err(error) => Err(MetaError(format!(
                "{name} cannot be looked for: {error}. Until it can, the cluster is not changed"
            ))),
        }
    }
}

fn unreadable_store(name: &str, unreadable: &Unreadable) -> MetaError {
    MetaError(match unreadable {
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
