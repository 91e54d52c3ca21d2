//! One connection of a client that speaks the protocol by itself: it sends its requests in pieces, at its own
//! times.

use crate::network::{Port, Side, Signal, StreamId};
use crate::world::{Actor, HostId, World};
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, Value};
use std::collections::VecDeque;

/// A connection to one node.
pub(super) struct RespStream {
    /// The node.
    pub(super) host: HostId,
    /// Its stream.
    pub(super) stream: StreamId,
    parser: ReplyParser,
    input: Vec<u8>,
    is_open: bool,
    /// What is still to be sent, and when.
    unsaid: VecDeque<(u64, Vec<u8>)>,
}

/// What a connection has received.
pub(super) enum Received {
    /// These answers, without the node's push messages.
    Replies(Vec<Value>),
    /// It has ended.
    Gone,
}

impl RespStream {
    /// A new connection.
    pub(super) fn to(host: HostId, me: Actor, world: &mut World) -> RespStream {
        let stream = world.open(me, host, Port::Clients);
        let parser = ReplyParser::new(ReplyLimits::default());
        RespStream { host, stream, parser, input: Vec::new(), is_open: false, unsaid: VecDeque::new() }
    }

    /// Sends this, but not before that time.
    pub(super) fn say(&mut self, at_us: u64, bytes: Vec<u8>) {
        let before_us = self.unsaid.back().map_or(0, |(at_us, _)| *at_us);
        self.unsaid.push_back((at_us.max(before_us), bytes));
    }

    /// Sends what is due; returns when to call it again.
    pub(super) fn pump(&mut self, world: &mut World) -> Option<u64> {
        while self.is_open && self.unsaid.front().is_some_and(|(at_us, _)| *at_us <= world.now_us) {
            if let Some((_, bytes)) = self.unsaid.pop_front() {
                world.send(self.stream, Side::Opener, bytes);
            }
        }
        self.unsaid.front().filter(|_| self.is_open).map(|(at_us, _)| *at_us)
    }

    /// An arrival for a client with at most this one connection; `None` if it was over another that it has
    /// given up. A connection that ends is forgotten.
    pub(super) fn hear_only(
        line: &mut Option<RespStream>,
        stream: StreamId,
        signal: Signal,
        world: &mut World,
    ) -> Result<Option<Received>, String> {
        let Some(own) = line.as_mut().filter(|line| line.stream == stream) else {
            world.close(stream, Side::Opener);
            return Ok(None);
        };
        let heard = own.hear(signal)?;
        if matches!(heard, Received::Gone) {
            world.close(stream, Side::Opener);
            *line = None;
        }
        Ok(Some(heard))
    }

    /// An arrival. Anything but a reply is a fault.
    pub(super) fn hear(&mut self, signal: Signal) -> Result<Received, String> {
        match signal {
            Signal::Opened => {
                self.is_open = true;
                return Ok(Received::Replies(Vec::new()));
            }
            Signal::Refused | Signal::Closed => return Ok(Received::Gone),
            Signal::Bytes(bytes) => self.input.extend_from_slice(&bytes),
        }
        let mut replies = Vec::new();
        let mut at = 0;
        loop {
            match self.parser.parse(&self.input[at..]) {
                Ok(ParsedReply::Complete { frame, consumed }) => {
                    at += consumed;
                    match frame.reply.to_value() {
                        Value::Push(_) => {}
                        reply => replies.push(reply),
                    }
                }
                Ok(ParsedReply::Incomplete { .. }) => break,
                Err(error) => return Err(format!("node {} sent what is no reply: {error}", self.host.0)),
            }
        }
        self.input.drain(..at);
        Ok(Received::Replies(replies))
    }
}
