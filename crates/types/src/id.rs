//! Identifiers and epochs.

use serde::{Deserialize, Serialize};

/// Counts the changes of the whole tablet map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MapEpoch(pub u64);

/// Counts a tablet's owners; a later owner has a larger epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TabletEpoch(pub u64);

/// Identifies one migration for ever: the coordinator never reuses a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MigrationId(pub u64);

/// What a target notes in its durable log of a migration to it. A node that takes the place of a target that
/// died notes another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImportId(pub u64);

impl ImportId {
    /// So many bits of it are the migration's number.
    const MIGRATION_BITS: u32 = 48;

    /// That of the migration's target, or of the `succession`-th node in its place.
    pub const fn of(migration: MigrationId, succession: u16) -> ImportId {
        ImportId(migration.0 | (succession as u64) << ImportId::MIGRATION_BITS)
    }
}

/// A record's version: it grows with every change of its key, even across deletion and re-creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// The largest that fits a record: 56 bits.
    pub const MAX: Version = Version((1 << 56) - 1);
    /// The largest that is accepted from another node. A slot counts on from there: a million writes a second
    /// take a thousand years to use up the rest.
    pub const FROM_PEER_MAX: Version = Version(1 << 55);
}

impl std::fmt::Display for MigrationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A node's permanent name: 160 random bits, written as in Redis Cluster, as 40 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId([u8; 20]);

impl NodeId {
    /// The node with these bits.
    pub const fn from_bytes(bytes: [u8; 20]) -> NodeId {
        NodeId(bytes)
    }

    /// The node's bits.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_hex(f, &self.0)
    }
}

/// In one write for all digits: every map and every record of a migration contains names.
fn write_hex<const BYTES: usize>(f: &mut std::fmt::Formatter<'_>, bytes: &[u8; BYTES]) -> std::fmt::Result {
    let mut digits = [[0; 2]; BYTES];
    for (pair, byte) in digits.iter_mut().zip(bytes) {
        *pair = [HEX_DIGITS[usize::from(byte >> 4)], HEX_DIGITS[usize::from(byte & 15)]];
    }
    f.write_str(std::str::from_utf8(digits.as_flattened()).map_err(|_| std::fmt::Error)?)
}

/// The bytes of so many lower-case hex digits.
fn read_hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * BYTES {
        return None;
    }
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

impl std::fmt::Debug for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeId({self})")
    }
}

/// What [`NodeId`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseNodeIdError;

impl std::fmt::Display for ParseNodeIdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a node id is 40 lower-case hex digits")
    }
}

impl std::error::Error for ParseNodeIdError {}

impl std::str::FromStr for NodeId {
    type Err = ParseNodeIdError;

    fn from_str(text: &str) -> Result<NodeId, ParseNodeIdError> {
        read_hex(text).map(NodeId).ok_or(ParseNodeIdError)
    }
}

impl TryFrom<String> for NodeId {
    type Error = ParseNodeIdError;

    fn try_from(text: String) -> Result<NodeId, ParseNodeIdError> {
        text.parse()
    }
}

impl From<NodeId> for String {
    fn from(node: NodeId) -> String {
        node.to_string()
    }
}

/// Identifies a durable log for ever: drawn when it begins. Written as 32 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogId(pub [u8; 16]);

impl std::fmt::Display for LogId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_hex(f, &self.0)
    }
}

/// What [`LogId`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLogIdError;

impl std::fmt::Display for ParseLogIdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a log's name is 32 lower-case hex digits")
    }
}

impl std::error::Error for ParseLogIdError {}

impl TryFrom<String> for LogId {
    type Error = ParseLogIdError;

    fn try_from(text: String) -> Result<LogId, ParseLogIdError> {
        read_hex(&text).map(LogId).ok_or(ParseLogIdError)
    }
}

impl From<LogId> for String {
    fn from(log: LogId) -> String {
        log.to_string()
    }
}

/// The number of a group commit of a durable log, from 1 on; 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitNumber(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_id_prints_and_parses() {
        let node = NodeId::from_bytes(std::array::from_fn(|i| (i * 13) as u8));
        assert_eq!(node.to_string(), "000d1a2734414e5b6875828f9ca9b6c3d0ddeaf7");
        assert_eq!(node.to_string().parse(), Ok(node));
        for bad in ["", "ab", &"g".repeat(40), &"A".repeat(40), &"0".repeat(41)] {
            assert_eq!(bad.parse::<NodeId>(), Err(ParseNodeIdError));
        }
    }
}
