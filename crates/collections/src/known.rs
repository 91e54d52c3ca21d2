//! What is known of a name in a collection, and how it is written behind the name.

use crate::elements::{self, Elements};
use std::fmt::Debug;

/// A field's value; of a set's member nothing; of a sorted set's, its score.
pub(crate) trait Known<'b>: Copy + Debug {
    /// How many byte strings it is.
    const STRINGS: usize;

    /// Reads it; none where the bytes end.
    fn read(after_name: &mut Elements<'b>) -> Option<Self>;

    /// Writes it.
    fn write(self, bytes: &mut Vec<u8>);

    /// How many bytes it takes.
    fn written_bytes(self) -> usize;
}

impl<'b> Known<'b> for () {
    const STRINGS: usize = 0;

    fn read(_: &mut Elements<'b>) -> Option<()> {
        Some(())
    }

    fn write(self, _: &mut Vec<u8>) {}

    fn written_bytes(self) -> usize {
        0
    }
}

impl<'b> Known<'b> for &'b [u8] {
    const STRINGS: usize = 1;

    fn read(after_name: &mut Elements<'b>) -> Option<&'b [u8]> {
        after_name.next()
    }

    fn write(self, bytes: &mut Vec<u8>) {
        elements::push(bytes, self);
    }

    fn written_bytes(self) -> usize {
        elements::written_bytes(self)
    }
}

impl<'b> Known<'b> for f64 {
    const STRINGS: usize = 1;

    fn read(after_name: &mut Elements<'b>) -> Option<f64> {
        let score = f64::from_le_bytes(*after_name.next()?.first_chunk()?);
        // Nobody writes what is no number; it would have no order.
        Some(if score.is_nan() { 0.0 } else { score })
    }

    fn write(self, bytes: &mut Vec<u8>) {
        elements::push(bytes, &self.to_le_bytes());
    }

    fn written_bytes(self) -> usize {
        elements::written_bytes(&self.to_le_bytes())
    }
}

/// A name, and what is known of it.
pub(crate) type Named<'b, V> = (&'b [u8], V);

/// The names that these bytes hold.
pub(crate) fn named<'b, V: Known<'b>>(bytes: Elements<'b>) -> impl Iterator<Item = Named<'b, V>> {
    let mut elements = bytes;
    std::iter::from_fn(move || Some((elements.next()?, V::read(&mut elements)?)))
}

/// Writes a name behind others.
pub(crate) fn push_named<'b, V: Known<'b>>(bytes: &mut Vec<u8>, (name, known): Named<'_, V>) {
    elements::push(bytes, name);
    known.write(bytes);
}

/// How many bytes a name takes with what is known of it.
pub(crate) fn named_bytes<'b, V: Known<'b>>((name, known): Named<'_, V>) -> usize {
    elements::written_bytes(name) + known.written_bytes()
}
