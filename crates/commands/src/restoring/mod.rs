//! RESTORE of a large collection, which goes on over many turns.
//!
//! First the payload's checksum is checked. Names are then put in the order of their hashes, a sorted set's
//! once more in that of their scores: for each order the payload is read, and its elements are [`sorted`].
//! The collection is built aside in that order, a list's in its own. So each chunk is written once. A step
//! that finds no memory has changed nothing, and can be taken again.

mod sorted;

use crate::keyspace::Keyspace;
use crate::reply_error::ReplyError;
use sidle_collections::{Collection, Draft, Finished, HashDraft, ListDraft, Scored, SetDraft};
use sidle_collections::{Kind, Limits, SortedSetSlices};
use sidle_outline::{Large, Order, Outline};
use sidle_rdb::{Element, RestoreError, SlicedKind, Slices, Text};
use sidle_types::ValueKind;
use sorted::{By, Sorted, Source};
use std::cell::Cell;

/// How much a RESTORE does in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSizes {
    /// A shorter payload is read in one go, in bytes.
    pub sliced_bytes: usize,
    /// How much of the checksum is computed, in bytes.
    pub checked_bytes: usize,
    /// How many elements are handled; of a list twice as many.
    pub elements: usize,
    /// And of how many bytes.
    pub bytes: usize,
    /// How many bytes of equal hashes' or scores' names are compared.
    pub compared_bytes: usize,
}

impl Default for StepSizes {
    fn default() -> StepSizes {
        StepSizes {
            sliced_bytes: 128 << 10,
            checked_bytes: 512 << 10,
            elements: 1024,
            bytes: 64 << 10,
            compared_bytes: 1 << 20,
        }
    }
}

/// The progress of a RESTORE.
#[derive(Debug)]
pub struct Restoring {
    sizes: StepSizes,
    /// In front of the first element.
    start: Slices,
    slices: Slices,
    phase: Phase,
    sorted: Sorted,
    /// Where the elements begin that are put next.
    next: Vec<u32>,
    /// Of a sorted set: what its members are together.
    scored: SortedSetSlices,
    /// There is a score that is no number.
    is_damaged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Checking,
    /// A list's items are put as they come.
    Items,
    Sorting(By),
    Putting(By),
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
    pub(crate) fn begin(
        payload: &[u8],
        most_bytes: u64,
        limits: &Limits,
        sizes: StepSizes,
    ) -> Option<Restoring> {
        let small = limits.hash_entries.max(limits.intset_entries);
        let slices = Slices::begin(payload, most_bytes)?;
        // What is built must have the encoding of the whole from the first step on.
        let is_known = slices.kind() == SlicedKind::SortedSet || small <= sizes.elements as u64;
        if payload.len() < sizes.sliced_bytes || u32::try_from(payload.len()).is_err() || !is_known {
            return None;
        }
        Some(Restoring {
            sizes,
            start: slices.clone(),
            slices,
            phase: Phase::Checking,
            sorted: Sorted::new(By::Hash),
            next: Vec::new(),
            scored: SortedSetSlices::default(),
            is_damaged: false,
        })
    }

    pub(crate) fn kind(&self) -> ValueKind {
        match self.slices.kind() {
            SlicedKind::Hash => ValueKind::Hash,
            SlicedKind::Set => ValueKind::Set,
            SlicedKind::List => ValueKind::List,
            SlicedKind::SortedSet => ValueKind::SortedSet,
        }
    }

