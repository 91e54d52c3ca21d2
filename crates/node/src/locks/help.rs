//! Transactions that this node decides in place of coordinators that are gone (X9).
//!
//! Purpose: what lies beside keys is looked at a few times a second. A vote that has waited for long, or an
//! outcome that nobody has had forgotten, is carried on with, as its coordinator would: at this node's keys
//! and, by forwarded requests, at those of others.
//!
//! A reply of this node's own counts as a client's does: once all that it shows is safe, and while the lease
//! lasts (C5). So it is taken in a later turn than the one in which it was made.
//!
//! Ownership: the first worker of a node.

use crate::dispatch::Dispatcher;
use crate::execute::Executor;
use crate::now::Now;
use crate::outcome::Outcome;
use crate::request::keys_of;
use crate::session::Session;
use crate::shared::NodeShared;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RespVersion};
use sidle_txn::{CommitRequest, Committing, Ended, Locks, TransactionId};
use sidle_types::{CommitNumber, MonotonicUs, ValueKind, WallMs, beside_what};
use std::collections::BTreeMap;

/// So many transactions are helped at a time.
const MOST: usize = 64;
/// What lies beside keys is looked at so often.
const LOOK_US: u64 = 200_000;
/// Those that are helped go on so often.
const TURN_US: u64 = 20_000;

/// The transactions that a worker helps.
#[derive(Default)]
pub(crate) struct Helpers {
    running: BTreeMap<TransactionId, Helper>,
    looks_at: MonotonicUs,
    goes_on_at: MonotonicUs,
}

struct Helper {
    committing: Committing,
    asked: Vec<Asked>,
}

/// A request of a helper's.
struct Asked {
    number: u64,
    words: Vec<Vec<u8>>,
    session: Box<Session>,
    reply: Vec<u8>,
    /// The commit that has all that the reply shows.
    shown: CommitNumber,
    is_done: bool,
}

impl Helpers {
    /// How many transactions are helped.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// When time is to be passed though nothing happens. `has_locks`: something lies beside keys.
    pub(crate) fn poll_timeout(&self, has_locks: bool) -> Option<MonotonicUs> {
        match self.running.is_empty() {
            true => has_locks.then_some(self.looks_at),
            false => Some(self.goes_on_at.min(self.looks_at)),
        }
    }

    /// Time has passed. `safe`: what replies may show.
    pub(crate) fn pass_time(&mut self, now: Now, dispatcher: &mut Dispatcher, safe: CommitNumber) {
        if now.mono >= self.looks_at {
            self.looks_at = now.mono.plus_us(LOOK_US);
            self.look(now, &dispatcher.executor);
        }
        self.goes_on_at = now.mono.plus_us(TURN_US);
        for helper in self.running.values_mut() {
            helper.go_on(now, dispatcher, safe);
        }
        self.running.retain(|_, helper| {
            let is_over = helper.committing.is_over();
            if is_over {
                let tickets = helper.asked.iter().filter_map(|asked| asked.session.route.ticket);
                tickets.for_each(|ticket| dispatcher.leave(ticket));
            }
            !is_over
        });
    }

    /// Begins to help what is in need of it.
    fn look(&mut self, now: Now, executor: &Executor) {
        let store = &executor.store;
        for range in executor.ranges.owned() {
            for position in store.positions_with_locks(range) {
                if self.running.len() >= MOST {
                    return;
                }
                store.visit(position, position, usize::MAX, &mut |record| {
                    let key = beside_what(record.key()).filter(|_| record.kind() == ValueKind::Locks);
                    let (Some(key), Some(locks)) = (key, Locks::read(record.value())) else { return };
                    for entry in locks.in_need_of_help(key, now.wall) {
                        self.running.entry(entry.id).or_insert_with(|| Helper {
                            committing: Committing::in_place_of(entry.id, key, entry.first),
                            asked: Vec::new(),
                        });
                    }
                });
            }
        }
    }
}

impl Helper {
    fn go_on(&mut self, now: Now, dispatcher: &mut Dispatcher, safe: CommitNumber) {
        let lasts = dispatcher.executor.shared.durability.lease.lasts(|| now.mono);
        let may_count = |asked: &Asked| asked.is_done && asked.shown <= safe && lasts;
        for asked in self.asked.extract_if(.., |asked| may_count(asked)) {
            self.committing.handle(now.mono, asked.number, &ended(&asked.reply), |_| None);
        }
        self.committing.handle_time(now.mono);
        for asked in self.asked.iter_mut().filter(|asked| !asked.is_done) {
            asked.run(now, dispatcher);
        }
        while let Some(request) = self.committing.poll_request() {
            let mut asked = Asked::new(request, &dispatcher.executor.shared);
            asked.run(now, dispatcher);
            self.asked.push(asked);
        }
    }
}

impl Asked {
    fn new(CommitRequest { number, words, .. }: CommitRequest, shared: &NodeShared) -> Asked {
        let client = shared.clients.unlisted(String::new(), WallMs(0));
        let session = Box::new(Session::of_the_node(client, RespVersion::Resp3));
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

/// What became of a request with this reply.
fn ended(reply: &[u8]) -> Ended {
    match ReplyParser::new(ReplyLimits::default()).parse(reply) {
        Ok(ParsedReply::Complete { frame, .. }) => Ended::Reply(frame.reply.to_value()),
        Ok(ParsedReply::Incomplete { .. }) | Err(_) => Ended::Lost,
    }
}
