//! Priority pulls: keys that commands wait for.
//!
//! Each key is asked for once, however many commands wait for it. A command is woken only when the store's
//! answer for its key is final. Either the record is here (by this pull, or by its partition's), or the
//! source has none and a mark of absence is here. With the mark "absent" is known here without a second pull.
//! Without memory for either, the command fails. The store drops marks when it needs their memory: then the
//! next request for the key pulls it again.
//!
//! A record larger than a reply may be arrives in pieces, each by its own pull, and other keys' pulls go in
//! between (large_keys). Of a collection that was copied ahead only a patch arrives (copies).
//!
//! Realises: Rocksteady 2.3.3 (asynchronous, batched, de-duplicated; at most 16 keys). Opted-in clients are
//! asked to retry if the protocol does so; for them a key is wanted without a waiting command. Deviation: all
//! other clients' commands are parked and answered.

use super::copies::Copies;
use super::large_keys::{Key, LargeKeys};
use super::parts::TargetParts;
use super::records::{Records, Untaken};
use crate::cuts::PositionsGiven;
use crate::resend::Resend;
use crate::tuning::{KEYS_WANTED_MAX, PRIORITY_REQUEST_BYTES, PRIORITY_RESEND_US, PRIORITY_WAITERS_MAX};
use crate::{Breach, ImportPhase, ImportView, PriorityPulls, TargetEvent, Waiter, WaiterRefusal};
use sidle_store::{Entry, Leave, LogHead, Store};
use sidle_types::{Fill, HashedKey, MonotonicUs, Position, PositionRange, fault};
use sidle_wire::{Lane, Piece, PriorityPull, PriorityPullReply};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Debug)]
struct InFlight {
    sequence: u64,
    keys: Vec<Key>,
    /// It is of the first of the large keys.
    is_of_large: bool,
    resend: Resend,
}

/// The commands that wait for one key; none, if it is only wanted.
#[derive(Debug)]
struct Waiting {
    position: Position,
    waiters: Vec<Waiter>,
}

/// What one command waits for.
#[derive(Debug, Default)]
struct Places {
    /// Its keys, including those that have arrived.
    keys: Vec<Key>,
    /// How many have not.
    left: usize,
}

/// Keys that commands wait for, and keys that clients will retry while there are fewer than
/// [`KEYS_WANTED_MAX`] in all.
///
/// A command that something else wakes, or whose client leaves, still counts here until the pull returns;
/// none returns while the source is unreachable. So the node's bound on parked commands does not bound this
/// queue, and it has its own: [`PRIORITY_WAITERS_MAX`].
#[derive(Debug)]
pub(super) struct PriorityQueue {
    choices: PriorityPulls,
    waiting: BTreeMap<Key, Waiting>,
    /// How many commands wait for all of them.
    waiters: usize,
    /// The same by command.
    places: BTreeMap<Waiter, Places>,
    /// The command of each worker that was refused last: its other requests are still arriving.
    refused: BTreeMap<u16, u64>,
    /// Keys not in flight, in the order they were asked for. Those that have arrived meanwhile are skipped.
    queue: VecDeque<Key>,
    large: LargeKeys,
    next_sequence: u64,
    in_flight: Vec<InFlight>,
}

impl PriorityQueue {
    pub(super) fn new(choices: PriorityPulls) -> PriorityQueue {
        PriorityQueue {
            choices,
            waiting: BTreeMap::new(),
            waiters: 0,
            places: BTreeMap::new(),
            refused: BTreeMap::new(),
            queue: VecDeque::new(),
            large: LargeKeys::default(),
            next_sequence: 0,
            in_flight: Vec::new(),
        }
    }

    /// How many pulls may be in flight. While bulk stalls for lack of memory, even a protocol without
    /// priority pulls makes them: a deletion that would free memory may wait for its key.
    fn most_in_flight(&self, is_stalled: bool) -> usize {
        if is_stalled { self.choices.in_flight.max(1) } else { self.choices.in_flight }
    }

    /// How full the queues are.
    pub(super) fn queues(&self) -> impl Iterator<Item = Fill> {
        let in_flight = self.in_flight.len();
        let queues = [
            Fill::new("commands that wait for a key", self.waiters, PRIORITY_WAITERS_MAX),
            Fill::new("keys that are waited for", self.waiting.len(), self.waiters + KEYS_WANTED_MAX),
            Fill::new("keys to be pulled", self.queue.len(), 2 * PRIORITY_WAITERS_MAX + KEYS_WANTED_MAX),
            Fill::new("priority pulls under way", in_flight, self.most_in_flight(true)),
        ];
        queues.into_iter().chain(self.large.queues(2 * PRIORITY_WAITERS_MAX + KEYS_WANTED_MAX))
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        self.in_flight.iter_mut().for_each(|pull| pull.resend.expire(now));
    }

