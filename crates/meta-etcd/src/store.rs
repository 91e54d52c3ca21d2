//! The metadata, for one term.

use crate::EtcdLocation;
use crate::gateway::{CallError, Gateway};
use crate::kv::{Entry, Keys, Outcome, TXN, txn};
use crate::value::{self, Commit};
use serde_json::Value as Json;
use sidle_cluster::{MetaError, MetaStore, Metadata, Place, Term};
use sidle_meta_file::Unreadable;

/// The largest value. etcd takes requests of 1.5 MiB, unless it is set to take others.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// How often a commit is tried that finds an earlier try of this process, or nothing, where it expects
/// something else.
const TRIES: usize = 3;

/// The cluster's metadata in etcd, as the leader of one term sees it.
#[derive(Debug)]
pub struct EtcdMetaStore {
    gateway: Gateway,
    keys: Keys,
    location: EtcdLocation,
    term: Term,
    /// The last commit's number.
    number: u64,
    /// The revision in which the metadata was last written, as far as this process knows; 0: there is none.
    seen: u64,
}

/// What became of one try of a commit.
enum Tried {
    Done,
    /// The metadata is another one than expected, and by now this is known.
    Again,
}

impl EtcdMetaStore {
    /// `term`: the revision in which this process made the leader's key.
    pub(crate) fn new(location: &EtcdLocation, term: Term) -> EtcdMetaStore {
        let keys = Keys::of(&location.name);
        let gateway = Gateway::new(location);
        EtcdMetaStore { gateway, keys, location: location.clone(), term, number: 0, seen: 0 }
    }

    fn transact(&mut self, transaction: &Json) -> Result<Outcome, CallError> {
        let answer = self.gateway.call(TXN, transaction)?;
        Outcome::read(&answer).ok_or_else(|| CallError::Unanswered("its answer is not understood".to_owned()))
    }

    fn failed(&self, error: CallError) -> MetaError {
        error.into_meta_error(&self.location)
    }

    /// Reads the metadata, as one step with the check that this process leads.
    fn read(&mut self, what: Json) -> Result<Entry, MetaError> {
        let transaction = txn(&[self.keys.leader_made_in(self.term.0)], &[what], &[]);
        let outcome = self.transact(&transaction).map_err(|error| self.failed(error))?;
        if outcome.succeeded { Ok(outcome.entry(0)) } else { Err(MetaError::Deposed) }
    }

    fn is_of_this_term(&self, entry: &Entry) -> Option<Commit> {
        value::commit_of(&entry.value).filter(|commit| commit.term == self.term)
    }

    /// One try of the commit with the present number.
    fn put(&mut self, value: &[u8]) -> Result<Tried, MetaError> {
        let keys = &self.keys;
        let holds = [keys.leader_made_in(self.term.0), keys.metadata_of(self.seen)];
        let transaction = txn(&holds, &[keys.put_metadata(value)], &[keys.leader(), keys.metadata()]);
        match self.transact(&transaction) {
            Ok(outcome) if outcome.succeeded => {
                self.seen = outcome.revision;
                Ok(Tried::Done)
            }
            Ok(outcome) if outcome.entry(0).create_revision != self.term.0 => Err(MetaError::Deposed),
            Ok(outcome) => self.look_at(&outcome.entry(1)),
            Err(CallError::Unanswered(why)) => {
                // Invariant 2: what is stored tells.
                let what = self.keys.metadata();
                let found = match self.read(what) {
                    Err(MetaError::Failed(_)) => None,
                    found => Some(found?),
                };
                match found.and_then(|entry| Some((self.is_of_this_term(&entry)?, entry.mod_revision))) {
                    Some((commit, revision)) if commit.number == self.number => {
                        self.seen = revision;
                        Ok(Tried::Done)
                    }
                    _ => Err(self.failed(CallError::Unanswered(why))),
                }
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Takes in metadata that is not what this process saw last, though it leads.
    fn look_at(&mut self, entry: &Entry) -> Result<Tried, MetaError> {
        match self.is_of_this_term(entry) {
            // This commit, repeated by the way here.
            Some(commit) if commit.number == self.number => {
                self.seen = entry.mod_revision;
                Ok(Tried::Done)
            }
            // An earlier one whose answer was lost.
            Some(_) => {
                self.seen = entry.mod_revision;
                Ok(Tried::Again)
            }
            // Somebody has removed it.
            None if entry.mod_revision == 0 => {
                self.seen = 0;
                Ok(Tried::Again)
            }
            // Of a term that was not this process's.
            None => Err(MetaError::Deposed),
        }
    }

    fn unreadable(&self, unreadable: &Unreadable) -> MetaError {
        let location = &self.location;
        MetaError::Failed(match unreadable {
            Unreadable::OtherVersion(version) => format!(
                "what {location} has is {version}, which this version of sidle does not read. It was not \
                 overwritten. Start the version that wrote it"
            ),
            Unreadable::Damaged(why) => format!(
                "what {location} has is not readable cluster metadata ({why}). It was not overwritten. Put a copy of \
                 the key /sidle/{}/metadata back, taken since the last change of the cluster",
                location.name
            ),
        })
    }
}

impl MetaStore for EtcdMetaStore {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        let what = self.keys.metadata();
        let entry = self.read(what)?;
        self.seen = entry.mod_revision;
        if let Some(commit) = self.is_of_this_term(&entry) {
            self.number = self.number.max(commit.number);
        }
        if entry.mod_revision == 0 {
            return Ok(None);
        }
        value::read(&entry.value).map(Some).map_err(|unreadable| self.unreadable(&unreadable))
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        // A number is used once, also by a commit that fails.
        self.number += 1;
        let value = value::write(Commit { term: self.term, number: self.number }, metadata);
        if value.len() > MAX_VALUE_BYTES {
            return Err(MetaError::Failed(format!(
                "the cluster's metadata would have {} bytes, and {} takes {MAX_VALUE_BYTES}: the cluster is not \
                 changed. Move ranges back together, or have fewer nodes",
                value.len(),
                self.location
            )));
        }
        for _ in 0..TRIES {
            if let Tried::Done = self.put(&value)? {
                return Ok(());
            }
        }
        Err(self.failed(CallError::Unanswered("the metadata changes under way".to_owned())))
    }

    fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError> {
        let what = self.keys.metadata_revision();
        match self.read(what)?.mod_revision {
            revision if revision == self.seen => Ok(Place::Kept),
            0 => self.commit(metadata).map(|()| Place::WrittenAnew),
            _ => self.commit(metadata).map(|()| Place::Kept),
        }
    }

    fn term(&self) -> Term {
        self.term
    }
}
