//! Collections as one record holds them: all elements one after the other. Pure: bytes to bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | the encoding that OBJECT ENCODING reports ([`Encoding`]) |
//! | 1..5 | how many elements there are, little-endian |
//! | 5.. | the elements, each a length (LEB128) and so many bytes: of a hash a field and its value, of a sorted set a score (eight bytes) and its member |
//!
//! A reader finds an element by walking, and a writer writes the whole collection anew: costs grow with the
//! collection. Readers take bytes of any content. What is not laid out so reads as fewer elements.
//!
//! | file | what |
//! |---|---|
//! | `elements` | the layout: the head, byte strings one after the other |
//! | `encoding` | what is reported as the encoding, and when it changes |
//! | `collection` | what all types share |
//! | `table` | names with values: what is changed, or asked often |
//! | `hash`, `set`, `sorted_set`, `list` | look-ups, and changes |
//! | `scan` | walking over a collection that changes meanwhile |

mod collection;
mod either;
mod elements;
mod encoding;
mod hash;
mod in_order;
mod labels;
mod list;
#[cfg(test)]
mod log;
mod scan;
mod set;
mod side;
mod sorted_set;
mod table;
mod touched_chunks;

pub use collection::{Collection, Draft, Finished, Kind};
pub use elements::encoding;
pub use encoding::{Encoding, Limits};
pub use hash::{Hash, HashDraft, Hashes, Pair};
pub use list::{List, ListDraft, Lists};
pub use scan::scan;
pub use set::{MemberTable, Set, SetDraft, Sets};
pub use side::Side;
pub use sorted_set::{ScoreTable, Scored, SortedSet, SortedSetDraft, SortedSets};