    pub(super) fn reconnected(&mut self) {
        self.in_flight.iter_mut().for_each(|pull| pull.resend.reset());
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.in_flight.iter().filter_map(|pull| pull.resend.deadline()).min()
    }

    /// Forgets everything; returns the waiting commands.
    pub(super) fn stop(&mut self) -> impl Iterator<Item = Waiter> + use<> {
        self.queue.clear();
        self.large = LargeKeys::default();
        self.in_flight.clear();
        self.waiters = 0;
        self.places.clear();
        std::mem::take(&mut self.waiting).into_values().flat_map(|waiting| waiting.waiters)
    }

    /// Adds a command to the key's waiters, or just the key; false if there is no room for the command.
    fn add(&mut self, copies: &Copies, key: HashedKey<'_>, waiter: Option<Waiter>) -> bool {
        let is_refused = |waiter: Waiter| self.refused.get(&waiter.worker) == Some(&waiter.ticket);
        if waiter.is_some_and(|waiter| self.waiters == PRIORITY_WAITERS_MAX || is_refused(waiter)) {
            return false;
        }
        let bytes = match self.waiting.get_key_value(key.bytes()) {
            Some((bytes, _)) => Arc::clone(bytes),
            None => {
                let bytes: Key = key.bytes().into();
                let waiting = Waiting { position: key.position(), waiters: Vec::new() };
                self.waiting.insert(Arc::clone(&bytes), waiting);
                if copies.has_key(key.position(), key.bytes()) {
                    self.large.add(&bytes);
                } else {
                    self.queue.push_back(Arc::clone(&bytes));
                }
                bytes
            }
        };
        if let Some(waiter) = waiter {
            self.large.hurry(&bytes);
            self.waiters += 1;
            self.waiting.get_mut(&bytes).expect("it is there").waiters.push(waiter);
            let places = self.places.entry(waiter).or_default();
            places.left += 1;
            places.keys.push(bytes);
        }
        true
    }

    /// Refuses a command: it returns the places that it has taken, and takes no more.
    fn refuse(&mut self, refused: Waiter) {
        self.refused.insert(refused.worker, refused.ticket);
        let Some(places) = self.places.remove(&refused) else { return };
        self.waiters -= places.left;
        // Those added last are last in the queue.
        for key in places.keys.into_iter().rev() {
            let Some(waiting) = self.waiting.get_mut(&key) else { continue };
            let before = waiting.waiters.len();
            waiting.waiters.retain(|waiter| *waiter != refused);
            if waiting.waiters.is_empty() && before > 0 {
                self.waiting.remove(&key);
                self.take_off_queue(&key);
            }
        }
    }

    /// A key is not to be pulled, unless it is in flight already.
    fn take_off_queue(&mut self, key: &Key) {
        let is_it = |other: &Key| Arc::ptr_eq(other, key);
        if !self.in_flight.iter().any(|pull| pull.keys.iter().any(is_it)) {
            // It was asked for recently: it is among the last.
            let place = self.queue.iter().rposition(is_it);
            place.map(|place| self.queue.remove(place));
        }
    }

    /// These commands wait for one key less each.
    fn leave(&mut self, waiters: &[Waiter]) {
        self.waiters -= waiters.len();
        for waiter in waiters {
            let Some(places) = self.places.get_mut(waiter) else { continue };
            places.left -= 1;
            if places.left == 0 {
                self.places.remove(waiter);
            }
        }
    }

    /// Removes and returns the key's waiters.
    fn take(&mut self, key: &[u8]) -> Vec<Waiter> {
        let waiters = self.waiting.remove(key).map(|waiting| waiting.waiters).unwrap_or_default();
        self.leave(&waiters);
        waiters
    }

    /// Removes and returns the waiters for keys in this range.
    fn take_covered(&mut self, covered: PositionRange) -> Vec<Waiter> {
        self.take_at(|position| covered.contains(position))
    }

    /// Removes and returns the waiters for keys at positions for which this holds.
    pub(super) fn take_at(&mut self, holds: impl Fn(Position) -> bool) -> Vec<Waiter> {
        let taken = self.waiting.extract_if(.., |_, waiting| holds(waiting.position));
        let waiters: Vec<Waiter> = taken.flat_map(|(_, waiting)| waiting.waiters).collect();
        self.leave(&waiters);
        if self.queue.len() > PRIORITY_WAITERS_MAX {
            // Keys that have arrived with their partition have no waiters any more.
            self.queue.retain(|key| self.waiting.contains_key(key));
        }
        waiters
    }

