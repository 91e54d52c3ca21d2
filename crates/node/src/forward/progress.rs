//! The progress of a command that other nodes run in whole or part (F3).

use super::holds::Hold;
use super::{Ending, NOT_HERE, PATIENCE_US, UNKNOWN};
use sidle_commands::{ReplyError, Split};
use sidle_resp::{ParsedReply, Reply, ReplyLimits, ReplyParser, ReplyWriter};
use sidle_types::{MonotonicUs, Slot};
use std::ops::Range;

/// The state of one of a command's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyState {
    /// Nothing has been done.
    Todo,
    /// A request with it is in flight: the command's part with this number.
    Out(u32),
    /// It is done, and its result is kept.
    Done,
}

/// Why a command fails, or stops part-way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A part was not sent in time.
    Unreachable,
    /// The connection ended while a part that writes was under way.
    Broken,
    /// An owner refused its part, with this error.
    Refused(Vec<u8>),
}

/// The consequence of the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Another node ran the whole command, and this is its reply.
    Reply(Vec<u8>),
    /// Some keys are left, or only the reply is to be written.
    GoOn {
        /// A node did not own the keys it was sent.
        was_elsewhere: bool,
    },
    /// Nothing more is done.
    Failed(Failure),
}

/// How far a command has come.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When it was forwarded first.
    pub(super) since: MonotonicUs,
    /// The range table of its last forwarding.
    pub(super) sent_under: u64,
    /// Part 0 is the command as the client sent it.
    pub(super) is_whole: bool,
    /// The slot of its first key.
    slot: Slot,
    pub(super) is_write: bool,
    /// What other commands leave alone while nodes carry it out together.
    pub(super) hold: Option<Hold>,
    keys: Vec<KeyState>,
    /// Each key's result, if the reply has an element for each: its value's place in `bytes`.
    values: Vec<Option<Range<usize>>>,
    bytes: Vec<u8>,
    sum: i64,
}

impl Progress {
    /// Nothing of a command with so many keys is done; the first of them is in `slot`.
    pub(super) fn new(now: MonotonicUs, slot: Slot, is_write: bool, keys: usize) -> Progress {
        Progress {
            since: now,
            sent_under: 0,
            is_whole: false,
            slot,
            is_write,
            hold: None,
            keys: vec![KeyState::Todo; keys],
            values: Vec::new(),
            bytes: Vec::new(),
            sum: 0,
        }
    }

