//! Without faults no command waits long: it waits for one priority pull, or for an activation.
//!
//! Four things excuse longer waits. A pull of large values takes long over a slow link. A record larger than
//! a piece takes a trip for each piece: the wait counts from the last one. Some protocols serve nobody before
//! the end, or pull nothing ahead: there a command waits for everything before its key, under the operator's
//! bound. A walk over keys waits for all of them, under the node's patience: it is not judged here.

use super::Violation;
use crate::world::HostId;
use sidle_types::MonotonicUs;

/// The limit beyond its message's wait for the link. It is far above what movers and workers take, and below
/// a bulk move of everything on a bounded node.
const LONGEST_US: u64 = 1_500_000;

/// A woken command of this node has waited since then for a message that waits this long for its link.
pub(super) fn check(
    host: HostId,
    now: MonotonicUs,
    since: MonotonicUs,
    link_us: u64,
) -> Result<(), Violation> {
    let waited_us = now.since(since);
    if waited_us <= LONGEST_US + link_us {
        return Ok(());
    }
    let what = format!("a command waited at node {} for {waited_us} us, though nothing was wrong", host.0);
    Err(Violation::new("waits", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: MonotonicUs = MonotonicUs(7);

    #[test]
    fn check_accuses_what_took_longer_than_its_link_explains() {
        for link_us in [0, 10_000_000] {
            let woken = |after_us| check(HostId(1), SINCE.plus_us(after_us), SINCE, link_us);
            assert_eq!(woken(LONGEST_US + link_us), Ok(()));
            assert!(woken(LONGEST_US + link_us + 1).is_err());
        }
    }
}
