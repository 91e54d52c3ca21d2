//! What collections of all types share: how one is read, and how one is changed.

use crate::elements::{self, Elements};
use crate::encoding::{Encoding, Limits};
use sidle_types::ValueKind;
use std::fmt::Debug;
use std::marker::PhantomData;

/// A type of collections.
pub trait Kind: Copy + Debug {
    /// As records name it.
    const VALUE_KIND: ValueKind;
    /// One that is changed.
    type Draft<'b>: Draft<'b, Of = Self>;
}

/// A collection that is read.
#[derive(Clone, Copy, Debug)]
pub struct Collection<'b, K> {
    bytes: &'b [u8],
    kind: PhantomData<K>,
}

impl<'b, K> Collection<'b, K> {
    /// That of a record's value.
    pub fn of(bytes: &'b [u8]) -> Collection<'b, K> {
        Collection { bytes, kind: PhantomData }
    }

    /// How many elements it has, a field with its value being one.
    pub fn len(self) -> usize {
        elements::count(self.bytes)
    }

    /// Whether it has none; no record holds such a collection.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The encoding to report.
    pub fn encoding(self) -> Encoding {
        elements::encoding(self.bytes)
    }

    pub(crate) fn elements(self) -> Elements<'b> {
        Elements::of(self.bytes)
    }
}

/// A collection that is changed.
pub trait Draft<'b>: Sized {
    /// Its type.
    type Of: Kind;
    /// What it consists of.
    type Element;

    /// To make about so many changes to a collection, or to make one.
    fn of(old: Option<Collection<'b, Self::Of>>, changes: usize) -> Self;

    /// One of these elements, in their order where it has one.
    fn made_of(elements: impl ExactSizeIterator<Item = Self::Element>) -> Self {
        let mut draft = Self::of(None, elements.len());
        elements.for_each(|element| draft.take(element));
        draft
    }

    /// Takes one more element.
    fn take(&mut self, element: Self::Element);

    /// How many elements it has.
    fn len(&self) -> usize;

    /// Whether it has none: then the key must go.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The collection as a record holds it.
    fn finish(&self, limits: &Limits) -> Vec<u8>;
}
