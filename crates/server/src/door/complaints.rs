//! The log's reports on connections that were refused: now and then, with a count.

use sidle_handshake::HandshakeError;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// The shortest time between two reports of one complaint.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Why a connection was refused, in the classes that the log knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    Foreign,
    OtherVersion { version: u8, method: u8 },
    OtherListener,
    OtherSecret,
    NoSecretYet,
    Crowded,
    TooManyOfMember,
}

/// How many kinds of complaint there are.
const KINDS: usize = 7;

impl From<HandshakeError> for Complaint {
    fn from(error: HandshakeError) -> Complaint {
        match error {
            HandshakeError::Foreign => Complaint::Foreign,
            HandshakeError::UnknownVersion { version, method } => Complaint::OtherVersion { version, method },
            HandshakeError::WrongListener => Complaint::OtherListener,
            HandshakeError::WrongProof => Complaint::OtherSecret,
        }
    }
}

impl Complaint {
    const fn kind(self) -> usize {
        match self {
            Complaint::Foreign => 0,
            Complaint::OtherVersion { .. } => 1,
            Complaint::OtherListener => 2,
            Complaint::OtherSecret => 3,
            Complaint::NoSecretYet => 4,
            Complaint::Crowded => 5,
            Complaint::TooManyOfMember => 6,
        }
    }

    /// What happened, and how to mend it. `secret_path`: where this node keeps its secret.
    pub(super) fn text(self, from: SocketAddr, secret_path: &Path) -> String {
        let secret = secret_path.display();
        match self {
            Complaint::Foreign => format!(
                "closed a connection from {from} to the port for nodes: it does not speak their protocol. \
                 Clients use the port for clients; an older release cannot take part in this cluster"
            ),
            Complaint::OtherVersion { version, method } => format!(
                "the node at {from} opens with version {version}, method {method} of the handshake: run the \
                 same release on all nodes"
            ),
            Complaint::OtherListener => format!(
                "the node at {from} looks for another node at this address: if it is one of this cluster, its \
                 map is out of date, or this node's --advertise has changed; start it with --join"
            ),
            Complaint::OtherSecret => format!(
                "the node at {from} has another cluster secret: copy {secret} to its data directory, or give \
                 it with --cluster-secret-file, if it belongs to this cluster"
            ),
            Complaint::NoSecretYet => format!(
                "closed a connection from {from}: this node has no cluster secret yet, and can let nobody in"
            ),
            Complaint::Crowded => format!(
                "many connections to the port for nodes prove nothing, the last one from {from}: the oldest \
                 make way. Keep strangers from that port with a firewall"
            ),
            Complaint::TooManyOfMember => {
                format!("the member at {from} has too many connections to this node; closed its newest one")
            }
        }
    }
}

/// Counts complaints of each kind between reports.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    reported_at: [Option<Instant>; KINDS],
    count: [u64; KINDS],
}

impl Complaints {
    /// Counts one; when a report is due, returns how many there were since the last.
    pub(super) fn count(&mut self, complaint: Complaint, now: Instant) -> Option<u64> {
        let kind = complaint.kind();
        self.count[kind] += 1;
        let is_due = self.reported_at[kind].is_none_or(|at| now.duration_since(at) >= REPORT_INTERVAL);
        is_due.then(|| {
            self.reported_at[kind] = Some(now);
            std::mem::take(&mut self.count[kind])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_reported_once_in_a_while_with_its_count() {
        let mut complaints = Complaints::default();
        let start = Instant::now();
        assert_eq!(complaints.count(Complaint::Foreign, start), Some(1));
        for _ in 0..1_000 {
            assert_eq!(complaints.count(Complaint::Foreign, start + REPORT_INTERVAL / 2), None);
        }
        assert_eq!(complaints.count(Complaint::OtherSecret, start), Some(1), "each kind for itself");
        assert_eq!(complaints.count(Complaint::Foreign, start + REPORT_INTERVAL), Some(1_001));
    }

    #[test]
    fn a_genuine_node_with_another_secret_is_told_what_to_do() {
        let from = SocketAddr::from(([10, 0, 0, 7], 5));
        let text = Complaint::OtherSecret.text(from, Path::new("/data/cluster.secret"));
        for part in ["10.0.0.7:5", "another cluster secret", "/data/cluster.secret", "--cluster-secret-file"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
