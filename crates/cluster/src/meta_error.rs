//! Why the coordinator cannot read or write what it must not forget.

/// Why metadata could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// The store cannot be used now, or at all. The text states what to do.
    #[error("{0}")]
    Failed(String),
    /// Another coordinator has the store. Whoever gets this coordinates no more, and sends nothing.
    #[error("another coordinator writes the cluster's metadata by now: this one has stopped to coordinate")]
    Deposed,
}
