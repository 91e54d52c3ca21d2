//! All lines of a worker, and the commands that wait for answers over them.

use super::channel::{Channel, Endings, Part, Request, Wants};
use super::{ANSWER_FRAME_BYTES, Ending, ForwardLink, LOOK_AGAIN_US, WINDOW};
use crate::parking::ParkingLot;
use crate::queue::Ticket;
use crate::range_table::RangeTable;
use crate::tally::Tally;
use sidle_cluster::{HostPort, NodeInfo};
use sidle_resp::RespVersion;
use sidle_types::{Fill, MonotonicUs, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A request of a worker to its driver, for requests to other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardEvent {
    /// Open a connection to a node, for clients of this version of the protocol; then report
    /// [`forward_connected`](crate::Worker::forward_connected) or
    /// [`forward_lost`](crate::Worker::forward_lost).
    Connect {
        /// The connection's name from now on.
        link: ForwardLink,
        /// The node.
        node: NodeId,
        /// Its address for nodes.
        address: HostPort,
        /// The version.
        version: RespVersion,
    },
    /// Output waits: call [`forward_output`](crate::Worker::forward_output) until it is exhausted.
    Send(ForwardLink),
    /// Close this connection. Report nothing.
    Close(ForwardLink),
}

/// Which line: to this node, for clients that speak RESP3 or RESP2.
type LineKey = (NodeId, bool);

/// A command that is forwarded.
pub(super) struct Forwarded {
    /// How long it waits for answers.
    pub(super) until: MonotonicUs,
    /// The version of the protocol that its client speaks.
    pub(super) version: RespVersion,
    /// The count of what its connection holds for it.
    pub(super) collected: Arc<Tally>,
    /// Bytes of its reply so far, and of what is held besides.
    pub(super) reply_bytes: usize,
    pub(super) other_bytes: usize,
    /// The most bytes of its reply.
    pub(super) most_bytes: usize,
    /// Whether its end is reported ([`Channels::poll_joint_over`]); otherwise it is woken.
    pub(super) is_joint: bool,
}

/// A command that waits for answers.
#[derive(Debug)]
struct Waiting {
    /// The number of outstanding answers.
    left: usize,
    /// Answers by their part's number, unless they are too long.
    ended: Result<Vec<(u32, Ending)>, TooLong>,
    /// The count of what its connection holds for it.
    collected: Arc<Tally>,
    /// Bytes of its reply so far, partly received ones included, and the limit.
    reply_bytes: usize,
    most_bytes: usize,
    /// Bytes held for it besides.
    other_bytes: usize,
    is_joint: bool,
}

/// A command's answers together are longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The lines of one worker.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    lines: BTreeMap<LineKey, Channel>,
    links: BTreeMap<ForwardLink, LineKey>,
    last_link: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    /// Commands that check then who owns their keys.
    looking: VecDeque<(MonotonicUs, Ticket)>,
    /// Commands that wait for a line with room.
    for_room: Vec<Ticket>,
    /// Commands that wait for the end of a hold (H3), and how many had ended at the last look.
    for_hold: Vec<Ticket>,
    holds_ended: u64,
    /// Joint commands whose requests have all ended.
    joints_over: VecDeque<Ticket>,
    events: VecDeque<ForwardEvent>,
}

impl Channels {
    /// The driver's next action.
    pub(crate) fn poll_event(&mut self) -> Option<ForwardEvent> {
        self.events.pop_front()
    }

    /// Whether one more request to the node may wait.
    pub(super) fn has_room(&self, node: NodeId, version: RespVersion) -> bool {
        self.lines.get(&key(node, version)).is_none_or(Channel::has_room)
    }

    /// Parks a command until some line has room. It checks by itself, too: commands in front may have left.
    pub(super) fn park_for_room(&mut self, now: MonotonicUs, lot: &mut ParkingLot) -> Ticket {
        let ticket = self.park_to_look_again(now, lot);
        self.for_room.push(ticket);
        ticket
    }

