//! The ends of what has an order.

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first items.
    Left,
    /// The last ones.
    Right,
}
