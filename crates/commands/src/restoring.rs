//! RESTORE of a large collection, which goes on over many turns.
//!
//! First the payload's checksum is checked. Names are then put in the order of their hashes: runs of them are
//! sorted, and merged. The collection is built aside in that order, a list's in its own. So each chunk is
//! written once. A step that finds no memory has changed nothing, and can be taken again.

use crate::keyspace::Keyspace;
use crate::reply_error::ReplyError;
use sidle_collections::{Collection, Draft, Finished, HashDraft, ListDraft, SetDraft};
use sidle_collections::{Kind, Limits};
use sidle_outline::{Large, Order};
use sidle_rdb::{RestoreError, SlicedKind, Slices, Text};
use sidle_types::{KeyHash, ValueKind};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A shorter payload is read in one go, in bytes.
const SLICED_BYTES: usize = 128 << 10;
/// How much of the checksum is computed in one step, in bytes.
const CHECKED_BYTES: usize = 512 << 10;
/// How many elements a step handles, and of how many bytes.
const ELEMENTS: usize = 1024;
const BYTES: usize = 64 << 10;

/// The progress of a RESTORE.
#[derive(Debug)]
pub struct Restoring {
    slices: Slices,
    phase: Phase,
    /// Hashes of names, and where they begin: each run is sorted, the last one first.
    runs: Vec<Vec<(u64, usize)>>,
    /// The first of each run, with its number.
    firsts: BinaryHeap<Reverse<(u64, usize, usize)>>,
    /// Where the names begin that are put next.
    next: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Checking,
    Sorting,
    Putting,
}

/// What a step leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// All of it was built aside.
    Built,
    /// It turned out to be short.
    OneGo,
}

/// Why a step was not taken.
pub(crate) enum Failure {
    Payload(RestoreError),
    Reply(ReplyError),
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Failure {
        Failure::Payload(error)
    }
}

impl Restoring {
    /// Begins, if the payload is so long that it is not restored in one go.
    pub(crate) fn begin(payload: &[u8], most_bytes: u64, limits: &Limits) -> Option<Restoring> {
        let small = limits.hash_entries.max(limits.intset_entries);
        // What is built must have the encoding of the whole from the first step on.
        if payload.len() < SLICED_BYTES || small > ELEMENTS as u64 {
            return None;
        }
        let (runs, firsts, next) = Default::default();
        let slices = Slices::begin(payload, most_bytes)?;
        Some(Restoring { slices, phase: Phase::Checking, runs, firsts, next })
    }

    pub(crate) fn kind(&self) -> ValueKind {
        match self.slices.kind() {
            SlicedKind::Hash => ValueKind::Hash,
            SlicedKind::Set => ValueKind::Set,
            SlicedKind::List => ValueKind::List,
        }
    }

