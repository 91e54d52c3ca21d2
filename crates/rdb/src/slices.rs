//! The payload of a large collection, read some elements at a time.

use crate::checksum::Running;
use crate::error::RestoreError;
use crate::length::Length;
use crate::rest::{Rest, Source};
use crate::restore::{list_part, summed};
use crate::value::Text;
use crate::{FOOTER_BYTES, HASH, LIST, LIST_QUICKLIST_2, SET, SORTED_SET, SORTED_SET_TEXTS, score, text};

/// The forms of values that are read so.
const FORMS: [u8; 6] = [HASH, SET, LIST, LIST_QUICKLIST_2, SORTED_SET, SORTED_SET_TEXTS];

/// The types of values that are read so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlicedKind {
    /// Fields with their values.
    Hash,
    /// Members.
    Set,
    /// Items.
    List,
    /// Members with their scores.
    SortedSet,
}

/// What begins at a place of a payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Element<'p> {
    /// A field and its value.
    Pair(Text<'p>, Text<'p>),
    /// A member of a set.
    Member(Text<'p>),
    /// Some items of a list.
    Items(Vec<Text<'p>>),
    /// A member of a sorted set, and its score, which may be no number.
    Scored(Text<'p>, f64),
}

impl Element<'_> {
    /// The bytes of its strings.
    pub fn bytes(&self) -> usize {
        match self {
            Element::Pair(field, value) => field.len() + value.len(),
            Element::Member(member) | Element::Scored(member, _) => member.len(),
            Element::Items(items) => items.iter().map(|item| item.len()).sum(),
        }
    }

    /// The field or the member; items have no name.
    pub fn name(&self) -> Option<&Text<'_>> {
        match self {
            Element::Pair(name, _) | Element::Member(name) | Element::Scored(name, _) => Some(name),
            Element::Items(_) => None,
        }
    }
}

/// A payload of elements in an order of their own, and how much of it was read. Every call is given the same
/// payload.
#[derive(Clone, Debug)]
pub struct Slices {
    /// Of the first `checked` bytes.
    checksum: Running,
    checked: usize,
    form: u8,
    /// Where the next element begins.
    at: usize,
    /// How many are left.
    left: u64,
    /// How many bytes they may have.
    left_bytes: u64,
}

impl Slices {
    /// Begins to read; none if the payload has to be read in one go. Its elements are to have so many bytes
    /// at most.
    pub fn begin(payload: &[u8], most_bytes: u64) -> Option<Slices> {
        let mut rest = Rest::new(payload.get(..payload.len().checked_sub(FOOTER_BYTES)?)?);
        let form = rest.byte().ok().filter(|form| FORMS.contains(form))?;
        let left = Length::read_bytes(&mut rest).ok().filter(|left| *left > 0)?;
        let at = payload.len() - FOOTER_BYTES - rest.len();
        let checksum = Running::new();
        Some(Slices { checksum, checked: 0, form, at, left, left_bytes: most_bytes })
    }

    /// The type of the value.
    pub fn kind(&self) -> SlicedKind {
        match self.form {
            HASH => SlicedKind::Hash,
            SET => SlicedKind::Set,
            SORTED_SET | SORTED_SET_TEXTS => SlicedKind::SortedSet,
            _ => SlicedKind::List,
        }
    }

    /// Checks so many bytes more of the payload; whether all of it is checked, and right.
    ///
    /// # Errors
    /// The footer is wrong.
    pub fn check(&mut self, payload: &[u8], bytes: usize) -> Result<bool, RestoreError> {
        let (summed, expected) = summed(payload).ok_or(RestoreError::Footer)?;
        let end = summed.len().min(self.checked.saturating_add(bytes));
        self.checksum.add(summed.get(self.checked..end).ok_or(RestoreError::Footer)?);
        self.checked = end;
        match end == summed.len() {
            true if self.checksum.value() != expected => Err(RestoreError::Footer),
            is_all => Ok(is_all),
        }
    }

    /// The next element, and where it begins.
    ///
    /// # Errors
    /// The payload is damaged.
    pub fn read<'p>(&mut self, payload: &'p [u8]) -> Result<Option<(usize, Element<'p>)>, RestoreError> {
        let end = payload.len().saturating_sub(FOOTER_BYTES);
        let body = payload.get(self.at..end).ok_or(RestoreError::Truncated)?;
        if self.left == 0 {
            return if body.is_empty() { Ok(None) } else { Err(RestoreError::GoesOn) };
        }
        let mut rest = Rest::new(body);
        let element = element(self.form, &mut rest, self.left_bytes)?;
        self.left_bytes = self.left_bytes.checked_sub(element.bytes() as u64).ok_or(RestoreError::TooLong)?;
        self.left -= 1;
        let begin = std::mem::replace(&mut self.at, end - rest.len());
        Ok(Some((begin, element)))
    }

    /// The element that begins here, which was read before.
    ///
    /// # Errors
    /// It is another payload.
    pub fn read_again<'p>(&self, payload: &'p [u8], at: usize) -> Result<Element<'p>, RestoreError> {
        let end = payload.len().saturating_sub(FOOTER_BYTES);
        element(self.form, &mut Rest::new(payload.get(at..end).ok_or(RestoreError::Truncated)?), u64::MAX)
    }
}

/// The next element of a value of this form, of so many bytes at most.
fn element<'p>(form: u8, rest: &mut Rest<'p>, most_bytes: u64) -> Result<Element<'p>, RestoreError> {
    if form == LIST_QUICKLIST_2 {
        return list_part(rest, most_bytes).map(Element::Items);
    }
    let first = text::read(rest, most_bytes)?;
    Ok(match form {
        HASH => {
            let value = text::read(rest, most_bytes - first.len() as u64)?;
            Element::Pair(first, value)
        }
        SET => Element::Member(first),
        SORTED_SET => Element::Scored(first, f64::from_le_bytes(rest.array()?)),
        SORTED_SET_TEXTS => Element::Scored(first, score::read_old(rest)?),
        _ => Element::Items(vec![first]),
    })
}
