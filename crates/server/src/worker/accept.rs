//! Taking in clients.

use super::connection::Connection;
use super::engine::SharedEngine;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

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
    let place = engine.borrow().limits.places.take();
    let Some(place) = place else {
        tracing::debug!("refused {address}: all places for clients are taken");
        // A fresh socket's buffer takes this whole; a client that is gone already needs no word.
        let _ = stream.try_write(TOO_MANY_CLIENTS);
        return;
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("{address} left at once: {error}");
        return;
    }
    tokio::task::spawn_local(Connection::new(stream, address, place, SharedEngine::clone(engine)));
}
