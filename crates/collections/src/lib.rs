//! Collections: what a record holds of a short one, and the chunks of a large one. Pure: bytes to bytes.
//!
//! Packed, in one record, are all elements one after the other:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | the encoding that OBJECT ENCODING reports ([`Encoding`]) |
//! | 1..5 | how many elements there are, little-endian |
//! | 5.. | the elements, each a length (LEB128) and so many bytes: of a hash a field and its value, of a sorted set a score (eight bytes) and its member |
//!
//! A reader finds an element by walking, and a writer writes the whole collection anew: that is for short
//! ones. Above [`Limits::packed_bytes`] the elements lie in chunks without such a head (`sidle-outline`): a
//! reader finds the chunk, and a writer writes the chunks that it changes. Below a quarter of that limit a
//! collection is packed again. Readers take bytes of any content. What is not laid out so reads as fewer
//! elements.
//!
//! | file | what |
//! |---|---|
//! | `elements` | the layout: the head, byte strings one after the other |
//! | `encoding` | what is reported as the encoding, and when it changes |
//! | `collection` | what all types share |
//! | `known` | what is known of a name: a value, a score, or nothing |
//! | `by_hash`, `by_hash_draft` | names in chunks, by their hashes: look-ups, and changes |
//! | `in_order`, `labels` | elements in chunks, in an order of their own: what is split and joined, and its labels |
//! | `touched_chunks` | a list in chunks that is changed |
//! | `by_score` | members in chunks by their scores: searches, and changes |
//! | `names_draft` | names that are changed, however they are kept |
//! | `table` | names with values: what is changed, or asked often |
//! | `hash`, `set`, `sorted_set`, `list` | look-ups, and changes |
//! | `sorted_set_slices` | a sorted set that is made in slices |
//! | `scan` | walking over a collection that changes meanwhile |

mod by_hash;
mod by_hash_draft;
mod by_score;
mod collection;
mod either;
mod elements;
mod encoding;
mod hash;
mod in_order;
mod known;
mod labels;
mod list;
mod names_draft;
#[cfg(test)]
mod publisher;
mod scan;
mod set;
mod side;
mod sorted_set;
mod sorted_set_slices;
mod table;
mod touched_chunks;

pub use by_score::members_in_chunk;
pub use collection::{Collection, Draft, Finished, Kind};
pub use elements::{count_in_chunk, encoding, strings_in_chunk};
pub use encoding::{Encoding, Limits};
pub use hash::{Hash, HashDraft, Hashes, Pair};
pub use list::{List, ListDraft, Lists};
pub use scan::scan;
pub use set::{Member, MemberTable, Set, SetDraft, Sets};
pub use side::Side;
pub use sorted_set::{ScoreTable, Scored, SortedSet, SortedSetDraft, SortedSets};
pub use sorted_set_slices::SortedSetSlices;
