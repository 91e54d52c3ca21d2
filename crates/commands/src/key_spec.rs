//! Where a command's keys are among its arguments.

use crate::number::parse_i64;

/// The positions of a command's keys among its arguments.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// The index of the first key; 0 means that there are no keys.
    pub first: u8,
    /// The index of the last key; negative counts from the end.
    pub last: i8,
    /// From one key to the next.
    pub step: u8,
    /// The access to the keys, in the words of `COMMAND INFO`: `RO`, `RW`, `OW` or `RM`, then access, update,
    /// ...
    pub access: &'static [&'static str],
    /// For a first key with an access of its own: that to the others.
    pub last_access: Option<&'static [&'static str]>,
    /// The index of the number of keys, which follow it; 0: their number is not an argument.
    pub count_at: u8,
    /// Finds one more key, which an option names.
    pub optional: Option<OptionalKey>,
    /// Where whole commands are whose keys are this one's, too.
    pub within: Within,
}

/// Where commands are in a request, by the index where they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// There are none.
    Nothing,
    /// One, up to the end.
    Command(u8),
    /// Several, up to the end. Each follows a check, and how many words it has.
    Checked(u8),
}

/// Returns the index of a key that is there only in some requests.
pub type OptionalKey = fn(&[&[u8]]) -> Option<usize>;

impl KeySpec {
    /// No keys.
    pub const NONE: KeySpec = KeySpec::new(0, 0, 0, &[]);

    const fn new(first: u8, last: i8, step: u8, access: &'static [&'static str]) -> KeySpec {
        let within = Within::Nothing;
        KeySpec { first, last, step, access, last_access: None, count_at: 0, optional: None, within }
    }

    /// One key, the first argument.
    pub const fn one(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, 1, 1, access)
    }

    /// One key, the argument after the subcommand.
    pub const fn second(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(2, 2, 1, access)
    }

    /// Two keys with one access, the first two arguments.
    pub const fn two(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, 2, 1, access)
    }

    /// The same with an access for each.
    pub const fn from_to(from: &'static [&'static str], to: &'static [&'static str]) -> KeySpec {
        KeySpec { last_access: Some(to), ..KeySpec::two(from) }
    }

    /// Every argument is a key, the first with an access of its own.
    pub const fn into_from_all(into: &'static [&'static str], from: &'static [&'static str]) -> KeySpec {
        KeySpec { last_access: Some(from), ..KeySpec::all(into) }
    }

    /// So many keys as the argument before them says.
    pub const fn counted(count_at: u8, access: &'static [&'static str]) -> KeySpec {
        KeySpec { count_at, ..KeySpec::new(count_at + 1, 0, 1, access) }
    }

    /// A first key, and so many more as the argument before them says.
    pub const fn into_from_counted(
        into: &'static [&'static str],
        count_at: u8,
        from: &'static [&'static str],
    ) -> KeySpec {
        KeySpec { last_access: Some(from), count_at, ..KeySpec::new(1, 1, 1, into) }
    }

    /// One key, the first argument, and one that an option names.
    pub const fn one_and_optional(
        access: &'static [&'static str],
        optional: OptionalKey,
        optional_access: &'static [&'static str],
    ) -> KeySpec {
        KeySpec { last_access: Some(optional_access), optional: Some(optional), ..KeySpec::one(access) }
    }

    /// One key, the first argument, and those of the command that begins at an index.
    pub const fn one_and_of_command(access: &'static [&'static str], command_at: u8) -> KeySpec {
        KeySpec { within: Within::Command(command_at), ..KeySpec::one(access) }
    }

    /// Those of the commands that begin at an index, each behind its check and its number of words.
    pub const fn of_checked(access: &'static [&'static str], commands_at: u8) -> KeySpec {
        KeySpec { within: Within::Checked(commands_at), ..KeySpec::new(0, 0, 1, access) }
    }

    /// Every argument is a key.
    pub const fn all(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, -1, 1, access)
    }

    /// Every argument but the last is a key.
    pub const fn all_but_last(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, -2, 1, access)
    }

    /// Every other argument is a key, followed by its value.
    pub const fn pairs(access: &'static [&'static str]) -> KeySpec {
        KeySpec::new(1, -1, 2, access)
    }

    /// The indices of the keys in a request, whose first argument is the command's name; without those of a
    /// command in it. A number of keys that cannot be is none.
    #[inline]
    pub fn indices(self, args: &[&[u8]]) -> impl Iterator<Item = usize> + use<> {
        let argument_count = args.len();
        if self.count_at != 0 || self.optional.is_some() {
            return self.searched_indices(args);
        }
        let end = match self.last {
            last if last >= 0 => last as usize + 1,
            last => (argument_count + 1).saturating_sub(last.unsigned_abs() as usize),
        };
        let range = if self.first == 0 { 0..0 } else { self.first as usize..end.min(argument_count) };
        Indices { into: None, rest: range.step_by((self.step as usize).max(1)) }
    }

    /// The indices where arguments tell how many keys there are.
    #[cold]
    fn searched_indices(self, args: &[&[u8]]) -> Indices {
        let first = usize::from(self.first);
        if let Some(find) = self.optional {
            let found = find(args).map_or(0..0, |index| index..index + 1);
            return Indices { into: (first < args.len()).then_some(first), rest: found.step_by(1) };
        }
        let count = args.get(usize::from(self.count_at)).and_then(|count| parse_i64(count));
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let counted = usize::from(self.count_at) + 1;
        let end = counted.saturating_add(count);
        let rest = if end <= args.len() { counted..end } else { 0..0 };
        let into = (first < counted && args.len() > 1).then_some(first);
        Indices { into, rest: rest.step_by(1) }
    }

    /// Whether every key has its own arguments: a request in which the last one lacks some has no parts.
    pub fn are_whole(self, argument_count: usize) -> bool {
        let step = usize::from(self.step).max(1);
        self.last >= 0 || argument_count.saturating_sub(usize::from(self.first)).is_multiple_of(step)
    }
}