    /// The keys of the next pull, and the waiters for some that arrived meanwhile. Large keys alternate with
    /// the others.
    fn next_pull(
        &mut self,
        store: &Store,
        view: &ImportView,
        copies: &mut Copies,
    ) -> (Option<InFlight>, Vec<Waiter>) {
        let (large, mut arrived) = self.next_large(store, view, copies);
        let mut keys = Vec::new();
        if large.is_none() || self.large.yields {
            let (others, others_arrived) = self.next_batch(store, view);
            arrived.extend(others_arrived);
            keys = others;
        }
        let is_of_large = keys.is_empty() && large.is_some();
        self.large.yields = is_of_large;
        self.large.is_begun |= is_of_large;
        keys.extend(large.filter(|_| is_of_large));
        if keys.is_empty() {
            return (None, arrived);
        }
        self.next_sequence += 1;
        let (sequence, resend) = (self.next_sequence, Resend::new(PRIORITY_RESEND_US));
        (Some(InFlight { sequence, keys, is_of_large, resend }), arrived)
    }

    /// The large key to pull a piece of, if none is under way. Those that are not needed are dropped; their
    /// waiters are returned.
    fn next_large(
        &mut self,
        store: &Store,
        view: &ImportView,
        copies: &mut Copies,
    ) -> (Option<Key>, Vec<Waiter>) {
        let mut arrived = Vec::new();
        if self.in_flight.iter().any(|pull| pull.is_of_large) {
            return (None, arrived);
        }
        while let Some(key) = self.large.first().cloned() {
            if self.waiting.contains_key(&key) && !is_settled(store, view, HashedKey::new(&key)) {
                return (Some(key), arrived);
            }
            arrived.extend(self.take(&key));
            self.large.remove(&key);
            copies.forget(Position::of_key(&key));
        }
        (None, arrived)
    }

