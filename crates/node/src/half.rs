//! The fault `half-mset-visible`: an MSET as two changes.
//!
//! Threads of a simulated node take turns between commands. So the fault ends its turn in the middle: the
//! command parks with its first key published. Woken, it publishes the rest if that key is unchanged.

use crate::request::Request;
use crate::routing::INLINE_KEYS;
use sidle_commands::Split;
use sidle_store::Store;
use sidle_types::HashedKey;
use smallvec::SmallVec;

/// Half of an MSET.
pub(crate) struct Half<'r> {
    request: Request<'r>,
    keys: &'r [HashedKey<'r>],
    words: SmallVec<[&'r [u8]; 2 * INLINE_KEYS]>,
    pub(crate) is_last: bool,
}

impl<'r> Half<'r> {
    /// The next half; `None` unless it is an MSET of several keys.
    pub(crate) fn next(store: &Store, request: Request<'r>) -> Option<Half<'r>> {
        let Request { found, keys, args } = request;
        if found.spec.split != Split::AllOk || keys.len() < 2 || args.len() != 1 + 2 * keys.len() {
            return None;
        }
        let is_last = store.pin().get(keys[0]).value().is_some_and(|record| record.value() == args[2]);
        let (places, words) = if is_last { (1..keys.len(), 3..args.len()) } else { (0..1, 1..3) };
        let words = args[..1].iter().chain(&args[words]).copied().collect();
        Some(Half { request, keys: &keys[places], words, is_last })
    }

    /// The half as a request.
    pub(crate) fn request(&self) -> Request<'_> {
        Request { found: self.request.found, keys: self.keys, args: &self.words }
    }
}
