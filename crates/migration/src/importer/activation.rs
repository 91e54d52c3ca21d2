//! Activation: the instant from which this node acknowledges requests for the range.
//!
//! M3: only `Activate`, sent by the source after its freeze barrier, makes the import take records and serve,
//! at once or, where the protocol says so, when everything is here. What has to hold before the first reply
//! (versions only grow) is done before the view says so. M10: a repeated `Activate` is only answered again.

use super::Importer;
use crate::{Serves, TargetEvent};
use sidle_store::Store;
use sidle_types::Version;

impl Importer {
    pub(super) fn activate(&mut self, store: &Store, highest_version: Version, records: u64) {
        self.owes_activated = true;
        if self.writer.view().source_is_frozen() {
            return;
        }
        self.writer.expect(records);
        store.raise_version_floor(self.spec.range, highest_version);
        match self.spec.protocol.serves {
            Serves::AtActivation => {
                self.writer.activate();
                self.events.push_back(TargetEvent::Activated);
            }
            // The activation is told when the last record is here.
            Serves::WhenAllIsHere => self.writer.fill(),
        }
        for waiter in std::mem::take(&mut self.flushes) {
            self.flush(waiter);
        }
        self.last_round_begins();
    }

    pub(super) fn transmit_activated(&mut self, out: &mut Vec<u8>) -> bool {
        let owed = std::mem::take(&mut self.owes_activated);
        if owed {
            self.scope.write_activated(out);
        }
        owed
    }
}
