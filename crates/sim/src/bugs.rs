//! Every named fault of every crate, to be put back one at a time: a checker that has never seen a fault
//! proves nothing.

/// Known faults that are put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs {
    /// In migrations.
    pub migration: sidle_migration::Bugs,
    /// In the coordinator and the node agents.
    pub cluster: sidle_cluster::Bugs,
    /// In workers and the node's control.
    pub node: sidle_node::Bugs,
    /// In the client.
    pub client: sidle_client_core::Bugs,
}

impl Bugs {
    /// The name of every fault, and what is wrong.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        let crates = [
            sidle_migration::Bugs::NAMES,
            sidle_node::Bugs::NAMES,
            sidle_cluster::Bugs::NAMES,
            sidle_client_core::Bugs::NAMES,
        ];
        crates.into_iter().flatten().copied()
    }

    /// Within how many seeds, from the first on, a checker sees the fault of this name; `None` when its
    /// coincidence is too rare for random seeds, and a test with a script in its own crate shows it instead.
    pub fn seeds(name: &str) -> Option<u64> {
        let rare = RARE.iter().find(|(rare, _)| *rare == name).map(|(_, seeds)| *seeds);
        (!SCRIPTED.contains(&name)).then(|| rare.unwrap_or(SEEDS))
    }

    /// The fault of this name and no other.
    pub fn with(name: &str) -> Option<Bugs> {
        let none = Bugs::default();
        (sidle_migration::Bugs::with(name).map(|migration| Bugs { migration, ..none }))
            .or_else(|| sidle_node::Bugs::with(name).map(|node| Bugs { node, ..none }))
            .or_else(|| sidle_cluster::Bugs::with(name).map(|cluster| Bugs { cluster, ..none }))
            .or_else(|| sidle_client_core::Bugs::with(name).map(|client| Bugs { client, ..none }))
    }
}

/// Most faults are seen within so many seeds.
const SEEDS: u64 = 60;
/// Those that take a rarer coincidence.
const RARE: &[(&str, u64)] = &[
    ("act-before-commit", 300),
    ("activate-sent-once", 200),
    ("absent-answer-overwrites", 150),
    ("target-serves-before-activate", 300),
    ("expiry-leaves-no-tombstone", 150),
    ("freeze-without-barrier", 120),
    ("forwarded-without-ownership-check", 150),
    ("scan-passes-what-has-not-arrived", 150),
    ("silence-counts-as-death", 300),
    ("restarted-target-serves-at-once", 800),
];
/// Those that take one that random seeds hardly ever meet.
const SCRIPTED: &[&str] = &[
    "lost-wake",
    "new-table-wakes-nobody",
    "prepares-over-leavings",
    "source-value-of-other-migration",
    // A connection between two nodes that breaks while a write of a split slot is answered.
    "lost-write-is-forwarded-again",
    // Of copies made before the freeze.
    "round-forgets-unacknowledged",
    "mark-before-write",
    "tracking-without-barrier",
    "flush-marks-nothing",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_names_one_fault() {
        let names: BTreeSet<&str> = Bugs::names().map(|(name, _)| name).collect();
        assert_eq!(names.len(), Bugs::names().count(), "a name is given twice");
        for (name, what) in Bugs::names() {
            let is_kebab_case = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(name.chars().all(is_kebab_case) && what.ends_with('.'), "{name}: {what}");
            assert_ne!(Bugs::with(name), Some(Bugs::default()), "{name}");
            assert!(Bugs::with(name).is_some(), "{name}");
        }
        assert_eq!(Bugs::with("none of them"), None);
        let listed = RARE.iter().map(|(name, _)| *name).chain(SCRIPTED.iter().copied());
        assert!(listed.into_iter().all(|name| Bugs::with(name).is_some()), "a name in a list names nothing");
    }
}
