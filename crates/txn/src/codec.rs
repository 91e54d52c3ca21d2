//! The bytes of what transactions have at a key.
//!
//! Little-endian: a byte for the layout (1), then for each transaction its id (16 bytes), its state (1), its
//! age and its time (8 each), and, each behind its length (4), its first key, the list of its keys, its
//! effect and its reply.

use crate::TransactionId;
use crate::bytes::{put_bytes, take, take_bytes};
use crate::entry::{Age, Entry, Keys, State};
use sidle_types::WallMs;

const LAYOUT: u8 = 1;

const fn number(state: State) -> u8 {
    match state {
        State::Shared => 0,
        State::Exclusive => 1,
        State::Committed => 2,
        State::Settled => 3,
        State::Refused => 4,
    }
}

const fn numbered(number: u8) -> Option<State> {
    Some(match number {
        0 => State::Shared,
        1 => State::Exclusive,
        2 => State::Committed,
        3 => State::Settled,
        4 => State::Refused,
        _ => return None,
    })
}

pub(crate) fn write(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut out = vec![LAYOUT];
    for entry in entries {
        out.extend_from_slice(&entry.id.0.to_le_bytes());
        out.push(number(entry.state));
        out.extend_from_slice(&entry.age.0.0.to_le_bytes());
        out.extend_from_slice(&entry.at.0.to_le_bytes());
        for bytes in [entry.first, entry.keys.0, entry.effect, entry.reply] {
            put_bytes(&mut out, bytes);
        }
    }
    out
}

pub(crate) fn read(value: &[u8]) -> Option<Vec<Entry<'_>>> {
    let (&layout, mut rest) = value.split_first()?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        entries.push(take_entry(&mut rest)?);
    }
    (layout == LAYOUT).then_some(entries)
}

fn take_entry<'v>(rest: &mut &'v [u8]) -> Option<Entry<'v>> {
    let id = TransactionId(u128::from_le_bytes(take(rest)?));
    let [state] = take(rest)?;
    let age = Age(WallMs(u64::from_le_bytes(take(rest)?)));
    let at = WallMs(u64::from_le_bytes(take(rest)?));
    let first = take_bytes(rest)?;
    let keys = Keys(take_bytes(rest)?);
    let effect = take_bytes(rest)?;
    let reply = take_bytes(rest)?;
    let state = numbered(state)?;
    keys.is_whole().then_some(Entry { id, state, age, at, first, keys, effect, reply })
}
