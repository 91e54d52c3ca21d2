//! Taking in clients.

use super::connection::Connection;
use super::engine::SharedEngine;
use crate::thread::start_task;
use socket2::{SockRef, TcpKeepalive};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// After so long a silence the system asks whether a client is still there: Redis's `tcp-keepalive`.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(300);

/// What Redis says to one client too many.
const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// Accepts clients for as long as the worker lives. `ticked`: notified a few times a second.
pub(super) async fn run(listener: TcpListener, engine: SharedEngine, ticked: Arc<Notify>) {
    let mut is_failing = false;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                is_failing = false;
                admit(stream, address, &engine);
            }
            Err(error) => {
                // Out of descriptors, as a rule: those waiting are served once others have left.
                if !is_failing {
                    tracing::warn!("cannot accept clients for now: {error}");
                }
                is_failing = true;
                ticked.notified().await;
            }
        }
    }
}

fn admit(stream: TcpStream, address: SocketAddr, engine: &SharedEngine) {
    let place = {
        let engine = engine.borrow();
        // CONFIG SET may have changed it.
        let most = engine.shared.config.value("maxclients").parse().unwrap_or(usize::MAX);
        engine.limits.places.take(most)
    };
    let Some(place) = place else {
        tracing::debug!("refused {address}: all places for clients are taken");
        // A fresh socket's buffer takes this whole; a client that is gone already needs no word.
        let _ = stream.try_write(TOO_MANY_CLIENTS);
        return;
    };
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
    let prepared =
        stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = prepared {
        tracing::debug!("{address} left at once: {error}");
        return;
    }
    start_task("a client's connection", Connection::new(stream, address, place, SharedEngine::clone(engine)));
}