    /// Takes a piece that answers a pull; the records when nothing is missing. A large key that is not the
    /// first waits for its turn, and this piece is not kept.
    fn join<'b>(
        &mut self,
        index: usize,
        parts: &mut TargetParts,
        store: &Store,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<Option<Records<'b>>, Untaken> {
        let is_under_way = self.in_flight.iter().any(|pull| pull.is_of_large);
        let InFlight { keys, is_of_large, .. } = &self.in_flight[index];
        if piece.position != Position::of_key(&keys[0]) {
            return Err(Untaken::Corrupt("a piece of another key".to_owned()));
        }
        let is_taken = match is_of_large {
            true => self.large.first() == Some(&keys[0]),
            false => self.large.add(&keys[0]) && !is_under_way,
        };
        if is_taken { self.large.join(parts, store, piece, bytes) } else { Ok(None) }
    }

    /// The answer to a pull ends before the first of its keys is answered.
    fn not_answered(&mut self, index: usize) {
        let pull = self.in_flight.swap_remove(index);
        pull.keys.into_iter().skip(1).rev().for_each(|key| self.queue.push_front(key));
    }

    /// Takes keys for one pull off the queue. Keys that arrived meanwhile are left out; their waiters are
    /// returned.
    fn next_batch(&mut self, store: &Store, view: &ImportView) -> (Vec<Key>, Vec<Waiter>) {
        let (mut keys, mut arrived, mut bytes) = (Vec::new(), Vec::new(), 0);
        while keys.len() < self.choices.batch && bytes < PRIORITY_REQUEST_BYTES {
            let Some(key) = self.queue.pop_front() else { break };
            if is_settled(store, view, HashedKey::new(&key)) {
                arrived.extend(self.take(&key));
                continue;
            }
            bytes += key.len();
            keys.push(key);
        }
        (keys, arrived)
    }

    /// The positions that the next cut gives out of turn, at most so many; and the waiters for keys that
    /// arrived meanwhile. The others wait until [`wake_taken`](Self::wake_taken). Those for which there is no
    /// room wait for their turn, or for a cut that gives all.
    pub(super) fn positions_for_cut(
        &mut self,
        store: &Store,
        view: &ImportView,
        (most, gives_all_when_full): (usize, bool),
    ) -> (Vec<Position>, Vec<Waiter>) {
        let (mut positions, mut arrived) = (Vec::new(), Vec::new());
        while positions.len() < most {
            let Some(key) = self.queue.pop_front() else { break };
            let Some(waiting) = self.waiting.get(&key) else { continue };
            let position = waiting.position;
            let has_room = view.has_room_out_of_turn(positions.len() + 1);
            if is_settled(store, view, HashedKey::new(&key)) {
                arrived.extend(self.take(&key));
            } else if has_room && PositionsGiven::may_have(position) {
                positions.push(position);
            } else if !has_room && gives_all_when_full {
                self.queue.push_front(key);
                break;
            }
        }
        positions.sort_unstable();
        positions.dedup();
        (positions, arrived)
    }

    /// Whether there are keys for the next cut.
    pub(super) fn is_asked(&self) -> bool {
        !self.queue.is_empty()
    }

    /// There is no memory for the keys of the next cut.
    pub(super) fn refuse_all(&mut self, parts: &mut TargetParts) {
        for key in std::mem::take(&mut self.queue) {
            let waiters = self.take(&key).into_iter();
            parts.events.extend(waiters.map(out_of_memory));
        }
    }

    /// There is no memory for the cut in flight, which comes before all else: the commands that wait fail.
    pub(super) fn refuse_waiting(&mut self, parts: &mut TargetParts) {
        parts.events.extend(self.stop().map(out_of_memory));
    }

    /// There is no memory for what stands at these positions, which the source keeps.
    pub(super) fn refuse_at(&mut self, parts: &mut TargetParts, positions: &[Position]) {
        let refused = self.take_at(|position| positions.binary_search(&position).is_ok());
        parts.events.extend(refused.into_iter().map(out_of_memory));
    }

    /// These positions have been given out of turn.
    pub(super) fn wake_taken(&mut self, parts: &mut TargetParts, positions: &[Position]) {
        let is_given = |position| positions.binary_search(&position).is_ok();
        let taken = self.waiting.extract_if(.., |_, waiting| is_given(waiting.position));
        let mut waiters: Vec<Waiter> = taken.flat_map(|(_, waiting)| waiting.waiters).collect();
        self.leave(&waiters);
        if fault!(LostWake) {
            waiters.truncate(1);
        }
        parts.wake(waiters);
    }

    pub(super) fn pull_at_once(
        &mut self,
        parts: &mut TargetParts,
        store: &Store,
        key: &[u8],
        waiter: Waiter,
    ) {
        let key = HashedKey::new(key);
        if is_settled(store, parts.writer.view(), key) {
            parts.events.push_back(TargetEvent::Wake(waiter));
        } else if !self.add(&parts.copies, key, Some(waiter)) {
            self.refuse(waiter);
            parts.events.push_back(TargetEvent::Refuse(waiter, WaiterRefusal::TooManyWait));
        }
    }

    /// A client will retry this key.
    pub(super) fn pull_soon(&mut self, parts: &TargetParts, store: &Store, key: &[u8]) {
        let key = HashedKey::new(key);
        let is_full = self.waiting.len() >= KEYS_WANTED_MAX;
        if !is_full && !is_settled(store, parts.writer.view(), key) {
            let has_room = self.add(&parts.copies, key, None);
            debug_assert!(has_room, "a key without a command takes no command's place");
        }
    }

    /// A partition's pull has come to a collection that is copied, and waits for its patch.
    pub(super) fn pull_patch(&mut self, parts: &mut TargetParts, store: &Store, position: Position) {
        let Some(key) = parts.copies.key_at(position) else { return };
        let is_settled = is_settled(store, parts.writer.view(), HashedKey::new(&key));
        if is_settled && !self.in_flight.iter().any(|pull| pull.is_of_large) {
            parts.copies.forget(position);
        } else {
            self.pull_soon(parts, store, &key);
        }
    }

    /// Whether keys are pulled out of turn.
    pub(super) fn is_on(&self) -> bool {
        self.choices.in_flight > 0
    }

    /// Everything in this range is here, by its partition's pull.
    pub(super) fn wake_covered(&mut self, parts: &mut TargetParts, covered: PositionRange) {
        parts.wake(self.take_covered(covered));
    }

    pub(super) fn transmit(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        out: &mut Vec<u8>,
    ) -> bool {
        if parts.phase() != ImportPhase::Serving {
            return false;
        }
        if !self.in_flight.iter().any(|pull| pull.resend.is_due())
            && self.in_flight.len() < self.most_in_flight(parts.stall.is_some())
        {
            let TargetParts { writer, copies, .. } = &mut *parts;
            let (pull, arrived) = self.next_pull(store, writer.view(), copies);
            parts.wake(arrived);
            self.in_flight.extend(pull);
        }
        let Some(pull) = self.in_flight.iter_mut().find(|pull| pull.resend.is_due()) else {
            return false;
        };
        pull.resend.sent(now);
        let in_hand = self.large.in_hand(&parts.copies).filter(|_| pull.is_of_large);
        PriorityPull::write(parts.scope, pull.sequence, pull.keys.iter().map(|key| &**key), in_hand, out)
            .expect("keys of a bounded length in all, and one more");
        parts.counters.priority_pulls += 1;
        true
    }

    pub(super) fn priority_pulled(
        &mut self,
        parts: &mut TargetParts,
        store: &Store,
        lane: Lane,
        reply: &PriorityPullReply<'_>,
    ) -> Result<(), Untaken> {
        let sequence = reply.sequence;
        let Some(index) = self.in_flight.iter().position(|pull| pull.sequence == sequence) else {
            return Ok(());
        };
        if parts.phase() != ImportPhase::Serving {
            return Ok(());
        }
        let asked = self.in_flight[index].keys.len();
        parts.counters.pieces += u64::from(reply.piece.is_some());
        let parsed = match reply.piece {
            Some(piece) => self.join(index, parts, store, piece, reply.batch),
            None if !(1..=asked).contains(&reply.answered) => {
                Err(Untaken::Corrupt("no key is answered, or too many".to_owned()))
            }
            None => Records::parse(reply.batch).map(Some),
        };
        let complete = match &parsed {
            Ok(Some(Records::Arrived(_, piece))) => Some(*piece),
            _ => None,
        };
        let inserted = match parsed {
            Ok(Some(records)) => parts.insert(store, records, parts.spec.range, reply.batch.len()),
            Ok(None) => {
                self.not_answered(index);
                parts.counters.bytes_moved += reply.batch.len() as u64;
                parts.proved(lane);
                return Ok(());
            }
            Err(untaken) => Err(untaken),
        };
        let no_memory = match inserted {
            Ok(_) => false,
            Err(Untaken::OutOfMemory) => true,
            Err(untaken) => return Err(untaken),
        };
        parts.proved(lane);
        complete.filter(|_| !no_memory).into_iter().for_each(|piece| parts.copies.completed(piece));
        self.answered(index, parts, store, lane, reply, no_memory);
        Ok(())
    }

    /// Wakes those who wait for the keys that a reply answers; the other keys are asked for again.
    fn answered(
        &mut self,
        index: usize,
        parts: &mut TargetParts,
        store: &Store,
        lane: Lane,
        reply: &PriorityPullReply<'_>,
        no_memory: bool,
    ) {
        let mut keys = self.in_flight.swap_remove(index).keys;
        // A piece answers only the first key.
        let mut unanswered = keys.split_off(reply.answered.max(1));
        for (index, key) in keys.into_iter().enumerate() {
            self.large.remove(&key);
            parts.copies.forget(Position::of_key(&key));
            let is_absent = reply.absent.contains(index);
            let is_here = settle(store, &mut parts.head, HashedKey::new(&key), is_absent);
            if !is_here && !is_absent && !no_memory {
                let reason = "a key is neither absent nor in the batch".to_owned();
                parts.breach(lane, Breach::CorruptBatch(reason));
                unanswered.push(key);
                continue;
            }
            let event = |waiter| match is_here {
                true => TargetEvent::Wake(waiter),
                false => out_of_memory(waiter),
            };
            let mut waiters = self.take(&key);
            if fault!(LostWake) {
                waiters.truncate(1);
            }
            parts.events.extend(waiters.into_iter().map(event));
        }
        unanswered.into_iter().rev().for_each(|key| self.queue.push_front(key));
    }
}

/// There is no memory for what the command waits for.
fn out_of_memory(waiter: Waiter) -> TargetEvent {
    TargetEvent::Refuse(waiter, WaiterRefusal::OutOfMemory)
}

/// Whether the store's answer for the key is final: it has an entry, or all of the source's records are here.
fn is_settled(store: &Store, view: &ImportView, key: HashedKey<'_>) -> bool {
    // M7: progress before the store.
    // M23: where it is given bit by bit, an entry may be an outdated copy.
    view.has_arrived(key.position()) || !view.is_by_cuts() && !matches!(store.pin().get(key), Entry::Absent)
}

/// Whether the store has an entry for a key that the source has answered for; creates a mark of absence if
/// the source does not have the key.
fn settle(store: &Store, head: &mut LogHead, key: HashedKey<'_>, is_absent: bool) -> bool {
    let slot = store.lock_slot(key.slot());
    let overwrites = fault!(AbsentAnswerOverwrites) && is_absent;
    if overwrites {
        return slot.remove(head, key, Leave::Tombstone).is_ok();
    }
    !matches!(slot.get(key), Entry::Absent) || is_absent && slot.mark_absent(head, key).is_ok()
}
