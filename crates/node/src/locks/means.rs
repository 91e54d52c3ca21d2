//! What commands about transactions are run with.

use super::claims::Claims;
use crate::forward::Holds;
use crate::keyspace::Scene;
use crate::queue::WorkerIndex;
use sidle_store::{LogHead, Store};
use sidle_types::HashedKey;

/// The worker's part of the store, and what all commands share.
pub(crate) struct Means<'e> {
    pub(crate) store: &'e Store,
    pub(crate) head: &'e mut LogHead,
    pub(crate) scene: Scene<'e>,
    pub(crate) holds: &'e Holds,
    pub(crate) claims: &'e Claims,
    pub(crate) worker: WorkerIndex,
    /// Whether the request holds its keys itself (F8).
    pub(crate) has_hold: bool,
    /// The longest reply.
    pub(crate) most: usize,
    /// No memory was found: what frees some may take of the cleaner's reserve.
    pub(crate) is_short: bool,
}

impl Means<'_> {
    /// Whether another command holds one of these keys, under whose locks it is called (F8).
    pub(super) fn is_held(&self, keys: &[HashedKey<'_>]) -> bool {
        self.holds.is_any() && !self.has_hold && self.holds.forbid(keys, true, self.worker)
    }
}
