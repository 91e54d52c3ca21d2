//! What the cluster knows about a node, and the names of incarnations and clusters.

use crate::HostPort;
use crate::limits::MAX_NUMBER;
use serde::{Deserialize, Serialize};
use sidle_types::NodeId;

/// One incarnation of a node: larger after every restart. A restarted node keeps its [`NodeId`] and its
/// tablets, and has lost their content; whatever was arranged with an earlier incarnation is void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

impl std::fmt::Display for Incarnation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Tells apart two processes of a node with the same [`Incarnation`], as after an older copy of the data
/// directory was put back: a number drawn at random at every start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartNumber(pub u64);

impl StartNumber {
    /// The number made of these random bits, reduced to what may be sent.
    pub const fn from_bits(bits: u64) -> StartNumber {
        StartNumber(bits & MAX_NUMBER)
    }
}

/// A cluster's permanent name: 128 random bits, written as 32 hex digits. Nodes refuse to follow the
/// coordinator of another cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterId(u128);

impl ClusterId {
    /// The cluster with these bits.
    pub const fn from_bits(bits: u128) -> ClusterId {
        ClusterId(bits)
    }
}

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// What [`ClusterId`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cluster id is 32 lower-case hex digits")]
pub struct ParseClusterIdError;

impl std::str::FromStr for ClusterId {
    type Err = ParseClusterIdError;

    fn from_str(text: &str) -> Result<ClusterId, ParseClusterIdError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(ParseClusterIdError);
        }
        u128::from_str_radix(text, 16).map(ClusterId).map_err(|_| ParseClusterIdError)
    }
}

impl TryFrom<String> for ClusterId {
    type Error = ParseClusterIdError;

    fn try_from(text: String) -> Result<ClusterId, ParseClusterIdError> {
        text.parse()
    }
}

impl From<ClusterId> for String {
    fn from(cluster: ClusterId) -> String {
        cluster.to_string()
    }
}

/// A member of the cluster, as every other member and every client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// The node's permanent name.
    pub id: NodeId,
    /// Its present incarnation.
    pub incarnation: Incarnation,
    /// Where clients reach it.
    pub client_addr: HostPort,
    /// Where other nodes reach it.
    pub bus_addr: HostPort,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_id_prints_and_parses() {
        let cluster = ClusterId::from_bits(0xfeed << 64);
        assert_eq!(cluster.to_string().parse(), Ok(cluster));
        for bad in ["", "0", &"A".repeat(32), &"+".repeat(32), &"0".repeat(33)] {
            assert_eq!(bad.parse::<ClusterId>(), Err(ParseClusterIdError), "{bad}");
        }
    }
}
