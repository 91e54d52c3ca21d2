//! Why a frame was refused.

use sidle_types::{ProtocolVersion, Speaks};

/// Why a frame was refused. Its connection must be closed: what follows cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The frame is in a version that this node does not speak.
    #[error(
        "a frame is in {found}, and this node speaks {known}: run programs on both nodes that speak one \
         version in common"
    )]
    UnknownVersion {
        /// The version of the frame.
        found: ProtocolVersion,
        /// What this node speaks in frames of its kind.
        known: Speaks,
    },
    /// Header or body were altered in transit, or the peer lost track of frame boundaries.
    #[error("frame checksum is {found:#010x}, computed {computed:#010x}: the frame was damaged on its way")]
    BadChecksum {
        /// The checksum in the frame.
        found: u32,
        /// The checksum of what was received.
        computed: u32,
    },
    /// The frame's announced or actual size exceeds its kind's limit.
    #[error("frame body of {bytes} bytes is over the limit of {limit}")]
    Oversized {
        /// The body's length.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// Frames of this kind do not belong on this connection.
    #[error("a {0} frame does not belong on this connection")]
    Unexpected(&'static str),
    /// The frame's kind is not one of this version's.
    #[error("frame kind {0} is unknown")]
    UnknownKind(u8),
    /// The body does not have its kind's form.
    #[error("malformed {kind} frame: {reason}")]
    Malformed {
        /// The frame's kind.
        kind: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
}