    /// The memory that it takes beside the payload, in bytes: a few for each element.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Restoring>() + self.sorted.memory_bytes() + self.next.capacity() * size_of::<u32>()
    }

    /// Does a bounded part of the work.
    pub(crate) fn step<'g>(
        &mut self,
        payload: &[u8],
        keyspace: &mut impl Keyspace<'g>,
    ) -> Result<Step, Failure> {
        match self.phase {
            Phase::Checking => {
                if self.slices.check(payload, self.sizes.checked_bytes)? {
                    let is_list = self.slices.kind() == SlicedKind::List;
                    self.phase = if is_list { Phase::Items } else { Phase::Sorting(By::Hash) };
                }
                Ok(Step::More)
            }
            Phase::Items => self.put_items(payload, keyspace),
            Phase::Sorting(by) => self.sort_some(by, payload, &keyspace.collection_limits()),
            Phase::Putting(by) => self.put_sorted(by, payload, keyspace),
        }
    }

    /// Reads a run of elements.
    fn sort_some(&mut self, by: By, payload: &[u8], limits: &Limits) -> Result<Step, Failure> {
        let (mut run, mut bytes, mut is_last) = (Vec::with_capacity(self.sizes.elements), 0, false);
        while run.len() < self.sizes.elements && bytes < self.sizes.bytes {
            let Some((at, element)) = self.slices.read(payload)? else {
                is_last = true;
                break;
            };
            bytes += element.bytes();
            if let (Element::Scored(member, score), By::Hash) = (&element, by) {
                self.scored.count(member);
                // What is wrong behind it is reported first, as in one go.
                self.is_damaged |= score.is_nan();
            }
            run.push((at as u32, element));
        }
        let source = Source { slices: &self.start, payload, compared_bytes: Cell::new(0) };
        if !self.is_damaged {
            self.sorted.add(&run, &source)?;
        }
        if !is_last {
            return Ok(Step::More);
        }
        if self.is_damaged {
            return Err(RestoreError::Damaged.into());
        }
        self.sorted.end(&source)?;
        self.phase = Phase::Putting(by);
        let is_short = self.slices.kind() == SlicedKind::SortedSet && self.scored.fit_packed(limits);
        Ok(if is_short { Step::OneGo } else { Step::More })
    }

    /// Puts the next elements, in an order.
    fn put_sorted<'g>(
        &mut self,
        by: By,
        payload: &[u8],
        keyspace: &mut impl Keyspace<'g>,
    ) -> Result<Step, Failure> {
        let source = Source { slices: &self.start, payload, compared_bytes: Cell::new(0) };
        // Without memory these are put again.
        let (mut elements, mut bytes) = (Vec::with_capacity(self.sizes.elements), 0);
        for &at in &self.next {
            elements.push(source.element(at)?);
        }
        let is_again = !elements.is_empty();
        while !is_again
            && elements.len() < self.sizes.elements
            && bytes < self.sizes.bytes
            && source.compared_bytes.get() < self.sizes.compared_bytes
        {
            let Some(at) = self.sorted.take(&source)? else { break };
            let element = source.element(at)?;
            bytes += element.bytes();
            self.next.push(at);
            elements.push(element);
        }
        let step = match self.slices.kind() {
            SlicedKind::Hash => put::<HashDraft<'_>>(elements.iter().filter_map(pair).collect(), keyspace)?,
            SlicedKind::SortedSet => {
                let members: Vec<Scored<'_>> = elements.iter().filter_map(scored).collect();
                self.put_scored(by, &members, keyspace)?
            }
            _ => put::<SetDraft<'_>>(elements.iter().filter_map(name).collect(), keyspace)?,
        };
        self.next.clear();
        if step == Step::OneGo || !self.sorted.is_empty() {
            return Ok(step);
        }
        if self.slices.kind() == SlicedKind::SortedSet && by == By::Hash {
            // The other order is a pass of its own, so places are kept for one at a time.
            self.slices = self.start.clone();
            self.sorted = Sorted::new(By::Score);
            self.phase = Phase::Sorting(By::Score);
            return Ok(Step::More);
        }
        Ok(Step::Built)
    }

    /// Puts members of a sorted set in one of its orders.
    fn put_scored<'g>(
        &self,
        by: By,
        members: &[Scored<'_>],
        keyspace: &mut impl Keyspace<'g>,
    ) -> Result<Step, Failure> {
        let (old, limits) = (keyspace.aside(), keyspace.collection_limits());
        let outline = match (by, old) {
            (By::Score, Some(old)) => self.scored.add_by_score(old, members, &limits),
            _ => self.scored.add_by_member(old, members, &limits).ok_or(RestoreError::Damaged)?,
        };
        if by == By::Score && self.sorted.is_empty() {
            assert!(self.scored.are_all_in(&outline), "Q3: one order is not the other");
        }
        put_aside(ValueKind::SortedSet, outline, keyspace)
    }

    /// Puts the next items of a list.
    fn put_items<'g>(&mut self, payload: &[u8], keyspace: &mut impl Keyspace<'g>) -> Result<Step, Failure> {
        // Without memory they are read again.
        let mut slices = self.slices.clone();
        let (mut items, mut bytes, mut is_last): (Vec<Text<'_>>, _, _) = (Vec::new(), 0, false);
        while items.len() < 2 * self.sizes.elements && bytes < self.sizes.bytes && !is_last {
            match slices.read(payload)? {
                Some((_, element)) => {
                    bytes += element.bytes();
                    if let Element::Items(part) = element {
                        items.extend(part);
                    }
                }
                None => is_last = true,
            }
        }
        let step = put::<ListDraft<'_>>(items.iter().map(|item| &**item).collect(), keyspace)?;
        self.slices = slices;
        Ok(if step == Step::More && is_last { Step::Built } else { step })
    }
}

fn pair<'e>(element: &'e Element<'_>) -> Option<(&'e [u8], &'e [u8])> {
    if let Element::Pair(field, value) = element { Some((field, value)) } else { None }
}

fn name<'e>(element: &'e Element<'_>) -> Option<&'e [u8]> {
    element.name().map(|name| &**name)
}

fn scored<'e>(element: &'e Element<'_>) -> Option<Scored<'e>> {
    if let Element::Scored(member, score) = element { Some((member, *score)) } else { None }
}

/// Adds elements to what is built aside; each name is a new one.
fn put<'g, 'p, D>(elements: Vec<D::Element>, keyspace: &mut impl Keyspace<'g>) -> Result<Step, Failure>
where
    'g: 'p,
    D: Draft<'p>,
{
    let old: Option<Large<'p>> = keyspace.aside();
    let expected = elements.len() + old.map_or(0, |old| old.len() as usize);
    let mut draft = D::of(old.map(Collection::large), elements.len());
    elements.into_iter().for_each(|element| draft.take(element));
    if draft.len() != expected {
        return Err(RestoreError::Damaged.into());
    }
    match draft.finish(&keyspace.collection_limits()) {
        // Only the first step has so little.
        Finished::Packed(_) => Ok(Step::OneGo),
        Finished::Large(outline) => put_aside(D::Of::VALUE_KIND, outline, keyspace),
    }
}

/// Writes what was added.
fn put_aside<'g>(
    kind: ValueKind,
    outline: Outline,
    keyspace: &mut impl Keyspace<'g>,
) -> Result<Step, Failure> {
    if outline.sequence(Order::Main).bytes() > keyspace.longest_value_bytes() {
        return Err(Failure::Reply(ReplyError::text(TOO_LONG)));
    }
    keyspace.put_aside(kind, outline).map_err(|error| Failure::Reply(error.into()))?;
    Ok(Step::More)
}

/// The reply to a collection that is too long.
pub(crate) const TOO_LONG: &str = "ERR the value exceeds the maximum size (proto-max-bulk-len)";
