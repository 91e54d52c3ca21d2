//! Which connection each lane of each migration runs over.

use sidle_types::MigrationId;
use sidle_wire::{Hello, Lane};
use std::collections::BTreeMap;

/// A connection to another node, by the driver's name for it; never reused at one mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u64);

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkEnd {
    pub(super) migration: MigrationId,
    pub(super) lane: Lane,
}

/// The links of one migration, by lane; each lane has at most one (V2).
pub(super) type Lanes = [Option<Link>; Lane::ALL.len()];

#[derive(Debug)]
enum Purpose {
    /// It is one of the migration's [`Lanes`].
    Lane(LinkEnd),
    /// Its target knows of the migration before this node, and is answered as soon as this node does.
    Early(Hello),
}

/// The open links, by name.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<Link, Purpose>);

impl Links {
    /// What a link is for, once its migration is known.
    pub(super) fn end(&self, link: Link) -> Option<LinkEnd> {
        match self.0.get(&link)? {
            Purpose::Lane(end) => Some(*end),
            Purpose::Early(_) => None,
        }
    }

    /// How many links there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps a greeting until its migration is known.
    pub(super) fn greeted_early(&mut self, link: Link, hello: Hello) {
        self.0.insert(link, Purpose::Early(hello));
    }

    /// The greetings of a migration that has become known; the caller binds each in its greeting's place.
    pub(super) fn early_of(&self, migration: MigrationId) -> Vec<(Link, Hello)> {
        let of_it = self.0.iter().filter_map(|(&link, purpose)| match purpose {
            Purpose::Early(hello) if hello.scope.migration == migration => Some((link, *hello)),
            Purpose::Early(_) | Purpose::Lane(_) => None,
        });
        of_it.collect()
    }

    /// Binds a link to a lane, and returns the lane's previous link (V2).
    pub(super) fn bind(&mut self, link: Link, end: LinkEnd, lanes: &mut Lanes) -> Option<Link> {
        let used = self.0.insert(link, Purpose::Lane(end));
        assert!(!matches!(used, Some(Purpose::Lane(_))), "V2: {link:?} is in use already");
        let before = lanes[end.lane.index()].replace(link)?;
        self.0.remove(&before);
        Some(before)
    }

    /// A link is gone; returns its purpose. The caller takes it from its lane.
    pub(super) fn unbind(&mut self, link: Link) -> Option<LinkEnd> {
        match self.0.remove(&link)? {
            Purpose::Lane(end) => Some(end),
            Purpose::Early(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bind_replaces_a_link_and_ignores_the_replaced() {
        let mut links = Links::default();
        let mut lanes = Lanes::default();
        let end = LinkEnd { migration: MigrationId(1), lane: Lane::Bulk };
        assert_eq!(links.bind(Link(1), end, &mut lanes), None);
        assert_eq!(links.bind(Link(2), end, &mut lanes), Some(Link(1)));
        assert_eq!(links.unbind(Link(1)), None, "a replaced link has no purpose");
        assert_eq!(lanes[Lane::Bulk.index()], Some(Link(2)));
        assert_eq!(links.unbind(Link(2)), Some(end));
        assert_eq!(links.len(), 0);
    }
}
