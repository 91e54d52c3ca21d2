//! Which connection each lane of each migration runs over.

use sidle_types::MigrationId;
use sidle_wire::Lane;
use std::collections::BTreeMap;

/// A connection to another node, by the name that the driver gave it; never given twice to one mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u64);

/// Which part this node has in a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Source,
    Target,
}

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkEnd {
    pub(super) migration: MigrationId,
    pub(super) side: Side,
    pub(super) lane: Lane,
}

/// The open links, by name and by what they are for.
#[derive(Debug, Default)]
pub(super) struct Links {
    ends: BTreeMap<Link, LinkEnd>,
    links: BTreeMap<LinkEnd, Link>,
}

impl Links {
    /// What a link is for.
    pub(super) fn end(&self, link: Link) -> Option<LinkEnd> {
        self.ends.get(&link).copied()
    }

    /// The link of a lane.
    pub(super) fn link(&self, end: LinkEnd) -> Option<Link> {
        self.links.get(&end).copied()
    }

    /// How many links there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Gives a lane a link, and returns the one that it had before (V2).
    pub(super) fn bind(&mut self, link: Link, end: LinkEnd) -> Option<Link> {
        assert!(self.ends.insert(link, end).is_none(), "V2: {link:?} is in use already");
        let before = self.links.insert(end, link);
        if let Some(before) = before {
            self.ends.remove(&before);
        }
        before
    }

    /// A link is gone; what it was for.
    pub(super) fn unbind(&mut self, link: Link) -> Option<LinkEnd> {
        let end = self.ends.remove(&link)?;
        self.links.remove(&end);
        Some(end)
    }

    /// All links of one migration, which is over.
    pub(super) fn unbind_all(&mut self, migration: MigrationId, side: Side) -> Vec<Link> {
        let gone: Vec<Link> = (self.ends.iter())
            .filter(|(_, end)| end.migration == migration && end.side == side)
            .map(|(&link, _)| link)
            .collect();
        for &link in &gone {
            self.unbind(link);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bind_replaces_and_unbind_forgets_only_the_present() {
        let mut links = Links::default();
        let end = LinkEnd { migration: MigrationId(1), side: Side::Target, lane: Lane::Bulk };
        assert_eq!(links.bind(Link(1), end), None);
        assert_eq!(links.bind(Link(2), end), Some(Link(1)));
        assert_eq!(links.unbind(Link(1)), None, "a replaced link is never heard again");
        assert_eq!(links.link(end), Some(Link(2)));
        assert_eq!(links.unbind(Link(2)), Some(end));
        assert_eq!(links.link(end), None);
    }
}
