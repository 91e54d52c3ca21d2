//! Why nodes are not taken over by themselves that asked for it, and have been silent for long enough.

use super::joins::Judge;
use super::members::{incarnation_of, shown};
use crate::{LogBackup, NodeState, Refusal};
use sidle_types::NodeId;
use std::collections::BTreeMap;

/// Which nodes wait for that, and why, as of the last look.
#[derive(Debug, Default)]
pub(super) struct Hindered(BTreeMap<NodeId, String>);

impl Hindered {
    /// Notes why a node is not taken over, if that is worth a word: not that it has nothing, or that it was
    /// heard of a moment ago.
    pub(super) fn note(&mut self, node: NodeId, refusal: &Refusal) {
        if let Some(why) = worth_a_word(refusal) {
            self.0.insert(node, why);
        }
    }

    /// Takes the place of an earlier look; returns what is new.
    pub(super) fn replace(&mut self, now: Hindered) -> Vec<(NodeId, String)> {
        let before = std::mem::replace(self, now).0;
        let is_new = |&(node, why): &(&NodeId, &String)| before.get(node) != Some(why);
        self.0.iter().filter(is_new).map(|(&node, why)| (node, why.clone())).collect()
    }

    /// Why this node is not taken over.
    pub(super) fn why(&self, node: NodeId) -> Option<&str> {
        self.0.get(&node).map(String::as_str)
    }
}

/// Why a node is not taken over, but for what everybody sees.
pub(super) fn worth_a_word(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::OwnsNothing { .. } | Refusal::StillUp { .. } | Refusal::Coordinates { .. } => None,
        Refusal::NoCopies { why, .. } => Some(why.clone()),
        other => Some(other.to_string()),
    }
}

/// What is the matter with the copies of a log that nobody can read, and what helps. `log`: in words.
pub(super) fn unread(judge: &Judge<'_>, log: &str, backups: &[LogBackup]) -> String {
    let name = |backup: &LogBackup| shown(judge.data, backup.node);
    let (has_restarted, is_down): (Vec<&LogBackup>, Vec<&LogBackup>) =
        backups.iter().partition(|backup| judge.members.state_of(judge.now, backup.node) == NodeState::Up);
    let has_restarted = has_restarted
        .into_iter()
        .filter(|backup| incarnation_of(judge.data, backup.node) != backup.incarnation);
    let has_restarted: Vec<String> = has_restarted.map(name).collect();
    let is_down: Vec<String> = is_down.into_iter().map(name).collect();
    let mut whys = Vec::new();
    if !is_down.is_empty() {
        whys.push(format!("down, with a copy of it: {}", is_down.join(", ")));
    }
    if !has_restarted.is_empty() {
        whys.push(format!(
            "restarted since, so that the end of the copy may be missing: {}",
            has_restarted.join(", ")
        ));
    }
    let helps = match (is_down.is_empty(), has_restarted.is_empty()) {
        (true, true) => {
            return format!(
                "no other node has a copy of {log} that counts (they are kept with --durability replicated=R); start \
                 the node itself, with its data directory"
            );
        }
        (false, _) => "start one of these, or the node itself",
        (true, false) => {
            "start the node itself; if it is gone for good, `sidle takeover NODE --accept-loss` has these read all the same"
        }
    };
    format!("nobody can read {log} ({}); {helps}", whys.join("; "))
}
