//! Large collections: their elements lie in chunks, each a record of its own, so that a change costs what it
//! changes.
//!
//! The key's entry is a **head**: a record with the number of the collection. Its **cell** in the registry
//! has what is published: the outline, which says where the chunks are, and which head is the collection's.
//! A writer with the slot's lock appends new chunks, publishes a changed outline in the cell, and counts the
//! replaced chunks as dead. The head is written anew only when what it says changes. A reader clones the
//! outline out of the cell: what it reads stays as it was, while its pin keeps the chunks.
//!
//! A collection whose head is no longer its key's value is **doomed**. Its cell is free at once; the outline
//! waits in a list, and its chunks are counted as dead in slices, before the cleaner looks for segments.
//!
//! Invariants:
//! - K1: a cell changes under the lock of the slot that it names; when a key of another slot takes its
//!   collection over, under both.
//! - K2: a reader uses an outline only if its cell names the record that the reader has found as the head, by
//!   address. Outline and head change in one step, so both are of one moment, after the look-up of the head.
//! - K3: a chunk is in one published outline, or in one doomed one. It is counted as dead once, when it has
//!   left either. A collection counts as doomed before its cell is emptied.
//! - K4: the bytes of a slot include those of its collections' chunks, and of no doomed one's.
//! - K5: what is published was made from what its cell has, under one hold of the lock.
//!
//! A collection that arrives from another node, or is built aside, has a cell without a head, and no key,
//! until all of it is here. Its chunks are in no slot's bytes meanwhile (K4).
//!
//! From X1 and X2 (`slot_lock`) with K2: the states of cells are words of their slots. A reader has loaded
//! the lock before the head, and the head before the cell. It may find a later outline than at its look-up;
//! then it has seen a new word. A change of several keys that it belongs to keeps all its locks exclusive
//! meanwhile, so no later look-up of the reader finds an older word. A rewritten head shows in the cell
//! first or in the index first: either way the two differ, and the reader looks the key up again. That waits
//! for the change. X4, of several outlines together, is in `together`.
//!
//! | file | what |
//! |---|---|
//! | `chunk` | the key of a chunk's record, and its size |
//! | `registry` | cells by number |
//! | `doomed` | collections whose chunks are not yet counted as dead |
//! | `publish` | writing a collection's new state |
//! | `pack` | a large collection as the packed one that is sent to other nodes |
//! | `patch` | what changed of a large collection, as it is sent to a node that has the rest |
//! | `arrival` | a large collection that arrives in patches |
//! | `aside` | a large collection that is built in several steps |
//! | `relocate` | what the cleaner does with a chunk and a head |

pub(crate) mod arrival;
pub(crate) mod aside;
pub(crate) mod chunk;
pub(crate) mod doomed;
pub(crate) mod pack;
pub(crate) mod patch;
pub(crate) mod publish;
pub(crate) mod registry;
pub(crate) mod relocate;
