//! The door of the bus port: it lets in only proven members of the cluster.
//!
//! Every connection between nodes passes through here, whichever end opened it. [`Door::connect`] and
//! [`Door::let_in`] return a stream only after a successful handshake ([`sidle_handshake`]). The most
//! connections of each kind:
//!
//! | connections | in total | from one source |
//! |---|---|---|
//! | not yet proven | 128 | 32 |
//! | of members, for control messages | 1,024 | 256 |
//! | of members, for migrations | 64 | 32 |
//! | of members, for their clients' requests | 1,024 | 256 |
//! | of members, for copies of their logs | 256 | 64 |
//!
//! These are [`Bounds::MOST`]; a process that may open few files takes fewer.
//!
//! A handshake holds a buffer of fixed length, for [`HANDSHAKE_TIMEOUT`] at most; the memory of members'
//! connections is bounded by [`crate::bus`].
//!
//! When all places for handshakes are taken, the oldest handshake of the source with the most makes way: a
//! stranger who holds connections open shuts nobody out. Members beyond their bound are refused.
//!
//! Ownership: shared by the control thread, which accepts, and the movers, which connect.

mod bounds;
mod complaints;
mod places;
#[cfg(test)]
mod tests;
mod waiting;

use crate::bus_error::{BusError, Unproven};
use crate::data_dir::random_bytes;
use bounds::Bound;
pub(crate) use bounds::Bounds;
use complaints::{Complaint, Complaints};
pub(crate) use places::Place;
use places::Places;
use sidle_cluster::HostPort;
use sidle_handshake::{ClusterSecret, Handshake, HandshakeError, ListenerName, MESSAGE_BYTES_MAX, Nonce};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use waiting::{Source, Waiting};

/// How long a handshake may take that another process began.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long connecting to another node may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a handshake may take that this node began: the other node may be short of processor time.
pub(crate) const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// An idle connection is probed after this time, so that a peer that is gone frees its place.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// The secret, if it is known.
#[derive(Debug, Default)]
struct Known {
    secret: Option<Arc<ClusterSecret>>,
    /// Whether it was given, or is in the data directory: one found elsewhere may be
    /// wrong.
    is_certain: bool,
}

#[derive(Debug)]
struct Shared {
    known: Mutex<Known>,
    /// The file of this node's secret, for messages.
    secret_path: PathBuf,
    /// The bus address announced to the cluster.
    own_name: ListenerName,
    waiting: Mutex<Waiting<oneshot::Sender<()>>>,
    conversations: Arc<Places>,
    lanes: Arc<Places>,
    forwards: Arc<Places>,
    copies: Arc<Places>,
    complaints: Mutex<Complaints>,
}

/// The door.
#[derive(Clone, Debug)]
pub(crate) struct Door(Arc<Shared>);

/// A connection to a node that has proven its membership.
#[derive(Debug)]
pub(crate) struct Member {
    /// The connection, at its first byte after the handshake.
    pub(crate) stream: TcpStream,
    /// Its place among the members' conversations.
    pub(crate) place: Place,
    from: SocketAddr,
}

/// A connection not yet proven, in its place among the handshakes.
#[derive(Debug)]
pub(crate) struct Applicant {
    door: Door,
    from: SocketAddr,
    ticket: u64,
    sent_away: oneshot::Receiver<()>,
    /// Whether it makes another one give way, which closes its connection soon.
    pub(crate) displaces: bool,
}

