//! Which values users do not see.

use sidle_types::ValueKind;

/// Why users do not see a value, if they do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// They see it.
    No,
    /// It has what a client's requests have done.
    Completions,
    /// It has what transactions have at a key.
    Locks,
}

impl Hidden {
    /// That of values of this kind.
    #[inline]
    pub(crate) fn of(kind: ValueKind) -> Hidden {
        match kind {
            ValueKind::Completions => Hidden::Completions,
            ValueKind::Locks => Hidden::Locks,
            _ => Hidden::No,
        }
    }
}
