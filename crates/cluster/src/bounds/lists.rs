//! Lists that are cut off during parsing.

use super::OutOfBounds;
use crate::limits::{
    HISTORY, MAX_HELD, MAX_NODES, MAX_PARTITIONS, MAX_PARTS_NAMED, MAX_STARTS, MAX_TABLETS, MAX_TAKEOVERS,
    MAX_UNFINISHED,
};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A field whose list is cut off during parsing: `#[serde(deserialize_with = "bounds::holds")]`.
macro_rules! bounded_lists {
    ($($field:ident: $most:expr,)+) => {
        $(pub(crate) fn $field<'de, D, T, C>(deserializer: D) -> Result<C, D::Error>
        where
            D: Deserializer<'de>,
            T: Deserialize<'de>,
            C: From<Vec<T>> + IntoIterator<Item = T>,
        {
            deserializer.deserialize_seq(List { field: stringify!($field), most: $most, of: PhantomData })
                .map(C::from)
        })+
    };
}

bounded_lists! {
    copies: MAX_NODES,
    history: HISTORY,
    holds: MAX_HELD,
    migrations: MAX_UNFINISHED + HISTORY,
    next: MAX_PARTITIONS,
    nodes: MAX_NODES,
    partitions: MAX_PARTITIONS,
    parts: MAX_PARTS_NAMED,
    starts: MAX_STARTS,
    suspected: MAX_NODES,
    tablets: MAX_TABLETS,
    takeovers: MAX_TAKEOVERS,
    waiting: MAX_UNFINISHED,
}

struct List<T> {
    field: &'static str,
    most: usize,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} entries", self.most)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut read = Vec::new();
        while let Some(entry) = list.next_element()? {
            if read.len() == self.most {
                let Self { field, most, .. } = self;
                return Err(A::Error::custom(OutOfBounds::Entries { field, most }));
            }
            read.push(entry);
        }
        Ok(read)
    }
}
