//! A key space with private writes: commands read the writes of earlier ones, and nobody else sees any until
//! all are published.
//!
//! Purpose: a command that writes several keys, and later a transaction or a procedure of several commands,
//! takes effect whole or not at all. Memory for all writes is reserved before they are published, so no write
//! here fails.
//!
//! Ownership: one command, or one group of commands, under the locks of all their keys. The [`Underlay`] owns
//! the locked data.

use crate::keyspace::{Content, Keyspace, OutOfMemory, Value, Values};
use bumpalo::Bump;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sidle_collections::Limits;
use sidle_outline::{Large, Outline};
use sidle_types::{HashedKey, ValueKind, WallMs};
use std::collections::BTreeMap;
use typed_arena::Arena;

/// The data below an overlay. It does not change during the overlay's lifetime.
pub trait Underlay {
    /// The value of a key, unless expired.
    fn get<'g>(&'g self, key: HashedKey<'_>) -> Option<Value<'g>>;
    /// A collection of this outline, whose published chunks it lends.
    fn large<'g>(&'g self, outline: &'g Outline) -> Large<'g>;
    /// Whether all keys are locked and here.
    fn lends_all(&self) -> bool;
    /// Counts look-ups ([`Keyspace::count_look_ups`]).
    fn count_look_ups(&self, hits: usize, misses: usize);
    /// The longest value that may be written.
    fn longest_value_bytes(&self) -> u64;
    /// Up to which size collections are reported as small.
    fn collection_limits(&self) -> Limits;
    /// Whether all nodes of the cluster know collections.
    fn takes_collections(&self) -> bool;
    /// Fresh random bits.
    fn random(&self) -> u64;
}

/// A pending change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'g> {
    /// Sets this value and its expiry.
    Put(Value<'g>),
    /// Removes it.
    Remove,
}

/// A key space of unpublished writes.
pub struct Overlay<'g, U> {
    below: &'g U,
    /// Holds bytes that commands create; arguments outlive the overlay.
    arena: &'g Bump,
    /// Holds outlines that commands create.
    outlines: &'g Arena<Outline>,
    keys: &'g [HashedKey<'g>],
    /// In the order they were made. A key that was looked up since its last change has one.
    changes: Vec<(HashedKey<'g>, Change<'g>)>,
    /// For each key the index of its change among the first [`indexed`](Self::indexed) changes. Built on the
    /// first look-up: a command that only writes needs none.
    index: HashTable<usize>,
    indexed: usize,
    /// Nothing is below any more.
    is_cleared: bool,
}

impl<'g, U: Underlay> Overlay<'g, U> {
    /// An empty overlay for a command with these keys.
    pub fn new(
        below: &'g U,
        arena: &'g Bump,
        outlines: &'g Arena<Outline>,
        keys: &'g [HashedKey<'g>],
    ) -> Overlay<'g, U> {
        let changes = Vec::with_capacity(keys.len());
        Overlay {
            below,
            arena,
            outlines,
            keys,
            changes,
            index: HashTable::new(),
            indexed: 0,
            is_cleared: false,
        }
    }

    /// Continues with the next command and its keys.
    pub fn next_command(&mut self, keys: &'g [HashedKey<'g>]) {
        self.keys = keys;
    }

    /// The changes to publish, in this order and in one step.
    pub fn into_changes(self) -> Vec<(HashedKey<'g>, Change<'g>)> {
        self.changes
    }

    /// The same without those that a later value of their key replaces: of several commands, each may write
    /// the same key.
    pub fn into_last_changes(self) -> Vec<(HashedKey<'g>, Change<'g>)> {
        let mut next_puts: BTreeMap<&'g [u8], bool> = BTreeMap::new();
        let mut changes = self.changes;
        let mut is_kept = vec![true; changes.len()];
        for (number, (key, change)) in changes.iter().enumerate().rev() {
            let next_puts = next_puts.insert(key.bytes(), matches!(change, Change::Put(_)));
            // An outline is published once; a later one has its chunks.
            let is_large = matches!(change, Change::Put(Value { content: Content::Large(_), .. }));
            is_kept[number] = if is_large { next_puts.is_none() } else { next_puts != Some(true) };
        }
        let mut is_kept = is_kept.into_iter();
        changes.retain(|_| is_kept.next().unwrap_or(true));
        changes
    }

    /// As if all keys had been removed.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.index.clear();
        self.indexed = 0;
        self.is_cleared = true;
    }

    /// Whether all keys of the underlay are to be removed before the changes are published.
    pub fn is_cleared(&self) -> bool {
        self.is_cleared
    }

    /// How many changes there are.
    pub fn change_count(&self) -> usize {
        self.changes.len()
    }

    /// The last change of a key.
    fn change_of(&mut self, key: HashedKey<'g>) -> Option<&mut Change<'g>> {
        for number in self.indexed..self.changes.len() {
            let changed = self.changes[number].0;
            let is_same = |other: &usize| self.changes[*other].0.bytes() == changed.bytes();
            let hash = |other: &usize| self.changes[*other].0.hash().0;
            match self.index.entry(changed.hash().0, is_same, hash) {
                // The later one counts: it is published later, too.
                Entry::Occupied(mut entry) => *entry.get_mut() = number,
                Entry::Vacant(entry) => drop(entry.insert(number)),
            }
        }
        self.indexed = self.changes.len();
        let is_same = |other: &usize| self.changes[*other].0.bytes() == key.bytes();
        let number = *self.index.find(key.hash().0, is_same)?;
        Some(&mut self.changes[number].1)
    }

    fn value_of(&mut self, key: HashedKey<'g>) -> Option<Value<'g>> {
        let (below, is_cleared) = (self.below, self.is_cleared);
        let change = if self.changes.is_empty() { None } else { self.change_of(key) };
        match change {
            Some(Change::Put(value)) => Some(*value),
            Some(Change::Remove) => None,
            None if is_cleared => None,
            None => below.get(key),
        }
    }

    fn change(&mut self, key: usize, change: Change<'g>) {
        self.changes.push((self.keys[key], change));
    }

    fn joined(&self, parts: &[&[u8]]) -> &'g [u8] {
        let bytes = parts.iter().map(|part| part.len()).sum();
        let value = self.arena.alloc_slice_fill_copy(bytes, 0u8);
        let mut rest = &mut *value;
        for part in parts {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        value
    }

    fn present(&mut self, key: usize) -> Value<'g> {
        self.value_of(self.keys[key]).expect("a key that has a value")
    }
}

