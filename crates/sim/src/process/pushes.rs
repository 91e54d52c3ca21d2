//! Pushes of what cuts gave, and what becomes of them: some are lost, late, doubled, damaged or false. What
//! clients believe of cuts only saves trips (M26), so none of it may change an answer.

use super::connection::{Connection, flush};
use crate::network::{Side, StreamId};
use crate::world::World;
use sidle_node::Worker;
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_testbed::Random;
use sidle_types::{MigrationId, MonotonicUs, Position, PositionFilter, PositionRange, write_cursors};
use std::collections::BTreeMap;

/// The longest that a push is late.
const LATE_US: u64 = 100_000;
/// In so many turns a subscriber is told something false.
const FALSE_ONE_IN: u64 = 200;
/// The most positions that it is told then.
const FALSE_POSITIONS: u64 = 300;

/// The pushes of one worker that are late.
#[derive(Default)]
pub(super) struct Pushes {
    late: BTreeMap<(u64, StreamId), Vec<u8>>,
}

impl Pushes {
    /// When the next late push is due.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.late.keys().next().map(|&(at_us, _)| at_us)
    }

    /// Sends what is due: news of cuts, late pushes, and false ones.
    pub(super) fn send(
        &mut self,
        worker: &mut Worker,
        connections: &mut BTreeMap<StreamId, Connection>,
        now: MonotonicUs,
        world: &mut World,
    ) {
        let has_news = worker.collect_digests();
        while let Some(entry) = self.late.first_entry().filter(|entry| entry.key().0 <= world.now_us) {
            let ((_, id), bytes) = entry.remove_entry();
            if let Some(connection) = connections.get_mut(&id) {
                connection.output.extend_from_slice(&bytes);
                flush(id, connection, worker, now, world);
            }
        }
        let imports = worker.ranges().imports().filter(|view| view.is_by_cuts());
        let imports: Vec<(MigrationId, Vec<PositionRange>)> =
            imports.map(|view| (view.id(), view.partitions().to_vec())).collect();
        if imports.is_empty() {
            return;
        }
        for (&id, connection) in
            connections.iter_mut().filter(|(_, connection)| connection.session.is_subscribed())
        {
            // Whoever does not read is told nothing.
            if has_news && !world.network.is_full(id, Side::Acceptor) {
                let mut bytes = Vec::new();
                if worker.write_digests(&mut connection.session, &mut bytes) {
                    self.disturb(id, connection, bytes, world);
                }
            }
            if world.random.one_in(FALSE_ONE_IN) {
                world.meet("false pushes", 1);
                let (migration, partitions) = &imports[world.random.index(imports.len())];
                write_false(*migration, partitions, &mut world.random, &mut connection.output);
            }
            flush(id, connection, worker, now, world);
        }
    }

    fn disturb(&mut self, id: StreamId, connection: &mut Connection, mut bytes: Vec<u8>, world: &mut World) {
        world.meet("pushes of cuts", 1);
        let late = (world.now_us + world.random.magnitude(1, LATE_US), id);
        match world.random.below(10) {
            0 => return,
            1 => {
                self.late.insert(late, bytes);
                return;
            }
            2 => drop(self.late.insert(late, bytes.clone())),
            // Of the last one's filter, if it has one.
            3 if !bytes.ends_with(b"$0\r\n\r\n") => {
                let at = bytes.len() - 3;
                bytes[at] ^= 1 << world.random.below(8);
            }
            _ => {}
        }
        connection.output.extend_from_slice(&bytes);
    }
}

/// Appends a push of what was perhaps not given.
fn write_false(migration: MigrationId, partitions: &[PositionRange], random: &mut Random, out: &mut Vec<u8>) {
    let within = |bounds: &PositionRange, drawn: u64| {
        let span = u128::from(bounds.last().0 - bounds.first().0) + 1;
        Position(bounds.first().0 + ((u128::from(drawn) * span) >> 64) as u64)
    };
    let cursors: Vec<Option<Position>> = (partitions.iter())
        .map(|bounds| (!random.one_in(4)).then(|| within(bounds, random.draw())))
        .collect();
    let positions: Vec<Position> =
        (0..random.below(FALSE_POSITIONS)).map(|_| Position(random.draw())).collect();
    let (mut written, mut filter) = (Vec::new(), Vec::new());
    if random.one_in(2) {
        write_cursors(cursors.into_iter(), &mut written);
    }
    PositionFilter::write(&positions, 0, &mut filter);
    let mut reply = ReplyWriter::new(out, RespVersion::Resp3);
    reply.push(5);
    reply.bulk(b"sidle-given");
    reply.integer(migration.0 as i64);
    reply.integer(0);
    reply.bulk(&written);
    reply.bulk(&filter);
}
