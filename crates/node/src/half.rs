//! The fault `half-mset-visible`: an MSET that is two changes.
//!
//! Threads of a simulated node take turns between commands. So the fault ends its turn in the middle: the
//! command parks with its first key published, and publishes the rest when it is woken and finds that key as
//! it left it.

use crate::call::CommandResult;
use crate::dispatch::{Clearance, Request};
use crate::now::Now;
use crate::parking::Ticket;
use crate::routing::INLINE_KEYS;
use crate::session::Session;
use crate::worker::Worker;
use sidle_commands::Split;
use smallvec::SmallVec;

/// What became of a half.
pub(crate) enum Half {
    /// It was the first.
    First(Ticket),
    /// It was the last.
    Last(CommandResult),
}

impl Worker {
    /// Runs the first half of an MSET, or the second; nothing if it is no MSET of several keys.
    pub(crate) fn call_half(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        clearance: &Clearance,
        out: &mut Vec<u8>,
    ) -> Option<Half> {
        let Request { found, keys, args } = request;
        if found.spec.split != Split::AllOk || keys.len() < 2 || args.len() != 1 + 2 * keys.len() {
            return None;
        }
        let pin = self.executor.store.pin();
        let is_last = pin.get(keys[0]).value().is_some_and(|record| record.value() == args[2]);
        drop(pin);
        let (places, words) = if is_last { (1..keys.len(), 3..args.len()) } else { (0..1, 1..3) };
        let words: SmallVec<[&[u8]; 2 * INLINE_KEYS]> =
            args[..1].iter().chain(&args[words]).copied().collect();
        let half = Request { found, keys: &keys[places], args: &words };
        let start = out.len();
        let (result, _) = self.call(now, session, half, clearance, out);
        if is_last || result.is_err() {
            return Some(Half::Last(result));
        }
        out.truncate(start);
        Some(Half::First(self.parking.park_for_a_turn()))
    }
}
