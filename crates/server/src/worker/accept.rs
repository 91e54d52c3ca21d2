//! Accepts clients.

use super::connection::Connection;
use super::engine::SharedEngine;
use crate::limits::Place;
use crate::thread::start_task;
use rustix::io::Errno;
use sidle_node::{ClientTotals, NodeShared};
use socket2::{SockRef, TcpKeepalive};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::yield_now;

/// After this long a silence the system probes whether a client is still there: Redis's `tcp-keepalive`.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(300);

/// Redis's reply to one client too many.
pub(super) const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// Redis's reply where anyone would be let in.
const DENIED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is \
set for the default user. In this mode connections are only accepted from the loopback interface. If you want to \
connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode \
sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host \
the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE \
to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis \
configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started \
the server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication \
password for the default user. NOTE: You only need to do one of the above things in order for the server to start \
accepting connections from the outside.\r\n";

/// Accepts clients until the worker ends. `ticked`: notified a few times a second.
pub(super) async fn run(listener: TcpListener, engine: SharedEngine, ticked: Arc<Notify>) {
    let mut is_failing = false;
    let mut spare = Spare::default();
    loop {
        spare.refill();
        match listener.accept().await {
            Ok((stream, address)) => {
                is_failing = false;
                if admit(stream, address, &engine) {
                    // A refusal ends before the next client is let in: many at once take few places.
                    yield_now().await;
                }
            }
            Err(error) => {
                if !is_failing {
                    tracing::warn!("cannot accept clients for now: {error}");
                }
                is_failing = true;
                // Usually out of descriptors: then the waiting client is refused, not left to wait.
                if !is_out_of_descriptors(&error) || !spare.refuse_one(&listener, &engine).await {
                    ticked.notified().await;
                }
            }
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// A spare descriptor for refusing clients when no other is left.
#[derive(Debug, Default)]
struct Spare(Option<File>);

impl Spare {
    fn refill(&mut self) {
        if self.0.is_none() {
            // Without one, the next refusal uses none.
            self.0 = File::open("/dev/null").ok();
        }
    }

    /// Refuses one client that waits to be accepted, if there is one; returns whether there was a
    /// descriptor for it.
    async fn refuse_one(&mut self, listener: &TcpListener, engine: &SharedEngine) -> bool {
        drop(self.0.take());
        let accepted = poll_fn(|cx| match listener.poll_accept(cx) {
            Poll::Ready(accepted) => Poll::Ready(accepted.map(Some)),
            Poll::Pending => Poll::Ready(Ok(None)),
        });
        let Ok(accepted) = accepted.await else { return false };
        if let Some((stream, address)) = accepted {
            refuse(&stream, address, engine, "the system has no descriptor left");
        }
        true
    }
}

fn refuse(stream: &TcpStream, address: SocketAddr, engine: &SharedEngine, why: &str) {
    tracing::debug!("refused {address}: {why}");
    ClientTotals::count(&engine.borrow().shared.clients.totals.rejected);
    // A fresh socket's buffer takes all of this; a client that is gone needs no reply.
    let _ = stream.try_write(TOO_MANY_CLIENTS);
}

/// Serves a new client, or refuses it; returns whether it has one of the operators' places.
fn admit(stream: TcpStream, address: SocketAddr, engine: &SharedEngine) -> bool {
    if is_denied(address, &engine.borrow().shared) {
        tracing::debug!("refused {address}: protected mode");
        // A fresh socket's buffer takes all of this.
        let _ = stream.try_write(DENIED);
        return false;
    }
    let Some(place) = place_for(&stream, address, engine) else {
        refuse(&stream, address, engine, "all places for clients are taken");
        return false;
    };
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
    let prepared =
        stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = prepared {
        tracing::debug!("{address} left at once: {error}");
        return false;
    }
    let is_reserved = place.is_reserved();
    start_task("a client's connection", Connection::new(stream, address, place, SharedEngine::clone(engine)));
    is_reserved
}

/// Whether protected mode refuses clients of other machines now.
fn is_denied(address: SocketAddr, shared: &NodeShared) -> bool {
    !address.ip().to_canonical().is_loopback()
        && shared.access.needs_no_password()
        && shared.config.is_protected()
}

/// A place for a new client: one that all share, or else one of the operators', if it
/// comes from this machine.
fn place_for(stream: &TcpStream, address: SocketAddr, engine: &SharedEngine) -> Option<Place> {
    let engine = engine.borrow();
    let shared = &engine.shared;
    // CONFIG SET may have changed it.
    let most = usize::try_from(shared.config.most_clients()).unwrap_or(usize::MAX);
    engine.limits.places.take(most).or_else(|| {
        let peer = address.ip().to_canonical();
        let is_from_here =
            peer.is_loopback() || stream.local_addr().is_ok_and(|local| local.ip().to_canonical() == peer);
        let makes_room = || shared.clients.displace_guest(engine.now().wall);
        is_from_here.then(|| engine.limits.places.take_reserved(makes_room))?
    })
}