impl Drop for Applicant {
    fn drop(&mut self) {
        lock(&self.door.0.waiting).leave(self.ticket);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Door {
    /// The door of a node with `bus_address` announced to others. `secret`: the one known from
    /// the start, if any. `secret_path`: where the node keeps it.
    pub(crate) fn new(
        bus_address: &HostPort,
        secret: Option<ClusterSecret>,
        secret_path: PathBuf,
        bounds: Bounds,
    ) -> Door {
        let places = |bound: Bound| Places::new(bound.total, bound.per_source);
        let Bound { total, per_source } = bounds.handshakes;
        let is_certain = secret.is_some();
        Door(Arc::new(Shared {
            known: Mutex::new(Known { secret: secret.map(Arc::new), is_certain }),
            secret_path,
            own_name: ListenerName::of(&bus_address.to_string()),
            waiting: Mutex::new(Waiting::new(total, per_source)),
            conversations: places(bounds.conversations),
            lanes: places(bounds.lanes),
            forwards: places(bounds.forwards),
            copies: places(bounds.copies),
            complaints: Mutex::default(),
        }))
    }

    /// The secret, once it is known.
    pub(crate) fn secret(&self) -> Option<Arc<ClusterSecret>> {
        lock(&self.0.known).secret.clone()
    }

    /// Whether the secret was given or is in the data directory, so that none has to be searched for.
    pub(crate) fn is_certain(&self) -> bool {
        lock(&self.0.known).is_certain
    }

    /// Tries a found secret that may be the cluster's. A certain one stays.
    pub(crate) fn try_secret(&self, secret: ClusterSecret) {
        let mut known = lock(&self.0.known);
        if !known.is_certain {
            known.secret = Some(Arc::new(secret));
        }
    }

    /// The cluster has accepted this node by the present secret.
    pub(crate) fn accept_secret(&self) {
        lock(&self.0.known).is_certain = true;
    }

    /// Connects to the node at `address`, and returns the connection once both ends have
    /// proven themselves.
    pub(crate) async fn connect(&self, address: &str) -> Result<TcpStream, BusError> {
        let secret = self.secret().ok_or(Unproven::NoSecret)?;
        let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(address));
        let mut stream = connecting.await.map_err(|_| BusError::TimedOut)??;
        prepare(&stream)?;
        let spelled = address.parse().map_or_else(|_| address.to_owned(), |host: HostPort| host.to_string());
        let nonce = Nonce(random_bytes()?);
        let mut handshake = Handshake::dial(&secret, ListenerName::of(&spelled), nonce);
        match timeout(DIAL_TIMEOUT, shake(&mut stream, &mut handshake)).await {
            Err(_) => Err(BusError::TimedOut),
            Ok(Ok(())) => Ok(stream),
            Ok(Err(Broken::Refused(_) | Broken::Closed)) if handshake.has_begun() => {
                Err(Unproven::OtherSecret.into())
            }
            Ok(Err(Broken::Refused(_) | Broken::Closed)) => Err(Unproven::NoHandshake.into()),
            Ok(Err(Broken::Io(error))) => Err(error.into()),
        }
    }

    /// Takes a place for a connection just opened by another node, or by a stranger.
    pub(crate) fn admit(&self, from: SocketAddr) -> Applicant {
        let (sender, sent_away) = oneshot::channel();
        let (ticket, evicted) = lock(&self.0.waiting).admit(Source::of(from.ip()), sender);
        let displaces = evicted.is_some();
        if let Some(evicted) = evicted {
            self.complain(Complaint::Crowded, from);
            // It may have ended by itself meanwhile.
            let _ = evicted.send(());
        }
        Applicant { door: self.clone(), from, ticket, sent_away, displaces }
    }

    /// Lets a connection in once both ends have proven themselves; `None` if the handshake failed.
    pub(crate) async fn let_in(&self, mut stream: TcpStream, mut applicant: Applicant) -> Option<Member> {
        let from = applicant.from;
        let Some(secret) = self.secret() else {
            self.complain(Complaint::NoSecretYet, from);
            return None;
        };
        let ended = {
            let shaking = timeout(HANDSHAKE_TIMEOUT, self.answer(&mut stream, &secret));
            tokio::select! {
                ended = shaking => ended,
                _ = &mut applicant.sent_away => return None,
            }
        };
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(Broken::Refused(error))) => {
                self.complain(error.into(), from);
                return None;
            }
            // A mere check whether the port is open is not logged.
            Ok(Err(Broken::Closed | Broken::Io(_))) | Err(_) => return None,
        }
        let Some(place) = self.0.conversations.take(Source::of(from.ip())) else {
            self.complain(Complaint::TooManyOfMember, from);
            return None;
        };
        Some(Member { stream, place, from })
    }

    async fn answer(&self, stream: &mut TcpStream, secret: &ClusterSecret) -> Result<(), Broken> {
        prepare(stream)?;
        let local = stream.local_addr()?;
        let local = SocketAddr::new(local.ip().to_canonical(), local.port());
        // A process that dialed the very address of this connection has dialed this node, under any
        // name of it in the cluster.
        let names = [self.0.own_name, ListenerName::of(&local.to_string())];
        let mut handshake = Handshake::listen(secret, &names, Nonce(random_bytes()?));
        shake(stream, &mut handshake).await
    }

    /// Moves a member's connection from the conversations to the migrations' connections; `None` when there
    /// are too many.
    pub(crate) fn as_lane(&self, member: Member) -> Option<(TcpStream, Place)> {
        self.moved(member, &self.0.lanes)
    }

    /// Moves a member's connection from the conversations to those that carry clients' requests; `None` when
    /// there are too many.
    pub(crate) fn as_forward(&self, member: Member) -> Option<(TcpStream, Place)> {
        self.moved(member, &self.0.forwards)
    }

    /// Moves a member's connection from the conversations to those of logs' copies; `None` when there are too
    /// many.
    pub(crate) fn as_copy(&self, member: Member) -> Option<(TcpStream, Place)> {
        self.moved(member, &self.0.copies)
    }

    fn moved(&self, member: Member, to: &Arc<Places>) -> Option<(TcpStream, Place)> {
        let place = to.take(Source::of(member.from.ip()));
        if place.is_none() {
            self.complain(Complaint::TooManyOfMember, member.from);
        }
        place.map(|place| (member.stream, place))
    }

    fn complain(&self, complaint: Complaint, from: SocketAddr) {
        let since_last = lock(&self.0.complaints).count(complaint, Instant::now());
        if let Some(count) = since_last {
            let text = complaint.text(from, &self.0.secret_path);
            tracing::warn!("{text} ({count} such connections since this was last reported)");
        }
    }
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the other end closed the connection")]
    Closed,
    #[error(transparent)]
    Refused(#[from] HandshakeError),
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for Broken {
    /// A reset connection was closed with something unread.
    fn from(error: io::Error) -> Broken {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Broken::Closed,
            _ => Broken::Io(error),
        }
    }
}

/// Drives one end of a handshake to its end. Reads no byte beyond it.
async fn shake(stream: &mut TcpStream, handshake: &mut Handshake<'_>) -> Result<(), Broken> {
    let mut input = [0; MESSAGE_BYTES_MAX];
    loop {
        while let Some(message) = handshake.poll_transmit() {
            stream.write_all(message.as_ref()).await?;
        }
        if handshake.is_proven() {
            return Ok(());
        }
        match stream.read(&mut input[..handshake.wanted()]).await? {
            0 => return Err(Broken::Closed),
            length => handshake.handle(&input[..length])?,
        };
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))
}
