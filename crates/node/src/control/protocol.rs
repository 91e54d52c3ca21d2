//! What the coordinator asks of the migration protocols.

use sidle_cluster::ProtocolOutline;
use sidle_migration::{Copies, SourceReads, protocol};

/// Reads a protocol's name and options for the coordinator ([`sidle_cluster::ReadProtocol`]).
///
/// # Errors
/// What is wrong with the text, and what there is.
pub fn read_protocol(text: &str) -> Result<ProtocolOutline, String> {
    let choices = protocol(text).map_err(|error| error.to_string())?;
    Ok(ProtocolOutline {
        partitions: choices.partitions,
        frozen_reads: choices.source_reads == SourceReads::AnswersFrozen,
        copies_before_freeze: matches!(choices.copies, Copies::BeforeFreeze(_)),
    })
}
