//! One copy, followed through the log's files.

use crate::lease::Beats;
use crate::own::OwnFiles;
use crate::settings::Settings;
use sidle_types::{MonotonicUs, fault};
use sidle_wire::{Place, Tail, ToWriter};
use std::collections::VecDeque;

/// What is to be sent over a link. The bytes of an append are read from the log's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// [`CopyHello`](sidle_wire::CopyHello).
    Hello {
        /// The newest known epoch.
        epoch: u64,
    },
    /// [`ToBackup::Restart`](sidle_wire::ToBackup::Restart).
    Restart,
    /// [`ToBackup::Append`](sidle_wire::ToBackup::Append), of so many bytes.
    Append {
        /// Where they are, and belong.
        at: Place,
        /// How many.
        bytes: u64,
    },
    /// [`ToBackup::Forget`](sidle_wire::ToBackup::Forget).
    Forget {
        /// The log's first file.
        first: u64,
    },
    /// [`ToBackup::Epoch`](sidle_wire::ToBackup::Epoch).
    Epoch(u64),
    /// [`ToBackup::Beat`](sidle_wire::ToBackup::Beat).
    Beat(u64),
}

/// Whether a file with these first bytes begins as the copy that ends so.
pub fn is_end_of(tail: Tail, bytes: &[u8]) -> bool {
    bytes.len() as u64 == tail.end.at && check_of(bytes) == tail.check
}

/// The same of more bytes, behind those with this CRC32C.
pub(crate) fn check_after(check: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(check, bytes)
}

/// CRC32C of a copy's last file.
pub fn check_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// How far a link has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is sent.
    New,
    /// Where the copy ends was asked.
    Asked,
    /// The copy's last file is compared with the log's.
    Compared(Tail),
    /// The copy is to begin anew, or its last file is.
    Anew(Option<Place>),
    /// What is written is sent.
    Follows,
    /// Nobody needs the copy any more: its files are to go.
    Goes,
}

/// Whether a copy counts, decided or proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    No,
    Counts,
    /// That of an earlier process of its node does, which left what is there.
    CountsAsEarlier,
}

/// A connection to a backup.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    state: State,
    epoch: u64,
    /// Everything before is sent.
    sent: Place,
    /// Where the appends end that are not answered, and when each was sent.
    under_way: VecDeque<(Place, MonotonicUs)>,
    beats: Beats,
    written: Place,
    synced: Place,
    /// Before it has this place it may lack what files had that are gone: their survivors lie before it.
    whole_at: Place,
    /// The first file that was named to it.
    first: u64,
    /// When the last message was sent that is answered.
    answered_of: Option<MonotonicUs>,
    /// Since when it has not answered what was sent.
    waits_since: Option<MonotonicUs>,
}

impl Link {
    /// A connection that has just been opened.
    pub(crate) fn new() -> Link {
        let nowhere = Place::default();
        Link {
            state: State::New,
            epoch: 0,
            sent: nowhere,
            under_way: VecDeque::new(),
            beats: Beats::default(),
            written: nowhere,
            synced: nowhere,
            whole_at: nowhere,
            first: 0,
            answered_of: None,
            waits_since: None,
        }
    }

    /// Everything before this place is written there.
    pub(crate) fn written(&self) -> Place {
        self.written
    }

    /// Everything before this place is synced there.
    pub(crate) fn synced(&self) -> Place {
        self.synced
    }

    /// Where the copy has everything that the log had when it began to follow.
    pub(crate) fn whole_at(&self) -> Place {
        self.whole_at
    }

    /// Whether what is written here is sent there.
    pub(crate) fn follows(&self) -> bool {
        self.state == State::Follows
    }

    /// Since when it has not answered.
    pub(crate) fn waits_since(&self) -> Option<MonotonicUs> {
        self.waits_since
    }

    /// When the last message was sent whose answer is a promise.
    pub(crate) fn answered_of(&self) -> Option<MonotonicUs> {
        self.answered_of
    }

    /// When it is to be asked for its promise.
    pub(crate) fn poll_beat(&self) -> Option<MonotonicUs> {
        self.beats.poll_timeout().filter(|_| self.follows())
    }

    /// Time has passed, for a log whose copies give leases.
    pub(crate) fn pass_time(&mut self, now: MonotonicUs) {
        if self.follows() {
            self.beats.pass_time(now);
        }
    }

    /// Nobody needs the copy any more. Its files are to go, if it has any.
    pub(crate) fn give_up_copy(&mut self) {
        self.state = State::Goes;
        self.waits_since = None;
    }

    /// Whether nobody needs the copy any more.
    pub(crate) fn goes(&self) -> bool {
        self.state == State::Goes
    }

    /// What is to be compared: whether the log's file begins with bytes that have this checksum.
    pub(crate) fn to_compare(&self) -> Option<Tail> {
        match self.state {
            State::Compared(tail) => Some(tail),
            _ => None,
        }
    }

