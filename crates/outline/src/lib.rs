//! Large collections: their elements lie in chunks, and an outline finds the chunk.
//!
//! A **chunk** is some adjacent elements of a collection, as bytes; in the store it is a record. A **label**
//! orders the chunks of a **sequence**. An **outline** is a collection's sequences at one moment: for each
//! chunk its label, how many elements it has, and where it is. It is a value: a clone takes constant time and
//! never changes, and a change of one copies only what leads to the changed chunk. So readers need no lock,
//! and a transaction's writes are an outline that nobody else has seen.
//!
//! What an element is, and by what chunks are ordered, is known in `sidle-collections`; where chunks are, in
//! `sidle-store`. Pure.
//!
//! | file | what |
//! |---|---|
//! | `chunk` | a chunk, and where it is |
//! | `node`, `walk` | the tree that a sequence is, and iterators over its leaves |
//! | `sequence` | chunks ordered by label, found by label, by index, or by a predicate |
//! | `outline` | a collection's sequences, and what was changed since it was published |
//! | `large` | an outline with its chunks' bytes |

mod chunk;
mod large;
#[cfg(test)]
mod model;
mod node;
mod outline;
#[cfg(test)]
mod patch_model;
mod sequence;
mod walk;

pub use chunk::{Chunk, Place};
pub use large::{Chunks, Large, Part};
pub use outline::{CollectionId, Order, Outline};
pub use sequence::{At, Sequence, Span};
