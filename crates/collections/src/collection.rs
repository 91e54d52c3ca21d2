//! What collections of all types share: how one is read, and how one is changed.

use crate::elements::{self, Elements};
use crate::encoding::{Encoding, Limits};
use sidle_outline::{Large, Order, Outline};
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
    form: Form<'b>,
    kind: PhantomData<K>,
}

/// How a collection is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'b> {
    /// In one record: its bytes.
    Packed(&'b [u8]),
    /// In chunks.
    Large(Large<'b>),
}

/// A collection's byte strings, in order, however it is kept.
pub(crate) enum All<'b> {
    Packed(Elements<'b>),
    Large(Box<dyn Iterator<Item = &'b [u8]> + 'b>),
}

impl<'b> All<'b> {
    pub(crate) fn of(form: Form<'b>) -> All<'b> {
        match form {
            Form::Packed(bytes) => All::Packed(Elements::of(bytes)),
            Form::Large(large) => {
                let chunks = large.iter_from(Order::Main, 0);
                All::Large(Box::new(chunks.flat_map(|(_, bytes)| Elements::of_chunk(bytes))))
            }
        }
    }
}

impl<'b> Iterator for All<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        match self {
            All::Packed(elements) => elements.next(),
            All::Large(elements) => elements.next(),
        }
    }
}

/// What became of a collection that was changed.
#[derive(Clone, Debug)]
pub enum Finished {
    /// All of it, as one record holds it.
    Packed(Vec<u8>),
    /// It is kept in chunks.
    Large(Outline),
}

impl<'b, K> Collection<'b, K> {
    /// That of a record's value.
    pub fn of(bytes: &'b [u8]) -> Collection<'b, K> {
        Collection { form: Form::Packed(bytes), kind: PhantomData }
    }

    /// One that is kept in chunks.
    pub fn large(large: Large<'b>) -> Collection<'b, K> {
        Collection { form: Form::Large(large), kind: PhantomData }
    }

    pub(crate) fn form(self) -> Form<'b> {
        self.form
    }

    /// Whether it is kept in chunks: then an element is found without a walk over all.
    pub fn is_large(self) -> bool {
        matches!(self.form, Form::Large(_))
    }

    /// How many elements it has, a field with its value being one.
    pub fn len(self) -> usize {
        match self.form {
            Form::Packed(bytes) => elements::count(bytes),
            Form::Large(large) => large.len() as usize,
        }
    }

    /// Whether it has none; no record holds such a collection.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The encoding to report.
    pub fn encoding(self) -> Encoding {
        match self.form {
            Form::Packed(bytes) => elements::encoding(bytes),
            Form::Large(large) => Encoding::numbered(large.outline().encoding()),
        }
    }

    pub(crate) fn elements(self) -> All<'b> {
        All::of(self.form)
    }
}

impl Finished {
    /// The bytes of one that one record holds.
    pub fn into_packed(self) -> Option<Vec<u8>> {
        match self {
            Finished::Packed(bytes) => Some(bytes),
            Finished::Large(_) => None,
        }
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

    /// The collection as it is kept.
    fn finish(&self, limits: &Limits) -> Finished;
}
