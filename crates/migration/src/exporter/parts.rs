//! What a source's machines share: the migration's spec, its workers' view, and the sinks for refusals,
//! events and counts.

use super::ExporterCounters;
use super::sent_whole::SentWhole;
use crate::outbox::Outbox;
use crate::{Breach, ExportPhase, ExportWriter, MigrationSpec, SourceEvent};
use sidle_pacing::Governor;
use sidle_types::{MonotonicUs, Position};
use sidle_wire::{Lane, RefusalCode, Scope, WireError};
use std::collections::VecDeque;

/// What a source's machines share.
#[derive(Debug)]
pub(super) struct SourceParts {
    pub(super) spec: MigrationSpec,
    pub(super) scope: Scope,
    pub(super) writer: ExportWriter,
    pub(super) governor: Governor,
    /// Bulk work waits until then, to spare the workers.
    pub(super) paced_until: Option<MonotonicUs>,
    pub(super) outbox: Outbox,
    pub(super) events: VecDeque<SourceEvent>,
    pub(super) counters: ExporterCounters,
    pub(super) sent_whole: SentWhole,
}

impl SourceParts {
    pub(super) fn new(now: MonotonicUs, spec: MigrationSpec, writer: ExportWriter) -> SourceParts {
        SourceParts {
            scope: spec.scope(),
            governor: spec.governor(now),
            paced_until: None,
            outbox: Outbox::new(spec.version),
            events: VecDeque::new(),
            counters: ExporterCounters::default(),
            sent_whole: SentWhole::default(),
            spec,
            writer,
        }
    }

    pub(super) fn phase(&self) -> ExportPhase {
        self.writer.view().phase()
    }

    pub(super) fn refuse(&mut self, lane: Lane, code: RefusalCode, text: String) {
        self.outbox.refuse(lane, self.scope, code, text);
    }

    /// A source never receives such a message.
    pub(super) fn wrong_direction(&mut self, lane: Lane, message: &'static str) {
        self.events.push_back(SourceEvent::Close(lane, Breach::WrongDirection(message)));
    }

    pub(super) fn assert_answerable(&self) {
        assert!(
            matches!(self.phase(), ExportPhase::Tracking | ExportPhase::Frozen),
            "M2, M8, M11: records leave only a range that is frozen or tracked, and not over"
        );
    }

    /// Whether bulk work must yield to the workers; notes until when.
    pub(super) fn is_paced(&mut self, now: MonotonicUs) -> bool {
        let ready_at = self.governor.may_answer_at(now);
        if ready_at > now {
            self.paced_until = Some(ready_at);
        }
        ready_at > now
    }

    /// The records at one position do not fit into a frame: the target is notified, and the migration stops
    /// there.
    pub(super) fn unsendable(
        &mut self,
        lane: Lane,
        from: Position,
        error: WireError,
        out: &mut Vec<u8>,
    ) -> bool {
        let text = format!("the records from {from} on do not fit into a frame: {error}");
        self.refuse(lane, RefusalCode::TooLarge, text.clone());
        self.events.push_back(SourceEvent::Close(lane, Breach::Unsendable(text)));
        self.outbox.transmit(lane, out)
    }
}
