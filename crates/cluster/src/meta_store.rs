//! Where the coordinator stores what it must not forget.

use crate::{MetaError, Metadata, Term};

/// Where metadata survives the coordinator's process.
pub trait MetaStore {
    /// The last commit, or `None` in a new store. Fails if there is something unreadable: it is never taken
    /// for a new store.
    fn load(&mut self) -> Result<Option<Metadata>, MetaError>;

    /// Replaces the metadata, durably and as a whole, before it returns. After an error the store holds the
    /// old or the new metadata, nothing else. The coordinator then acts on neither and commits again. After
    /// [`MetaError::Deposed`] the metadata is another coordinator's, whatever it holds.
    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError>;

    /// Ensures that the last commit, `metadata`, is where the next [`MetaStore::load`] looks for it: files
    /// can be removed while open. Rewrites it there if it is gone; the error states why it cannot.
    fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError>;

    /// The term for which this coordinator has the store. A store that only one process can open has one
    /// term, 0.
    fn term(&self) -> Term {
        Term::ONLY
    }
}

impl<M: MetaStore + ?Sized> MetaStore for Box<M> {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        (**self).load()
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        (**self).commit(metadata)
    }

    fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError> {
        (**self).keep(metadata)
    }

    fn term(&self) -> Term {
        (**self).term()
    }
}

/// Where [`MetaStore::keep`] found the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where it belongs.
    Kept,
    /// Nowhere; it was rewritten.
    WrittenAnew,
}
