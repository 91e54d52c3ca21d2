//! The checkers' state for each key: looked up for every operation that ends.

use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A value for each key. Its iteration order is the same in every run.
pub(super) type ByKey<V> = HashMap<String, V, BuildHasherDefault<DefaultHasher>>;
