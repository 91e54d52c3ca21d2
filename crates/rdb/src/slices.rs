//! The payload of a large collection, read some elements at a time.

use crate::checksum::Running;
use crate::error::RestoreError;
use crate::length::Length;
use crate::rest::Rest;
use crate::restore::{list_part, summed};
use crate::value::Text;
use crate::{FOOTER_BYTES, HASH, LIST, LIST_QUICKLIST_2, SET, text};

/// The types of values that are read so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlicedKind {
    /// Fields with their values.
    Hash,
    /// Members.
    Set,
    /// Items.
    List,
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
        let form = rest.byte().ok().filter(|form| [HASH, SET, LIST, LIST_QUICKLIST_2].contains(form))?;
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

    /// The next element, and where it begins: a member, a field with its value, or some items.
    ///
    /// # Errors
    /// The payload is damaged.
    pub fn read<'p>(&mut self, payload: &'p [u8]) -> Result<Option<(usize, Vec<Text<'p>>)>, RestoreError> {
        let end = payload.len().saturating_sub(FOOTER_BYTES);
        let body = payload.get(self.at..end).ok_or(RestoreError::Truncated)?;
        if self.left == 0 {
            return if body.is_empty() { Ok(None) } else { Err(RestoreError::GoesOn) };
        }
        let mut rest = Rest::new(body);
        let texts = match self.form {
            HASH => vec![text::read(&mut rest, self.left_bytes)?, text::read(&mut rest, self.left_bytes)?],
            LIST_QUICKLIST_2 => list_part(&mut rest, self.left_bytes)?,
            _ => vec![text::read(&mut rest, self.left_bytes)?],
        };
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        self.left_bytes = self.left_bytes.checked_sub(bytes as u64).ok_or(RestoreError::TooLong)?;
        self.left -= 1;
        let begin = std::mem::replace(&mut self.at, end - rest.len());
        Ok(Some((begin, texts)))
    }

    /// The element that begins here, which was read before.
    ///
    /// # Errors
    /// It is another payload.
    pub fn read_again<'p>(&self, payload: &'p [u8], at: usize) -> Result<Vec<Text<'p>>, RestoreError> {
        let mut one = Slices { at, left: 1, left_bytes: u64::MAX, ..self.clone() };
        one.read(payload)?.map(|(_, texts)| texts).ok_or(RestoreError::Damaged)
    }
}
