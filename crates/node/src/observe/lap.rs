//! The time of a batch, divided among its commands.
//!
//! Reading a clock costs a tenth of a pipelined GET. So a batch's light commands, those with one key or
//! marked as fast, share one reading, and each gets an equal part. Time beyond a light command's maximum goes
//! to the one that moved most bytes. Every other command is measured alone, and so is one that moved many
//! bytes.

use sidle_commands::CommandId;

/// The maximum of a light command; the excess of a lap is one command's.
const LIGHT_NS: u64 = 5_000;
/// A command that moved so many bytes, request and reply, ends the lap.
const HEAVY_BYTES: usize = 16 << 10;

/// Commands of a batch between two readings of the stopwatch. Small, since one begins with every single
/// request; a batch has few places.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lap {
    /// The reading before the first.
    since_ns: u64,
    /// Bytes of the command that moved most.
    heaviest_bytes: usize,
    /// Its place.
    heaviest: u8,
    /// The first command's place in the batch.
    first: u8,
    /// The place behind the last.
    end: u8,
    /// A bit for each place: whether the command ran.
    ran: u32,
    /// The first command's id.
    kind: Option<CommandId>,
    /// Whether all of them ran and are the same command, so that they are counted together.
    is_uniform: bool,
}

/// The time of a lap's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Each but the heaviest.
    pub(crate) each_ns: u64,
    /// The one that moved most bytes; never less.
    pub(crate) heaviest_ns: u64,
}

impl Lap {
    /// Begins at a reading, with the batch's first command.
    #[inline]
    pub(crate) fn begin(reading_ns: u64) -> Lap {
        Lap { since_ns: reading_ns, ..Lap::default() }
    }

    /// The places of the lap's commands.
    pub(crate) fn places(&self) -> std::ops::Range<usize> {
        usize::from(self.first)..usize::from(self.end)
    }

    /// Whether no command is in it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Whether the command at this place ran.
    pub(crate) fn has_run(&self, place: usize) -> bool {
        self.ran >> place & 1 != 0
    }

    /// The single kind of all commands, if all of them ran.
    #[inline]
    pub(crate) fn only_kind(&self) -> Option<CommandId> {
        self.kind.filter(|_| self.is_uniform)
    }

    /// Adds the next command, which moved so many bytes; whether the lap is to end with it.
    #[inline]
    pub(crate) fn take_in(&mut self, kind: Option<CommandId>, bytes: usize, has_run: bool) -> bool {
        if self.is_empty() {
            (self.kind, self.is_uniform) = (kind, has_run);
            (self.heaviest, self.heaviest_bytes) = (self.end, bytes);
        } else {
            self.is_uniform &= has_run & (kind == self.kind);
            if bytes > self.heaviest_bytes {
                (self.heaviest, self.heaviest_bytes) = (self.end, bytes);
            }
        }
        self.ran |= u32::from(has_run) << self.end;
        self.end += 1;
        bytes >= HEAVY_BYTES
    }

    /// Its time so far; 0 where the clock went back.
    #[inline]
    pub(crate) fn elapsed(&self, reading_ns: u64) -> u64 {
        let elapsed = reading_ns.wrapping_sub(self.since_ns);
        if elapsed > i64::MAX as u64 { 0 } else { elapsed }
    }

    /// Moves its start back by the time of its first command's earlier steps.
    #[inline]
    pub(crate) fn backdate(&mut self, ns: u64) {
        self.since_ns = self.since_ns.wrapping_sub(ns);
    }

    /// Ends the lap at a reading and begins the next.
    #[inline]
    pub(crate) fn end(&mut self, reading_ns: u64) -> Spent {
        let elapsed = self.elapsed(reading_ns);
        let commands = u64::from(self.end - self.first);
        (self.since_ns, self.first) = (reading_ns, self.end);
        if commands <= 1 {
            return Spent { each_ns: elapsed, heaviest_ns: elapsed };
        }
        let share = elapsed / commands;
        let each_ns = share.min(LIGHT_NS);
        let heaviest_ns = if share <= LIGHT_NS { each_ns } else { elapsed - each_ns * (commands - 1) };
        Spent { each_ns, heaviest_ns }
    }

    /// The same lap for the next batch: places start at 0 again.
    #[inline]
    pub(crate) fn next_batch(self) -> Lap {
        Lap::begin(self.since_ns)
    }
}

impl Spent {
    /// The time of the command at a place of the lap.
    #[inline]
    pub(crate) fn of(self, place: usize, lap: Lap) -> u64 {
        if place == usize::from(lap.heaviest) { self.heaviest_ns } else { self.each_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Option<CommandId> = Some(CommandId(3));

    #[test]
    fn light_commands_share_and_what_is_beyond_is_the_heaviests() {
        let mut lap = Lap::begin(1_000);
        assert!(!lap.take_in(GET, 50, true) && !lap.take_in(GET, 70, false) && !lap.take_in(GET, 70, true));
        assert_eq!((lap.places(), lap.heaviest), (0..3, 1));
        assert_eq!([0, 1, 2].map(|place| lap.has_run(place)), [true, false, true]);
        assert_eq!(lap.end(1_304), Spent { each_ns: 101, heaviest_ns: 101 });
        assert!(lap.is_empty());
        [10, 90, 20].into_iter().for_each(|bytes| {
            lap.take_in(GET, bytes, true);
        });
        assert_eq!((lap.places(), lap.heaviest), (3..6, 4));
        assert_eq!(lap.end(3_001_304), Spent { each_ns: LIGHT_NS, heaviest_ns: 3_000_000 - 2 * LIGHT_NS });
    }

    #[test]
    fn one_command_has_all_of_its_lap_and_many_bytes_end_it() {
        let mut lap = Lap::begin(0);
        assert!(lap.take_in(GET, HEAVY_BYTES, true));
        assert_eq!(lap.end(9_000_000), Spent { each_ns: 9_000_000, heaviest_ns: 9_000_000 });
        // A clock that went back counts as no time.
        lap.take_in(GET, 0, true);
        assert_eq!(lap.end(8_000_000), Spent { each_ns: 0, heaviest_ns: 0 });
        // An earlier step's time is added, even right after the clock's start.
        let mut lap = Lap::begin(10);
        lap.backdate(50);
        lap.take_in(GET, 0, true);
        assert_eq!(lap.end(20), Spent { each_ns: 60, heaviest_ns: 60 });
    }

    #[test]
    fn a_lap_of_one_kind_is_recognized() {
        let of = |commands: &[(u16, bool)]| {
            let mut lap = Lap::begin(0);
            for &(kind, has_run) in commands {
                lap.take_in(Some(CommandId(kind)), 10, has_run);
            }
            lap.only_kind()
        };
        assert_eq!(of(&[(3, true), (3, true)]), GET);
        assert_eq!(of(&[(3, true), (3, false)]), None);
        assert_eq!(of(&[(3, false), (3, true)]), None);
        assert_eq!(of(&[(3, true), (4, true), (3, true)]), None);
    }
}
