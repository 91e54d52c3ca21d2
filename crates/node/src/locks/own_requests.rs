//! Requests that this node sends for a transaction, as its coordinator.
//!
//! A reply counts as a client's does: once all that it shows is safe, and while the lease lasts (C5). So it
//! is taken in a later turn than the one in which it was made.

use crate::dispatch::Dispatcher;
use crate::now::Now;
use crate::outcome::Outcome;
use crate::queue::Ticket;
use crate::range_table::RangeTable;
use crate::request::keys_of;
use crate::session::Session;
use crate::shared::NodeShared;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RespVersion};
use sidle_txn::{CommitRequest, Committing, Ended};
use sidle_types::{CommitNumber, Position, WallMs};

/// A transaction that this node commits, and its requests.
pub(super) struct OwnRequests {
    pub(super) committing: Committing,
    version: RespVersion,
    asked: Vec<Asked>,
}

/// One of them.
struct Asked {
    number: u64,
    words: Vec<Vec<u8>>,
    session: Box<Session>,
    reply: Vec<u8>,
    /// The commit that has all that the reply shows.
    shown: CommitNumber,
    is_done: bool,
}

impl OwnRequests {
    /// `version`: the replies of the transaction's commands are in it.
    pub(super) fn new(committing: Committing, version: RespVersion) -> OwnRequests {
        OwnRequests { committing, version, asked: Vec::new() }
    }

    /// Takes what has been answered, and sends what is next.
    pub(super) fn go_on(&mut self, now: Now, dispatcher: &mut Dispatcher, safe: CommitNumber) {
        let lasts = dispatcher.executor.shared.durability.lease.lasts(|| now.mono);
        let may_count = |asked: &Asked| asked.is_done && asked.shown <= safe && lasts;
        let ranges = &dispatcher.executor.ranges;
        for asked in self.asked.extract_if(.., |asked| may_count(asked)) {
            let owner = |position| owner_of(ranges, position);
            self.committing.handle(now.mono, asked.number, &ended(&asked.reply), owner);
        }
        self.committing.handle_time(now.mono);
        for asked in self.asked.iter_mut().filter(|asked| !asked.is_done) {
            asked.run(now, dispatcher);
        }
        while let Some(request) = self.committing.poll_request() {
            let mut asked = Asked::new(request, &dispatcher.executor.shared, self.version);
            asked.run(now, dispatcher);
            self.asked.push(asked);
        }
    }

    /// How many have not been answered.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// Whether one of them waits under this ticket.
    pub(super) fn waits_under(&self, ticket: Ticket) -> bool {
        self.asked.iter().any(|asked| asked.session.route.ticket == Some(ticket))
    }

    /// The least of the commits that its replies show, if it has replies that do not count yet.
    pub(super) fn least_shown(&self) -> Option<CommitNumber> {
        self.asked.iter().filter(|asked| asked.is_done).map(|asked| asked.shown).min()
    }

    /// No answer is awaited any more.
    pub(super) fn leave(&self, dispatcher: &mut Dispatcher) {
        let tickets = self.asked.iter().filter_map(|asked| asked.session.route.ticket);
        tickets.for_each(|ticket| dispatcher.leave(ticket));
    }
}

impl Asked {
    fn new(request: CommitRequest, shared: &NodeShared, version: RespVersion) -> Asked {
        let CommitRequest { number, words, .. } = request;
        let client = shared.clients.unlisted(String::new(), WallMs(0));
        let session = Box::new(Session::of_the_node(client, version));
        Asked { number, words, session, reply: Vec::new(), shown: CommitNumber::default(), is_done: false }
    }

    /// Runs it, unless it waits.
    fn run(&mut self, now: Now, dispatcher: &mut Dispatcher) {
        if self.session.route.ticket.is_some_and(|ticket| dispatcher.parking.is_waiting(ticket)) {
            return;
        }
        let words: Vec<&[u8]> = self.words.iter().map(Vec::as_slice).collect();
        let found = dispatcher.commands.resolve(&words).expect("SIDLE.TX is a command");
        let keys = keys_of(found, &words);
        let others_show = std::mem::take(&mut dispatcher.executor.shown);
        let outcome = dispatcher.run(now, &mut self.session, found, &keys, &words, &mut self.reply);
        self.shown = std::mem::replace(&mut dispatcher.executor.shown, others_show);
        dispatcher.executor.has_run = false;
        self.is_done = !matches!(outcome, Outcome::Parked(_));
    }
}

/// The owner of a position, by its place among the nodes.
pub(super) fn owner_of(ranges: &RangeTable, position: Position) -> Option<usize> {
    let owner = ranges.entry_at(position).owner;
    ranges.map().nodes().binary_search_by_key(&owner, |node| node.id).ok()
}

/// What became of a request with this reply.
fn ended(reply: &[u8]) -> Ended {
    match ReplyParser::new(ReplyLimits::default()).parse(reply) {
        Ok(ParsedReply::Complete { frame, .. }) => Ended::Reply(frame.reply.to_value()),
        Ok(ParsedReply::Incomplete { .. }) | Err(_) => Ended::Lost,
    }
}