    /// Does a bounded part of the work.
    pub(crate) fn step<'g>(
        &mut self,
        payload: &[u8],
        keyspace: &mut impl Keyspace<'g>,
    ) -> Result<Step, Failure> {
        match self.phase {
            Phase::Checking => {
                if self.slices.check(payload, CHECKED_BYTES)? {
                    let is_list = self.slices.kind() == SlicedKind::List;
                    self.phase = if is_list { Phase::Putting } else { Phase::Sorting };
                }
                Ok(Step::More)
            }
            Phase::Sorting => self.sort_some(payload).map(|()| Step::More),
            Phase::Putting if self.slices.kind() == SlicedKind::List => self.put_items(payload, keyspace),
            Phase::Putting => self.put_names(payload, keyspace),
        }
    }

    /// Reads a run of names.
    fn sort_some(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let (mut run, mut bytes) = (Vec::with_capacity(ELEMENTS), 0);
        while run.len() < ELEMENTS && bytes < BYTES {
            let Some((at, element)) = self.slices.read(payload)? else {
                self.phase = Phase::Putting;
                break;
            };
            bytes += element.iter().map(|text| text.len()).sum::<usize>();
            run.push((KeyHash::of_key(&element[0]).0, at));
        }
        run.sort_unstable_by_key(|name| Reverse(*name));
        if let Some((hash, at)) = run.pop() {
            self.firsts.push(Reverse((hash, at, self.runs.len())));
            self.runs.push(run);
        }
        Ok(())
    }

    /// Puts the next names, in the order of their hashes.
    fn put_names<'g>(&mut self, payload: &[u8], keyspace: &mut impl Keyspace<'g>) -> Result<Step, Failure> {
        // Without memory these are put again.
        let (mut elements, mut bytes) = (Vec::with_capacity(ELEMENTS), 0);
        for &at in &self.next {
            elements.push(self.slices.read_again(payload, at)?);
        }
        while elements.len() < ELEMENTS && bytes < BYTES && self.next.len() == elements.len() {
            let Some(Reverse((_, at, run))) = self.firsts.pop() else { break };
            if let Some((hash, at)) = self.runs[run].pop() {
                self.firsts.push(Reverse((hash, at, run)));
            }
            let element = self.slices.read_again(payload, at)?;
            bytes += element.iter().map(|text| text.len()).sum::<usize>();
            self.next.push(at);
            elements.push(element);
        }
        let step = match self.slices.kind() {
            SlicedKind::Hash => {
                let pairs = elements.iter().map(|element| (&*element[0], &*element[1]));
                put::<HashDraft<'_>>(pairs, keyspace)?
            }
            _ => put::<SetDraft<'_>>(elements.iter().map(|element| &*element[0]), keyspace)?,
        };
        self.next.clear();
        Ok(if step == Step::More && self.firsts.is_empty() { Step::Built } else { step })
    }

    /// Puts the next items of a list.
    fn put_items<'g>(&mut self, payload: &[u8], keyspace: &mut impl Keyspace<'g>) -> Result<Step, Failure> {
        // Without memory they are read again.
        let mut slices = self.slices.clone();
        let (mut items, mut bytes, mut is_last): (Vec<Text<'_>>, _, _) = (Vec::new(), 0, false);
        while items.len() < 2 * ELEMENTS && bytes < BYTES && !is_last {
            match slices.read(payload)? {
                Some((_, part)) => {
                    bytes += part.iter().map(|item| item.len()).sum::<usize>();
                    items.extend(part);
                }
                None => is_last = true,
            }
        }
        let step = put::<ListDraft<'_>>(items.iter().map(|item| &**item), keyspace)?;
        self.slices = slices;
        Ok(if step == Step::More && is_last { Step::Built } else { step })
    }
}

/// Adds elements to what is built aside; each name is a new one.
fn put<'g, 'p, D>(
    elements: impl ExactSizeIterator<Item = D::Element>,
    keyspace: &mut impl Keyspace<'g>,
) -> Result<Step, Failure>
where
    'g: 'p,
    D: Draft<'p>,
{
    let old: Option<Large<'p>> = keyspace.aside();
    let expected = elements.len() + old.map_or(0, |old| old.len() as usize);
    let mut draft = D::of(old.map(Collection::large), elements.len());
    elements.for_each(|element| draft.take(element));
    if draft.len() != expected {
        return Err(RestoreError::Damaged.into());
    }
    let most_bytes = keyspace.longest_value_bytes();
    match draft.finish(&keyspace.collection_limits()) {
        // Only the first step has so little.
        Finished::Packed(_) => Ok(Step::OneGo),
        Finished::Large(outline) if outline.sequence(Order::Main).bytes() > most_bytes => {
            Err(Failure::Reply(ReplyError::text(TOO_LONG)))
        }
        Finished::Large(outline) => {
            let put = keyspace.put_aside(D::Of::VALUE_KIND, outline);
            put.map_err(|error| Failure::Reply(error.into()))?;
            Ok(Step::More)
        }
    }
}

/// The reply to a collection that is too long.
pub(crate) const TOO_LONG: &str = "ERR the value exceeds the maximum size (proto-max-bulk-len)";
