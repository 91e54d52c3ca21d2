//! Arriving replies: each is paired with its request, and decided on.

use crate::config::CONNECTED_AHEAD;
use crate::connection::{ConnectionId, Role};
use crate::core::Core;
use crate::double_read::{SourceAnswer, TargetAnswer, Verdict};
use crate::event::Event;
use crate::index::{ConnectionIndex, NodeIndex};
use crate::mcr::PartitionProgress;
use crate::operation::{Class, Place};
use crate::outcome::{Completions, Outcome};
use crate::redirect::{ErrorMeaning, RedirectTo};
use crate::routing::Routes;
use crate::slots_map::map_of_slots;
use sidle_cluster::{HostPort, MAX_PARTITIONS, NodeInfo, TabletMap};
use sidle_resp::{Frame, ParsedReply, Reply};
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, Position, PositionFilter, fault, parse_cursors};
use smallvec::SmallVec;
use std::sync::Arc;

impl Core {
    /// Takes in a connection's bytes, starting behind what the last call consumed. Returns how many were
    /// consumed; pass the rest again, with later bytes behind it.
    #[inline]
    pub fn received(
        &mut self,
        now: MonotonicUs,
        connection: ConnectionId,
        bytes: &[u8],
        done: &mut impl Completions,
    ) -> usize {
        let index = connection.index;
        let mut at = 0;
        loop {
            let of = &mut self.links.connections[connection.index()];
            if of.generation != connection.generation {
                // Given up, perhaps because of the bytes just read: the rest is meaningless.
                return bytes.len();
            }
            match of.parser.parse(&bytes[at..]) {
                Ok(ParsedReply::Complete { frame, consumed }) => {
                    at += consumed;
                    self.counters.reply_bytes += consumed as u64;
                    of.received_at = now;
                    self.reply(now, index, frame, consumed, done);
                }
                Ok(ParsedReply::Incomplete { .. }) => break,
                Err(error) => {
                    let node = of.node;
                    self.links.trouble(node, error.to_string());
                    self.give_up(now, index, done);
                    return bytes.len();
                }
            }
        }
        self.ask_for_map(now);
        at
    }

    #[inline]
    fn reply(
        &mut self,
        now: MonotonicUs,
        on: ConnectionIndex,
        frame: Frame<'_>,
        bytes: usize,
        done: &mut impl Completions,
    ) {
        if frame.has_attributes() {
            self.attributes(&frame);
        }
        let connection = &mut self.links.connections[on as usize];
        let from = connection.node;
        if let Reply::Push(_) = frame.reply {
            self.counters.extra_reply_bytes += bytes as u64;
            self.push(from, &frame.reply);
            return;
        }
        let Some(awaited) = connection.awaited.pop_front() else {
            self.links.trouble(from, "it answered what was not asked".to_owned());
            self.give_up(now, on, done);
            return;
        };
        self.links.list_if_idle(on);
        match awaited.role {
            Role::Answer if self.operations.is_attempt(awaited.place, awaited.attempt) => {
                let useful = self.answer(now, from, awaited.place, frame.reply, done);
                if !useful {
                    self.counters.extra_reply_bytes += bytes as u64;
                } else if frame.has_attributes() {
                    self.counters.extra_reply_bytes += frame.attribute_bytes() as u64;
                }
                return;
            }
            Role::Source if self.operations.is_attempt(awaited.place, awaited.attempt) => {
                self.source_answer(now, from, awaited.place, frame.reply, bytes, done);
                return;
            }
            Role::Map => self.map_answer(now, on, frame.reply, done),
            Role::Hello | Role::Capability => self.greeting_answer(now, on, awaited.role, frame.reply, done),
            // The answer to an attempt that was given up, the OK of ASKING, or that of a subscription,
            // without which the client does as well.
            Role::Answer | Role::Source | Role::Asking | Role::AskedAnswer | Role::Subscription => {}
        }
        self.counters.extra_reply_bytes += bytes as u64;
    }

