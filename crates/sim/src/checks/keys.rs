//! What checkers remember of each key: looked up for every operation that ends.

use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// Something for each key. Its order is the same in every run, and no other.
pub(super) type ByKey<V> = HashMap<String, V, BuildHasherDefault<DefaultHasher>>;