    /// Parks a command until there is a new range table, or a short time has passed.
    pub(super) fn park_to_look_again(&mut self, now: MonotonicUs, lot: &mut ParkingLot) -> Ticket {
        let ticket = lot.park_for_a_new_table();
        self.looking.push_back((now.plus_us(LOOK_AGAIN_US), ticket));
        ticket
    }

    /// Parks a command until each of these requests has ended, or their answers are too long together.
    pub(super) fn send(
        &mut self,
        now: MonotonicUs,
        command: Forwarded,
        requests: Vec<(NodeInfo, Vec<u8>)>,
        lot: &mut ParkingLot,
    ) -> Ticket {
        let ticket = lot.park_for_another_node();
        let Forwarded { until, version, collected, reply_bytes, other_bytes, most_bytes, is_joint } = command;
        let most_bytes = most_bytes.saturating_add(requests.len() * ANSWER_FRAME_BYTES);
        let (left, ended) = (requests.len(), Ok(Vec::new()));
        let waiting = Waiting { left, ended, collected, reply_bytes, most_bytes, other_bytes, is_joint };
        self.waiting.insert(ticket, waiting);
        if left == 0 {
            self.over(ticket, lot);
        }
        let mut ended = Endings::new();
        for (number, (node, bytes)) in requests.into_iter().enumerate() {
            let key = key(node.id, version);
            let line = self.lines.entry(key).or_insert_with(|| Channel::new(node));
            let part = Part { ticket, number: number as u32 };
            line.push(Request { part, until, queued_at: now, bytes }, &mut ended);
            self.follow(now, key, &mut ended, lot);
            if let Some(link) = self.lines.get(&key).and_then(Channel::open_link) {
                self.events.push_back(ForwardEvent::Send(link));
            }
        }
        self.end(ended, lot);
        ticket
    }

    /// The results of a command's requests, in any order; once.
    pub(super) fn take_endings(&mut self, ticket: Ticket) -> Result<Vec<(u32, Ending)>, TooLong> {
        let ended = self.waiting.remove(&ticket).map_or(Ok(Vec::new()), |waiting| waiting.ended);
        if ended.is_err() {
            self.lines.values_mut().for_each(|line| line.forget(ticket));
        }
        ended
    }

