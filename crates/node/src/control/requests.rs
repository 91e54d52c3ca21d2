//! Clients' requests to the coordinator, and its replies in the words of the Redis protocol.

use crate::forward::UNKNOWN;
use crate::outcome::{ControlReply, ControlRequest};
use sidle_cluster::{Reply, Request};
use sidle_types::MigrationId;
use std::collections::BTreeMap;

/// The form of a request's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenRequest {
    /// The migration's number, what the cluster speaks, or `OK`.
    Plain,
    /// The whole report.
    Status,
    /// The migrations of the report, or one of them.
    Migrations(Option<MigrationId>),
}

/// Requests that wait for the coordinator's reply, by the tags of their connections.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<u64, OpenRequest>);

impl Requests {
    /// The request to the coordinator.
    pub(super) fn open(&mut self, tag: u64, request: ControlRequest) -> Request {
        let (open, request) = match request {
            ControlRequest::StartMigration { range, target, protocol, policy } => {
                (OpenRequest::Plain, Request::StartMigration { range, target, protocol, policy })
            }
            ControlRequest::SetPolicy(migration, policy) => {
                (OpenRequest::Plain, Request::SetPolicy { migration, policy })
            }
            ControlRequest::CancelMigration(migration) => (OpenRequest::Plain, Request::Cancel { migration }),
            ControlRequest::MigrationStatus(migration) => {
                (OpenRequest::Migrations(migration), Request::Status)
            }
            ControlRequest::AwaitEnd { migration, patience_us } => {
                (OpenRequest::Migrations(Some(migration)), Request::AwaitEnd { migration, patience_us })
            }
            ControlRequest::Forget(node) => (OpenRequest::Plain, Request::Forget { node }),
            ControlRequest::TakeOver { node, accepts_loss } => {
                (OpenRequest::Plain, Request::TakeOver { node, accepts_loss })
            }
            ControlRequest::Upgrade => (OpenRequest::Plain, Request::Upgrade),
            ControlRequest::Status => (OpenRequest::Status, Request::Status),
            ControlRequest::LoadUsers { .. } | ControlRequest::SaveUsers => {
                unreachable!("no coordinator answers it")
            }
        };
        self.0.insert(tag, open);
        request
    }

    /// Its client's reply, if one waits.
    pub(super) fn close(&mut self, tag: u64, reply: Reply) -> Option<ControlReply> {
        self.0.remove(&tag).map(|open| word(open, reply))
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn word(open: OpenRequest, reply: Reply) -> ControlReply {
    match (open, reply) {
        (_, Reply::Started { migration, .. } | Reply::TurnsBack { by: migration, .. }) => {
            ControlReply::Integer(i64::try_from(migration.0).expect("within the limits of messages"))
        }
        (_, Reply::Cancelled { .. } | Reply::PolicySet { .. } | Reply::Forgotten { .. }) => ControlReply::Ok,
        (_, Reply::TakesOver { ranges }) => ControlReply::Integer(i64::try_from(ranges).unwrap_or(i64::MAX)),
        (_, Reply::Upgraded(upgraded)) => json(&upgraded),
        (_, Reply::Refused(refusal)) => {
            let code = if refusal.is_unclear() { UNKNOWN } else { "ERR" };
            ControlReply::Error(format!("{code} {refusal}"))
        }
        (OpenRequest::Migrations(Some(id)), Reply::Status(report)) => {
            match report.migrations.iter().find(|migration| migration.id == id) {
                Some(migration) => json(migration),
                None => ControlReply::Error(format!("ERR there is no migration {id}")),
            }
        }
        (OpenRequest::Migrations(None), Reply::Status(report)) => json(&report.migrations),
        (_, Reply::Status(report)) => json(&*report),
    }
}

fn json(value: &impl serde::Serialize) -> ControlReply {
    ControlReply::Text(serde_json::to_string(value).expect("reports have string keys and plain values only"))
}
