//! Every store's counts match its content.

use super::Violation;
use crate::host::Host;
use crate::world::HostId;

/// Recounts the store of one machine.
pub(super) fn check_one(hosts: &[Host], host: HostId) -> Result<(), Violation> {
    let Some(process) = &hosts[host.0].process else { return Ok(()) };
    let violation = |what: String| Violation::new("accounting", format!("node {}: {what}", host.0));
    process.parts.store.check_accounting().map_err(violation)
}

/// Recounts all stores.
pub(super) fn check(hosts: &[Host]) -> Result<(), Violation> {
    (0..hosts.len()).try_for_each(|number| check_one(hosts, HostId(number)))
}