    /// Nobody waits for this command any more.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        if self.waiting.remove(&ticket).is_some() {
            self.lines.values_mut().for_each(|line| line.forget(ticket));
        }
        self.looking.retain(|(_, looking)| *looking != ticket);
        self.for_room.retain(|waiting| *waiting != ticket);
        self.for_hold.retain(|waiting| *waiting != ticket);
    }

    /// The node that a connection leads to.
    pub(crate) fn node_of(&self, link: ForwardLink) -> Option<NodeId> {
        self.links.get(&link).map(|key| key.0)
    }

    /// Whether something of the command may have reached another node.
    pub(super) fn has_begun(&self, ticket: Ticket) -> bool {
        let unsent: usize = self.lines.values().map(|line| line.unsent_of(ticket)).sum();
        self.waiting.get(&ticket).is_some_and(|waiting| {
            waiting.left > unsent || waiting.ended.as_ref().is_ok_and(|ended| !ended.is_empty())
        })
    }

    /// The command goes on without its client, and nothing counts as the client's any more.
    pub(super) fn leave_alone(&mut self, ticket: Ticket) {
        if let Some(waiting) = self.waiting.get_mut(&ticket) {
            waiting.collected = Arc::default();
        }
    }

    /// The next joint command whose requests have all ended.
    pub(super) fn poll_joint_over(&mut self) -> Option<Ticket> {
        self.joints_over.pop_front()
    }

    fn over(&mut self, ticket: Ticket, lot: &mut ParkingLot) {
        match self.waiting.get(&ticket) {
            Some(waiting) if waiting.is_joint => self.joints_over.push_back(ticket),
            _ => lot.wake(ticket),
        }
    }

    /// Parks a command until a hold has ended.
    pub(crate) fn park_for_hold(&mut self, lot: &mut ParkingLot) -> Ticket {
        let ticket = lot.park_for_a_new_table();
        self.for_hold.push(ticket);
        ticket
    }

    /// So many holds have ended by now.
    #[inline]
    pub(crate) fn holds_ended(&mut self, ended: u64, lot: &mut ParkingLot) {
        if ended != self.holds_ended {
            self.holds_ended = ended;
            self.for_hold.drain(..).for_each(|ticket| lot.wake(ticket));
        }
    }

    /// A connection is open. Returns whether it is still needed.
    pub(crate) fn connected(&mut self, now: MonotonicUs, link: ForwardLink) -> bool {
        let Some(line) = self.links.get(&link).and_then(|key| self.lines.get_mut(key)) else { return false };
        line.connected(now, link);
        self.events.push_back(ForwardEvent::Send(link));
        true
    }

    /// A connection failed or ended.
    pub(crate) fn lost(&mut self, now: MonotonicUs, link: ForwardLink, lot: &mut ParkingLot) {
        let Some(key) = self.links.remove(&link) else { return };
        let mut ended = Endings::new();
        if let Some(line) = self.lines.get_mut(&key) {
            line.lost(now, &mut ended);
        }
        self.count_incoming(key, lot);
        self.end(ended, lot);
    }

    /// Bytes arrived over a connection.
    pub(crate) fn received(
        &mut self,
        now: MonotonicUs,
        link: ForwardLink,
        bytes: &[u8],
        lot: &mut ParkingLot,
    ) {
        let Some(&key) = self.links.get(&link) else { return };
        let Some(line) = self.lines.get_mut(&key) else { return };
        let mut ended = Endings::new();
        let is_sound = line.received(now, bytes, &mut ended);
        let (unsent, _) = line.len();
        if !is_sound {
            self.close(now, link, &mut ended);
        } else if unsent > 0 {
            // The window may have been full.
            self.events.push_back(ForwardEvent::Send(link));
        }
        self.count_incoming(key, lot);
        self.end(ended, lot);
    }

    /// Moves some of what waits for a connection to `out`; returns whether there was any.
    pub(crate) fn take_output(&mut self, link: ForwardLink, out: &mut Vec<u8>, lot: &mut ParkingLot) -> bool {
        let Some(line) = self.links.get(&link).and_then(|key| self.lines.get_mut(key)) else { return false };
        let has_any = line.take_output(out);
        if line.has_room() {
            self.for_room.drain(..).for_each(|ticket| lot.wake(ticket));
        }
        has_any
    }

    /// There is a new range table. Commands with unsent requests decide again; nodes with a new address or
    /// incarnation are connected anew.
    pub(crate) fn table_changed(&mut self, ranges: &RangeTable, lot: &mut ParkingLot) {
        // The lot has woken them.
        self.looking.clear();
        self.for_room.clear();
        self.for_hold.clear();
        let mut ended = Endings::new();
        let keys: Vec<LineKey> = self.lines.keys().copied().collect();
        for key in keys {
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.end_unsent(Ending::MapChanged, &mut ended);
            if ranges.map().node(key.0) != Some(&line.node) {
                let link = self.links.iter().find(|(_, of)| **of == key).map(|(&link, _)| link);
                if let Some(link) = link {
                    // Nobody waits for the next attempt.
                    self.close(MonotonicUs(0), link, &mut ended);
                }
                self.count_incoming(key, lot);
                self.lines.remove(&key);
            }
        }
        self.end(ended, lot);
    }

    /// Time has passed.
    pub(crate) fn pass_time(&mut self, now: MonotonicUs, lot: &mut ParkingLot) {
        while let Some((_, ticket)) = self.looking.pop_front_if(|(at, _)| *at <= now) {
            self.for_room.retain(|waiting| *waiting != ticket);
            lot.wake(ticket);
        }
        let mut ended = Endings::new();
        let keys: Vec<LineKey> = self.lines.keys().copied().collect();
        keys.into_iter().for_each(|key| self.follow(now, key, &mut ended, lot));
        self.end(ended, lot);
    }

    /// When time is to be passed though nothing happens.
    pub(crate) fn poll_timeout(&self) -> Option<MonotonicUs> {
        let looking = self.looking.front().map(|(at, _)| *at);
        self.lines.values().filter_map(Channel::timeout).chain(looking).min()
    }

    /// Does what a line needs.
    fn follow(&mut self, now: MonotonicUs, key: LineKey, ended: &mut Endings, lot: &mut ParkingLot) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        match line.pass_time(now, ended) {
            Wants::Nothing => {}
            Wants::Close(link) => self.close(now, link, ended),
            Wants::End => {
                self.lines.remove(&key);
            }
            Wants::Connection => {
                self.last_link += 1;
                let link = ForwardLink(self.last_link);
                line.opening();
                self.links.insert(link, key);
                let (node, address) = (line.node.id, line.node.bus_addr.clone());
                let version = if key.1 { RespVersion::Resp3 } else { RespVersion::Resp2 };
                self.events.push_back(ForwardEvent::Connect { link, node, address, version });
            }
        }
        self.count_incoming(key, lot);
    }

    fn close(&mut self, now: MonotonicUs, link: ForwardLink, ended: &mut Endings) {
        self.events.push_back(ForwardEvent::Close(link));
        if let Some(line) = self.links.remove(&link).and_then(|key| self.lines.get_mut(&key)) {
            line.lost(now, ended);
        }
    }

    fn end(&mut self, ended: Endings, lot: &mut ParkingLot) {
        for (Part { ticket, number }, ending) in ended {
            // A command that is not in the list has left.
            let Some(waiting) = self.waiting.get_mut(&ticket) else { continue };
            let answer_bytes = if let Ending::Answer(reply) = &ending { reply.len() } else { 0 };
            if let Ok(ended) = &mut waiting.ended {
                ended.push((number, ending));
            }
            waiting.left -= 1;
            self.count(ticket, 0, answer_bytes, lot);
            // One whose answers are too long is over already.
            if self.waiting.get(&ticket).is_some_and(|waiting| waiting.left == 0 && waiting.ended.is_ok()) {
                self.over(ticket, lot);
            }
        }
    }

    /// Counts a partly received reply for its command.
    fn count_incoming(&mut self, key: LineKey, lot: &mut ParkingLot) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        let now = line.incoming();
        let before = std::mem::replace(&mut line.counted, now);
        if let Some((ticket, bytes)) = before {
            self.count(ticket, bytes, 0, lot);
        }
        if let Some((ticket, bytes)) = now {
            self.count(ticket, 0, bytes, lot);
        }
    }

    /// Updates a command's answer bytes: so many left, and so many arrived (F7).
    fn count(&mut self, ticket: Ticket, gone: usize, come: usize, lot: &mut ParkingLot) {
        let Some(waiting) = self.waiting.get_mut(&ticket) else { return };
        waiting.reply_bytes = waiting.reply_bytes + come - gone;
        let is_too_long = waiting.reply_bytes > waiting.most_bytes && waiting.ended.is_ok();
        if is_too_long {
            waiting.ended = Err(TooLong);
        }
        waiting.collected.set((waiting.reply_bytes + waiting.other_bytes) as u64);
        if is_too_long {
            self.over(ticket, lot);
        }
    }

    /// How full the queues are. `connections`: how many the worker has.
    pub(crate) fn queues(&self, connections: usize) -> [Fill; 3] {
        let lines = self.lines.len();
        let (unsent, sent): (Vec<usize>, Vec<usize>) = self.lines.values().map(Channel::len).unzip();
        [
            Fill::new("commands that wait for other nodes", self.waiting.len(), connections),
            Fill::new("requests that wait for a connection", unsent.into_iter().sum(), connections * lines),
            Fill::new("requests sent to other nodes", sent.into_iter().sum(), WINDOW * lines),
        ]
    }

    /// The number of commands that wait for answers.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

