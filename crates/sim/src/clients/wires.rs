//! A client's core with its connections.

use crate::network::{Port, Side, Signal, StreamId};
use crate::process::host_at;
use crate::world::{Actor, World};
use sidle_client_core::Effect;
use sidle_client_core::{Config, ConnectionId, Core, Event, Input, Outcome, Token};
use sidle_resp::Value;
use sidle_types::MonotonicUs;
use std::collections::BTreeMap;

/// How an operation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// With this reply, which may be an error.
    Reply(Value),
    /// Without one.
    Failed(Effect),
}

struct Wire {
    stream: StreamId,
    /// Received bytes that the core has not consumed.
    input: Vec<u8>,
}

/// A client's core with its connections.
pub struct Wires {
    me: Actor,
    /// The real core.
    pub core: Core,
    wires: BTreeMap<ConnectionId, Wire>,
    connections: BTreeMap<StreamId, ConnectionId>,
    ended: Vec<(Token, Ended)>,
}

impl Wires {
    /// A core without connections.
    pub fn new(me: Actor, config: Config) -> Wires {
        Wires {
            me,
            core: Core::new(config),
            wires: BTreeMap::new(),
            connections: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// The operations that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<(Token, Ended)> {
        std::mem::take(&mut self.ended)
    }

    /// Something arrived over one of its connections.
    pub fn hear(&mut self, stream: StreamId, signal: Signal, world: &mut World) {
        let Some(&connection) = self.connections.get(&stream) else {
            // The core has dropped it.
            world.close(stream, Side::Opener);
            return;
        };
        let now = now(world);
        let ended = &mut self.ended;
        let mut done = |token, outcome: Outcome<'_>| ended.push((token, owned(outcome)));
        match signal {
            Signal::Opened => self.core.handle(now, Input::Connected(connection), &mut done),
            Signal::Bytes(bytes) => {
                let wire = self.wires.get_mut(&connection).expect("both lists name it");
                wire.input.extend_from_slice(&bytes);
                let consumed = self.core.received(now, connection, &wire.input, &mut done);
                wire.input.drain(..consumed);
            }
            Signal::Refused | Signal::Closed => {
                self.connections.remove(&stream);
                self.wires.remove(&connection);
                world.close(stream, Side::Opener);
                self.core.handle(now, Input::Disconnected(connection), &mut done);
            }
        }
    }

    /// Lets time pass for the core, if it waits for that.
    pub fn tick(&mut self, world: &World) {
        let now = now(world);
        if self.core.poll_timeout().is_some_and(|at| at <= now) {
            let ended = &mut self.ended;
            self.core.handle(now, Input::Tick, &mut |token, outcome: Outcome<'_>| {
                ended.push((token, owned(outcome)));
            });
        }
    }

    /// Executes the core's events, and sends its output; returns when the core wants a tick.
    pub fn pump(&mut self, world: &mut World) -> Option<u64> {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Connect { connection, address } => {
                    let stream = world.open(self.me, host_at(&address), Port::Clients);
                    self.connections.insert(stream, connection);
                    self.wires.insert(connection, Wire { stream, input: Vec::new() });
                }
                Event::Close(connection) => {
                    if let Some(wire) = self.wires.remove(&connection) {
                        self.connections.remove(&wire.stream);
                        world.close(wire.stream, Side::Opener);
                    }
                }
                Event::MapChanged(_) => {}
                Event::Trouble { address, why } => world.tell(|| format!("{:?}: {address}: {why}", self.me)),
            }
        }
        while let Some(connection) = self.core.poll_transmit() {
            let mut bytes = Vec::new();
            self.core.take_output(connection, &mut bytes);
            if let Some(wire) = self.wires.get(&connection) {
                world.send(wire.stream, Side::Opener, bytes);
            }
        }
        self.core.poll_timeout().map(|at| at.0)
    }

    /// One of its connections, if any: to be broken.
    pub fn any_stream(&self, world: &mut World) -> Option<StreamId> {
        let streams: Vec<StreamId> = self.connections.keys().copied().collect();
        if streams.is_empty() { None } else { Some(streams[world.random.index(streams.len())]) }
    }
}

/// Clients' clocks show the simulation's time.
pub(super) fn now(world: &World) -> MonotonicUs {
    MonotonicUs(world.now_us)
}

fn owned(outcome: Outcome<'_>) -> Ended {
    match outcome {
        Outcome::Reply(reply) => Ended::Reply(reply.to_value()),
        Outcome::Failed(failure) => Ended::Failed(failure.effect),
    }
}
