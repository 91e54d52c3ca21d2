//! When a tablet map is asked for: at the start, when a node announces another, and when answers say that
//! ours is old.

use crate::config::{CONNECT_STAGGER_US, REFRESH_INTERVAL_US, REFRESH_TIMEOUT_US};
use crate::index::{ConnectionIndex, NodeIndex};
use crate::links::Links;
use sidle_types::{MapEpoch, MonotonicUs};

/// Whether a map is wanted, and from whom.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    is_wanted: bool,
    /// Who is likely to know best.
    hint: Option<NodeIndex>,
    under_way: Option<(ConnectionIndex, MonotonicUs)>,
    not_before: MonotonicUs,
    /// The latest map that any node spoke of.
    announced: MapEpoch,
    /// Who is asked next when nobody is known to be better.
    turn: usize,
}

impl Refresh {
    pub(crate) fn announced(&self) -> MapEpoch {
        self.announced
    }

    /// Notes that there is a map of this epoch; says whether that is news. Until one as new is in use, maps
    /// are asked for.
    pub(crate) fn announce(&mut self, epoch: MapEpoch) -> bool {
        let is_news = epoch > self.announced;
        self.announced = self.announced.max(epoch);
        is_news
    }

    pub(crate) fn lost(&mut self, connection: ConnectionIndex) {
        if self.under_way.is_some_and(|(asked, _)| asked == connection) {
            self.under_way = None;
            self.is_wanted = true;
        }
    }

    /// A node got ready, or was lost: whom to ask can be looked at anew.
    pub(crate) fn nodes_changed(&mut self, now: MonotonicUs) {
        self.not_before = self.not_before.min(now);
    }

    pub(crate) fn timeout(&self) -> Option<MonotonicUs> {
        match self.under_way {
            Some((_, since)) => Some(since.plus_us(REFRESH_TIMEOUT_US)),
            None => self.is_wanted.then_some(self.not_before),
        }
    }

    /// Wants a newer map, best from this node.
    pub(crate) fn want(&mut self, from: Option<NodeIndex>) {
        self.is_wanted = true;
        self.hint = from.or(self.hint);
    }

    /// The connection to ask for a map on, if one is wanted and none is under way: it is under way then.
    pub(crate) fn poll_question(&mut self, now: MonotonicUs, links: &mut Links) -> Option<ConnectionIndex> {
        if !self.is_wanted || self.under_way.is_some() || now < self.not_before {
            return None;
        }
        let is_ready = |index: usize| links.nodes[index].is_ready();
        let hint = self.hint.take().map(usize::from).filter(|&index| is_ready(index));
        let (count, turn) = (links.nodes.len(), self.turn);
        let ready =
            hint.or_else(|| (0..count).map(|step| (turn + step) % count).find(|&index| is_ready(index)));
        self.turn = turn.wrapping_add(1);
        let asked = ready.and_then(|index| links.choose(now, index as NodeIndex));
        let Some(index) = asked else {
            // Nobody can be asked: try the nodes one after the other.
            self.not_before = now.plus_us(CONNECT_STAGGER_US);
            links.want_connection(now, (turn % count) as NodeIndex);
            return None;
        };
        self.not_before = now.plus_us(REFRESH_INTERVAL_US);
        self.is_wanted = false;
        self.under_way = Some((index, now));
        Some(index)
    }

    /// An answer has come over this connection.
    pub(crate) fn answered(&mut self, from: ConnectionIndex) {
        if self.under_way.is_some_and(|(asked, _)| asked == from) {
            self.under_way = None;
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: MonotonicUs) {
        if self.under_way.is_some_and(|(_, since)| now.since(since) >= REFRESH_TIMEOUT_US) {
            self.under_way = None;
            self.is_wanted = true;
        }
    }
}