fn key(node: NodeId, version: RespVersion) -> LineKey {
    (node, version == RespVersion::Resp3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::{QUEUE_BYTES, REACH_US};
    use crate::testing::node_info;

    const AT: MonotonicUs = MonotonicUs(1_000_000);
    const RESP2: RespVersion = RespVersion::Resp2;

    /// A command that was first forwarded then; its reply may have 1,000 bytes.
    fn command(since: MonotonicUs) -> Forwarded {
        let collected = Arc::default();
        let until = since.plus_us(crate::forward::PATIENCE_US);
        let (reply_bytes, other_bytes, most_bytes, is_joint) = (0, 0, 1_000, false);
        Forwarded { until, version: RESP2, collected, reply_bytes, other_bytes, most_bytes, is_joint }
    }

    /// Channels with one request of so many bytes to node 2, and the connection that it waits for.
    fn waiting(bytes: usize) -> (Channels, ParkingLot, Ticket, ForwardLink) {
        let (mut lines, mut lot) = (Channels::default(), ParkingLot::default());
        let ticket = lines.send(AT, command(AT), vec![(node_info(2), vec![0; bytes])], &mut lot);
        let Some(ForwardEvent::Connect { link, .. }) = lines.poll_event() else { panic!("no connection") };
        (lines, lot, ticket, link)
    }

    #[test]
    fn a_full_line_makes_commands_wait_until_it_has_room() {
        let (mut lines, mut lot, _, link) = waiting(QUEUE_BYTES);
        assert!(!lines.has_room(node_info(2).id, RESP2) && lines.has_room(node_info(3).id, RESP2));
        let ticket = lines.park_for_room(AT, &mut lot);
        assert!(lines.connected(AT, link));
        assert_eq!(lot.poll_woken(), None);
        assert!(lines.take_output(link, &mut Vec::new(), &mut lot));
        assert_eq!(lot.poll_woken(), Some(ticket));
        assert!(lines.has_room(node_info(2).id, RESP2));
    }

    #[test]
    fn a_command_that_waits_for_room_checks_again_by_itself() {
        let (mut lines, mut lot, first, _) = waiting(QUEUE_BYTES);
        let ticket = lines.park_for_room(AT, &mut lot);
        lines.forget(first);
        let due = lines.poll_timeout().expect("it looks again");
        lines.pass_time(due, &mut lot);
        assert_eq!(lot.poll_woken(), Some(ticket));
        assert!(lines.has_room(node_info(2).id, RESP2));
    }

    #[test]
    fn an_unreachable_node_is_tried_for_a_time_and_then_given_up_at_once() {
        let (mut lines, mut lot, ticket, mut link) = waiting(1);
        let mut now = AT;
        lines.lost(now, link, &mut lot);
        while lot.poll_woken().is_none() {
            now = lines.poll_timeout().expect("it is tried again").max(now);
            lines.pass_time(now, &mut lot);
            if let Some(ForwardEvent::Connect { link: next, .. }) = lines.poll_event() {
                link = next;
                lines.lost(now, link, &mut lot);
            }
        }
        assert!(now.since(AT) >= REACH_US && now.since(AT) <= REACH_US + 1_000_000, "{}", now.since(AT));
        assert_eq!(lines.take_endings(ticket), Ok(vec![(0, Ending::Unreachable)]));
        let ticket = lines.send(now, command(now), vec![(node_info(2), vec![0])], &mut lot);
        assert_eq!(lot.poll_woken(), Some(ticket), "at once, until the next attempt");
    }

    #[test]
    fn replies_belong_to_requests_in_order_and_one_too_many_ends_the_connection() {
        let (mut lines, mut lot, first, link) = waiting(1);
        let second = lines.send(AT, command(AT), vec![(node_info(2), vec![0])], &mut lot);
        lines.connected(AT, link);
        while lines.poll_event().is_some() {}
        lines.take_output(link, &mut Vec::new(), &mut lot);
        lines.received(AT, link, b":1\r\n:2", &mut lot);
        assert_eq!((lot.poll_woken(), lot.poll_woken()), (Some(first), None));
        lines.received(AT, link, b"\r\n:3\r\n", &mut lot);
        assert_eq!(lot.poll_woken(), Some(second));
        assert_eq!(lines.take_endings(first), Ok(vec![(0, Ending::Answer(b":1\r\n".to_vec()))]));
        assert_eq!(lines.take_endings(second), Ok(vec![(0, Ending::Answer(b":2\r\n".to_vec()))]));
        assert_eq!(lines.poll_event(), Some(ForwardEvent::Close(link)));
    }

    #[test]
    fn what_was_sent_is_lost_with_the_connection_and_what_was_not_waits_for_the_next() {
        let (mut lines, mut lot, first, link) = waiting(1);
        lines.connected(AT, link);
        lines.take_output(link, &mut Vec::new(), &mut lot);
        let second = lines.send(AT, command(AT), vec![(node_info(2), vec![0])], &mut lot);
        lines.lost(AT, link, &mut lot);
        assert_eq!((lot.poll_woken(), lot.poll_woken()), (Some(first), None));
        assert_eq!(lines.take_endings(first), Ok(vec![(0, Ending::Broken)]));
        assert_eq!(lines.take_endings(second), Ok(vec![]));
    }

    /// Two requests of one client's command, to nodes 2 and 3, over connections that stand.
    fn sent_to_two() -> (Channels, ParkingLot, Arc<Tally>, Ticket, [ForwardLink; 2]) {
        let (mut lines, mut lot, collected) = (Channels::default(), ParkingLot::default(), Arc::default());
        let sent =
            Forwarded { collected: Arc::clone(&collected), reply_bytes: 100, other_bytes: 7, ..command(AT) };
        let requests = [2, 3].map(|node| (node_info(node), vec![0])).into();
        let ticket = lines.send(AT, sent, requests, &mut lot);
        let links = [0, 1].map(|_| match lines.poll_event() {
            Some(ForwardEvent::Connect { link, .. }) => link,
            other => panic!("no connection: {other:?}"),
        });
        for link in links {
            assert!(lines.connected(AT, link) && lines.take_output(link, &mut Vec::new(), &mut lot));
        }
        (lines, lot, collected, ticket, links)
    }

    #[test]
    fn partial_answers_count_for_the_client_that_waits() {
        let (mut lines, mut lot, collected, ticket, [first, second]) = sent_to_two();
        lines.received(AT, first, b"$9\r\n12345", &mut lot);
        assert_eq!(collected.bytes(), 107 + 9, "in part");
        lines.received(AT, first, b"6789\r\n", &mut lot);
        assert_eq!(collected.bytes(), 107 + 15, "whole");
        lines.received(AT, second, b"-SIDLEWAITS 4\r\n>2\r\n:4\r\n$9\r\n$3\r\n", &mut lot);
        assert_eq!(collected.bytes(), 107 + 15 + 16, "in part, behind others");
        lines.lost(AT, second, &mut lot);
        assert_eq!(collected.bytes(), 107 + 15);
        let ended = vec![(0, Ending::Answer(b"$9\r\n123456789\r\n".to_vec())), (1, Ending::Broken)];
        assert_eq!(lines.take_endings(ticket), Ok(ended));
    }

    #[test]
    fn a_command_ends_once_its_answers_are_too_long_together() {
        let (mut lines, mut lot, _, ticket, [first, second]) = sent_to_two();
        let answer = [b"$500\r\n".as_slice(), &[b'v'; 500], b"\r\n"].concat();
        lines.received(AT, first, &answer, &mut lot);
        assert_eq!(lot.poll_woken(), None);
        let longer = [b"$5000\r\n".as_slice(), &[b'v'; 600]].concat();
        lines.received(AT, second, &longer, &mut lot);
        assert_eq!(lot.poll_woken(), Some(ticket), "the second answer is still coming");
        lines.lost(AT, second, &mut lot);
        assert_eq!(lines.take_endings(ticket), Err(TooLong), "whatever becomes of it");
        assert_eq!(lines.len(), 0);
    }
}
