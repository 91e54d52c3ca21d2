//! How many connections the port between nodes takes: of each kind so many in total, and so many from one
//! source. A process that may open few files takes fewer ([`crate::descriptors`] keeps them all in its plan).

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
    /// Handshakes under way that others began.
    pub(crate) handshakes: Bound,
    /// Members' connections to speak to the coordinator: one each, and some that end.
    pub(crate) conversations: Bound,
    /// Members' connections of migrations. A node takes part in one migration at a time, with two.
    pub(crate) lanes: Bound,
    /// Members' connections over which they forward their clients' requests: of each node that is shown a
    /// slot of which this one owns a part, one for each worker and version of the protocol.
    pub(crate) forwards: Bound,
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
    /// What a process takes that may open enough files.
    pub(crate) const MOST: Bounds = Bounds {
        handshakes: bound(128, 32),
        conversations: bound(1_024, 256),
        lanes: bound(64, 32),
        forwards: bound(1_024, 256),
    };
    /// What every process takes: enough for a few nodes, which may be on one machine.
    pub(crate) const LEAST: Bounds = Bounds {
        handshakes: bound(8, 4),
        conversations: bound(16, 16),
        lanes: bound(4, 4),
        forwards: bound(4, 4),
    };

    /// How many connections there may be of all kinds together.
    pub(crate) const fn total(&self) -> usize {
        self.handshakes.total + self.conversations.total + self.lanes.total + self.forwards.total
    }

    /// The bounds that need no more than so many descriptors, between the least and the most.
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
            assert!(bounds.total() + 4 >= descriptors.min(Bounds::MOST.total()), "hardly any is left unused");
            for bound in [bounds.handshakes, bounds.conversations, bounds.lanes, bounds.forwards] {
                assert!((1..=bound.total).contains(&bound.per_source), "{bounds:?}");
            }
        }
    }
}