    /// What the backup has answered. `None`: it makes no sense.
    pub(crate) fn receive(&mut self, now: MonotonicUs, answer: ToWriter<'_>, own: &OwnFiles) -> Option<()> {
        match (answer, self.state) {
            (_, State::Goes) => {}
            (ToWriter::Has { tail, synced, .. }, State::Asked) => {
                self.waits_since = None;
                self.synced = synced;
                let first = own.first().unwrap_or(0);
                self.state = match tail {
                    Some(tail) if tail.end.file >= first && tail.end <= own.end() => State::Compared(tail),
                    // It ends where this log has never been.
                    Some(tail) if tail.end.file >= first && tail.end.file <= own.end().file => {
                        State::Anew(Some(Place { file: tail.end.file, at: 0 }))
                    }
                    _ => State::Anew(None),
                };
            }
            (ToWriter::Holds { written, synced }, State::Follows) => {
                if written > self.sent || synced > written || written < self.written {
                    return None;
                }
                (self.written, self.synced) = (written, self.synced.max(synced));
                while let Some((_, sent_at)) = self.under_way.pop_front_if(|&mut (end, _)| end <= written) {
                    self.answered_of = self.answered_of.max(Some(sent_at));
                }
                self.note_wait(now);
            }
            (ToWriter::Promises(number), State::Follows) => {
                self.answered_of = self.answered_of.max(Some(self.beats.answered(number)?));
                self.note_wait(now);
            }
            _ => return None,
        }
        Some(())
    }

    /// It has answered something: whether it has yet to answer more.
    fn note_wait(&mut self, now: MonotonicUs) {
        let waits = self.written < self.sent || self.beats.is_under_way();
        self.waits_since = waits.then_some(now);
    }

    /// The copy's last file was compared.
    pub(crate) fn compared(&mut self, is_same: bool, counting: Counting, own: &OwnFiles) {
        let State::Compared(tail) = self.state else { return };
        if is_same {
            self.follow_from(tail.end, counting, own);
        } else {
            self.state = State::Anew(Some(Place { file: tail.end.file, at: 0 }));
        }
    }

    fn follow_from(&mut self, place: Place, counting: Counting, own: &OwnFiles) {
        self.state = State::Follows;
        self.whole_at = if counting == Counting::Counts { Place::default() } else { own.end() };
        (self.sent, self.written) = (place, place);
        self.under_way.clear();
        self.synced = self.synced.min(place);
    }

    /// What is to be sent next. A copy that counts, or is proposed, is only appended to (Y5). `Err`: it would
    /// have to begin anew, and must not.
    pub(crate) fn next(
        &mut self,
        now: MonotonicUs,
        epoch: u64,
        counting: Counting,
        own: &OwnFiles,
        settings: &Settings,
    ) -> Result<Option<Sent>, ()> {
        if self.follows() && own.first().is_some_and(|first| self.sent.file < first) {
            // What it lacks of that file is gone, and what is behind is no log without it.
            self.state = State::Anew(None);
        }
        let sent = match self.state {
            State::New => {
                self.state = State::Asked;
                self.epoch = epoch;
                self.waits_since = Some(now);
                Sent::Hello { epoch }
            }
            State::Asked | State::Compared(_) => return Ok(None),
            State::Goes => Sent::Restart,
            State::Anew(_) if counting == Counting::Counts && !fault!(CopyThatCountsBeginsAnew) => {
                return Err(());
            }
            // Y15: until a change without that is decided.
            State::Anew(_) if counting == Counting::CountsAsEarlier && !fault!(EarlierCopyBeginsAnew) => {
                return Ok(None);
            }
            State::Anew(Some(place)) => {
                self.follow_from(place, counting, own);
                return self.next(now, epoch, counting, own, settings);
            }
            State::Anew(None) => {
                let first = own.first().unwrap_or(0);
                self.follow_from(Place { file: first, at: 0 }, counting, own);
                self.first = first;
                Sent::Restart
            }
            State::Follows if self.epoch < epoch => {
                self.epoch = epoch;
                Sent::Epoch(epoch)
            }
            State::Follows => return Ok(self.next_of_log(now, own, settings).or_else(|| self.beat(now))),
        };
        Ok(Some(sent))
    }

    /// What of the log is to be sent next.
    fn next_of_log(&mut self, now: MonotonicUs, own: &OwnFiles, settings: &Settings) -> Option<Sent> {
        // Y13: what is gone goes there, too, before anything of this process.
        let begun =
            own.begun_with().filter(|&(_, first)| self.first < first && !fault!(CopyKeepsWhatWasGone));
        if let Some((_, first)) = begun.filter(|&(end, _)| self.sent >= end) {
            if first > self.written.file {
                return None;
            }
            self.first = first;
            return Some(Sent::Forget { first });
        }
        match own.behind(self.sent) {
            Some(_) if self.under_way.len() >= settings.most_under_way => None,
            Some((at, bytes)) => {
                let most = match begun {
                    Some((end, _)) if end.file == at.file => end.at.saturating_sub(at.at),
                    _ => bytes,
                };
                let bytes = bytes.min(settings.most_bytes).min(most);
                self.sent = Place { file: at.file, at: at.at + bytes };
                self.under_way.push_back((self.sent, now));
                self.beats.asked(now);
                self.waits_since.get_or_insert(now);
                Some(Sent::Append { at, bytes })
            }
            None => {
                let first = own.first().filter(|&first| first > self.first && first <= self.written.file)?;
                self.first = first;
                Some(Sent::Forget { first })
            }
        }
    }

    /// Asks for nothing but the promise.
    fn beat(&mut self, now: MonotonicUs) -> Option<Sent> {
        let number = self.beats.next(now)?;
        self.waits_since.get_or_insert(now);
        Some(Sent::Beat(number))
    }

    /// A file of the log was begun again: whether the copy has anything of it.
    pub(crate) fn has_of(&self, file: u64) -> bool {
        self.sent.file >= file || self.to_compare().is_some_and(|tail| tail.end.file >= file)
    }
}
