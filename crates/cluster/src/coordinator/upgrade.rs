//! The cluster's version, and when it may be raised.
//!
//! Every member speaks the cluster's version. A node that does not is refused, and the version is raised only
//! to one that all members speak, down members included. A member that returns with another program joins
//! again, and is checked then. So every receiver can read the cluster's version, whichever side has learnt of
//! a change first.

use super::members::shown;
use crate::limits::MAX_PARTS_NAMED;
use crate::{MetaError, Metadata, Refusal};
use sidle_types::{ProtocolVersion, Speaks, fault};
use std::sync::Arc;

/// Whether a program with these versions can continue from the record. It changes nothing in it.
pub(super) fn check_spoken(data: &Metadata, speaks: Speaks) -> Result<(), MetaError> {
    let why = speaks.why_not(data.map.version());
    why.map_or(Ok(()), |why| Err(MetaError(format!("{why}. The cluster's metadata was left as it is"))))
}

/// The metadata in which the cluster speaks the highest version of all its members; `None` if it does
/// already. Refused if some members speak a later version and others do not.
pub(super) fn raised(data: &Metadata) -> Result<Option<Metadata>, Refusal> {
    let version = data.map.version();
    let members = data.map.nodes().iter().map(|node| (node.id, data.speaks_of(node.id).highest));
    let spoken = members.clone().map(|(_, highest)| highest);
    let to = if fault!(RaisedBeforeAllSpeak) { spoken.max() } else { spoken.min() }.unwrap_or(version);
    if to > version {
        return Ok(Some(in_version(data, to)));
    }
    let wanted = ProtocolVersion(version.0 + 1);
    if members.clone().all(|(_, highest)| highest < wanted) {
        return Ok(None);
    }
    let behind = members.filter(|&(_, highest)| highest < wanted).map(|(node, _)| shown(data, node));
    let mut nodes: Vec<String> = behind.collect();
    let count = nodes.len();
    nodes.truncate(MAX_PARTS_NAMED);
    Err(Refusal::HeldBack { version, wanted, count, nodes })
}

fn in_version(data: &Metadata, version: ProtocolVersion) -> Metadata {
    let map = Arc::new(data.map.changed(|map| map.raise(version)));
    Metadata { map, ..data.clone() }
}
