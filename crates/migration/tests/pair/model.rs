//! Clients' commands, the answers of a single correct store, and how a node's store runs them.

use sidle_outline::{Chunk, Large, Order, Outline};
use sidle_store::{Leave, LogHead, OutOfMemory, SlotGuard, Store};
use sidle_types::{HashedKey, Position, PositionRange, ValueKind, WallMs};
use std::collections::BTreeMap;

pub(crate) type Bytes = Vec<u8>;

/// A command, by the part of the key's state that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Needs the value.
    Get(Bytes),
    /// A blind write, with an optional absolute deadline.
    Set(Bytes, Bytes, Option<WallMs>),
    /// Needs to know whether there is a value.
    Del(Bytes),
    /// Needs the old value.
    Append(Bytes, Bytes),
    /// Needs to know whether there is a value.
    SetNx(Bytes, Bytes),
    /// Sets a chunk of a large collection, or removes it: needs the old one.
    Chunk(Bytes, u64, Option<Bytes>),
    /// Removes everything.
    Flush,
}

impl Op {
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self {
            Op::Get(key)
            | Op::Set(key, ..)
            | Op::Del(key)
            | Op::Append(key, _)
            | Op::SetNx(key, _)
            | Op::Chunk(key, ..) => Some(key),
            Op::Flush => None,
        }
    }

    pub(crate) fn needs_old(&self) -> bool {
        !matches!(self, Op::Set(..) | Op::Flush)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Value(Option<Bytes>),
    Ok,
    /// DEL's count, SETNX's success, APPEND's length.
    Number(usize),
}

/// A single correct store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) values: BTreeMap<Bytes, (Bytes, Option<WallMs>)>,
    /// Large collections, by the labels of their chunks.
    pub(crate) collections: BTreeMap<Bytes, BTreeMap<u64, Bytes>>,
}

impl Model {
    pub(crate) fn value(&self, key: &[u8], wall: WallMs) -> Option<&Bytes> {
        let (value, expires_at) = self.values.get(key)?;
        expires_at.is_none_or(|at| at >= wall).then_some(value)
    }

    /// `range` is what a flush removes.
    pub(crate) fn apply(&mut self, op: &Op, range: PositionRange, wall: WallMs) -> Answer {
        let Some(key) = op.key() else {
            self.values.retain(|key, _| !range.contains(Position::of_key(key)));
            self.collections.retain(|key, _| !range.contains(Position::of_key(key)));
            return Answer::Ok;
        };
        let old = self.value(key, wall).cloned();
        match op {
            Op::Get(_) => Answer::Value(old),
            Op::Set(key, value, expires_at) => {
                self.collections.remove(key);
                self.values.insert(key.clone(), (value.clone(), *expires_at));
                Answer::Ok
            }
            Op::Del(key) => {
                self.values.remove(key);
                let was_there = old.is_some() || self.collections.remove(key).is_some();
                Answer::Number(usize::from(was_there))
            }
            Op::Append(key, more) => {
                let deadline =
                    self.values.get(key).and_then(|(_, deadline)| *deadline).filter(|_| old.is_some());
                let value = [old.unwrap_or_default(), more.clone()].concat();
                let length = value.len();
                self.values.insert(key.clone(), (value, deadline));
                Answer::Number(length)
            }
            Op::SetNx(key, value) => {
                if old.is_none() {
                    self.values.insert(key.clone(), (value.clone(), None));
                }
                Answer::Number(usize::from(old.is_none()))
            }
            Op::Chunk(key, label, new) => {
                let chunks = self.collections.entry(key.clone()).or_default();
                Answer::Value(match new {
                    Some(new) => chunks.insert(*label, new.clone()),
                    None => chunks.remove(label),
                })
            }
            Op::Flush => unreachable!("it has no key"),
        }
    }
}

/// The same on a store, under the slot's lock, as a worker does it.
pub(crate) fn run(
    store: &Store,
    head: &mut LogHead,
    op: &Op,
    leave: Leave,
    range: PositionRange,
    wall: WallMs,
) -> Result<Answer, OutOfMemory> {
    let Some(key) = op.key().map(HashedKey::new) else {
        let mut at = Some(range.first());
        while let Some(from) = at {
            at = store.discard(from, range.last(), 64);
        }
        return Ok(Answer::Ok);
    };
    if let Op::Chunk(_, label, new) = op {
        return change_chunk(&store.lock_slot(key.slot()), head, key, *label, new.as_deref());
    }
    // Nobody else writes meanwhile; and a pinned thread prevents memory from being reclaimed for it.
    let old = store
        .pin()
        .get(key)
        .value()
        .map(|record| (record.value().to_vec(), record.expires_at(), record.is_expired(wall)));
    let is_expired = old.as_ref().is_some_and(|(.., is_expired)| *is_expired);
    let live = old.filter(|_| !is_expired);
    if let Op::Get(_) = op {
        return Ok(Answer::Value(live.map(|(value, ..)| value)));
    }
    let slot = store.lock_slot(key.slot());
    if is_expired {
        slot.remove(head, key, leave)?;
    }
    Ok(match op {
        Op::Set(_, value, expires_at) => {
            slot.put(head, key, &[value], *expires_at)?;
            Answer::Ok
        }
        Op::Del(_) => {
            slot.remove(head, key, leave)?;
            Answer::Number(usize::from(live.is_some()))
        }
        Op::Append(_, more) => {
            let (before, deadline, _) = live.unwrap_or_default();
            slot.put(head, key, &[&before, more], deadline)?;
            Answer::Number(before.len() + more.len())
        }
        Op::SetNx(_, value) => {
            if live.is_none() {
                slot.put(head, key, &[value], None)?;
            }
            Answer::Number(usize::from(live.is_none()))
        }
        Op::Get(_) | Op::Chunk(..) | Op::Flush => unreachable!("answered above"),
    })
}

/// Changes a chunk of the key's large collection, which is made if there is none.
fn change_chunk(
    slot: &SlotGuard<'_>,
    head: &mut LogHead,
    key: HashedKey<'_>,
    label: u64,
    new: Option<&[u8]>,
) -> Result<Answer, OutOfMemory> {
    let record = slot.get(key).value();
    let mut outline = record.map_or_else(|| Outline::new(0), |record| slot.outline(record));
    let chunk = outline.sequence(Order::Main).labelled(label).map(|at| at.chunk.clone());
    let old = chunk.map(|chunk| Large::new(&outline, slot).bytes_of(&chunk).to_vec());
    match new {
        Some(new) => outline.put(Order::Main, Chunk::new(label, 1, new)),
        None => drop(outline.remove(Order::Main, label).then_some(())),
    }
    // As a sorted set's, some are there twice.
    if let (true, Some(new)) = (label.is_multiple_of(4), new) {
        outline.put(Order::ByMember, Chunk::new(label ^ 77, 1, new));
    } else if label.is_multiple_of(4) {
        outline.remove(Order::ByMember, label ^ 77);
    }
    if outline.is_changed() {
        slot.put_large(head, key, ValueKind::List, outline, None)?;
    }
    Ok(Answer::Value(old))
}
