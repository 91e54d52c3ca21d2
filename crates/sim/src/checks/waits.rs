//! Where nothing goes wrong no command waits for long: it waits for one pull out of turn, or for an activation.

use super::Violation;
use crate::world::HostId;

/// Far above what a pull takes over the slowest network that is drawn, and below what a bulk move of everything takes on a
/// node that bounds it.
const LONGEST_US: u64 = 1_500_000;

/// A parked command of this node was woken after so long.
pub(super) fn check(host: HostId, waited_us: u64) -> Result<(), Violation> {
    if waited_us <= LONGEST_US {
        return Ok(());
    }
    let what = format!("a command waited at node {} for {waited_us} us, though nothing was wrong", host.0);
    Err(Violation::new("waits", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accuses_what_took_too_long() {
        assert_eq!(check(HostId(1), LONGEST_US), Ok(()));
        assert!(check(HostId(1), LONGEST_US + 1).is_err());
    }
}