    /// The owner's answer; returns whether it ended the operation.
    #[inline]
    fn answer(
        &mut self,
        now: MonotonicUs,
        from: NodeIndex,
        place: Place,
        reply: Reply<'_>,
        done: &mut impl Completions,
    ) -> bool {
        match reply {
            Reply::Error(text) => return self.error_answer(now, from, place, text, done),
            Reply::Simple(text) if self.operations[place].class == Class::Get => {
                // A GET's value is a bulk string: a simple string can only be "not here yet".
                let mut named = empty_of(text);
                if fault!(SourceValueOfOtherMigration) {
                    named = None;
                }
                let answer = TargetAnswer::NotHereYet(named);
                match self.operations[place].read.as_mut().map(|read| read.target_answered(answer)) {
                    Some(verdict) => self.decide(now, place, verdict, done),
                    None => {
                        // The target imports the range, and this client's map does not show it yet.
                        self.refresh.want(Some(from));
                        self.again(now, place, false, done);
                    }
                }
                return false;
            }
            _ => {}
        }
        let operation = &mut self.operations[place];
        if let Some(id) = operation.migration {
            let verdict = operation.read.as_mut().map(|read| read.target_answered(TargetAnswer::Known));
            debug_assert!(verdict.is_none_or(|verdict| verdict == Verdict::TakeTarget));
            // Of a range that is given bit by bit the source may have answered: it keeps the key.
            if self.routes.at(operation.position).is_none_or(|route| route.node == from)
                && let Some(tracking) = self.trackings.by_id(id)
            {
                tracking.seen_at_target(operation.position);
            }
        }
        self.complete(place, from, reply, done);
        true
    }

    #[inline]
    fn complete(&mut self, place: Place, from: NodeIndex, reply: Reply<'_>, done: &mut impl Completions) {
        self.counters.replies += 1;
        let operation = &mut self.operations[place];
        self.counters.extra_reply_bytes += u64::from(std::mem::take(&mut operation.source_reply_bytes));
        let token = operation.token;
        self.operations.release(place);
        done.answered_by(token, usize::from(from));
        done.completed(token, Outcome::Reply(reply));
    }

    fn error_answer(
        &mut self,
        now: MonotonicUs,
        from: NodeIndex,
        place: Place,
        text: &[u8],
        done: &mut impl Completions,
    ) -> bool {
        let mut meaning = ErrorMeaning::of(text);
        let operation = &mut self.operations[place];
        if meaning == ErrorMeaning::Unknown && matches!(operation.class, Class::Once { .. }) {
            operation.was_lost = true;
            meaning = ErrorMeaning::NotNow;
        }
        if operation.was_lost && meaning == ErrorMeaning::Final && ErrorMeaning::is_refusal(text) {
            // An earlier attempt may have run, and this node has not looked.
            meaning = ErrorMeaning::NotNow;
        }
        match meaning {
            ErrorMeaning::Redirect { is_ask, to } => {
                self.counters.redirects += 1;
                self.refresh.want(Some(from));
                let to = match to {
                    RedirectTo::Address(address) => Some(address),
                    RedirectTo::SameHost(port) => {
                        HostPort::new(self.links.nodes[usize::from(from)].address.host(), port).ok()
                    }
                };
                let to = to.and_then(|address| self.links.node_at(&address));
                self.operations[place].redirect = to.map(|node| (node, is_ask));
                self.again(now, place, true, done);
                false
            }
            ErrorMeaning::Given(id) => {
                self.counters.given += 1;
                let position = self.operations[place].position;
                match self.trackings.by_id(id) {
                    Some(tracking) => tracking.seen_at_target(position),
                    None => self.refresh.want(Some(from)),
                }
                self.again(now, place, true, done);
                false
            }
            ErrorMeaning::NotNow => {
                self.refresh.want(Some(from));
                self.again(now, place, false, done);
                false
            }
            ErrorMeaning::Retry(after_us) => {
                // As often as needed, until the operation's deadline: the node is working on it.
                self.counters.retries += 1;
                self.operations[place].may_have_run = false;
                self.rest(now.plus_us(u64::from(after_us)), place);
                false
            }
            ErrorMeaning::SidleDone
            | ErrorMeaning::SidleNotFrozen
            | ErrorMeaning::Unknown
            | ErrorMeaning::Final => {
                self.complete(place, from, Reply::Error(text), done);
                true
            }
        }
    }

    /// The source's answer to a double read, of so many bytes.
    fn source_answer(
        &mut self,
        now: MonotonicUs,
        from: NodeIndex,
        place: Place,
        reply: Reply<'_>,
        bytes: usize,
        done: &mut impl Completions,
    ) {
        let answer = match reply {
            Reply::Null | Reply::Bulk(_) => SourceAnswer::Frozen,
            Reply::Error(text) => match ErrorMeaning::of(text) {
                ErrorMeaning::SidleDone => SourceAnswer::Done,
                ErrorMeaning::SidleNotFrozen => SourceAnswer::NotFrozen,
                _ => SourceAnswer::Failed,
            },
            _ => SourceAnswer::Failed,
        };
        if answer != SourceAnswer::Frozen {
            self.refresh.want(Some(from));
        }
        let takes_source_value_alone = fault!(SourceValueWithoutTargetAnswer);
        let operation = &mut self.operations[place];
        let read = operation.read.as_mut().expect("the source is asked in double reads only");
        let mut verdict = read.source_answered(answer);
        if takes_source_value_alone && answer == SourceAnswer::Frozen {
            verdict = Verdict::TakeSource;
        }
        if verdict == Verdict::TakeSource && (takes_source_value_alone || self.pairs_up(place)) {
            self.counters.source_values += 1;
            self.complete(place, from, reply, done);
            return;
        }
        let operation = &mut self.operations[place];
        // Whether these bytes were useful is decided when the operation ends.
        operation.source_reply_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        operation.source_value.clear();
        operation.source_is_null = matches!(reply, Reply::Null);
        operation.source = from;
        operation.source_value.extend_from_slice(reply.as_bytes().unwrap_or_default());
        self.decide(now, place, verdict, done);
    }

