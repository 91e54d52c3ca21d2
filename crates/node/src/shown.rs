//! What replies show, and so what they wait for.

use sidle_types::CommitNumber;

/// What replies show that are to be sent together, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The commit that has everything that they show: they are sent once it is safe.
    pub commit: CommitNumber,
    /// They show something of the data, or may: they are sent only while the node's lease lasts.
    pub is_of_data: bool,
}

impl Shown {
    /// These are sent with others.
    #[inline]
    pub fn add(&mut self, others: Shown) {
        self.commit = self.commit.max(others.commit);
        self.is_of_data |= others.is_of_data;
    }

    /// All of them were sent: what follows waits for what it shows itself.
    #[inline]
    pub fn sent(&mut self) {
        self.is_of_data = false;
    }
}
