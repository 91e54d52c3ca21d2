//! A key that a transaction has locked, as operators see it.

use serde::{Deserialize, Serialize};

/// A key that has voted for a transaction, which is not decided yet. What is no UTF-8 in a key is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedKey {
    /// The transaction.
    pub id: String,
    /// The key.
    pub key: String,
    /// Whether the transaction is to write it, or has read it only.
    pub writes: bool,
    /// So long it has been locked.
    pub locked_ms: u64,
    /// The transaction's first key, which has the list of all.
    pub first: String,
    /// All keys of the transaction; of another than its first key none are listed.
    pub keys: Vec<String>,
}
