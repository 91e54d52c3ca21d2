//! The real metadata store on a simulated disk, watched: what it brings back was committed last, or may have
//! been.

use crate::disk::{Disk, Place};
use sidle_cluster::{MetaError, MetaStore, Metadata, Place as Found};
use sidle_meta_file::FileMetaStore;

/// The coordinator's metadata store.
#[derive(Debug)]
pub struct Ledger {
    disk: Disk,
    store: FileMetaStore<Place>,
}

impl Ledger {
    /// Opens what is on the disk, or founds something on an empty one. It must succeed on a disk that is
    /// sound, whatever happened to it before; and nothing that happens to a disk ever damages what is on it.
    pub fn open(disk: &Disk) -> Result<Ledger, MetaError> {
        let opened = FileMetaStore::open_on(Place::on(disk));
        if let Err(error) = &opened {
            assert!(!disk.is_sound(), "the metadata cannot be opened on a sound disk: {error}");
            sound(error);
        }
        Ok(Ledger { disk: disk.clone(), store: opened? })
    }
}

/// No error is one of what is stored.
fn sound(error: &MetaError) {
    assert!(!error.to_string().contains("is not readable"), "the metadata is damaged: {error}");
}

impl MetaStore for Ledger {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        let loaded = self.store.load().inspect_err(sound)?;
        self.disk.holds(loaded.as_ref());
        Ok(loaded)
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        self.disk.may_hold(metadata);
        self.store.commit(metadata).inspect_err(|error| {
            assert!(!self.disk.is_sound(), "a commit failed on a sound disk: {error}");
            sound(error);
        })?;
        self.disk.holds(Some(metadata));
        Ok(())
    }

    fn keep(&mut self, metadata: &Metadata) -> Result<Found, MetaError> {
        self.store.keep(metadata)
    }
}
