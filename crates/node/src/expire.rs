//! Active expiry: keys that nobody asks for are removed some time after their deadline.
//!
//! Readers take an expired value for absent at once; this only gives the memory back. In a frozen range nothing is
//! removed (M2), and while a range is imported what is removed leaves a tombstone (M6), or the source's copy would come
//! back from the dead. What is copied at present is marked (M11).

use crate::now::Now;
use crate::range_table::Role;
use crate::worker::Worker;
use sidle_store::{Entry, ExpirySample, Leave};

impl Worker {
    /// Looks at about `budget` values with a deadline, from a random place on, and removes those that are past it. To
    /// be called again soon while a good part of what was looked at had expired.
    pub fn expire(&mut self, now: Now, budget: usize) -> ExpirySample {
        self.pass_boundary();
        let random = self.random.next();
        let Worker { store, head, ranges, stats, bugs, .. } = self;
        store.sample_expired(random, budget, now.wall, &mut |record| {
            let entry = ranges.entry_at(record.position());
            let leave = match &entry.role {
                Role::Owned => Leave::Nothing,
                Role::Exporting(_) if bugs.frozen_source_expires => Leave::Nothing,
                Role::Importing(view) if view.activated() && bugs.expiry_leaves_no_tombstone => {
                    Leave::Nothing
                }
                Role::Importing(view) if view.activated() && view.leaves_tombstones() => Leave::Tombstone,
                Role::Importing(view) if view.activated() => Leave::Nothing,
                _ => return,
            };
            let key = record.hashed_key();
            let mut slot = store.lock_slot(key.slot());
            let is_expired = matches!(slot.get(key), Entry::Value(record) if record.is_expired(now.wall));
            if is_expired {
                slot.remove(head, key, leave).expect("what has an entry can be removed");
                stats.expired.add(1);
                if let Some(view) = &entry.tracked {
                    view.mark(key.position());
                }
            }
        })
    }
}
