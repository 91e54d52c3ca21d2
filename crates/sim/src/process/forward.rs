//! Connections over which a worker forwards, and those over which other nodes forward to it.

use super::{host_of, node_id};
use crate::network::{Port, Side, Signal, StreamId};
use crate::world::{Actor, HostId, World};
use sidle_node::{ForwardEvent, ForwardLink, Now, Worker};
use sidle_resp::RespVersion;
use sidle_types::ProtocolVersion;
use sidle_wire::Forward;
use std::collections::BTreeMap;

/// Connections over which a worker forwards.
#[derive(Default)]
pub(super) struct ForwardLinks {
    streams: BTreeMap<StreamId, (ForwardLink, Forward)>,
}

impl ForwardLinks {
    /// All of them.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.keys().copied()
    }

    fn stream(&self, link: ForwardLink) -> Option<StreamId> {
        self.streams.iter().find(|(_, (other, _))| *other == link).map(|(&id, _)| id)
    }

    /// Executes the worker's requests. `me`: the worker's thread.
    pub(super) fn follow(&mut self, me: Actor, host: HostId, worker: &mut Worker, world: &mut World) {
        while let Some(event) = worker.poll_forward() {
            match event {
                ForwardEvent::Connect { link, node, version, .. } => {
                    let id = world.open(me, host_of(node), Port::Bus);
                    let is_resp3 = version == RespVersion::Resp3;
                    self.streams.insert(id, (link, Forward { node: node_id(host), is_resp3 }));
                }
                ForwardEvent::Send(link) => {
                    if let Some(id) = self.stream(link) {
                        send(id, link, worker, world);
                    }
                }
                ForwardEvent::Close(link) => {
                    if let Some(id) = self.stream(link) {
                        self.streams.remove(&id);
                        world.close(id, Side::Opener);
                    }
                }
            }
        }
        // Those that found the connection full.
        for (&id, &(link, _)) in &self.streams {
            send(id, link, worker, world);
        }
    }

    /// Something has arrived over one of them; returns whether it was one. `version`: the cluster's.
    pub(super) fn hear(
        &mut self,
        id: StreamId,
        signal: &Signal,
        version: ProtocolVersion,
        now: Now,
        worker: &mut Worker,
        world: &mut World,
    ) -> bool {
        let Some(&(link, forward)) = self.streams.get(&id) else { return false };
        match signal {
            Signal::Opened => {
                let mut frame = Vec::new();
                forward.write(version, &mut frame);
                world.send(id, Side::Opener, frame);
                worker.forward_connected(now.mono, link);
            }
            Signal::Bytes(bytes) => worker.forward_received(now, link, bytes),
            Signal::Refused | Signal::Closed => {
                self.streams.remove(&id);
                world.close(id, Side::Opener);
                worker.forward_lost(now, link);
            }
        }
        true
    }
}

fn send(id: StreamId, link: ForwardLink, worker: &mut Worker, world: &mut World) {
    let mut out = Vec::new();
    while !world.network.is_full(id, Side::Opener) && worker.forward_output(link, &mut out) {
        world.meet("forwarded", 1);
        world.send(id, Side::Opener, std::mem::take(&mut out));
    }
}