    /// The numbers of the keys still to be done.
    pub(super) fn todo(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.keys.len()).filter(|&key| self.keys[key] == KeyState::Todo)
    }

    /// Whether any key is done.
    pub(super) fn has_done(&self) -> bool {
        self.keys.contains(&KeyState::Done)
    }

    /// Whether any owner counted a key.
    pub(super) fn has_any(&self) -> bool {
        self.sum > 0
    }

    /// Forgets all results: a read may be done at any time.
    pub(super) fn start_again(&mut self) {
        self.keys.fill(KeyState::Todo);
        self.values.clear();
        self.bytes.clear();
        self.sum = 0;
    }

    /// The error of a command whose time is over.
    pub(super) fn overdue(&self, now: MonotonicUs) -> Option<ReplyError> {
        (now.since(self.since) >= PATIENCE_US).then(|| self.failed(Failure::Unreachable))
    }

    /// Ends its hold.
    pub(super) fn without_hold(mut self: Box<Self>) -> Box<Self> {
        self.hold = None;
        self
    }

    /// The bytes of values in the reply so far.
    pub(super) fn reply_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Its memory.
    pub(crate) fn held_bytes(&self) -> usize {
        let places = self.values.capacity() * size_of::<Option<Range<usize>>>();
        self.bytes.capacity() + places + self.keys.capacity() * size_of::<KeyState>()
    }

    /// The whole command is on its way.
    pub(super) fn send_whole(&mut self) {
        self.is_whole = true;
        self.keys.fill(KeyState::Out(0));
    }

    /// A part with these keys is on its way.
    pub(super) fn send(&mut self, part: usize, keys: &[usize]) {
        self.is_whole = false;
        keys.iter().for_each(|&key| self.keys[key] = KeyState::Out(part as u32));
    }

    /// Takes in how the outstanding parts ended.
    pub(super) fn settle(&mut self, ended: Vec<(u32, Ending)>, split: Split) -> Settled {
        let mut was_elsewhere = false;
        let mut failure = None;
        for (part, ending) in ended {
            let keys: Vec<usize> =
                (0..self.keys.len()).filter(|&key| self.keys[key] == KeyState::Out(part)).collect();
            keys.iter().for_each(|&key| self.keys[key] = KeyState::Todo);
            match ending {
                Ending::Answer(reply) if is_not_here(&reply) => was_elsewhere = true,
                Ending::Answer(reply) if self.is_whole => return Settled::Reply(reply),
                Ending::Answer(reply) => failure = self.take_in(&keys, &reply, split).err().or(failure),
                Ending::MapChanged => {}
                Ending::Unreachable => failure = failure.or(Some(Failure::Unreachable)),
                // F2: a read is repeated.
                Ending::Broken | Ending::Silent if !self.is_write => {}
                Ending::Broken | Ending::Silent => failure = Some(Failure::Broken),
            }
        }
        match failure {
            Some(failure) => Settled::Failed(failure),
            None => Settled::GoOn { was_elsewhere },
        }
    }

    /// Takes in an owner's reply to the command over these keys.
    pub(super) fn take_in(&mut self, keys: &[usize], reply: &[u8], split: Split) -> Result<(), Failure> {
        let mut parser = ReplyParser::new(ReplyLimits::default());
        let Ok(ParsedReply::Complete { frame, .. }) = parser.parse(reply) else {
            return Err(Failure::Refused(b"ERR the other node's reply is invalid".to_vec()));
        };
        match (split, frame.reply) {
            (_, Reply::Error(text)) => return Err(Failure::Refused(text.to_vec())),
            (Split::Each, Reply::Array(items)) if items.len() == keys.len() => {
                self.values.resize(self.keys.len(), None);
                for (&key, item) in keys.iter().zip(items) {
                    let start = self.bytes.len();
                    self.values[key] = item.as_bytes().map(|value| start..start + value.len());
                    self.bytes.extend_from_slice(item.as_bytes().unwrap_or_default());
                }
            }
            (Split::Sum | Split::AllOrNone, Reply::Integer(count)) => self.sum += count,
            (Split::AllOk, Reply::Simple(b"OK")) => {}
            _ => return Err(Failure::Refused(b"ERR the other node answered something else".to_vec())),
        }
        keys.iter().for_each(|&key| self.keys[key] = KeyState::Done);
        Ok(())
    }

    /// Writes the command's reply; all of its keys are done.
    pub(super) fn write(&self, split: Split, reply: &mut ReplyWriter<'_>) {
        match split {
            Split::Each => {
                reply.array(self.values.len());
                for value in &self.values {
                    match value {
                        Some(place) => reply.bulk(&self.bytes[place.clone()]),
                        None => reply.null(),
                    }
                }
            }
            Split::Sum => reply.integer(self.sum),
            Split::AllOrNone => reply.integer(self.has_any().into()),
            Split::AllOk => reply.ok(),
            Split::Never => unreachable!("a command that is never split has no parts"),
        }
    }

    /// The error of a command whose local or remaining part was refused.
    pub(crate) fn refused(&self, error: ReplyError) -> ReplyError {
        self.failed(Failure::Refused(error.line().into_owned()))
    }

    /// The error of a command that fails, or stops part-way.
    pub(super) fn failed(&self, failure: Failure) -> ReplyError {
        let slot = self.slot;
        let is_lost = failure == Failure::Broken;
        let why = match failure {
            Failure::Unreachable => format!(
                "CLUSTERDOWN a node that has keys of hash slot {slot} cannot be reached: `sidle status` names it. \
                 Start it again, or have it taken over (`sidle takeover`)"
            ),
            Failure::Broken => {
                format!("the connection to a node that has keys of hash slot {slot} broke before it answered")
            }
            Failure::Refused(text) => String::from_utf8_lossy(&text).into_owned(),
        };
        match (self.is_write && self.has_done(), is_lost) {
            (true, _) => ReplyError::owned(format!(
                "{UNKNOWN} the command was carried out for some of its keys, and perhaps not for others: {why}"
            )),
            (false, true) => {
                ReplyError::owned(format!("{UNKNOWN} whether the command was carried out is unknown: {why}"))
            }
            (false, false) => ReplyError::owned(why),
        }
    }
}

fn is_not_here(reply: &[u8]) -> bool {
    reply.strip_prefix(b"-").is_some_and(|text| text.starts_with(NOT_HERE.as_bytes()))
}

/// The answer to a forwarded request for what this node does not own.
pub(crate) const NOT_HERE_ERROR: ReplyError =
    ReplyError::text("SIDLENOTHERE this node does not own all of the keys: look again who does");

