//! How many connections the bus port takes: for each kind a total, and a number from one
//! source. A process that may open few files takes fewer ([`crate::descriptors`] plans for all of them).

/// The bound of one kind of connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// From all sources together.
    pub(crate) total: usize,
    /// From one source.
    pub(crate) per_source: usize,
}

/// The bounds of all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Handshakes under way, opened by others.
    pub(crate) handshakes: Bound,
    /// Members' conversations with the coordinator: one each, and some that are ending.
    pub(crate) conversations: Bound,
    /// Members' connections of migrations. A node takes part in one migration at a time, with two of them.
    pub(crate) lanes: Bound,
    /// Members' connections that forward their clients' requests: one for each worker and protocol version of
    /// every node that is shown a slot of which this node owns a part.
    pub(crate) forwards: Bound,
    /// Members' connections for copies of their durable logs: one for each, and one that is ending.
    pub(crate) copies: Bound,
}

const fn bound(total: usize, per_source: usize) -> Bound {
    Bound { total, per_source }
}

impl Bound {
    fn between(least: Bound, most: Bound, extra: usize, extra_max: usize) -> Bound {
        let scaled = |least: usize, most: usize| least + (most - least) * extra / extra_max;
        bound(scaled(least.total, most.total), scaled(least.per_source, most.per_source))
    }
}

impl Bounds {
    /// The bounds of a process that may open enough files.
    pub(crate) const MOST: Bounds = Bounds {
        handshakes: bound(128, 32),
        conversations: bound(1_024, 256),
        lanes: bound(64, 32),
        forwards: bound(1_024, 256),
        copies: bound(256, 64),
    };
    /// The bounds of every process: enough for a few nodes, which may be on one machine.
    pub(crate) const LEAST: Bounds = Bounds {
        handshakes: bound(8, 4),
        conversations: bound(16, 16),
        lanes: bound(4, 4),
        forwards: bound(4, 4),
        copies: bound(2, 2),
    };

    /// How many descriptors the connections of all kinds take together. Each copy has a file, too.
    pub(crate) const fn total(&self) -> usize {
        self.handshakes.total
            + self.conversations.total
            + self.lanes.total
            + self.forwards.total
            + 2 * self.copies.total
    }

    /// The bounds that need at most this many descriptors, between the least and the most.
    pub(crate) fn within(descriptors: usize) -> Bounds {
        let (least, most) = (Bounds::LEAST, Bounds::MOST);
        let extra_max = most.total() - least.total();
        let extra = descriptors.saturating_sub(least.total()).min(extra_max);
        let between = |least, most| Bound::between(least, most, extra, extra_max);
        Bounds {
            handshakes: between(least.handshakes, most.handshakes),
            conversations: between(least.conversations, most.conversations),
            lanes: between(least.lanes, most.lanes),
            forwards: between(least.forwards, most.forwards),
            copies: between(least.copies, most.copies),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_follow_the_descriptors() {
        assert_eq!(Bounds::within(0), Bounds::LEAST);
        assert_eq!(Bounds::within(usize::MAX), Bounds::MOST);
        for descriptors in Bounds::LEAST.total()..Bounds::MOST.total() + 10 {
            let bounds = Bounds::within(descriptors);
            assert!(bounds.total() <= descriptors, "{bounds:?}");
            assert!(bounds.total() + 6 >= descriptors.min(Bounds::MOST.total()), "hardly any is left unused");
            for bound in
                [bounds.handshakes, bounds.conversations, bounds.lanes, bounds.forwards, bounds.copies]
            {
                assert!((1..=bound.total).contains(&bound.per_source), "{bounds:?}");
            }
        }
    }
}