impl<'g, U: Underlay> Keyspace<'g> for Overlay<'g, U> {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn get(&mut self, key: usize) -> Option<Value<'g>> {
        self.value_of(self.keys[key])
    }

    fn lends_unnamed(&self) -> bool {
        self.below.lends_all()
    }

    fn get_unnamed(&mut self, key: &[u8]) -> Option<Value<'g>> {
        assert!(self.below.lends_all(), "a key that no lock was taken for");
        self.value_of(HashedKey::new(self.arena.alloc_slice_copy(key)))
    }

    fn get_all(&mut self) -> Values<'g> {
        (0..self.keys.len()).map(|key| self.get(key)).collect()
    }

    fn put(
        &mut self,
        key: usize,
        kind: ValueKind,
        value: &[&[u8]],
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        let bytes = self.joined(value);
        self.put_lasting(key, Value { kind, content: Content::Whole(bytes), expires_at })
    }

    fn put_lasting(&mut self, key: usize, value: Value<'g>) -> Result<(), OutOfMemory> {
        self.change(key, Change::Put(value));
        Ok(())
    }

    fn put_large(
        &mut self,
        key: usize,
        kind: ValueKind,
        outline: Outline,
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        let large = self.below.large(self.outlines.alloc(outline));
        self.put_lasting(key, Value { kind, content: Content::Large(large), expires_at })
    }

    fn aside(&mut self) -> Option<Large<'g>> {
        None
    }

    fn put_aside(&mut self, _: ValueKind, _: Outline) -> Result<(), OutOfMemory> {
        unreachable!("its commands run in one go")
    }

    fn extend(&mut self, key: usize, added: &[&[u8]]) -> Result<(), OutOfMemory> {
        let old = self.present(key);
        let parts: Vec<&[u8]> = std::iter::once(old.bytes()).chain(added.iter().copied()).collect();
        self.put(key, old.kind, &parts, old.expires_at)
    }

    fn set_end(&mut self, key: usize, expires_at: Option<WallMs>) -> Result<(), OutOfMemory> {
        let old = self.present(key);
        self.put_lasting(key, Value { expires_at, ..old })
    }

    fn remove(&mut self, key: usize) -> Result<(), OutOfMemory> {
        self.change(key, Change::Remove);
        Ok(())
    }

    fn count_look_ups(&mut self, hits: usize, misses: usize) {
        self.below.count_look_ups(hits, misses);
    }

    fn longest_value_bytes(&self) -> u64 {
        self.below.longest_value_bytes()
    }

    fn collection_limits(&self) -> Limits {
        self.below.collection_limits()
    }

    fn takes_collections(&self) -> bool {
        self.below.takes_collections()
    }

    fn random(&mut self) -> u64 {
        self.below.random()
    }
}
