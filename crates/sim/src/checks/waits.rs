//! Where nothing goes wrong no command waits for long: it waits for one pull out of turn, or for an
//! activation.
//!
//! Three things excuse more. A pull of large values takes long over a slow link. A record larger than a piece
//! takes a trip for each of its pieces: waiting counts from the last one. And a migration whose protocol
//! serves nobody until everything is there, or pulls nothing out of turn, makes it wait for all that comes
//! before, as long as that takes under the bound that the operator has set.

use super::Violation;
use crate::world::HostId;
use sidle_types::MonotonicUs;

/// Beyond what its message waits for the link: far above what movers and workers take, and below what a bulk
/// move of everything takes on a node that bounds it.
const LONGEST_US: u64 = 1_500_000;

/// A command of this node has been woken that has waited since then for a message that waits so long for its
/// link.
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
