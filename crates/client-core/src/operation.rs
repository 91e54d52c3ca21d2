//! Operations in progress, in reused places: no allocation in a steady state.

use crate::config::KEPT_REQUEST_BYTES;
use crate::double_read::DoubleRead;
use crate::index::{ConnectionIndex, NodeIndex};
use crate::outcome::{Effect, Token};
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, Position};

/// An operation's possible effect, which decides what to do when it is uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// GET of one key: may be read from two nodes; repeated when a connection is lost.
    Get,
    /// Any other command without effect; repeated when a connection is lost.
    Read,
    /// A command with an effect; unknown when a connection is lost.
    Write,
    /// A command with an effect, as [`OnceRequests`](crate::OnceRequests) words it; repeated when a
    /// connection is lost.
    Once {
        /// Whether the same words may have run already, for an earlier operation.
        may_have_run: bool,
    },
}

/// An operation's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    /// The owner of its position.
    ByPosition,
    /// This node and no other.
    ToNode(NodeIndex),
    /// Any node.
    Anywhere,
}

/// One operation in progress.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) token: Token,
    /// Distinguishes the successive operations of one place.
    pub(crate) serial: u64,
    pub(crate) is_live: bool,
    pub(crate) class: Class,
    pub(crate) goes: Goes,
    pub(crate) position: Position,
    /// Answers under another number no longer count. Grows while the place exists.
    pub(crate) attempt: u32,
    pub(crate) tries: u8,
    /// The next attempt's destination instead, and whether with ASKING.
    pub(crate) redirect: Option<(NodeIndex, bool)>,
    /// Whether a request may have reached a node without an answer that rules out an effect.
    pub(crate) may_have_run: bool,
    /// The same of the attempts before (class Once): whatever answers later ones, it may have run.
    pub(crate) was_lost: bool,
    /// The connection and time of the last request to the owner.
    pub(crate) connection: ConnectionIndex,
    pub(crate) sent_at: MonotonicUs,
    /// The position's migration at the present attempt, if its source answers reads.
    pub(crate) migration: Option<MigrationId>,
    /// The map epoch of the present attempt.
    pub(crate) map_epoch: MapEpoch,
    pub(crate) read: Option<DoubleRead>,
    /// The answer of a double read's source that preceded the target's.
    pub(crate) source_value: Vec<u8>,
    pub(crate) source_is_null: bool,
    /// Its node.
    pub(crate) source: NodeIndex,
    /// The length of that reply; 0 when there is none.
    pub(crate) source_reply_bytes: u32,
    /// The whole request.
    pub(crate) request: Vec<u8>,
    /// The key's place in it (class Get).
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
            was_lost: false,
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

    /// The known effect if there is no answer any more.
    pub(crate) fn effect_without_answer(&self) -> Effect {
        let has_effect = matches!(self.class, Class::Write | Class::Once { .. });
        let may_have_run = has_effect && (self.may_have_run || self.was_lost);
        if may_have_run { Effect::Unknown } else { Effect::None }
    }
}

/// An operation's place in [`Operations`].
pub(crate) type Place = u32;

/// All operations in progress.
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
        operation.was_lost = matches!(class, Class::Once { may_have_run: true });
        operation.request.clear();
        Some(place)
    }

    /// Frees a place; later answers for it no longer count.
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

    /// The number of operations in progress.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Whether an answer to this attempt of the place's operation still counts.
    #[inline]
    pub(crate) fn is_attempt(&self, place: Place, attempt: u32) -> bool {
        let operation = &self.places[place as usize];
        operation.is_live && operation.attempt == attempt
    }

    /// Whether the operation with this serial number is still the place's.
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
