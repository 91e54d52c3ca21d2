//! What one life of a node does in each range, as a map says it.

use crate::{Incarnation, MigrationRecord, TabletMap};
use sidle_types::{MigrationId, NodeId, PositionRange};

/// What a node does in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It owns the range and serves everything.
    Owned,
    /// It owns the range and takes it in.
    Importing(MigrationId),
    /// It has given the range away and serves it, frozen, to the migration's clients and target.
    Exporting(MigrationId),
    /// It owns the range, but a migration to an earlier life of it is not over: the source may not know yet that it is to
    /// freeze the range, so nothing may be served (M1). The coordinator ends this as soon as it knows that it has.
    Withheld(MigrationId),
    /// Another node owns the range.
    Elsewhere(NodeId),
}

impl TabletMap {
    /// What this life of a node does, for ranges that are in order and cover every position.
    pub fn roles_of(&self, node: NodeId, life: Incarnation) -> Vec<(PositionRange, Role)> {
        let mut roles: Vec<(PositionRange, Role)> = Vec::new();
        let mut migrations: Vec<&MigrationRecord> = self.migrations().iter().collect();
        migrations.sort_by_key(|record| record.range);
        let mut push = |range: PositionRange, role: Role| match roles.last_mut() {
            Some((last, same)) if *same == role => {
                *last = PositionRange::new(last.first(), range.last()).expect("ranges come in order");
            }
            _ => roles.push((range, role)),
        };
        for tablet in self.tablets() {
            let unmoved = if tablet.owner == node { Role::Owned } else { Role::Elsewhere(tablet.owner) };
            let mut rest = Some(tablet.range);
            for record in migrations.iter().filter(|record| record.range.overlaps(tablet.range)) {
                let Some((left, moving)) =
                    rest.and_then(|rest| Some((rest, rest.intersection(record.range)?)))
                else {
                    break;
                };
                let (before, after) = left.without(moving);
                if let Some(before) = before {
                    push(before, unmoved);
                }
                push(moving, role_in(record, node, life).unwrap_or(unmoved));
                rest = after;
            }
            if let Some(rest) = rest {
                push(rest, unmoved);
            }
        }
        roles
    }
}

/// The part that this life of a node plays in a running migration.
fn role_in(record: &MigrationRecord, node: NodeId, life: Incarnation) -> Option<Role> {
    if record.target == node {
        let own = record.target_incarnation == life;
        Some(if own { Role::Importing(record.id) } else { Role::Withheld(record.id) })
    } else if record.source == node && record.source_incarnation == life {
        Some(Role::Exporting(record.id))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{node_id, node_info, range, running};

    #[test]
    fn each_life_has_its_roles() {
        let map = TabletMap::founded_by(node_info(1))
            .changed(|map| map.put_node(node_info(2)))
            .changed(|map| map.start(running(1, range(300, 399), 1, 2, 2)))
            .changed(|map| map.start(running(2, range(100, 199), 1, 2, 2)))
            .changed(|map| map.start(running(3, range(200, 299), 1, 2, 2)))
            .changed(|map| map.finish(MigrationId(3)));
        let ids: Vec<MigrationId> = (0..3).map(MigrationId).collect();
        let first = |node, life| map.roles_of(node_id(node), Incarnation(life));
        let ranges = [range(0, 99), range(100, 199), range(200, 299), range(300, 399), range(400, u64::MAX)];
        let with = |roles: [Role; 5]| ranges.into_iter().zip(roles).collect::<Vec<_>>();
        let elsewhere = |node| Role::Elsewhere(node_id(node));
        let exporting = Role::Exporting;
        assert_eq!(
            first(1, 1),
            with([Role::Owned, exporting(ids[2]), elsewhere(2), exporting(MigrationId(1)), Role::Owned])
        );
        assert_eq!(
            first(1, 2),
            [
                (range(0, 99), Role::Owned),
                (range(100, 399), elsewhere(2)),
                (range(400, u64::MAX), Role::Owned)
            ]
        );
        let importing = Role::Importing;
        assert_eq!(
            first(2, 1),
            with([elsewhere(1), importing(ids[2]), Role::Owned, importing(ids[1]), elsewhere(1)])
        );
        let withheld = Role::Withheld;
        assert_eq!(
            first(2, 2),
            with([elsewhere(1), withheld(ids[2]), Role::Owned, withheld(ids[1]), elsewhere(1)])
        );
        assert_eq!(
            first(3, 1),
            [
                (range(0, 99), elsewhere(1)),
                (range(100, 399), elsewhere(2)),
                (range(400, u64::MAX), elsewhere(1))
            ]
        );
    }
}