/// The indices of a request's keys.
struct Indices {
    /// Of one that stands apart.
    into: Option<usize>,
    rest: std::iter::StepBy<std::ops::Range<usize>>,
}

impl Iterator for Indices {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.into.take().or_else(|| self.rest.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_follow_first_last_and_step() {
        let of = |spec: KeySpec, count| spec.indices(&vec![&b"x"[..]; count]).collect::<Vec<_>>();
        assert_eq!(of(KeySpec::NONE, 3), Vec::<usize>::new());
        assert_eq!(of(KeySpec::one(&[]), 3), [1]);
        assert_eq!(of(KeySpec::one(&[]), 1), Vec::<usize>::new());
        assert_eq!(of(KeySpec::second(&[]), 3), [2]);
        assert_eq!(of(KeySpec::two(&[]), 5), [1, 2]);
        assert_eq!(of(KeySpec::from_to(&[], &[]), 2), [1]);
        assert_eq!(of(KeySpec::all(&[]), 4), [1, 2, 3]);
        assert_eq!(of(KeySpec::pairs(&[]), 5), [1, 3]);
        assert_eq!(of(KeySpec::pairs(&[]), 4), [1, 3]);
        assert_eq!(of(KeySpec::into_from_all(&[], &[]), 4), [1, 2, 3]);
        let counted = |count: &str| {
            let args = [&b"x"[..], count.as_bytes(), b"a", b"b", b"LIMIT"];
            KeySpec::counted(1, &[]).indices(&args).collect::<Vec<_>>()
        };
        assert_eq!((counted("1"), counted("3")), (vec![2], vec![2, 3, 4]));
        for none in ["0", "-1", "4", "x", "9223372036854775807"] {
            assert_eq!(counted(none), Vec::<usize>::new(), "{none}");
        }
        assert_eq!(of(KeySpec::counted(1, &[]), 1), Vec::<usize>::new());
        let args = [&b"zunionstore"[..], b"into", b"2", b"a", b"b", b"weights"];
        let into = KeySpec::into_from_counted(&[], 2, &[]);
        assert_eq!(into.indices(&args).collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(into.indices(&args[..4]).collect::<Vec<_>>(), [1]);
        let found = |args: &[&[u8]]| {
            let third = |args: &[&[u8]]| (args.len() > 3).then_some(3);
            KeySpec::one_and_optional(&[], third, &[]).indices(args).collect::<Vec<_>>()
        };
        assert_eq!((found(&args[..1]), found(&args[..3]), found(&args[..5])), (vec![], vec![1], vec![1, 3]));
    }
}
