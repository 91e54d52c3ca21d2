//! The decision before every command with keys: run it here, send it elsewhere, or wait for a migration.
//!
//! Purpose: after this decision a command needs no knowledge of migrations. Absent then means absent, and the
//! command only respects what its removals must leave behind.
//!
//! Invariants:
//! - D1 (M3): nothing runs in an importing range before its activation.
//! - D2 (M7): the position's progress is loaded before the store is searched for the key, and the command's
//!   own look-up comes later still. In the other order a record that arrives between the two is missed: "no
//!   entry" is read too early, "arrived" too late, and a present key seems absent. So the decision hands no
//!   look-up on to the command, however tempting: the command looks again.
//! - D3 (M6): values and tombstones never vanish from an importing range, so what was settled here stays
//!   settled while the command runs. A mark of absence may go; then the command finds nothing, which is what
//!   the mark meant.
//! - D5: a key that its import has answered for needs no second answer. The record or tombstone that came is
//!   here (D3), and a mark of absence holds for the frozen source for ever. Otherwise commands whose marks
//!   make way for each other at a full node would never end.
//! - D4: a command runs wholly between two loop boundaries of its worker, so the range table cannot change
//!   under it.
//!
//! Realises: Fulva's three answers (value, absent, not here yet). Ownership: any worker; reads its snapshot
//! of the range table, the views' atomics and the store.

use crate::range_table::{RangeTable, Redirect, Role};
use sidle_migration::ImportView;
use sidle_store::{Entry, Store};
use sidle_types::{HashedKey, MigrationId, NodeId, fault};
use smallvec::SmallVec;
use std::sync::Arc;

/// How many keys of one command are handled without allocating.
pub(crate) const INLINE_KEYS: usize = 4;

/// Keys of one request, by index, each with the import that it was asked of.
pub(crate) type Asked = SmallVec<[(MigrationId, u32); INLINE_KEYS]>;

/// A key that has not arrived: pull it before the command runs, unless the command writes it without a
/// look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The migration that brings it.
    pub(crate) migration: MigrationId,
    /// Which of the command's keys.
    pub(crate) key: usize,
}

/// The decision on a command.
pub(crate) enum Verdict<'t> {
    /// Run it.
    Run,
    /// Send it to another node.
    Redirect(Redirect<'t>),
    /// No node owns all of its keys.
    CrossSlot,
    /// Wait for the activation of this import.
    AwaitActivation(MigrationId),
    /// Wait for the next range table: a key is being taken over from a dead node (R5).
    AwaitTable,
    /// These keys have not arrived, and the command needs to know their values.
    NotHereYet(SmallVec<[Missing; INLINE_KEYS]>),
}

/// The decision, and its duties.
pub(crate) struct Judgement<'t> {
    pub(crate) verdict: Verdict<'t>,
    /// The import that the command touches, if any: its progress may be worth sending.
    pub(crate) import: Option<&'t Arc<ImportView>>,
    /// Keys that the command writes without a look-up, and whose record at the source may not have arrived.
    pub(crate) unseen: SmallVec<[Missing; INLINE_KEYS]>,
    /// Whether something that the command may change is being copied, and must be marked (M11).
    pub(crate) is_tracked: bool,
}

/// Decides on a command with these keys, each with its number among all of the command's. `step`: the
/// worker's. `needs_old`: it has to know their values. `settled`: keys that their import has answered for
/// (D5).
#[inline]
pub(crate) fn judge<'t, 'k>(
    ranges: &'t RangeTable,
    store: &Store,
    step: u64,
    keys: impl Iterator<Item = (usize, HashedKey<'k>)>,
    needs_old: bool,
    settled: &Asked,
) -> Judgement<'t> {
    let mut import = None;
    let mut is_tracked = false;
    let mut is_any_here = false;
    let mut kept_from = None;
    let mut inactive = None;
    let mut is_taking_over = false;
    let mut elsewhere: Option<(NodeId, Redirect<'t>)> = None;
    let (mut missing, mut unseen) = (SmallVec::new(), SmallVec::new());
    for (index, key) in keys {
        let entry = ranges.entry_at(key.position());
        match &entry.role {
            Role::Owned => {
                is_any_here = true;
                is_tracked |= entry.tracked.is_some();
            }
            Role::TakingOver => (is_any_here, is_taking_over) = (true, true),
            Role::Exporting(_) if fault!(SourceServesAfterFreeze) => is_any_here = true,
            Role::Exporting(view) if view.keeps(key.position(), step) => {
                kept_from = Some(entry.owner);
                is_tracked = true;
            }
            Role::Importing(view) => {
                is_any_here = true;
                import = Some(view);
                let serves_early = fault!(TargetServesBeforeActivate)
                    || fault!(HotCopyServedBeforeTheList) && has_entry(store, key);
                if !view.activated() && !serves_early {
                    inactive = Some(view.id());
                } else if view.is_by_cuts() {
                    if !view.has_arrived(key.position()) {
                        missing.push(Missing { migration: view.id(), key: index });
                    }
                } else if !settled.contains(&(view.id(), index as u32)) && !is_settled(view, store, key) {
                    let lacking = if needs_old { &mut missing } else { &mut unseen };
                    lacking.push(Missing { migration: view.id(), key: index });
                }
            }
            // It came back, and what was given is cleared first.
            Role::Exporting(view) if entry.owner == ranges.node() => inactive = Some(view.id()),
            Role::Exporting(_) | Role::Elsewhere | Role::Lost | Role::Unreadable => match &elsewhere {
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
        // M29: the target takes the rest.
        (Some((owner, _)), _) if kept_from.is_some_and(|kept_from| kept_from != owner) => Verdict::CrossSlot,
        (Some((_, redirect)), _) => Verdict::Redirect(redirect),
        (None, _) if is_taking_over => Verdict::AwaitTable,
        (None, Some(migration)) => Verdict::AwaitActivation(migration),
        (None, None) if missing.is_empty() => Verdict::Run,
        (None, None) => Verdict::NotHereYet(missing),
    };
    Judgement { verdict, import, unseen, is_tracked }
}

/// Whether the store's answer for the key is final: it has an entry, or will never get one from the source.
fn is_settled(view: &ImportView, store: &Store, key: HashedKey<'_>) -> bool {
    // D2: the progress first, the store second. If it has arrived, the command's own look-up finds it. If
    // not, an existing entry (written here, or pulled out of turn) is newer and final.
    view.has_arrived(key.position()) || has_entry(store, key)
}

fn has_entry(store: &Store, key: HashedKey<'_>) -> bool {
    !matches!(store.pin().get(key), Entry::Absent)
}
