//! Names that are changed, in one record or in chunks.

use crate::by_hash::ByHash;
use crate::by_hash_draft::{ByHashDraft, write_new};
use crate::collection::{Collection, Form};
use crate::elements::{Elements, HEAD_BYTES, Writer};
use crate::encoding::{Encoding, Limits};
use crate::known::{Known, Named, named, named_bytes, push_named};
use crate::table::Table;
use sidle_outline::{Order, Outline};

/// The fields of a hash, or the members of a set.
#[derive(Debug)]
pub(crate) enum NamesDraft<'b, V> {
    /// Of a collection in one record: all of them.
    Packed(Table<'b, V>),
    /// Of one in chunks.
    Large(ByHashDraft<'b, V>),
}

impl<'b, V: Known<'b>> NamesDraft<'b, V> {
    /// Those of a collection, to make about so many changes.
    pub(crate) fn of<K>(old: Option<Collection<'b, K>>, changes: usize) -> NamesDraft<'b, V> {
        match old.map(Collection::form) {
            None => NamesDraft::Packed(Table::new(std::iter::empty(), changes)),
            Some(Form::Packed(bytes)) => NamesDraft::Packed(Table::new(named(Elements::of(bytes)), changes)),
            Some(Form::Large(large)) => {
                NamesDraft::Large(ByHashDraft::of(ByHash::of(large, Order::Main), changes))
            }
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            NamesDraft::Packed(table) => table.len(),
            NamesDraft::Large(draft) => draft.len(),
        }
    }

    /// What is known of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<V> {
        match self {
            NamesDraft::Packed(table) => table.get(name),
            NamesDraft::Large(draft) => draft.get(name),
        }
    }

    /// Sets what is known of a name; returns what was.
    pub(crate) fn set(&mut self, name: &'b [u8], known: V) -> Option<V> {
        match self {
            NamesDraft::Packed(table) => table.set(name, known),
            NamesDraft::Large(draft) => draft.set(name, known),
        }
    }

    /// Removes a name; returns what was known of it.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<V> {
        match self {
            NamesDraft::Packed(table) => table.remove(name),
            NamesDraft::Large(draft) => draft.remove(name),
        }
    }

    /// Removes a name that was found in the collection.
    pub(crate) fn remove_found(&mut self, name: Named<'b, V>) {
        match self {
            NamesDraft::Packed(table) => _ = table.remove(name.0),
            NamesDraft::Large(draft) => draft.remove_found(name),
        }
    }

    /// All names; of a collection in chunks it reads all of them.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = Named<'b, V>> + '_> {
        match self {
            NamesDraft::Packed(table) => Box::new(table.iter()),
            NamesDraft::Large(draft) => Box::new(draft.iter()),
        }
    }

    /// Whether they are to be in one record.
    pub(crate) fn fit_packed(&self, limits: &Limits) -> bool {
        match self {
            NamesDraft::Packed(table) => {
                HEAD_BYTES + table.iter().map(named_bytes).sum::<usize>() <= limits.packed_bytes
            }
            NamesDraft::Large(draft) => draft.bytes() < limits.packed_bytes / 4,
        }
    }

    /// The collection in chunks.
    pub(crate) fn in_chunks(&self, encoding: Encoding, limits: &Limits) -> Outline {
        match self {
            NamesDraft::Packed(table) => {
                let mut outline = Outline::new(encoding as u8);
                write_new(table.iter(), &mut outline, Order::Main, limits.chunk_bytes);
                outline
            }
            NamesDraft::Large(draft) => {
                let mut outline = draft.old().outline().clone();
                outline.set_encoding(encoding as u8);
                draft.write_into(&mut outline, Order::Main, limits.chunk_bytes);
                outline
            }
        }
    }
}

/// A collection of these names in one record.
pub(crate) fn packed<'b, V: Known<'b>>(encoding: Encoding, names: &[Named<'b, V>]) -> Vec<u8> {
    let bytes = names.iter().copied().map(named_bytes).sum();
    let mut bytes = Writer::new(encoding, names.len(), bytes).finish();
    names.iter().for_each(|name| push_named(&mut bytes, *name));
    bytes
}
