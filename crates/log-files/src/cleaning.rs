//! Cleaning: what is still needed of the oldest file is written again, so that the file can go.

use crate::reader::{FileEnd, LogFile};
use crate::writer::LogWriter;
use sidle_types::CommitNumber;
use std::collections::BTreeMap;
use std::ops::Range;

/// For one commit at least so many times its predecessor's bytes are judged: the log shrinks under any load.
const JUDGED_SHARE: usize = 2;

/// What is cleaned.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    state: State,
    /// How many files there were when none was to be cleaned.
    looked_at: usize,
    tour: Option<Tour>,
    /// A tour has not made the log smaller: it rests until the log takes more than this.
    rests_up_to: u64,
    /// A file that cannot be cleaned: nothing behind it is.
    is_spoilt: bool,
    /// Where files have what the log has elsewhere: that goes with them.
    repeated: BTreeMap<u64, Vec<Range<usize>>>,
}

/// The log is cleaned once from its oldest end to its newest.
#[derive(Debug)]
struct Tour {
    /// The newest file at its beginning.
    last: u64,
    /// What the log took then, and what has been written since beside what is cleaned.
    bytes: u64,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Reading(u64),
    Judging(Judging),
}

#[derive(Debug)]
struct Judging {
    file: u64,
    bytes: Vec<u8>,
    /// Records not judged yet, by block; the last is next.
    left: Vec<Range<usize>>,
}

impl Cleaning {
    /// Where the files of earlier processes have what the log has elsewhere.
    pub(crate) fn skip(&mut self, repeated: BTreeMap<u64, Vec<Range<usize>>>) {
        self.repeated = repeated;
    }

    /// The file that is to be read now. `live_bytes`: see [`LogWriter::to_clean`].
    pub(crate) fn begin(&mut self, writer: &LogWriter, live_bytes: impl FnOnce() -> u64) -> Option<u64> {
        if self.is_spoilt || !matches!(self.state, State::Idle) || self.looked_at == writer.file_count() {
            return None;
        }
        let file = writer.to_clean(live_bytes()).filter(|file| self.goes_on(*file, writer));
        match file {
            Some(file) => self.state = State::Reading(file),
            None => self.looked_at = writer.file_count(),
        }
        file
    }

    /// Whether this file is to be cleaned now. A tour does not make the log smaller where what is left fills
    /// no block of its own: the next one would write it again, and so without end.
    fn goes_on(&mut self, file: u64, writer: &LogWriter) -> bool {
        let bytes = writer.staying_bytes();
        if self.tour.as_ref().is_none_or(|tour| tour.last < file) {
            let is_vain = self.tour.take().is_some_and(|tour| bytes >= tour.bytes);
            self.rests_up_to = if is_vain { bytes + bytes / 2 } else { self.rests_up_to };
            if bytes > self.rests_up_to {
                self.rests_up_to = 0;
                self.tour = writer.file().map(|last| Tour { last, bytes });
            }
        }
        self.tour.is_some()
    }

    /// So many bytes were written that are not of a cleaned file alone.
    pub(crate) fn note_others(&mut self, bytes: u64) {
        if let Some(tour) = &mut self.tour {
            tour.bytes += bytes;
        }
    }

    /// The file was read. The error: it cannot be cleaned, so it stays, and those behind it.
    pub(crate) fn read(&mut self, bytes: Vec<u8>, writer: &LogWriter) -> Result<(), String> {
        let State::Reading(file) = self.state else { panic!("no file is read") };
        let whole = whole_blocks(&bytes, file, writer.given_up_behind(file));
        match whole {
            Ok(blocks) => {
                let mut left = without(blocks, self.repeated.remove(&file).unwrap_or_default());
                left.reverse();
                self.state = State::Judging(Judging { file, bytes, left });
                Ok(())
            }
            Err(why) => {
                self.spoil();
                Err(why)
            }
        }
    }

    /// The file cannot be read, though the store has what it had: it stays, and those behind it.
    pub(crate) fn spoil(&mut self) {
        self.state = State::Idle;
        self.is_spoilt = true;
    }

    /// Judges about `least` bytes of records or more; `last_commit`: the bytes of the last one. Returns the
    /// file of which nothing is left to judge. `judge` takes records and how many bytes of them are enough,
    /// keeps what is still needed, and returns how many bytes it has judged.
    pub(crate) fn step(
        &mut self,
        least: usize,
        last_commit: usize,
        mut judge: impl FnMut(&[u8], usize) -> usize,
    ) -> Option<u64> {
        let State::Judging(judging) = &mut self.state else { return None };
        let most = least.max(JUDGED_SHARE * last_commit);
        let mut judged = 0;
        while let Some(block) = judging.left.last_mut().filter(|_| judged < most) {
            let some = judge(&judging.bytes[block.clone()], most - judged);
            judged += some;
            block.start += some;
            if block.start >= block.end {
                judging.left.pop();
            }
        }
        let file = judging.file;
        judging.left.is_empty().then(|| {
            self.state = State::Idle;
            self.looked_at = 0;
            file
        })
    }
}

/// What is left of these places without those.
fn without(places: Vec<Range<usize>>, mut those: Vec<Range<usize>>) -> Vec<Range<usize>> {
    those.sort_unstable_by_key(|place| place.start);
    let (mut left, mut those) = (Vec::with_capacity(places.len()), those.into_iter().peekable());
    for mut place in places {
        while let Some(next) = those.next_if(|next| next.start < place.end) {
            if place.start < next.start {
                left.push(place.start..next.start);
            }
            place.start = place.start.max(next.end);
        }
        if place.start < place.end {
            left.push(place);
        }
    }
    left
}

/// Where all blocks of a file have their records. `behind`: the commit behind which the next file has
/// everything again.
fn whole_blocks(bytes: &[u8], file: u64, behind: Option<CommitNumber>) -> Result<Vec<Range<usize>>, String> {
    let open = LogFile::open(bytes, file, None).map_err(|error| error.to_string())?;
    let (mut blocks, mut last) = (Vec::new(), CommitNumber(open.first().0.saturating_sub(1)));
    let end = open.blocks(|block| {
        blocks.push(block.place());
        last = block.commit;
    });
    match end == FileEnd::Closed || behind.is_some_and(|behind| last >= behind) {
        true => Ok(blocks),
        false => Err("not all of it can be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_elsewhere_is_left_out() {
        let left = |those: &[Range<usize>]| without(vec![10..20, 30..40, 50..60], those.to_vec());
        assert_eq!(left(&[]), [10..20, 30..40, 50..60]);
        assert_eq!(left(&[30..40, 70..80]), [10..20, 50..60]);
        assert_eq!(left(&[57..60, 10..12, 15..16, 50..52]), [12..15, 16..20, 30..40, 52..57]);
        assert_eq!(left(&[10..20, 30..40, 50..60]), [] as [Range<usize>; 0]);
    }
}
