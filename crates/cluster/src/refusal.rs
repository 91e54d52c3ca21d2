//! Why the coordinator refuses a client's request.

use crate::MetaError;
use crate::bounds::{self, clipped};
use crate::limits::MAX_TEXT_BYTES;
use serde::{Deserialize, Serialize};
use sidle_types::words::{count, counted};
use sidle_types::{GaveAll, MigrationId, PositionRange, ProtocolVersion};

/// A refused request. Nothing was done, unless the text states that this is unknown. Nodes are named as
/// `sidle status` shows them: client address and the start of the id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// No member has this id or address.
    #[error("no node of this cluster is called {name}: `sidle status` lists them")]
    UnknownNode {
        /// The id or address.
        name: String,
    },
    /// The address is that of several members.
    #[error("several nodes have the address {name}: give the node's id")]
    AmbiguousNode {
        /// The address.
        name: String,
    },
    /// The target has sent nothing lately.
    #[error("the target {node} is down: the coordinator has not heard of it lately")]
    TargetDown {
        /// The target.
        node: String,
    },
    /// The source has sent nothing lately.
    #[error("the source {node} is down: the coordinator has not heard of it lately")]
    SourceDown {
        /// The source.
        node: String,
    },
    /// What the target does not own of the range has different owners, or is not one range.
    #[error(
        "the range ({range}) has {count} parts that other nodes own, and a migration moves one: move each \
         alone, {}",
        commands(.parts, *.count)
    )]
    SeveralParts {
        /// The range.
        range: PositionRange,
        /// How many parts.
        count: usize,
        /// The commands that move the first of them, in order of their positions.
        #[serde(deserialize_with = "bounds::parts")]
        parts: Vec<String>,
    },
    /// There is nothing to move.
    #[error("the target {node} already owns {range}")]
    OwnedByTarget {
        /// The range.
        range: PositionRange,
        /// The target.
        node: String,
    },
    /// Part of the range is already to be moved.
    #[error("the range overlaps {range} of migration {migration}, which is {state}")]
    Overlaps {
        /// The other migration.
        migration: MigrationId,
        /// Its range.
        range: PositionRange,
        /// Its state.
        state: String,
    },
    /// No such protocol exists, or it has no such option.
    #[error("{why}")]
    Protocol {
        /// What is wrong, and the valid choices.
        why: String,
    },
    /// Too many migrations are waiting.
    #[error("{limit} migrations are not over yet, no more are queued: wait for some of them")]
    TooManyMigrations {
        /// How many may be under way.
        limit: usize,
    },
    /// The map cannot be cut into more pieces.
    #[error(
        "the cluster has about {limit} tablets, the most it can have: move whole neighbouring ranges to one \
         node"
    )]
    TooManyTablets {
        /// How many there may be.
        limit: usize,
    },
    /// The node to be forgotten, or taken over, still sends.
    #[error(
        "node {node} is up: stop it first, and wait for two seconds. `sidle migrate` moves what \
         a node has that is up"
    )]
    StillUp {
        /// The node.
        node: String,
    },
    /// The node to be forgotten owns something.
    #[error(
        "node {node} owns {}, which `sidle status` lists: move all to another node first. If it cannot be started \
         any more, `sidle takeover` gives it to nodes with copies of its log; without copies, start it with its id, \
         empty, and move all then",
        counted(*.tablets, "tablet")
    )]
    OwnsTablets {
        /// The node.
        node: String,
        /// How many.
        tablets: usize,
    },
    /// The node to be forgotten, or taken over, takes part in a migration.
    #[error("node {node} takes part in migration {migration}. {}", going_on(*.migration, .why))]
    TakesPart {
        /// The node.
        node: String,
        /// The migration.
        migration: MigrationId,
        /// Why nobody else can go on with it, and what helps; empty if that is not what was asked for.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// The node to be forgotten, or taken over, runs the coordinator.
    #[error(
        "node {node} runs the coordinator: it is up, and can be neither forgotten nor taken over. Should it die, \
         start it again with its data directory; with the metadata in etcd another node coordinates within \
         seconds: ask again then"
    )]
    Coordinates {
        /// The node.
        node: String,
    },
    /// The node to be taken over owns nothing.
    #[error("node {node} owns nothing: there is nothing to be taken over. `sidle forget` removes it")]
    OwnsNothing {
        /// The node.
        node: String,
    },
    /// Nobody has what a node had that is down.
    #[error("nobody can take over what {node} had: {why}")]
    NoCopies {
        /// The node.
        node: String,
        /// Why, and what helps.
        #[serde(default)]
        why: String,
    },
    /// The node's ranges are too many.
    #[error(
        "{ranges} ranges would be taken over, beside those that are now, and at most {limit} can be at a time: wait \
         for these, or start the dead node again"
    )]
    TooManyTakeovers {
        /// How many it would be.
        ranges: usize,
        /// The most.
        limit: usize,
    },
    /// Part of the range is being taken over.
    #[error(
        "{node} is taking {range} over from a node that died: try again when `sidle status` shows its end"
    )]
    BeingTakenOver {
        /// The range that is.
        range: PositionRange,
        /// Its new owner.
        node: String,
    },
    /// The cluster's version is to be raised, and not all members speak the next one.
    #[error(
        "the cluster stays at {version}: of its nodes, {} not speak {wanted}: {}. Restart {} with a newer \
         program, one that speaks {wanted}, or `sidle forget` what is gone for good",
        counted_do(*.count), listed(.nodes, *.count), if *.count == 1 { "it" } else { "each" }
    )]
    HeldBack {
        /// The cluster's version.
        version: ProtocolVersion,
        /// The one that others speak.
        wanted: ProtocolVersion,
        /// How many do not.
        count: usize,
        /// The first of them, in order of their ids.
        #[serde(deserialize_with = "bounds::parts")]
        nodes: Vec<String>,
    },
    /// The cluster's version is to be raised, and it is not known of all members what they speak.
    #[error(
        "the cluster stays at {version}: the coordinator does not know yet what {}: {}. Nodes that are up report \
         it within seconds: try again then. Start what is down again, or `sidle forget` what is gone for good",
        counted_speak(*.count), listed(.nodes, *.count)
    )]
    SpeaksUnknown {
        /// The cluster's version.
        version: ProtocolVersion,
        /// Of how many it is not known.
        count: usize,
        /// The first of them, in order of their ids.
        #[serde(deserialize_with = "bounds::parts")]
        nodes: Vec<String>,
    },
    /// The migration failed before it ran, for lack of memory for instance.
    #[error("migration {migration} failed before it ran: {why}")]
    NotPrepared {
        /// The migration.
        migration: MigrationId,
        /// Why, and that nothing has changed.
        why: String,
    },
    /// The migration was cancelled while the request that started it was being answered.
    #[error("migration {migration} was cancelled before it ran, nothing has changed")]
    CancelledMeanwhile {
        /// The migration.
        migration: MigrationId,
    },
    /// No such migration.
    #[error("{}", unknown(*.migration, *.continues))]
    UnknownMigration {
        /// The number asked for.
        migration: MigrationId,
        /// The migration that turns back and whose way back is to have this number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<MigrationId>,
    },
    /// It runs: the target has writes that exist nowhere else.
    #[error(
        "migration {migration} runs and cannot be cancelled: the target already owns {range}; \
         let it finish, then move the range back"
    )]
    Running {
        /// The migration.
        migration: MigrationId,
        /// Its range.
        range: PositionRange,
    },
    /// It gave its range bit by bit, and has given all of it.
    #[error(
        "migration {migration} cannot be cancelled any more: all of {range} was given to the target{}, and only what \
         was not copied still arrives; let it finish, then move the range back",
        because(*why)
    )]
    GaveAll {
        /// The migration.
        migration: MigrationId,
        /// Its range.
        range: PositionRange,
        /// Why at once, if so.
        #[serde(default)]
        why: Option<GaveAll>,
    },
    /// It is over.
    #[error("migration {migration} is over: {state}")]
    IsOver {
        /// The migration.
        migration: MigrationId,
        /// How it ended.
        state: String,
    },
    /// The metadata could not be written. Whether it was is unknown.
    #[error(
        "the coordinator could not write it down ({error}); whether it takes effect is unknown, ask for the status"
    )]
    NotCommitted {
        /// The error of the metadata store.
        error: String,
    },
    /// No answer arrived in time.
    #[error("the coordinator did not answer in time; whether it takes effect is unknown, ask for the status")]
    NoAnswer,
    /// The node has too many open requests.
    #[error("{limit} requests to the coordinator are open at this node: try again later")]
    TooManyRequests {
        /// How many may be open.
        limit: usize,
    },
    /// The node has too many requests open that wait for a migration's end.
    #[error(
        "{limit} requests at this node wait for a migration's end: try again later, or ask for the status"
    )]
    TooManyWaits {
        /// How many may be open.
        limit: usize,
    },
    /// The request is beyond a limit.
    #[error("the request cannot be made: {why}")]
    Malformed {
        /// Which limit.
        why: String,
    },
}

