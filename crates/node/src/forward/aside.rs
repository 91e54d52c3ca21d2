//! At the node that runs what others forward: requests that have to wait step aside, so that those behind
//! them on the same connection go on (F6).
//!
//! A connection between two nodes carries the requests of many clients, in order. A request that waits for a
//! key that has not arrived is answered at once with [`WAITS`] and a number. Its own reply comes later,
//! between two others: `>2`, the number, and the reply as a bulk string.

use super::WAITS;
use crate::dispatch::keys_of;
use crate::now::Now;
use crate::outcome::Outcome;
use crate::parking::Ticket;
use crate::serve::SERVE_REPLY_BYTES;
use crate::session::{RouteState, Session};
use crate::worker::Worker;
use sidle_commands::ReplyError;
use sidle_resp::ReplyWriter;
use std::collections::BTreeMap;

/// So many requests of one connection may be aside; beyond that the connection waits, as a client's does.
const MOST: usize = 1024;
/// So many bytes of requests may be aside; a longer one may be there by itself.
const MOST_BYTES: usize = 8 << 20;

/// A request that waits, and how far it has come.
#[derive(Debug)]
struct Aside {
    number: u64,
    route: RouteState,
    args: Vec<Box<[u8]>>,
}

impl Aside {
    fn bytes(&self) -> usize {
        self.args.iter().map(|arg| arg.len()).sum()
    }
}

/// The requests of one connection that have stepped aside.
#[derive(Debug, Default)]
pub(crate) struct Asides {
    waiting: BTreeMap<Ticket, Aside>,
    bytes: usize,
    last_number: u64,
    /// Tickets that whoever drives the connection has yet to be told of.
    untold: Vec<Ticket>,
}

impl Asides {
    fn has_room(&self) -> bool {
        self.waiting.len() < MOST && self.bytes < MOST_BYTES
    }

    fn add(&mut self, ticket: Ticket, aside: Aside) {
        self.bytes += aside.bytes();
        self.waiting.insert(ticket, aside);
        self.untold.push(ticket);
    }

    fn take(&mut self, ticket: Ticket) -> Option<Aside> {
        let aside = self.waiting.remove(&ticket)?;
        self.untold.retain(|untold| *untold != ticket);
        self.bytes -= aside.bytes();
        Some(aside)
    }
}

impl Session {
    /// From now on requests that have to wait step aside. Whoever drives the connection looks for
    /// [tickets](Self::take_aside_tickets) after it was served, and calls
    /// [`serve_asides`](Worker::serve_asides) when one of them is woken.
    pub fn let_step_aside(&mut self) {
        self.asides = Some(Box::default());
    }

    /// The tickets of requests that have stepped aside since the last time.
    pub fn take_aside_tickets(&mut self) -> Vec<Ticket> {
        self.asides.as_mut().map_or_else(Vec::new, |asides| std::mem::take(&mut asides.untold))
    }

    /// The tickets of all requests that are aside. Whoever drops the session has the worker forget them.
    pub fn aside_tickets(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.asides.iter().flat_map(|asides| asides.waiting.keys().copied())
    }

    /// Whether any request is aside.
    #[inline]
    pub fn has_asides(&self) -> bool {
        self.asides.as_ref().is_some_and(|asides| !asides.waiting.is_empty())
    }
}

impl Worker {
    /// Lets a request that has parked step aside, if it may.
    #[cold]
    pub(crate) fn step_aside(
        &mut self,
        session: &mut Session,
        ticket: Ticket,
        args: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Some(asides) = session.asides.as_mut().filter(|asides| asides.has_room()) else {
            return Outcome::Parked(ticket);
        };
        asides.last_number += 1;
        let number = asides.last_number;
        let args = args.iter().map(|&arg| arg.into()).collect();
        asides.add(ticket, Aside { number, route: std::mem::take(&mut session.route), args });
        let text = format!("{WAITS} {number}");
        ReplyWriter::new(out, session.version).error_bytes(&ReplyError::owned(text).line());
        Outcome::Done
    }

    /// Runs those of a connection's requests that have stepped aside and were woken, and appends their
    /// replies to `out`. Returns whether some are left for the next turn.
    #[cold]
    pub fn serve_asides(&mut self, now: Now, session: &mut Session, out: &mut Vec<u8>) -> bool {
        self.pass_boundary();
        let woken: Vec<Ticket> =
            session.aside_tickets().filter(|&ticket| !self.parking.is_waiting(ticket)).collect();
        let start = out.len();
        for ticket in woken {
            if out.len() - start >= SERVE_REPLY_BYTES {
                return true;
            }
            let Some(aside) = session.asides.as_mut().and_then(|asides| asides.take(ticket)) else {
                continue;
            };
            self.resume_aside(now, session, aside, out);
        }
        false
    }

    fn resume_aside(&mut self, now: Now, session: &mut Session, mut aside: Aside, out: &mut Vec<u8>) {
        let args: Vec<&[u8]> = aside.args.iter().map(|arg| &arg[..]).collect();
        let mut reply = Vec::new();
        // The request that the connection itself may wait with is another one.
        std::mem::swap(&mut session.route, &mut aside.route);
        let began_ns = self.reading_ns();
        let outcome = match self.commands.resolve(&args) {
            Ok(found) => {
                let outcome = self.run(now, session, found, &keys_of(found, &args), &args, &mut reply);
                if std::mem::take(&mut self.executor.has_run) {
                    let took_ns = self.reading_ns().saturating_sub(began_ns);
                    let tracks = self.executor.shared.config.thresholds().tracks();
                    self.executor.stats.command(found.id).took(took_ns, 1, tracks);
                }
                outcome
            }
            Err(error) => self.refuse_unresolved(now, session, &args, error, &mut reply),
        };
        std::mem::swap(&mut session.route, &mut aside.route);
        match (outcome, &mut session.asides) {
            (Outcome::Parked(ticket), Some(asides)) => asides.add(ticket, aside),
            _ => {
                let mut late = ReplyWriter::new(out, sidle_resp::RespVersion::Resp3);
                late.push(2);
                late.integer(aside.number as i64);
                late.bulk(&reply);
            }
        }
    }
}
