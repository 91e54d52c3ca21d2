//! When to request a tablet map: at the start, when a node announces another, and when answers show that the
//! present one is old.

use crate::config::{CONNECT_STAGGER_US, REFRESH_INTERVAL_US, REFRESH_TIMEOUT_US};
use crate::index::{ConnectionIndex, NodeIndex};
use crate::links::Links;
use sidle_types::{MapEpoch, MonotonicUs};

/// Whether a map is wanted, and from which node.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    is_wanted: bool,
    /// The node most likely to have it.
    hint: Option<NodeIndex>,
    under_way: Option<(ConnectionIndex, MonotonicUs)>,
    not_before: MonotonicUs,
    /// The latest map that any node announced.
    announced: MapEpoch,
    /// The next node to ask without a better one.
    turn: usize,
}

impl Refresh {
    pub(crate) fn announced(&self) -> MapEpoch {
        self.announced
    }

    /// Notes that there is a map of this epoch; returns whether that is new. Maps are requested until one as
    /// new is in use.
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

    /// A node got ready, or was lost: choose again which to ask.
    pub(crate) fn nodes_changed(&mut self, now: MonotonicUs) {
        self.not_before = self.not_before.min(now);
    }

    pub(crate) fn timeout(&self) -> Option<MonotonicUs> {
        match self.under_way {
            Some((_, since)) => Some(since.plus_us(REFRESH_TIMEOUT_US)),
            None => self.is_wanted.then_some(self.not_before),
        }
    }

    /// Wants a newer map, preferably from this node.
    pub(crate) fn want(&mut self, from: Option<NodeIndex>) {
        self.is_wanted = true;
        self.hint = from.or(self.hint);
    }

    /// The connection to request a map on, if one is wanted and no request is open: it counts as open then.
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
            // No node can be asked: try one after the other.
            self.not_before = now.plus_us(CONNECT_STAGGER_US);
            links.want_connection(now, (turn % count) as NodeIndex);
            return None;
        };
        self.not_before = now.plus_us(REFRESH_INTERVAL_US);
        self.is_wanted = false;
        self.under_way = Some((index, now));
        Some(index)
    }

    /// An answer has arrived over this connection.
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