impl Refusal {
    /// Whether the request may have taken effect all the same.
    pub const fn is_unclear(&self) -> bool {
        matches!(self, Refusal::NotCommitted { .. } | Refusal::NoAnswer)
    }

    /// The store's error, cut to what may be sent.
    pub(crate) fn not_committed(error: &MetaError) -> Refusal {
        Refusal::NotCommitted { error: clipped(error.to_string(), MAX_TEXT_BYTES) }
    }
}

fn unknown(migration: MigrationId, continues: Option<MigrationId>) -> String {
    match continues {
        None => format!("there is no migration {migration}, or it ended too long ago to be remembered"),
        Some(before) => format!(
            "migration {migration} has not begun: it is the way back of migration {before}, and begins once nothing is in \
             transit, which takes a moment. Try again when `sidle status` shows it"
        ),
    }
}

fn going_on(migration: MigrationId, why: &str) -> String {
    match why {
        "" => format!(
            "If that does not run yet, `sidle migrate --cancel {migration}` ends it; if it runs, wait for its end. If it \
             stalls, start the node again, with its data directory, or have it taken over: `sidle takeover`"
        ),
        why => format!("Nobody else can go on with that: {why}"),
    }
}

fn because(why: Option<GaveAll>) -> String {
    why.map_or_else(String::new, |why| format!(" at once ({why})"))
}

