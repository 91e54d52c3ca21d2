//! The tablet map: asked for at the start, when a node announces another, and when answers say that ours is
//! old.

use crate::config::{CONNECT_STAGGER_US, CONNECTED_AHEAD, REFRESH_INTERVAL_US, REFRESH_TIMEOUT_US};
use crate::connection::Role;
use crate::core::{Core, Event};
use crate::index::{ConnectionIndex, NodeIndex};
use crate::outcome::Completions;
use crate::routing::Routes;
use crate::slots_map::map_of_slots;
use sidle_cluster::{NodeInfo, TabletMap};
use sidle_resp::Reply;
use sidle_types::{MapEpoch, MonotonicUs};
use std::sync::Arc;

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
}

impl Core {
    /// Wants a newer map, best from this node.
    pub(crate) fn want_map(&mut self, from: Option<NodeIndex>) {
        self.refresh.is_wanted = true;
        self.refresh.hint = from.or(self.refresh.hint);
    }

    /// Asks for a map, if one is wanted and none is under way.
    pub(crate) fn ask_for_map(&mut self, now: MonotonicUs) {
        if !self.refresh.is_wanted || self.refresh.under_way.is_some() || now < self.refresh.not_before {
            return;
        }
        let is_ready = |index: usize| self.nodes[index].is_ready();
        let hint = self.refresh.hint.take().map(usize::from).filter(|&index| is_ready(index));
        let count = self.nodes.len();
        let turn = self.refresh.turn;
        let ready =
            hint.or_else(|| (0..count).map(|step| (turn + step) % count).find(|&index| is_ready(index)));
        self.refresh.turn = turn.wrapping_add(1);
        let asked = ready.and_then(|index| self.choose(now, index as NodeIndex));
        let Some(index) = asked else {
            // Nobody can be asked: try the nodes one after the other.
            self.refresh.not_before = now.plus_us(CONNECT_STAGGER_US);
            self.want_connection(now, (turn % count) as NodeIndex);
            return;
        };
        self.refresh.not_before = now.plus_us(REFRESH_INTERVAL_US);
        self.refresh.is_wanted = false;
        self.refresh.under_way = Some((index, now));
        let question: &[&[u8]] = if self.is_aware() { &[b"SIDLE.MAP"] } else { &[b"CLUSTER", b"SLOTS"] };
        let connection = &mut self.connections[index as usize];
        let before = connection.out.len();
        connection.write_own(Role::Map, question);
        self.count_own(index, before);
    }

    pub(crate) fn tick_refresh(&mut self, now: MonotonicUs) {
        if let Some((_, since)) = self.refresh.under_way
            && now.since(since) >= REFRESH_TIMEOUT_US
        {
            self.refresh.under_way = None;
            self.refresh.is_wanted = true;
        }
    }

    pub(crate) fn map_answer(
        &mut self,
        now: MonotonicUs,
        from: ConnectionIndex,
        reply: Reply<'_>,
        done: &mut impl Completions,
    ) {
        if self.refresh.under_way.is_some_and(|(asked, _)| asked == from) {
            self.refresh.under_way = None;
        }
        let node = self.connections[from as usize].node;
        let address = &self.nodes[usize::from(node)].address;
        let map = match reply {
            Reply::Error(text) if self.is_aware() => Err(String::from_utf8_lossy(text).into_owned()),
            reply if !self.is_aware() => map_of_slots(reply, address, MapEpoch(self.map_epoch.0 + 1)),
            reply => serde_json::from_slice::<TabletMap>(reply.as_bytes().unwrap_or_default())
                .map_err(|error| format!("its map cannot be read: {error}")),
        };
        match map {
            Ok(map) => self.install_map(now, map),
            Err(why) => {
                self.trouble(node, why);
                if self.map.is_none() {
                    self.give_up(now, from, done);
                }
                self.refresh.is_wanted = true;
            }
        }
        if self.refresh.announced > self.map_epoch {
            self.want_map(None);
        }
    }

    /// Uses a map, unless the one in use is as new. For drivers that know a map from elsewhere; the core asks
    /// nodes by itself.
    pub fn install_map(&mut self, now: MonotonicUs, map: TabletMap) {
        if self.map.is_some() && map.epoch() <= self.map_epoch {
            // What waits for a map has learnt that there is none; its own time to wait goes on.
            return;
        }
        let mut known: Vec<(&NodeInfo, NodeIndex)> = Vec::with_capacity(map.nodes().len());
        for node in map.nodes() {
            match self.node_at(&node.client_addr) {
                Some(index) => known.push((node, index)),
                None => return,
            }
        }
        self.routes = Routes::new(&map, |node| {
            known
                .iter()
                .find(|(other, _)| other.id == node.id)
                .expect("every node of the map was just added")
                .1
        });
        if self.is_aware() && known.len() <= CONNECTED_AHEAD {
            // A migration sends all clients to its target at one moment: those that are connected by then do
            // not wait.
            let owners: Vec<NodeIndex> = known.iter().map(|&(_, index)| index).collect();
            owners.into_iter().for_each(|index| self.want_all_connections(now, index));
        }
        self.trackings.install(map.migrations());
        self.map_epoch = map.epoch();
        self.refresh.announce(map.epoch());
        self.map = Some(Arc::new(map));
        self.counters.maps += 1;
        self.events.push_back(Event::MapChanged(self.map_epoch));
        self.wake_all(now);
    }
}
