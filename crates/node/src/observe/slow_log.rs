//! SLOWLOG: the latest slow commands.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most arguments of a request that are kept; the last one gives the number of the others.
const KEPT_ARGUMENTS: usize = 32;
/// The most bytes of each.
const KEPT_BYTES: usize = 128;

/// A slow command.
#[derive(Debug)]
pub(crate) struct SlowEntry {
    /// Never given twice by a node.
    pub(crate) id: u64,
    /// When it ended, in seconds of the wall clock.
    pub(crate) at_seconds: u64,
    /// Its duration.
    pub(crate) microseconds: u64,
    /// The request, shortened.
    pub(crate) arguments: Vec<Vec<u8>>,
    /// Its client's address.
    pub(crate) address: String,
    /// Its client's name.
    pub(crate) name: String,
}

/// The latest slow commands. The lock is taken only for those, and for SLOWLOG.
#[derive(Debug, Default)]
pub(crate) struct SlowLog(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    next_id: u64,
    newest_first: VecDeque<Arc<SlowEntry>>,
}

impl SlowLog {
    /// Enters a command without an id yet, and drops the oldest beyond `most`.
    pub(crate) fn enter(&self, mut entry: SlowEntry, most: u64) {
        let mut entries = self.entries();
        entry.id = entries.next_id;
        entries.next_id += 1;
        entries.newest_first.push_front(Arc::new(entry));
        entries.newest_first.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }

    /// The latest entries, the newest first.
    pub(crate) fn latest(&self, most: usize) -> Vec<Arc<SlowEntry>> {
        self.entries().newest_first.iter().take(most).cloned().collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries().newest_first.len()
    }

    /// Forgets all of them.
    pub(crate) fn reset(&self) {
        self.entries().newest_first.clear();
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Entries are whole wherever a panic could happen.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request as SLOWLOG shows it: shortened as Redis does, passwords left out. `name` is the command's.
pub(crate) fn shown_arguments(name: &str, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > KEPT_ARGUMENTS { KEPT_ARGUMENTS - 1 } else { args.len() };
    let mut shown: Vec<Vec<u8>> = (0..kept)
        .map(
            |index| {
                if is_secret(name, args, index) { b"(redacted)".to_vec() } else { shortened(args[index]) }
            },
        )
        .collect();
    if kept < args.len() {
        shown.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    shown
}

fn shortened(arg: &[u8]) -> Vec<u8> {
    match arg.split_at_checked(KEPT_BYTES) {
        Some((kept, rest)) if !rest.is_empty() => {
            [kept, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => arg.to_vec(),
    }
}

/// Whether an argument is a user's name, a password or a rule.
pub(crate) fn is_secret(name: &str, args: &[&[u8]], index: usize) -> bool {
    let follows = |words: usize, word: &str| {
        index.checked_sub(words).is_some_and(|at| args[at].eq_ignore_ascii_case(word.as_bytes()))
    };
    match name {
        "auth" => index > 0,
        "hello" => index > 2 && (follows(1, "auth") || follows(2, "auth")),
        "acl|setuser" | "acl|getuser" | "acl|deluser" => index > 1,
        "config|set" => index > 2 && index % 2 == 1 && follows(1, "requirepass"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> SlowEntry {
        SlowEntry {
            id: 0,
            at_seconds: 1,
            microseconds: number,
            arguments: Vec::new(),
            address: String::new(),
            name: String::new(),
        }
    }

    #[test]
    fn the_latest_are_kept_and_ids_go_on() {
        let log = SlowLog::default();
        (0..5).for_each(|number| log.enter(entry(number), 3));
        let of = |entries: Vec<Arc<SlowEntry>>| -> Vec<(u64, u64)> {
            entries.iter().map(|entry| (entry.id, entry.microseconds)).collect()
        };
        assert_eq!(of(log.latest(2)), [(4, 4), (3, 3)]);
        assert_eq!(log.len(), 3);
        log.reset();
        log.enter(entry(9), 3);
        assert_eq!(of(log.latest(usize::MAX)), [(5, 9)]);
        log.enter(entry(9), 0);
        assert_eq!(log.len(), 0);
    }

    #[test]
    fn long_requests_are_shortened() {
        let (long, exact) = ([b'x'; 200], [b'y'; 128]);
        let shown = shown_arguments("set", &[b"SET", &long, &exact]);
        assert_eq!(shown[1], [&[b'x'; 128][..], b"... (72 more bytes)"].concat());
        assert_eq!(shown[2], exact);
        let many: Vec<&[u8]> = vec![b"a"; 35];
        let shown = shown_arguments("mset", &many);
        assert_eq!((shown.len(), &shown[31][..]), (32, &b"... (4 more arguments)"[..]));
        assert_eq!(shown_arguments("mset", &many[..32]).len(), 32);
    }

    #[test]
    fn passwords_are_left_out() {
        let shown = |name, request: &str| {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let shown = shown_arguments(name, &args);
            shown.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("auth", "AUTH me secret"), "AUTH (redacted) (redacted)");
        assert_eq!(
            shown("hello", "HELLO 3 AUTH me secret SETNAME x"),
            "HELLO 3 AUTH (redacted) (redacted) SETNAME x"
        );
        assert_eq!(
            shown("config|set", "CONFIG SET timeout 3 requirepass secret"),
            "CONFIG SET timeout 3 requirepass (redacted)"
        );
        assert_eq!(shown("acl|setuser", "ACL SETUSER me >secret"), "ACL SETUSER (redacted) (redacted)");
        assert_eq!(shown("config|set", "CONFIG SET requirepass secret"), "CONFIG SET requirepass (redacted)");
    }
}
