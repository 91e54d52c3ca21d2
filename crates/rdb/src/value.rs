//! Values as payloads hold them.

use std::borrow::Cow;

/// Bytes that were read.
pub type Text<'p> = Cow<'p, [u8]>;

/// A field and its value.
pub type Pair<'v> = (&'v [u8], &'v [u8]);

/// A value to be written.
#[derive(Clone, Copy, Debug)]
pub enum Dumped<'v> {
    /// Bytes.
    String(&'v [u8]),
    /// Fields with their values.
    Hash {
        /// In order.
        pairs: &'v [Pair<'v>],
        /// Whether Redis would write it as a small one.
        is_small: bool,
    },
    /// Members.
    Set {
        /// In any order.
        members: &'v [&'v [u8]],
        /// Whether Redis would write it as a small set of integers.
        is_intset: bool,
    },
    /// Items, in order.
    List(&'v [&'v [u8]]),
    /// Members with their scores, which are numbers.
    SortedSet {
        /// In the order of the scores.
        members: &'v [(&'v [u8], f64)],
        /// Whether Redis would write it as a small one.
        is_small: bool,
    },
}

/// A value that was read: parts of the payload where that is possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Restored<'p> {
    /// Bytes.
    String(Text<'p>),
    /// Fields with their values; none is there twice, and there is one.
    Hash(Vec<(Text<'p>, Text<'p>)>),
    /// Members; none is there twice, and there is one.
    Set(Vec<Text<'p>>),
    /// Items, in order; there is one.
    List(Vec<Text<'p>>),
    /// Members with their scores, which are numbers; none is there twice, and there is one.
    SortedSet(Vec<(Text<'p>, f64)>),
}
