//! The commands of one worker that a pause of the node's clients holds up, in the order of their arrival.
//!
//! None of them has run. Ownership: a worker's dispatcher.

use crate::clients::ClientRecord;
use crate::parking::ParkingLot;
use crate::queue::Ticket;
use sidle_types::MonotonicUs;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The commands that are held up.
#[derive(Debug, Default)]
pub(crate) struct HeldUp {
    /// Later ones have greater tickets.
    commands: BTreeMap<Ticket, Arc<ClientRecord>>,
    /// When the pause ends.
    until: MonotonicUs,
}

impl HeldUp {
    /// Holds a command up.
    pub(crate) fn add(
        &mut self,
        client: Arc<ClientRecord>,
        until: MonotonicUs,
        lot: &mut ParkingLot,
    ) -> Ticket {
        let ticket = lot.park_for_a_new_table();
        client.note_held_up(true);
        self.commands.insert(ticket, client);
        self.until = until;
        ticket
    }

    /// It runs again, or its client is gone; whether it was held up.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> bool {
        let client = self.commands.remove(&ticket);
        client.iter().for_each(|client| client.note_held_up(false));
        client.is_some()
    }

    /// All of them look again.
    pub(crate) fn wake(&mut self, lot: &mut ParkingLot) {
        for (ticket, client) in std::mem::take(&mut self.commands) {
            client.note_held_up(false);
            lot.wake(ticket);
        }
    }

    /// The same if the pause is over by its time.
    pub(crate) fn wake_over(&mut self, now: MonotonicUs, lot: &mut ParkingLot) {
        if self.next_end().is_some_and(|end| end <= now) {
            self.wake(lot);
        }
    }

    /// When that is, if there are any.
    #[inline]
    pub(crate) fn next_end(&self) -> Option<MonotonicUs> {
        (!self.commands.is_empty()).then_some(self.until)
    }
}
