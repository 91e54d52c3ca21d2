//! The decision that precedes every command with keys: run it here, send it elsewhere, or wait for a
//! migration.
//!
//! Purpose: after this decision a command knows nothing of migrations. Absent then means absent, and all it
//! has to respect is what its removals must leave behind.
//!
//! Invariants:
//! - D1 (M3): nothing runs in an importing range before its activation.
//! - D2 (M7): whether a position has arrived is loaded before the store is asked for the key, and the
//!   command's own look-up comes later still. The other way round, a record that arrives between the two is
//!   missed: the store said "no entry" too early, the progress says "arrived" too late, and together they say
//!   "absent" of a key that is there. For that reason the decision hands no look-up on to the command,
//!   however tempting: the command looks again.
//! - D3 (M6): values and tombstones never vanish from an importing range, so what was settled here stays
//!   settled while the command runs. A mark of absence may go; then the command finds nothing, which is what
//!   the mark said.
//! - D5: a key that its import has answered for needs no second answer: the record or tombstone that came is
//!   here (D3), and a mark of absence said what the frozen source will always say. Without this, commands
//!   whose marks make way for each other at a full node would ask for ever.
//! - D4: a command runs wholly between two loop boundaries of its worker, so the range table cannot change
//!   under it.
//!
//! Realises: Fulva's three answers (value, absent, not here yet), design "Serve".
//! Ownership: any worker; reads its snapshot of the range table, the views' atomics and the store.

use crate::range_table::{RangeTable, Redirect, Role};
use sidle_migration::ImportView;
use sidle_store::{Entry, Store};
use sidle_types::{HashedKey, MigrationId, NodeId, fault};
use smallvec::SmallVec;
use std::sync::Arc;

/// How many keys of one command are handled without allocating.
pub(crate) const INLINE_KEYS: usize = 4;

/// Keys of one request, by their index, each with the import that it was asked of.
pub(crate) type Asked = SmallVec<[(MigrationId, u32); INLINE_KEYS]>;

/// A key that has not arrived: it has to be pulled before the command can run, unless the command writes it
/// without looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The migration that brings it.
    pub(crate) migration: MigrationId,
    /// Which of the command's keys.
    pub(crate) key: usize,
}

/// What is to be done with a command.
pub(crate) enum Verdict<'t> {
    /// Run it.
    Run,
    /// Send it to another node.
    Redirect(Redirect<'t>),
    /// No node owns all of its keys.
    CrossSlot,
    /// Wait for the activation of this import.
    AwaitActivation(MigrationId),
    /// These keys have not arrived, and the command needs to know their values.
    NotHereYet(SmallVec<[Missing; INLINE_KEYS]>),
}

/// The decision, and what goes with it.
pub(crate) struct Judgement<'t> {
    /// What is to be done.
    pub(crate) verdict: Verdict<'t>,
    /// The import that the command touches, if any: its progress may be worth telling.
    pub(crate) import: Option<&'t Arc<ImportView>>,
    /// Keys that the command writes without looking, of which the source may have a record that has not
    /// arrived.
    pub(crate) unseen: SmallVec<[Missing; INLINE_KEYS]>,
    /// Whether something that the command may change is copied at present, and has to be marked (M11).
    pub(crate) is_tracked: bool,
}

/// Decides what is to be done with a command that has these keys, each with its number among all of the
/// command's. `needs_old`: it has to know their values. `settled`: keys that their import has answered for
/// (D5).
#[inline]
pub(crate) fn judge<'t, 'k>(
    ranges: &'t RangeTable,
    store: &Store,
    keys: impl Iterator<Item = (usize, HashedKey<'k>)>,
    needs_old: bool,
    settled: &Asked,
) -> Judgement<'t> {
    let mut import = None;
    let mut is_tracked = false;
    let mut is_any_here = false;
    let mut inactive = None;
    let mut elsewhere: Option<(NodeId, Redirect<'t>)> = None;
    let (mut missing, mut unseen) = (SmallVec::new(), SmallVec::new());
    for (index, key) in keys {
        let entry = ranges.entry_at(key.position());
        match &entry.role {
            Role::Owned => {
                is_any_here = true;
                is_tracked |= entry.tracked.is_some();
            }
            Role::Exporting(_) if fault!(SourceServesAfterFreeze) => is_any_here = true,
            Role::Importing(view) => {
                is_any_here = true;
                import = Some(view);
                if !view.activated() && !fault!(TargetServesBeforeActivate) {
                    inactive = Some(view.id());
                } else if !settled.contains(&(view.id(), index as u32)) && !is_settled(view, store, key) {
                    let lacking = if needs_old { &mut missing } else { &mut unseen };
                    lacking.push(Missing { migration: view.id(), key: index });
                }
            }
            Role::Exporting(_) | Role::Elsewhere | Role::Lost => match &elsewhere {
                None => elsewhere = Some((entry.owner, ranges.redirect(key.position()))),
                Some((owner, _)) if *owner == entry.owner => {}
                Some(_) => {
                    let verdict = Verdict::CrossSlot;
                    return Judgement { verdict, import: None, unseen: SmallVec::new(), is_tracked: false };
                }
            },
        }
    }
    let verdict = match (elsewhere, inactive) {
        (Some(_), _) if is_any_here => Verdict::CrossSlot,
        (Some((_, redirect)), _) => Verdict::Redirect(redirect),
        (None, Some(migration)) => Verdict::AwaitActivation(migration),
        (None, None) if missing.is_empty() => Verdict::Run,
        (None, None) => Verdict::NotHereYet(missing),
    };
    Judgement { verdict, import, unseen, is_tracked }
}

/// Whether the store now says of the key what is true: it has an entry, or never will have one from the
/// source.
fn is_settled(view: &ImportView, store: &Store, key: HashedKey<'_>) -> bool {
    // D2: the progress first, the store second. If it has arrived, the command's own look-up finds it; if it
    // has not, an entry that is here all the same (written here, or pulled out of turn) is newer and final.
    view.has_arrived(key.position()) || !matches!(store.pin().get(key), Entry::Absent)
}
