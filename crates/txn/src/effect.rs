//! What a transaction is to do to a key when it commits.
//!
//! A byte: 0 nothing (it only reads), 1 to remove, otherwise the kind of the value that is to be put (2
//! string, 3 hash, 4 list, 5 set, 6 sorted set). Then, of a value, its deadline in milliseconds since the
//! Unix epoch (8 bytes, lowest first; all ones: none), and its bytes as one record has them.

use sidle_types::{ValueKind, WallMs};

/// What is to be done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'v> {
    /// It is only read.
    Nothing,
    /// It is removed.
    Remove,
    /// It gets this value.
    Put {
        /// Its kind; users have all of these.
        kind: ValueKind,
        /// When it expires.
        expires_at: Option<WallMs>,
        /// Its bytes.
        value: &'v [u8],
    },
}

/// Written where a value does not expire.
const NEVER: u64 = u64::MAX;

const fn number(kind: ValueKind) -> Option<u8> {
    match kind {
        ValueKind::String => Some(2),
        ValueKind::Hash => Some(3),
        ValueKind::List => Some(4),
        ValueKind::Set => Some(5),
        ValueKind::SortedSet => Some(6),
        ValueKind::Completions | ValueKind::Locks => None,
    }
}

impl<'v> Effect<'v> {
    /// Its bytes.
    ///
    /// # Panics
    /// If the value is of a kind that users do not have.
    pub fn write(&self) -> Vec<u8> {
        match *self {
            Effect::Nothing => vec![0],
            Effect::Remove => vec![1],
            Effect::Put { kind, expires_at, value } => {
                let mut out = Vec::with_capacity(9 + value.len());
                out.push(number(kind).expect("no command of a user puts any other"));
                out.extend_from_slice(&expires_at.map_or(NEVER, |at| at.0).to_le_bytes());
                out.extend_from_slice(value);
                out
            }
        }
    }

    /// Reads it; nothing if these are not its bytes.
    pub fn read(bytes: &'v [u8]) -> Option<Effect<'v>> {
        let (&kind, rest) = bytes.split_first()?;
        match (kind, rest) {
            (0, []) => return Some(Effect::Nothing),
            (1, []) => return Some(Effect::Remove),
            _ => {}
        }
        let kind = ValueKind::ALL.into_iter().find(|&known| number(known) == Some(kind))?;
        let (deadline, value) = rest.split_first_chunk()?;
        let deadline = u64::from_le_bytes(*deadline);
        Some(Effect::Put { kind, expires_at: (deadline != NEVER).then_some(WallMs(deadline)), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_read_as_they_are_written_and_nothing_else_is_one() {
        for effect in [Effect::Nothing, Effect::Remove] {
            assert_eq!(Effect::read(&effect.write()), Some(effect));
        }
        for kind in ValueKind::ALL {
            for expires_at in [None, Some(WallMs(5))] {
                let effect = Effect::Put { kind, expires_at, value: b"any" };
                assert_eq!(Effect::read(&effect.write()), Some(effect));
            }
        }
        let empty = Effect::Put { kind: ValueKind::String, expires_at: None, value: b"" };
        assert_eq!(Effect::read(&empty.write()), Some(empty));
        for wrong in [&b""[..], b"\0x", b"\x01x", b"\x02short", b"\x07\0\0\0\0\0\0\0\0"] {
            assert_eq!(Effect::read(wrong), None, "{wrong:?}");
        }
    }
}
