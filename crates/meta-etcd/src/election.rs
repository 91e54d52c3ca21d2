//! The campaign: a key that only one process can make, under a lease.

use crate::gateway::{CallError, Gateway};
use crate::kv::{Keys, Outcome, TXN, field, number, txn};
use crate::{EtcdLocation, EtcdMetaStore};
use serde_json::{Value as Json, json};
use sidle_cluster::{Election, MetaError, MetaStore, Seen, Term};

/// How long a lease lasts.
const LEASE_SECONDS: u64 = 5;

/// One process's part in the election of the leader.
#[derive(Debug)]
pub struct EtcdElection {
    gateway: Gateway,
    keys: Keys,
    location: EtcdLocation,
    /// The lease of the last campaign that was won, and its term.
    held: Option<(String, Term)>,
}

impl EtcdElection {
    /// A process that has not campaigned yet. Nothing is asked.
    pub fn new(location: &EtcdLocation) -> EtcdElection {
        let (gateway, keys) = (Gateway::new(location), Keys::of(&location.name));
        EtcdElection { gateway, keys, location: location.clone(), held: None }
    }

    fn call(&mut self, path: &str, body: &Json) -> Result<Json, MetaError> {
        self.gateway.call(path, body).map_err(|error| error.into_meta_error(&self.location))
    }

    fn transact(&mut self, transaction: &Json) -> Result<Outcome, MetaError> {
        let answer = self.call(TXN, transaction)?;
        Outcome::read(&answer).ok_or_else(|| self.not_understood())
    }

    fn not_understood(&self) -> MetaError {
        CallError::Unanswered("its answer is not understood".to_owned()).into_meta_error(&self.location)
    }

    /// Gives a lease back. If that fails it ends by itself.
    fn revoke(&mut self, lease: &str) {
        let _ = self.call("/v3/lease/revoke", &json!({"ID": lease}));
    }

    /// As [`Election::campaign`], with the store's own type.
    pub fn stand(&mut self, announced: &str) -> Result<Option<EtcdMetaStore>, MetaError> {
        self.resign();
        let granted = self.call("/v3/lease/grant", &json!({"TTL": LEASE_SECONDS.to_string()}))?;
        let lease = field(&granted, "ID").as_str().map(str::to_owned).ok_or_else(|| self.not_understood())?;
        let transaction =
            txn(&[self.keys.leader_made_in(0)], &[self.keys.put_leader(announced, &lease)], &[]);
        match self.transact(&transaction) {
            Ok(outcome) if outcome.succeeded => {
                let term = Term(outcome.revision);
                self.held = Some((lease, term));
                Ok(Some(EtcdMetaStore::new(&self.location, term)))
            }
            lost => {
                // A key that was made without an answer goes with its lease.
                self.revoke(&lease);
                lost.map(|_| None)
            }
        }
    }
}

impl Election for EtcdElection {
    fn look(&mut self) -> Result<Seen, MetaError> {
        let read = [self.keys.leader(), self.keys.metadata_revision()];
        let outcome = self.transact(&txn(&[], &read, &[]))?;
        let leader = outcome.entry(0);
        let announced = || String::from_utf8_lossy(&leader.value).into_owned();
        Ok(Seen {
            leader: (leader.create_revision > 0).then(announced),
            is_founded: outcome.entry(1).mod_revision > 0,
        })
    }

    fn campaign(&mut self, announced: &str) -> Result<Option<Box<dyn MetaStore + Send>>, MetaError> {
        Ok(self.stand(announced)?.map(|store| Box::new(store) as Box<dyn MetaStore + Send>))
    }

    fn extend(&mut self) -> Result<bool, MetaError> {
        let Some((lease, term)) = self.held.clone() else { return Ok(false) };
        let answer = self.call("/v3/lease/keepalive", &json!({"ID": lease}))?;
        if number(field(field(&answer, "result"), "TTL")) == 0 {
            return Ok(false);
        }
        let outcome = self.transact(&txn(&[self.keys.leader_made_in(term.0)], &[], &[]))?;
        Ok(outcome.succeeded)
    }

    fn resign(&mut self) {
        if let Some((lease, _)) = self.held.take() {
            self.revoke(&lease);
        }
    }

    fn lease_us(&self) -> u64 {
        LEASE_SECONDS * 1_000_000
    }
}
