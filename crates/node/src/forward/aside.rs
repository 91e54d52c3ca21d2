//! At the node that runs what others forward: requests that have to wait step aside, so that those behind
//! them on the same connection go on (F6).
//!
//! A connection between two nodes carries the requests of many clients, in order. A request that waits for a
//! key that has not arrived is answered at once with [`WAITS`] and a number. Its own reply comes later,
//! between two others: `>2`, the number, and the reply as a bulk string.

use super::WAITS;
use crate::queue::Ticket;
use crate::route::RouteState;
use sidle_commands::ReplyError;
use sidle_resp::{ReplyWriter, RespVersion};
use std::collections::BTreeMap;

/// So many requests of one connection may be aside; beyond that the connection waits, as a client's does.
const MOST: usize = 1024;
/// So many bytes of requests may be aside; a longer one may be there by itself.
const MOST_BYTES: usize = 8 << 20;

/// A request that waits, and how far it has come.
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
    /// Tickets that whoever drives the connection has yet to be told of.
    untold: Vec<Ticket>,
}

impl Asides {
    /// Lets a request that has parked step aside, with the route that it has come; says so in its place.
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

    /// The tickets of those that have stepped aside since the last time.
    pub(crate) fn take_untold(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.untold)
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
        self.untold.push(ticket);
    }

    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Aside> {
        let aside = self.waiting.remove(&ticket)?;
        self.untold.retain(|untold| *untold != ticket);
        self.bytes -= aside.bytes();
        Some(aside)
    }
}
