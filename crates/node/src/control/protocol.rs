//! The coordinator's questions about migration protocols.

use sidle_cluster::ProtocolOutline;
use sidle_migration::{Copies, SourceReads, protocol};

/// Parses a protocol's name and options for the coordinator ([`sidle_cluster::ReadProtocol`]).
///
/// # Errors
/// The error in the text, and the valid choices.
pub fn read_protocol(text: &str) -> Result<ProtocolOutline, String> {
    let choices = protocol(text).map_err(|error| error.to_string())?;
    Ok(ProtocolOutline {
        partitions: choices.partitions,
        frozen_reads: choices.source_reads == SourceReads::AnswersFrozen,
        copies_before_freeze: matches!(choices.copies, Copies::BeforeFreeze(_)),
        copies_in_preparation: choices.copies_in_preparation_since(),
        gives_by_cuts: matches!(choices.copies, Copies::BeforeCuts(_)),
        needs: choices.needs(),
    })
}
