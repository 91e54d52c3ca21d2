//! Asides, at the node that runs forwarded requests: waiting requests step aside, so that those behind them
//! on the same connection continue (F6).
//!
//! A connection between two nodes carries the requests of many clients, in order. A request that waits for a
//! missing key is answered at once with [`WAITS`] and a number. Its own reply follows later, between two
//! others: `>2`, the number, and the reply as a bulk string.

use super::WAITS;
use crate::queue::Ticket;
use crate::route::RouteState;
use sidle_commands::ReplyError;
use sidle_resp::{ReplyWriter, RespVersion};
use std::collections::BTreeMap;

/// The most requests of one connection aside; beyond that the connection waits, as a client's does.
const MOST: usize = 1024;
/// The most bytes of requests aside; a single request may be longer.
const MOST_BYTES: usize = 8 << 20;

/// A waiting request, and its progress.
#[derive(Debug)]
pub(crate) struct Aside {
    pub(crate) number: u64,
    pub(crate) route: RouteState,
    pub(crate) args: Vec<Box<[u8]>>,
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
    /// Tickets still to be returned to the connection's driver.
    unreported: Vec<Ticket>,
}

impl Asides {
    /// Lets a parked request step aside, with its route, and announces that in its place.
    pub(crate) fn step_aside(
        &mut self,
        ticket: Ticket,
        route: &mut RouteState,
        args: &[&[u8]],
        version: RespVersion,
        out: &mut Vec<u8>,
    ) {
        self.last_number += 1;
        let number = self.last_number;
        let args = args.iter().map(|&arg| arg.into()).collect();
        self.add(ticket, Aside { number, route: std::mem::take(route), args });
        let text = format!("{WAITS} {number}");
        ReplyWriter::new(out, version).error_bytes(&ReplyError::owned(text).line());
    }

    /// The tickets of requests that stepped aside since the last call.
    pub(crate) fn take_unreported(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.unreported)
    }

    /// The tickets of all.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.waiting.keys().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether another one may step aside.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < MOST && self.bytes < MOST_BYTES
    }

    pub(crate) fn add(&mut self, ticket: Ticket, aside: Aside) {
        self.bytes += aside.bytes();
        self.waiting.insert(ticket, aside);
        self.unreported.push(ticket);
    }

    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Aside> {
        let aside = self.waiting.remove(&ticket)?;
        self.unreported.retain(|unreported| *unreported != ticket);
        self.bytes -= aside.bytes();
        Some(aside)
    }
}
