//! The numbers of a client's requests that are to run once.

use sidle_client_core::OnceRequests;
use sidle_types::{Slot, WallMs};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The numbers of a client, whose handles share them.
#[derive(Debug)]
pub(crate) struct Numbers(Mutex<OnceRequests>);

impl Numbers {
    /// Of a new client.
    pub(crate) fn new() -> Arc<Numbers> {
        let random = RandomState::new();
        let name = u128::from(random.hash_one(1)) << 64 | u128::from(random.hash_one(2));
        Arc::new(Numbers(Mutex::new(OnceRequests::new(name))))
    }

    fn lock(&self) -> MutexGuard<'_, OnceRequests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that is open until this goes.
pub(crate) struct Open<'n> {
    numbers: &'n Numbers,
    number: u64,
}

impl Open<'_> {
    /// The next one, and the words of a command with it.
    pub(crate) fn begin<'n>(
        numbers: &'n Numbers,
        slot: Slot,
        issued: WallMs,
        args: &[&[u8]],
    ) -> (Open<'n>, Vec<Vec<u8>>) {
        let (number, words) = numbers.lock().begin(slot, issued, args);
        (Open { numbers, number }, words)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.numbers.lock().end(self.number);
    }
}
