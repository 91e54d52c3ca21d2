//! The cluster's version, and when it may be raised.
//!
//! Every member speaks the cluster's version. A node that does not is refused, and the version is raised only
//! to one that all members speak, down members included. A member that returns with another program joins
//! again, and is checked then. So every receiver can read the cluster's version, whichever side has learnt of
//! a change first.

use super::members::{Members, incarnation_of, shown};
use crate::limits::MAX_PARTS_NAMED;
use crate::{MetaError, Metadata, Refusal};
use sidle_types::{NodeId, ProtocolVersion, Speaks, fault};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether a program with these versions can continue from the record. It changes nothing in it.
pub(super) fn check_spoken(data: &Metadata, speaks: Speaks) -> Result<(), MetaError> {
    let left_alone = |why| MetaError::Failed(format!("{why}. The cluster's metadata was left as it is"));
    speaks.check(data.map.version()).map_err(left_alone)
}

/// The metadata in which the cluster speaks the highest version of all its members and of the coordinator's
/// own program; `None` if it does already. Refused if some speak a later version and others do not, and while
/// it is not known of all.
pub(super) fn raised(data: &Metadata, members: &Members) -> Result<Option<Metadata>, Refusal> {
    let version = data.map.version();
    let wanted = ProtocolVersion(version.0 + 1);
    let joined = data.map.nodes().iter().map(|node| (node.id, members.speaks_of(node.id)));
    let programs: Vec<(NodeId, Option<ProtocolVersion>)> = joined
        .chain([(members.seat, Some(members.seat_speaks))])
        .map(|(node, speaks)| (node, speaks.map(|speaks| speaks.highest)))
        .collect();
    let known = || programs.iter().filter_map(|(_, highest)| *highest);
    if fault!(RaisedBeforeAllSpeak) {
        let to = known().max().filter(|&to| to > version);
        return Ok(to.map(|to| in_version(data, members, to)));
    }
    let behind = nodes_of(&programs, |highest| highest.is_some_and(|highest| highest < wanted));
    if !behind.is_empty() && known().any(|highest| highest >= wanted) {
        let (count, nodes) = named(data, &behind);
        return Err(Refusal::HeldBack { version, wanted, count, nodes });
    }
    let unknown = nodes_of(&programs, |highest| highest.is_none());
    if !unknown.is_empty() {
        let (count, nodes) = named(data, &unknown);
        return Err(Refusal::SpeaksUnknown { version, count, nodes });
    }
    Ok(known().min().filter(|&to| to > version).map(|to| in_version(data, members, to)))
}

/// Those of the nodes whose highest version is like this. The coordinator's node may be listed twice.
fn nodes_of(
    programs: &[(NodeId, Option<ProtocolVersion>)],
    is_so: impl Fn(Option<ProtocolVersion>) -> bool,
) -> BTreeSet<NodeId> {
    programs.iter().filter(|(_, highest)| is_so(*highest)).map(|(node, _)| *node).collect()
}

/// How many nodes, and the first of them by name.
fn named(data: &Metadata, nodes: &BTreeSet<NodeId>) -> (usize, Vec<String>) {
    (nodes.len(), nodes.iter().take(MAX_PARTS_NAMED).map(|&node| shown(data, node)).collect())
}

/// From here on the record names what each member speaks.
fn in_version(data: &Metadata, members: &Members, version: ProtocolVersion) -> Metadata {
    let mut next = data.clone();
    next.map = Arc::new(next.map.changed(|map| map.raise(version)));
    for known in &mut next.starts {
        if known.incarnation == incarnation_of(data, known.node) {
            known.speaks = members.speaks_of(known.node);
        }
    }
    next
}
