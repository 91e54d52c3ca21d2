//! What the user of a connection may do, as the connection knows it.

use sidle_access::{DEFAULT_USER, Entry, User};
use std::sync::Arc;

/// A connection's user, as it was when it was looked up last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rights {
    /// None: nobody has looked yet, or another node's connection. It may do everything.
    pub(crate) user: Option<Named>,
    pub(crate) version: u64,
    /// Whether some commands are refused.
    pub(crate) is_limited: bool,
}

/// A user with its name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: Arc<[u8]>,
    pub(crate) entry: Entry,
}

impl Rights {
    /// The user's name.
    pub(crate) fn name(&self) -> &[u8] {
        self.user.as_ref().map_or(DEFAULT_USER, |named| &named.name)
    }

    /// The user, if it may not do everything.
    pub(crate) fn user(&self) -> Option<&User> {
        self.user.as_ref().filter(|_| self.is_limited).map(|named| &*named.entry.user)
    }
}
