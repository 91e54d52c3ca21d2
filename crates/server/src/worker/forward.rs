//! Connections to other nodes over which this worker forwards, and those over which others forward to it.

use super::WorkerInput;
use super::connection::Connection;
use super::engine::SharedEngine;
use crate::thread::start_task;
use sidle_node::ForwardLink;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How much is read in one call.
const READ_BYTES: usize = 64 << 10;

/// The engine's part of a connection over which the worker forwards.
#[derive(Debug, Default)]
pub(super) struct LinkHandle {
    changed: Notify,
    is_closed: Cell<bool>,
}

impl LinkHandle {
    /// There is output to send.
    pub(super) fn send(&self) {
        self.changed.notify_one();
    }

    /// The connection is no longer wanted.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.changed.notify_one();
    }
}

/// Takes over the control thread's input to the worker.
pub(super) fn take_over(engine: &SharedEngine, input: WorkerInput) {
    match input {
        WorkerInput::LinkOpened(link, stream) => match TcpStream::from_std(stream) {
            Ok(stream) => start(engine, link, stream),
            Err(error) => {
                tracing::debug!("lost a connection to another node: {error}");
                engine.borrow_mut().link_lost(link);
            }
        },
        WorkerInput::LinkFailed(link) => engine.borrow_mut().link_lost(link),
        WorkerInput::Forwarded(forward, lane) => {
            match Connection::forwarded(&forward, *lane, SharedEngine::clone(engine)) {
                Ok(connection) => start_task("a connection over which another node forwards", connection),
                Err(error) => tracing::debug!("node {} left at once: {error}", forward.node),
            }
        }
    }
}

fn start(engine: &SharedEngine, link: ForwardLink, stream: TcpStream) {
    let handle = Rc::<LinkHandle>::default();
    if !engine.borrow_mut().link_opened(link, Rc::clone(&handle)) {
        return;
    }
    let engine = SharedEngine::clone(engine);
    start_task("a connection to forward requests over", async move {
        let ended = carry(&engine, link, &stream, &handle).await;
        if let Err(error) = ended {
            tracing::debug!("a connection to forward requests over ended: {error}");
        }
        if !handle.is_closed.get() {
            engine.borrow_mut().link_lost(link);
        }
    });
}

/// Sends the worker's forwarded requests, and brings it the replies, until the connection ends or is no
/// longer wanted.
async fn carry(
    engine: &SharedEngine,
    link: ForwardLink,
    stream: &TcpStream,
    handle: &LinkHandle,
) -> io::Result<()> {
    let mut input = vec![0; READ_BYTES];
    let mut output = Vec::new();
    let mut written = 0;
    while !handle.is_closed.get() {
        if written == output.len() {
            output.clear();
            written = 0;
            engine.borrow_mut().link_output(link, &mut output);
        }
        if written < output.len() {
            match stream.try_write(&output[written..]) {
                Ok(length) => {
                    written += length;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        tokio::select! {
            ready = stream.readable() => {
                ready?;
                match stream.try_read(&mut input) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(length) => engine.borrow_mut().link_received(link, &input[..length]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            ready = stream.writable(), if written < output.len() => ready?,
            () = handle.changed.notified() => {}
        }
    }
    Ok(())
}
