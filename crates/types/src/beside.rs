//! Keys of Sidle's own, each beside one of a user's: with the same slot, hash and position.
//!
//! Whatever has the user's key has the one beside it: a range, its migration, its copies.

/// What the key begins with that has what transactions have at the key behind it.
const LOCKS: &[u8] = b"\0sidle-locks\0";

/// The key whose slot and hash are this one's.
#[inline]
pub(crate) fn placed_by(key: &[u8]) -> &[u8] {
    // No user's key begins so but by accident: the branch is predicted.
    if key.first() == Some(&0) { beside_what(key).unwrap_or(key) } else { key }
}

/// The user's key that this one is beside; none if it is a user's itself.
#[cold]
pub fn beside_what(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(LOCKS)
}

/// The key of what transactions have at a key.
pub fn locks_key(key: &[u8]) -> Vec<u8> {
    [LOCKS, key].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashedKey, KeyHash, Position, Slot};

    #[test]
    fn a_key_beside_another_is_at_its_place() {
        for key in [&b""[..], b"a", b"{tag}rest", b"\0", b"\0sidle-lock", b"\xff{}\0"] {
            let beside = locks_key(key);
            assert_eq!(beside_what(&beside), Some(key));
            assert_eq!(beside_what(key), None);
            assert_eq!(Slot::of_key(&beside), Slot::of_key(key));
            assert_eq!(KeyHash::of_key(&beside), KeyHash::of_key(key));
            assert_eq!(Position::of_key(&beside), Position::of_key(key));
            let (hashed, of_key) = (HashedKey::new(&beside), HashedKey::new(key));
            assert_eq!((hashed.slot(), hashed.hash()), (of_key.slot(), of_key.hash()));
            assert!(hashed.is_beside() && !of_key.is_beside());
            assert_eq!(of_key.beside(&beside).bytes(), hashed.bytes());
        }
    }
}