/// The commands, ready to copy, and a note if there are more.
fn commands(parts: &[String], count: usize) -> String {
    let quoted: Vec<String> = parts.iter().map(|part| format!("`{part}`")).collect();
    listed(&quoted, count)
}

/// The first of this many, and a note if there are more.
fn listed(first: &[String], count: usize) -> String {
    first.join(", ") + if count > first.len() { ", ..." } else { "" }
}

/// The count, before "not".
fn counted_do(number: usize) -> String {
    format!("{} {}", count(number as u64), if number == 1 { "does" } else { "do" })
}

/// The count of nodes, after "what".
fn counted_speak(number: usize) -> String {
    format!("{} of its nodes {}", count(number as u64), if number == 1 { "speaks" } else { "speak" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_used_yet_is_told_from_an_unknown_one() {
        let told = |continues| Refusal::UnknownMigration { migration: MigrationId(3), continues }.to_string();
        assert!(told(None).starts_with("there is no migration 3, or"), "{}", told(None));
        let yet = told(Some(MigrationId(2)));
        assert!(
            yet.starts_with("migration 3 has not begun: it is the way back of migration 2, and"),
            "{yet}"
        );
        assert!(!yet.contains("  "), "{yet}");
    }

    #[test]
    fn what_keeps_a_node_from_being_taken_over_comes_with_what_helps() {
        let node = || "n".to_owned();
        let takes_part =
            |why: &str| Refusal::TakesPart { node: node(), migration: MigrationId(3), why: why.to_owned() };
        for (refusal, helps) in [
            (Refusal::NoCopies { node: node(), why: "start it".to_owned() }, "had: start it"),
            (takes_part(""), "start the node again"),
            (takes_part("start it"), "Nobody else can go on with that: start it"),
            (Refusal::StillUp { node: node() }, "stop it first"),
            (Refusal::Coordinates { node: node() }, "start it again"),
            (Refusal::OwnsNothing { node: node() }, "`sidle forget` removes it"),
        ] {
            let told = refusal.to_string();
            assert!(told.contains(helps) && !told.contains("  "), "{told}");
        }
    }

    #[test]
    fn what_a_node_owns_is_counted_in_words() {
        let owns = |tablets| Refusal::OwnsTablets { node: "n".into(), tablets }.to_string();
        assert!(owns(1).starts_with("node n owns 1 tablet, which"), "{}", owns(1));
        assert!(owns(1_200).starts_with("node n owns 1,200 tablets, which"), "{}", owns(1_200));
    }
}
