//! A request with its command resolved, and its duties once it may run.

use crate::routing::{INLINE_KEYS, Missing};
use crate::table::{Found, commands};
use sidle_types::{HashedKey, MigrationId, Position};
use smallvec::SmallVec;

/// The keys of one command.
pub(crate) type Keys<'k> = SmallVec<[HashedKey<'k>; INLINE_KEYS]>;

/// A request with its command resolved, name first.
#[derive(Clone, Copy)]
pub(crate) struct Request<'r> {
    pub(crate) found: Found,
    /// The keys among `args`.
    pub(crate) keys: &'r [HashedKey<'r>],
    pub(crate) args: &'r [&'r [u8]],
}

impl<'r> Request<'r> {
    /// The keys that a command which may block takes from, and waits for: not the one that it moves to.
    pub(crate) fn awaited_keys(&self) -> &'r [HashedKey<'r>] {
        match self.found.spec.keys.last_access {
            Some(_) => &self.keys[..self.keys.len().min(1)],
            None => self.keys,
        }
    }

    /// The words of the command over these of its keys, with each key's own arguments.
    pub(crate) fn part(&self, keys: &[usize]) -> SmallVec<[&'r [u8]; 8]> {
        let spec = self.found.spec.keys;
        let (first, step) = (usize::from(spec.first), usize::from(spec.step));
        let mut words = SmallVec::from_slice(&self.args[..first]);
        for &key in keys {
            words.extend_from_slice(&self.args[first + key * step..][..step]);
        }
        words
    }
}

/// The duties of a command that may run.
#[derive(Default)]
pub(crate) struct Clearance {
    /// Its changes are being copied, and must be marked (M11).
    pub(crate) marks: bool,
    /// Keys that it writes without a look-up before they arrived: their migration and position.
    pub(crate) unseen: SmallVec<[(MigrationId, Position); INLINE_KEYS]>,
}

impl Clearance {
    /// The duties of a judgement to run a request. `unseen`: by the keys' numbers.
    #[inline]
    pub(crate) fn new(request: Request<'_>, is_tracked: bool, unseen: &[Missing]) -> Clearance {
        let marks = is_tracked && request.found.spec.access.is_write();
        let placed = |missing: &Missing| (missing.migration, request.keys[missing.key].position());
        Clearance { marks, unseen: unseen.iter().map(placed).collect() }
    }
}

/// The keys of a request, hashed once.
#[inline]
pub(crate) fn keys_of<'k>(found: Found, args: &[&'k [u8]]) -> Keys<'k> {
    let mut keys = Keys::new();
    add_keys(found, args, &mut keys);
    keys
}

/// Adds the keys of a request, hashed once.
#[inline]
pub(crate) fn add_keys<'k>(found: Found, args: &[&'k [u8]], keys: &mut Keys<'k>) {
    for index in found.spec.keys.indices(args) {
        keys.push(HashedKey::new(args[index]));
    }
    if found.spec.keys.command_at != 0 {
        add_keys_of_command(found, args, keys);
    }
}

/// Adds the keys of the command in a request.
#[cold]
fn add_keys_of_command<'k>(found: Found, args: &[&'k [u8]], keys: &mut Keys<'k>) {
    if let Some((within, args)) = command_within(found, args) {
        within.spec.keys.indices(args).for_each(|index| keys.push(HashedKey::new(args[index])));
    }
}

/// The command in a request, if it has one, and its arguments.
pub(crate) fn command_within<'a, 'k>(found: Found, args: &'a [&'k [u8]]) -> Option<(Found, &'a [&'k [u8]])> {
    let at = usize::from(found.spec.keys.command_at);
    let within = args.get(at..).filter(|_| at != 0)?;
    Some((commands().resolve(within).ok()?, within))
}