    /// A double read's source is unreachable.
    pub(crate) fn source_failed(&mut self, now: MonotonicUs, place: Place, done: &mut impl Completions) {
        let read = self.operations[place].read.as_mut().expect("the source is asked in double reads only");
        let verdict = read.source_answered(SourceAnswer::Failed);
        self.decide(now, place, verdict, done);
    }

    fn decide(&mut self, now: MonotonicUs, place: Place, verdict: Verdict, done: &mut impl Completions) {
        match verdict {
            Verdict::Wait => {}
            Verdict::TakeTarget => {
                unreachable!("a known answer of the target ends the operation where it arrives")
            }
            Verdict::TakeSource if self.pairs_up(place) => {
                self.counters.source_values += 1;
                let operation = &mut self.operations[place];
                operation.source_reply_bytes = 0;
                let source = operation.source;
                let value = std::mem::take(&mut operation.source_value);
                let reply = if operation.source_is_null { Reply::Null } else { Reply::Bulk(&value) };
                self.complete(place, source, reply, done);
                self.operations[place].source_value = value;
            }
            Verdict::AskSource => match self.source_of(place) {
                Some(source) => {
                    self.counters.single_source_reads += 1;
                    self.defer(now, place, source, Role::Source);
                }
                // The present map shows the migration as over.
                None => self.again(now, place, true, done),
            },
            Verdict::AgainNow => {
                self.refresh.want(None);
                self.again(now, place, true, done);
            }
            Verdict::AgainLater | Verdict::TakeSource => {
                self.refresh.want(None);
                self.again(now, place, false, done);
            }
        }
    }

    /// Whether the answers of source and target must be about the same migration (M4), though the target did
    /// not name it. So it is if no map was announced since the attempt, or the migration still runs by the
    /// latest one. A node announces a map on each connection before it answers by it.
    fn pairs_up(&self, place: Place) -> bool {
        let operation = &self.operations[place];
        let Some(read) = &operation.read else { return false };
        if fault!(SourceValueOfOtherMigration) {
            return true;
        }
        let announced = self.refresh.announced();
        announced <= operation.map_epoch
            || announced <= self.map_epoch && self.trackings.is_running(read.migration())
    }

    fn source_of(&self, place: Place) -> Option<NodeIndex> {
        let operation = &self.operations[place];
        let index = self.routes.at(operation.position)?.migration()?;
        let id = operation.read.as_ref()?.migration();
        (self.trackings.at(index).id == id).then(|| self.routes.migration(index).source)
    }

    fn attributes(&mut self, frame: &Frame<'_>) {
        for (name, value) in frame.attributes() {
            if name.as_bytes() == Some(b"sidle-progress") {
                self.progress(value);
            }
        }
    }

    /// `*<1+N>`, the migration's id, then for each partition the first position that has not arrived, or
    /// `done`.
    fn progress(&mut self, report: Reply<'_>) {
        let Reply::Array(mut items) = report else { return };
        let Some(Reply::Integer(id)) = items.next() else { return };
        let Some(tracking) = self.trackings.by_id(MigrationId(id as u64)) else { return };
        if items.len() > MAX_PARTITIONS {
            return;
        }
        let progress: Option<SmallVec<[PartitionProgress; 8]>> = items.map(partition_progress).collect();
        if let Some(progress) = progress {
            tracking.progressed(&progress);
            self.counters.progress_reports += 1;
        }
    }

    fn push(&mut self, from: NodeIndex, push: &Reply<'_>) {
        let Reply::Push(mut items) = *push else { return };
        match items.next().and_then(Reply::as_bytes) {
            Some(b"sidle-map") => {
                // Every connection announces it; the first announcement requests the map.
                if let Some(Reply::Integer(epoch)) = items.next()
                    && self.refresh.announce(MapEpoch(epoch as u64))
                {
                    self.refresh.want(Some(from));
                }
            }
            Some(b"sidle-given") => self.given(items),
            _ => {}
        }
    }

