//! The protocols, a file each, and their only list.
//!
//! A protocol that makes the known kinds of choices is one more file and one more line in [`PROTOCOLS`].

mod fulva;
mod handoff;
mod options;
mod rocksteady;
mod source_driven;
mod stop_and_copy;
mod zephyr;

pub use fulva::FULVA;
pub use handoff::HANDOFF;
pub use options::ProtocolError;
pub use rocksteady::ROCKSTEADY;
pub use source_driven::SOURCE_DRIVEN;
pub use stop_and_copy::STOP_AND_COPY;
pub use zephyr::ZEPHYR;

use crate::ProtocolChoices;

/// Every protocol. The first is the default of a migration that names none.
pub static PROTOCOLS: &[&ProtocolChoices] =
    &[&FULVA, &ROCKSTEADY, &ZEPHYR, &STOP_AND_COPY, &SOURCE_DRIVEN, &HANDOFF];

/// The choices of a protocol given as `NAME` or `NAME,OPTION=VALUE,...`: see [`options`].
///
/// # Errors
/// [`ProtocolError`] states what is wrong with the text, and the valid choices.
pub fn protocol(text: &str) -> Result<ProtocolChoices, ProtocolError> {
    let mut words = text.split(',');
    let name = words.next().unwrap_or_default();
    let named = PROTOCOLS.iter().find(|protocol| protocol.name == name);
    let mut choices = **named.ok_or_else(|| ProtocolError::UnknownProtocol { name: name.to_owned() })?;
    options::apply(&mut choices, &words.collect::<Vec<_>>())?;
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_wire::limits::{PRIORITY_PULL_KEYS_MAX, SAMP_PULL_POSITIONS_MAX};
    use std::collections::BTreeSet;

    #[test]
    fn protocol_finds_by_name() {
        for known in PROTOCOLS {
            assert_eq!(protocol(known.name), Ok(**known));
        }
        assert_eq!(protocol("Fulva"), Err(ProtocolError::UnknownProtocol { name: "Fulva".to_owned() }));
        assert_eq!(protocol(""), Err(ProtocolError::UnknownProtocol { name: String::new() }));
    }

    #[test]
    fn names_are_given_once() {
        let names: BTreeSet<&str> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        assert_eq!(names.len(), PROTOCOLS.len());
    }

    #[test]
    fn every_protocol_keeps_the_wire_limits() {
        for protocol in PROTOCOLS {
            assert!((1..=crate::PARTITIONS_MAX).contains(&protocol.partitions));
            assert!((1..=PRIORITY_PULL_KEYS_MAX).contains(&protocol.priority.batch));
            let pull = protocol.pulls.first();
            assert!((crate::tuning::PULL_BYTES_MIN..=crate::tuning::PULL_BYTES_MAX).contains(&pull));
            if let Some(sampling) = protocol.sampling {
                assert!((1..=SAMP_PULL_POSITIONS_MAX).contains(&sampling.batch) && sampling.one_in >= 1);
            }
        }
    }
}
