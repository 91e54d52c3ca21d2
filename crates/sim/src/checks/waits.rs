//! Where nothing goes wrong no command waits for long: it waits for one pull out of turn, or for an activation.
//!
//! Unless the migration's protocol serves nobody until everything is there: then it waits for all of that, as long as the
//! bound that the operator has set makes it.

use super::Violation;
use crate::world::HostId;
use sidle_types::MonotonicUs;

/// Far above what a pull takes over the slowest network that is drawn, and below what a bulk move of everything takes on a
/// node that bounds it.
const LONGEST_US: u64 = 1_500_000;

/// A command of this node that was parked at `since` has been woken. `filling_at`: when the node was last seen to fill a range that
/// it serves to nobody meanwhile.
pub(super) fn check(
    host: HostId,
    now: MonotonicUs,
    since: MonotonicUs,
    filling_at: MonotonicUs,
) -> Result<(), Violation> {
    let waited_us = now.since(since.max(filling_at));
    if waited_us <= LONGEST_US {
        return Ok(());
    }
    let what = format!("a command waited at node {} for {waited_us} us, though nothing was wrong", host.0);
    Err(Violation::new("waits", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: MonotonicUs = MonotonicUs(7);
    const NEVER: MonotonicUs = MonotonicUs(0);

    fn woken(after_us: u64, filling_at: MonotonicUs) -> Result<(), Violation> {
        check(HostId(1), SINCE.plus_us(after_us), SINCE, filling_at)
    }

    #[test]
    fn check_accuses_what_took_too_long() {
        assert_eq!(woken(LONGEST_US, NEVER), Ok(()));
        assert!(woken(LONGEST_US + 1, NEVER).is_err());
    }

    #[test]
    fn filling_excuses_what_was_waited_until_then_and_no_more() {
        let filling_at = SINCE.plus_us(10 * LONGEST_US);
        assert_eq!(woken(11 * LONGEST_US, filling_at), Ok(()));
        assert!(woken(11 * LONGEST_US + 1, filling_at).is_err());
    }
}
