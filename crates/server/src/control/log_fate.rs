//! What became of this node's log while it was away: before it joins, it asks the coordinator.
//!
//! Others may have taken over what the log had. Then the copies show a later epoch; but so they do when an
//! older state of the data directory was put back, and the log is needed. Only the coordinator's record
//! tells the two apart.

use super::ControlThread;
use crate::durable_log::RecoverError;
use crate::start::StartError;
use sidle_types::LogId;
use std::time::{Duration, Instant};

/// How long it asks before it joins all the same: the coordinator then finds out by the epochs of the copies.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same where the copies have shown that the log is another's.
const LONG_PATIENCE: Duration = Duration::from_secs(20);

/// The question, while it is not answered.
#[derive(Debug)]
pub(super) struct LogFate {
    until: Instant,
    /// Why the start ends, unless others have taken over what the log had.
    otherwise: Option<StartError>,
}

impl ControlThread {
    /// The copies have shown that the log is another's: the start ends, in one way or the other.
    pub(super) fn log_is_deposed(&mut self, error: StartError) -> Result<(), StartError> {
        match error {
            StartError::DurableLog(RecoverError::Deposed { log, .. }) if self.seat.is_none() => {
                self.ask_for_log(log, Some(error), LONG_PATIENCE)
            }
            error => Err(error),
        }
    }

    /// The same once the log was read: the question may be under way.
    pub(super) fn copies_are_deposed(&mut self) -> Result<(), StartError> {
        let asked = self.log_fate.as_mut().ok_or(StartError::Deposed)?;
        asked.otherwise.get_or_insert(StartError::Deposed);
        Ok(())
    }

    /// The log was read, without a word of its copies perhaps.
    pub(super) fn ask_before_it_joins(&mut self, log: LogId) -> Result<(), StartError> {
        if self.seat.is_none() && self.setup.identity.has_log_copies() {
            self.ask_for_log(log, None, PATIENCE)?;
        }
        Ok(())
    }

    fn ask_for_log(
        &mut self,
        log: LogId,
        otherwise: Option<StartError>,
        patience: Duration,
    ) -> Result<(), StartError> {
        self.log_fate = Some(LogFate { until: Instant::now() + patience, otherwise });
        self.control.ask_for_log(self.setup.clock.mono(), Some(log));
        self.take_part()
    }

    /// The coordinator has answered.
    pub(super) fn note_log_fate(&mut self, log: LogId, taken_over: bool) {
        let Some(asked) = self.log_fate.take() else { return };
        self.ended = if taken_over { Some(StartError::LogTakenOver(log)) } else { asked.otherwise };
        self.join_unless_ended();
    }

    /// Gives the question up once its time is over.
    pub(super) fn tick_log_fate(&mut self) {
        let now = Instant::now();
        if let Some(asked) = self.log_fate.as_mut().filter(|asked| asked.otherwise.is_none())
            && self.coordinator.is_none()
        {
            // Nobody has been asked yet.
            asked.until = now + PATIENCE;
        }
        let Some(asked) = self.log_fate.take_if(|asked| now >= asked.until) else { return };
        self.ended = asked.otherwise;
        self.join_unless_ended();
    }

    fn join_unless_ended(&mut self) {
        if self.ended.is_none() {
            self.control.ask_for_log(self.setup.clock.mono(), None);
        }
    }
}
