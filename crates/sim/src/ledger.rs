//! The real metadata store on a simulated disk, monitored: it loads the last commit, or one that was in
//! progress.

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
    /// Opens the store on the disk, or creates one on an empty disk. It must succeed on a sound disk,
    /// whatever happened to it before: no disk fault ever damages the content.
    pub fn open(disk: &Disk) -> Result<Ledger, MetaError> {
        let opened = FileMetaStore::open_on(Place::on(disk));
        if let Err(error) = &opened {
            assert!(!disk.is_sound(), "the metadata cannot be opened on a sound disk: {error}");
            sound(error);
        }
        Ok(Ledger { disk: disk.clone(), store: opened? })
    }
}

/// No error is about the content.
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