#[cfg(test)]
mod tests {
    use super::*;

    const AT: MonotonicUs = MonotonicUs(5);

    fn answer(bytes: &[u8]) -> Ending {
        Ending::Answer(bytes.to_vec())
    }

    fn written(progress: &Progress, split: Split) -> String {
        let mut out = Vec::new();
        progress.write(split, &mut ReplyWriter::new(&mut out, sidle_resp::RespVersion::Resp2));
        String::from_utf8(out).expect("text")
    }

    /// Keys 0 and 2 of three are part 0, key 1 is part 1.
    fn two_parts() -> Progress {
        let mut progress = Progress::new(AT, Slot::LAST, true, 3);
        progress.send(0, &[0, 2]);
        progress.send(1, &[1]);
        progress
    }

    #[test]
    fn values_are_merged_in_the_order_of_the_keys() {
        let mut progress = two_parts();
        let ended = vec![(1, answer(b"*1\r\n$1\r\nb\r\n")), (0, answer(b"*2\r\n$1\r\na\r\n$-1\r\n"))];
        assert_eq!(progress.settle(ended, Split::Each), Settled::GoOn { was_elsewhere: false });
        assert_eq!(progress.todo().count(), 0);
        assert_eq!(written(&progress, Split::Each), "*3\r\n$1\r\na\r\n$1\r\nb\r\n$-1\r\n");
    }

    #[test]
    fn counts_are_added() {
        let mut progress = two_parts();
        progress.settle(vec![(0, answer(b":2\r\n")), (1, answer(b":1\r\n"))], Split::Sum);
        assert_eq!(written(&progress, Split::Sum), ":3\r\n");
    }

    #[test]
    fn only_what_was_not_done_is_done_again() {
        let mut progress = two_parts();
        let ended = vec![(0, answer(b"-SIDLENOTHERE look\r\n")), (1, answer(b"+OK\r\n"))];
        assert_eq!(progress.settle(ended, Split::AllOk), Settled::GoOn { was_elsewhere: true });
        assert_eq!(progress.todo().collect::<Vec<_>>(), [0, 2]);
        assert!(progress.has_done());
    }

    #[test]
    fn what_was_lost_is_read_again_but_never_written_again() {
        for is_write in [false, true] {
            let mut progress = two_parts();
            progress.is_write = is_write;
            let ended = vec![(0, Ending::Broken), (1, Ending::MapChanged)];
            let settled = progress.settle(ended, Split::Sum);
            let expected = match is_write {
                true => Settled::Failed(Failure::Broken),
                false => Settled::GoOn { was_elsewhere: false },
            };
            assert_eq!(settled, expected);
        }
    }

    #[test]
    fn an_owners_error_fails_the_command_after_the_other_parts_were_noted() {
        let mut progress = two_parts();
        let ended = vec![(0, answer(b"-OOM no\r\n")), (1, answer(b"+OK\r\n"))];
        let refused = Failure::Refused(b"OOM no".to_vec());
        assert_eq!(progress.settle(ended, Split::AllOk), Settled::Failed(refused));
        assert!(progress.has_done());
    }

    #[test]
    fn what_is_told_of_the_slot_holds_whether_it_is_split_or_moves_whole() {
        for failure in [Failure::Unreachable, Failure::Broken] {
            let told = two_parts().failed(failure).line().into_owned();
            let told = String::from_utf8(told).expect("text");
            assert!(
                told.contains("hash slot ") && !told.contains("split") && !told.contains("moving"),
                "{told}"
            );
        }
    }

    #[test]
    fn replies_of_another_kind_are_refused() {
        for (split, reply) in [
            (Split::Each, &b"*1\r\n$1\r\na\r\n"[..]),
            (Split::Each, b":1\r\n"),
            (Split::Sum, b"+OK\r\n"),
            (Split::AllOk, b"+QUEUED\r\n"),
            (Split::AllOk, b"+O"),
        ] {
            let mut progress = two_parts();
            assert!(progress.take_in(&[0, 2], reply, split).is_err(), "{split:?}");
            assert!(!progress.has_done());
        }
    }

    #[test]
    fn a_whole_command_is_answered_in_the_owners_words() {
        let mut progress = Progress::new(AT, Slot::LAST, true, 1);
        progress.send_whole();
        let settled = progress.settle(vec![(0, answer(b"-WRONGTYPE x\r\n"))], Split::Never);
        assert_eq!(settled, Settled::Reply(b"-WRONGTYPE x\r\n".to_vec()));
    }
}