    /// The migration's id, the number of the last cut, how far each partition is given, and a filter of what
    /// was given out of turn. What makes no sense is ignored.
    fn given<'r>(&mut self, mut items: impl Iterator<Item = Reply<'r>>) {
        let (Some(Reply::Integer(id)), Some(Reply::Integer(_))) = (items.next(), items.next()) else {
            return;
        };
        let tracking = self.trackings.by_id(MigrationId(id as u64)).filter(|tracking| tracking.is_by_cuts());
        let Some(tracking) = tracking else { return };
        let mut bytes = || items.next().and_then(Reply::as_bytes);
        let Some(cursors) = bytes().and_then(parse_cursors) else { return };
        let Some(filter) = bytes().and_then(PositionFilter::parse) else { return };
        let to_progress =
            |next: Option<Position>| next.map_or(PartitionProgress::Done, PartitionProgress::Next);
        let cursors: SmallVec<[PartitionProgress; 8]> = cursors.map(to_progress).collect();
        tracking.progressed(&cursors);
        self.counters.given_pushes += 1;
        self.counters.given_learnt += tracking.given(&filter);
    }

    /// Requests a map, if one is wanted and no request is open.
    pub(crate) fn ask_for_map(&mut self, now: MonotonicUs) {
        let Some(index) = self.refresh.poll_question(now, &mut self.links) else { return };
        let question: &[&[u8]] = if self.is_aware() { &[b"SIDLE.MAP"] } else { &[b"CLUSTER", b"SLOTS"] };
        let connection = &mut self.links.connections[index as usize];
        let before = connection.out.len();
        connection.write_own(Role::Map, question);
        self.count_own(index, before);
    }

    fn map_answer(
        &mut self,
        now: MonotonicUs,
        from: ConnectionIndex,
        reply: Reply<'_>,
        done: &mut impl Completions,
    ) {
        self.refresh.answered(from);
        let node = self.links.connections[from as usize].node;
        let address = &self.links.nodes[usize::from(node)].address;
        let map = match reply {
            Reply::Error(text) if self.is_aware() => Err(String::from_utf8_lossy(text).into_owned()),
            reply if !self.is_aware() => map_of_slots(reply, address, MapEpoch(self.map_epoch.0 + 1)),
            reply => serde_json::from_slice::<TabletMap>(reply.as_bytes().unwrap_or_default())
                .map_err(|error| format!("its map cannot be read: {error}")),
        };
        match map {
            Ok(map) => self.install_map(now, map),
            Err(why) => {
                self.links.trouble(node, why);
                if self.map.is_none() {
                    self.give_up(now, from, done);
                }
                self.refresh.want(None);
            }
        }
        if self.refresh.announced() > self.map_epoch {
            self.refresh.want(None);
        }
    }

    /// Installs a map, unless the present one is as new. For drivers with another source of maps; the core
    /// requests them by itself.
    pub fn install_map(&mut self, now: MonotonicUs, map: TabletMap) {
        if self.map.is_some() && map.epoch() <= self.map_epoch {
            // Operations that wait for a map know now that there is none; their own wait continues.
            return;
        }
        let mut known: Vec<(&NodeInfo, NodeIndex)> = Vec::with_capacity(map.nodes().len());
        for node in map.nodes() {
            match self.links.node_at(&node.client_addr) {
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
            // A migration redirects all clients to its target at one moment: connected ones do not wait then.
            let owners: Vec<NodeIndex> = known.iter().map(|&(_, index)| index).collect();
            owners.into_iter().for_each(|index| self.links.want_all_connections(now, index));
        }
        self.trackings.install(map.migrations());
        self.map_epoch = map.epoch();
        self.refresh.announce(map.epoch());
        self.map = Some(Arc::new(map));
        self.counters.maps += 1;
        self.links.events.push_back(Event::MapChanged(self.map_epoch));
        self.wake_all(now);
    }
}

/// The migration named in an `EMPTY`, if any.
fn empty_of(text: &[u8]) -> Option<MigrationId> {
    let id = text.strip_prefix(b"EMPTY ")?;
    sidle_resp::parse_integer(id).map(|id| MigrationId(id as u64))
}

fn partition_progress(reply: Reply<'_>) -> Option<PartitionProgress> {
    match reply.as_bytes()? {
        b"done" => Some(PartitionProgress::Done),
        text => std::str::from_utf8(text).ok()?.parse::<Position>().ok().map(PartitionProgress::Next),
    }
}
