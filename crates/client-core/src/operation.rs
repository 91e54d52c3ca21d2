//! Operations under way, in places that are used again and again: nothing is allocated in a steady state.

use crate::config::KEPT_REQUEST_BYTES;
use crate::double_read::DoubleRead;
use crate::index::{ConnectionIndex, NodeIndex};
use crate::outcome::{Effect, Token};
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, Position};

/// What an operation may do, and so what may be done with it when its fate is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// GET of one key: may be read from two nodes; sent anew when a connection is lost.
    Get,
    /// Any other command without effect; sent anew when a connection is lost.
    Read,
    /// A command with an effect; when a connection is lost its fate is unknown.
    Write,
}

/// Where an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    /// To the owner of its position.
    ByPosition,
    /// To this node and no other.
    ToNode(NodeIndex),
    /// To any node.
    Anywhere,
}

/// One operation under way.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) token: Token,
    /// Tells the operations that use one place after each other apart.
    pub(crate) serial: u64,
    pub(crate) is_live: bool,
    pub(crate) class: Class,
    pub(crate) goes: Goes,
    pub(crate) position: Position,
    /// Answers to anything sent under another number no longer count. Grows for as long as the place exists.
    pub(crate) attempt: u32,
    pub(crate) tries: u8,
    /// Where the next attempt goes instead, and whether as ASKING.
    pub(crate) redirect: Option<(NodeIndex, bool)>,
    /// Whether a request of this operation may have reached a node without an answer that says it had no
    /// effect.
    pub(crate) may_have_run: bool,
    /// On which connection the last request to the owner went, and when.
    pub(crate) connection: ConnectionIndex,
    pub(crate) sent_at: MonotonicUs,
    /// The migration that the position was part of when the present attempt was made, if its source answers
    /// reads.
    pub(crate) migration: Option<MigrationId>,
    /// The epoch of the map that the present attempt was made by.
    pub(crate) map_epoch: MapEpoch,
    pub(crate) read: Option<DoubleRead>,
    /// What the source of a double read answered before the target did.
    pub(crate) source_value: Vec<u8>,
    pub(crate) source_is_null: bool,
    /// Which node that was.
    pub(crate) source: NodeIndex,
    /// How long that reply was; 0 when there is none.
    pub(crate) source_reply_bytes: u32,
    /// The whole request.
    pub(crate) request: Vec<u8>,
    /// Where the key stands in it (class Get).
    pub(crate) key: std::ops::Range<u32>,
}

impl Operation {
    fn vacant() -> Operation {
        Operation {
            token: 0,
            serial: 0,
            is_live: false,
            class: Class::Read,
            goes: Goes::Anywhere,
            position: Position::FIRST,
            attempt: 0,
            tries: 0,
            redirect: None,
            may_have_run: false,
            connection: 0,
            sent_at: MonotonicUs(0),
            migration: None,
            map_epoch: MapEpoch(0),
            read: None,
            source_value: Vec::new(),
            source_is_null: false,
            source: 0,
            source_reply_bytes: 0,
            request: Vec::new(),
            key: 0..0,
        }
    }

    /// What is known of the effect if no answer comes any more.
    pub(crate) fn effect_without_answer(&self) -> Effect {
        if self.class == Class::Write && self.may_have_run { Effect::Unknown } else { Effect::None }
    }
}

/// Where an operation stands in [`Operations`].
pub(crate) type Place = u32;

/// All operations under way.
#[derive(Debug)]
pub(crate) struct Operations {
    places: Vec<Operation>,
    vacant: Vec<Place>,
    next_serial: u64,
    limit: usize,
}

impl Operations {
    pub(crate) fn new(limit: usize) -> Operations {
        assert!(limit <= u32::MAX as usize, "places are 32-bit numbers");
        Operations { places: Vec::new(), vacant: Vec::new(), next_serial: 0, limit }
    }

    /// A place for a new operation, or `None` when all are taken.
    #[inline]
    pub(crate) fn admit(&mut self, token: Token, class: Class, goes: Goes) -> Option<Place> {
        let place = match self.vacant.pop() {
            Some(place) => place,
            None if self.places.len() < self.limit => {
                self.places.push(Operation::vacant());
                self.places.len() as Place - 1
            }
            None => return None,
        };
        self.next_serial += 1;
        let operation = &mut self.places[place as usize];
        operation.token = token;
        operation.serial = self.next_serial;
        operation.is_live = true;
        operation.class = class;
        operation.goes = goes;
        operation.tries = 0;
        operation.redirect = None;
        operation.may_have_run = false;
        operation.request.clear();
        Some(place)
    }

    /// Gives a place back; answers that still come for it no longer count.
    #[inline]
    pub(crate) fn release(&mut self, place: Place) {
        let operation = &mut self.places[place as usize];
        debug_assert!(operation.is_live);
        operation.is_live = false;
        operation.attempt = operation.attempt.wrapping_add(1);
        for buffer in [&mut operation.request, &mut operation.source_value] {
            if buffer.capacity() > KEPT_REQUEST_BYTES {
                *buffer = Vec::new();
            }
        }
        self.vacant.push(place);
    }

    /// How many operations are under way.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Whether an answer to this attempt of the operation at the place still counts.
    #[inline]
    pub(crate) fn is_attempt(&self, place: Place, attempt: u32) -> bool {
        let operation = &self.places[place as usize];
        operation.is_live && operation.attempt == attempt
    }

    /// Whether the operation with this serial number is still the one at the place.
    #[inline]
    pub(crate) fn is_current(&self, place: Place, serial: u64) -> bool {
        let operation = &self.places[place as usize];
        operation.is_live && operation.serial == serial
    }
}

impl std::ops::Index<Place> for Operations {
    type Output = Operation;

    #[inline]
    fn index(&self, place: Place) -> &Operation {
        &self.places[place as usize]
    }
}

impl std::ops::IndexMut<Place> for Operations {
    #[inline]
    fn index_mut(&mut self, place: Place) -> &mut Operation {
        &mut self.places[place as usize]
    }
}
