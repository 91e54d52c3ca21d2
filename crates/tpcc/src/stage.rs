//! Where a transaction is.

use crate::rows::{Lines, Order};

/// Where a transaction is.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Nothing was read.
    Begun,
    /// The customers with a name are read.
    Named,
    /// Its first records are read; which customer it is about, where that is known.
    First(u32),
    /// Its second ones are: the order, or of the customer.
    Second(u32),
    /// Its third ones are.
    Third(Box<Due>),
}

/// The order that is due.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) number: u32,
    pub(crate) order: Order,
    pub(crate) lines: Lines,
}
