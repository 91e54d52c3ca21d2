//! A request with its command resolved, and its duties once it may run.

use crate::routing::{INLINE_KEYS, Missing};
use crate::table::{Found, commands};
use sidle_commands::{Within, parse_i64};
use sidle_types::{HashedKey, MigrationId, Position, Slot};
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
    if found.spec.keys.within != Within::Nothing {
        add_keys_within(found, args, keys);
    }
}

/// Adds the keys of the commands in a request.
#[cold]
fn add_keys_within<'k>(found: Found, args: &[&'k [u8]], keys: &mut Keys<'k>) {
    for Inner { found, words, .. } in commands_within(found, args) {
        found.spec.keys.indices(words).for_each(|index| keys.push(HashedKey::new(words[index])));
    }
}

/// A command in a request.
pub(crate) struct Inner<'a, 'k> {
    pub(crate) found: Found,
    /// Where its words begin among the request's.
    pub(crate) at: usize,
    pub(crate) words: &'a [&'k [u8]],
    /// What its reply is to be; empty where it is not checked.
    pub(crate) check: &'k [u8],
}

/// The commands in a request, as far as they are commands.
pub(crate) fn commands_within<'a, 'k>(
    found: Found,
    args: &'a [&'k [u8]],
) -> impl Iterator<Item = Inner<'a, 'k>> {
    let mut next = match found.spec.keys.within {
        Within::Nothing => args.len(),
        Within::Command(at) | Within::Checked(at) => usize::from(at),
    };
    let are_checked = matches!(found.spec.keys.within, Within::Checked(_));
    std::iter::from_fn(move || {
        let (check, at, end) = match are_checked {
            false => (&[][..], next, args.len()),
            true => {
                let count = parse_i64(args.get(next + 1)?).and_then(|count| usize::try_from(count).ok())?;
                (args[next], next + 2, (next + 2).checked_add(count)?)
            }
        };
        let words = args.get(at..end).filter(|words| !words.is_empty())?;
        next = end;
        let found = commands().resolve(words).ok()?;
        Some(Inner { found, at, words, check })
    })
}

/// The slots of these keys, in order, each once: what a change of several keys locks.
pub(crate) fn slots_of(keys: &[HashedKey<'_>]) -> SmallVec<[Slot; INLINE_KEYS]> {
    let mut slots: SmallVec<[Slot; INLINE_KEYS]> = keys.iter().map(|key| key.slot()).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}
