//! The role of one incarnation of a node in each range, by a map.

use sidle_cluster::{Incarnation, MigrationRecord, TabletMap};
use sidle_types::{MigrationId, NodeId, PositionRange};

/// A node's role in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It owns the range and serves everything.
    Owned,
    /// It owns the range and imports it.
    Importing(MigrationId),
    /// It has given the range away and serves it, frozen, to the migration's clients and target.
    Exporting(MigrationId),
    /// It owns the range, but a migration to its earlier incarnation is not over. The source may not know yet
    /// that it must freeze the range, so nothing may be served (M1). The coordinator ends this once it knows
    /// that the source has frozen it.
    Withheld(MigrationId),
    /// It owns the range, and reads what a dead node had of it.
    TakingOver,
    /// Another node owns the range.
    Elsewhere(NodeId),
}

/// The roles of this incarnation of a node, for ranges that are in order and cover every position.
pub(crate) fn roles_of(
    map: &TabletMap,
    node: NodeId,
    incarnation: Incarnation,
) -> Vec<(PositionRange, Role)> {
    let mut roles: Vec<(PositionRange, Role)> = Vec::new();
    let mut migrations: Vec<&MigrationRecord> = map.migrations().iter().collect();
    migrations.sort_by_key(|record| record.range);
    let mut push = |range: PositionRange, role: Role| match roles.last_mut() {
        Some((last, same)) if *same == role => {
            *last = PositionRange::new(last.first(), range.last()).expect("ranges come in order");
        }
        _ => roles.push((range, role)),
    };
    for tablet in map.tablets() {
        let is_read = map.takeover_at(tablet.range.first()).is_some();
        let unmoved = match tablet.owner == node {
            true if is_read => Role::TakingOver,
            true => Role::Owned,
            false => Role::Elsewhere(tablet.owner),
        };
        let mut rest = Some(tablet.range);
        for record in migrations.iter().filter(|record| record.range.overlaps(tablet.range)) {
            let Some((left, moving)) = rest.and_then(|rest| Some((rest, rest.intersection(record.range)?)))
            else {
                break;
            };
            let (before, after) = left.without(moving);
            if let Some(before) = before {
                push(before, unmoved);
            }
            let role = role_in(record, node, incarnation).filter(|_| unmoved != Role::TakingOver);
            push(moving, role.unwrap_or(unmoved));
            rest = after;
        }
        if let Some(rest) = rest {
            push(rest, unmoved);
        }
    }
    roles
}

/// The role of this incarnation of a node in a running migration.
fn role_in(record: &MigrationRecord, node: NodeId, incarnation: Incarnation) -> Option<Role> {
    if record.target == node {
        let own = record.target_incarnation == incarnation;
        Some(if own { Role::Importing(record.id) } else { Role::Withheld(record.id) })
    } else if record.source == node && record.source_incarnation == incarnation {
        Some(Role::Exporting(record.id))
    } else {
        None
    }
}
