//! What the coordinator's agent asks this node to do.

use super::table::Then;
use super::{ControlEvent, NodeControl};
use crate::mover::MoverCommand;
use sidle_cluster::{AgentEvent, AgentInput, NodeLoad, Survey};
use sidle_migration::MigrationSpec;
use sidle_types::{MigrationId, MigrationPolicy, MonotonicUs};

impl NodeControl {
    /// Does everything that the agent asks for.
    pub(super) fn follow_agent(&mut self, now: MonotonicUs) {
        while let Some(event) = self.agent.poll_event() {
            match event {
                AgentEvent::Joined { cluster } => self.event(ControlEvent::Joined(cluster)),
                AgentEvent::JoinRefused { why } => self.event(ControlEvent::JoinRefused(why)),
                AgentEvent::Survey { migration, range, partitions } => {
                    let store = &self.parts.store;
                    let survey = Survey {
                        records: store.len_in(range),
                        bytes: store.bytes_in(range),
                        partitions: store.partition(range, partitions),
                    };
                    self.agent.handle(now, AgentInput::Surveyed { migration, survey });
                }
                AgentEvent::Prepare { record, .. } => self.prepare(now, record),
                AgentEvent::AbandonPrepared { migration, why } => self.abandon(migration, why),
                AgentEvent::Track { record } => self.start_tracking(record),
                AgentEvent::Policy { migration, policy } => {
                    self.hear_policy(migration, policy);
                }
                AgentEvent::StopTracking { migration } => self.stop_tracking(migration),
                AgentEvent::StartExport { record } => self.start_export(record),
                AgentEvent::StartImport { record } => self.start_import(now, record),
                AgentEvent::Publish { map } => {
                    let epoch = map.epoch();
                    self.map = Some(map);
                    self.meet_missed_commits();
                    self.publish(vec![Then::TellAgent(epoch)]);
                }
                AgentEvent::ReleaseExport { migration, range } => self.release_export(migration, range),
                AgentEvent::FinishImport { migration } => {
                    if let Some(import) = self.imports.remove(&migration) {
                        self.clearing.insert(migration, import.view.range());
                        self.publish(vec![Then::Finish(migration)]);
                    }
                }
                AgentEvent::DiscardRest { migration, why } => self.discard_rest(migration, why),
                AgentEvent::Suspected { nodes } => {
                    self.parts.shared.unheard.replace(nodes, self.agent.coordinator())
                }
                AgentEvent::Superseded => {
                    self.serve_nothing();
                    self.event(ControlEvent::Superseded);
                }
                AgentEvent::Reply { ticket, reply } => self.replied(ticket, reply),
            }
        }
    }

    /// A migration is to press so hard from now on. One whose machines are not made yet is made with it.
    fn hear_policy(&mut self, id: MigrationId, policy: MigrationPolicy) {
        if let Some(record) = self.to_track.get_mut(&id) {
            record.policy = policy;
        } else {
            self.preparations.entry(id).and_modify(|preparation| preparation.record.policy = policy);
            self.command(MoverCommand::Policy(id, policy));
        }
    }

    /// How full the node is.
    pub(super) fn load(&self) -> NodeLoad {
        let memory = self.parts.store.memory();
        NodeLoad {
            keys: self.parts.published.table().key_count(&self.parts.store),
            memory_used_bytes: memory.log_live + memory.index,
            memory_limit_bytes: memory.limit,
        }
    }

    /// What the machines of a migration are made from, or why it cannot be.
    pub(super) fn spec(&self, record: &sidle_cluster::MigrationRecord) -> Result<MigrationSpec, String> {
        let protocol = sidle_migration::protocol(&record.protocol).map_err(|error| error.to_string())?;
        let spec = MigrationSpec {
            id: record.id,
            epoch: record.epoch,
            range: record.range,
            source: record.source,
            target: record.target,
            partitions: record.partitions.clone(),
            protocol,
            bytes: record.counters.bytes,
            policy: record.policy,
            tuning: self.tuning,
        };
        spec.check().map_err(|error| error.to_string())?;
        Ok(spec)
    }
}
