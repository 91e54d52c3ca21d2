//! A migration's open exchange with the coordinator, in either role.

use crate::MigrationRecord;
use sidle_types::MapEpoch;

/// One migration's part of the exchange.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Whether the coordinator waits for the next message.
    pub(super) owes: bool,
    /// Its end, and the first map without it.
    over: Option<(Option<MigrationRecord>, MapEpoch)>,
    /// Whether the end was announced.
    announced: bool,
}

impl Talk {
    /// Whether its end was not announced.
    pub(super) fn is_held(&self) -> bool {
        !self.announced
    }

    /// Takes in from the coordinator that it is over.
    pub(super) fn over(&mut self, record: Option<MigrationRecord>, map_epoch: MapEpoch) {
        if self.is_held() {
            self.over.get_or_insert((record, map_epoch));
        }
    }

    /// Takes out the end, if the map in use is new enough for it.
    pub(super) fn take_end(&mut self, published: MapEpoch) -> Option<Option<MigrationRecord>> {
        let (record, _) = self.over.take_if(|(_, map_epoch)| *map_epoch <= published)?;
        self.announced = true;
        Some(record)
    }
}
