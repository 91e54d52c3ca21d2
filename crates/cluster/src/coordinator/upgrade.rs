//! Which version the cluster speaks, and when it may speak the next.
//!
//! Every member speaks the cluster's version: whoever does not is not let in, and the version is raised only
//! to one that all members speak, those included that are down. A member that comes back with another program
//! joins anew, and is judged then. So what is written in the cluster's version is read by whoever receives
//! it, whichever of the two has learnt of a change first.

use super::members::shown;
use crate::limits::MAX_PARTS_NAMED;
use crate::{MetaError, Metadata, Refusal};
use sidle_types::{ProtocolVersion, Speaks, fault};
use std::sync::Arc;

/// Whether a program that speaks these can go on with what is written down. It changes nothing of it.
pub(super) fn check_spoken(data: &Metadata, speaks: Speaks) -> Result<(), MetaError> {
    let why = speaks.why_not(data.map.version());
    why.map_or(Ok(()), |why| Err(MetaError(format!("{why}. The cluster's metadata was left as it is"))))
}

/// What is to be written down so that the cluster speaks the highest version that all its members speak;
/// `None` when it does already. Refused where some members speak a later version and others hold it back.
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
