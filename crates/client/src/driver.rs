//! The core with its sockets and its clock.

use crate::link::{Connecting, Link, connect};
use sidle_client_core::{Completions, ConnectionId, Core, Event, Input};
use sidle_types::MonotonicUs;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

enum State {
    Connecting(Connecting),
    Open(Link),
}

struct Connection {
    id: ConnectionId,
    state: State,
}

/// Drives a core: opens its connections, writes its requests, reads its replies, and calls it on time.
pub(crate) struct Driver {
    core: Core,
    /// By the connection's index.
    connections: Vec<Option<Connection>>,
    /// Indices of connections with output that their sockets did not take.
    unwritten: Vec<usize>,
    started: Instant,
    timer: Option<(MonotonicUs, Pin<Box<Sleep>>)>,
    /// The last problem, in words.
    trouble: Option<String>,
    map_changed: bool,
}

/// How many rounds one poll makes before it lets other tasks run.
const ROUNDS: usize = 16;

impl Driver {
    pub(crate) fn new(core: Core) -> Driver {
        let started = Instant::now();
        Driver {
            core,
            connections: Vec::new(),
            unwritten: Vec::new(),
            started,
            timer: None,
            trouble: None,
            map_changed: false,
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Whether the map changed since the last call.
    pub(crate) fn take_map_changed(&mut self) -> bool {
        std::mem::take(&mut self.map_changed)
    }

    /// The core's time.
    pub(crate) fn now(&self) -> MonotonicUs {
        MonotonicUs(self.started.elapsed().as_micros() as u64)
    }

    /// Does all work that is possible now, and arranges to be woken for more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, done: &mut impl Completions) {
        for _ in 0..ROUNDS {
            self.events();
            let mut is_busy = self.poll_connecting(cx, done);
            self.transmit(cx, done);
            is_busy |= self.receive(cx, done);
            is_busy |= self.poll_timer(cx, done);
            if !is_busy {
                return;
            }
        }
        cx.waker().wake_by_ref();
    }

    fn events(&mut self) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Connect { connection: id, address } => {
                    if self.connections.len() <= id.index() {
                        self.connections.resize_with(id.index() + 1, || None);
                    }
                    let state = State::Connecting(connect(address));
                    self.connections[id.index()] = Some(Connection { id, state });
                }
                Event::Close(id) => {
                    let place = &mut self.connections[id.index()];
                    if place.as_ref().is_some_and(|connection| connection.id == id) {
                        *place = None;
                    }
                }
                Event::MapChanged(_) => self.map_changed = true,
                Event::Trouble { address, why } => self.trouble = Some(format!("{address}: {why}")),
            }
        }
    }

    fn poll_connecting(&mut self, cx: &mut Context<'_>, done: &mut impl Completions) -> bool {
        let now = self.now();
        let mut is_busy = false;
        for place in &mut self.connections {
            let Some(Connection { id, state }) = place else { continue };
            let State::Connecting(connecting) = state else { continue };
            let Poll::Ready(result) = connecting.as_mut().poll(cx) else { continue };
            is_busy = true;
            let id = *id;
            match result {
                Ok(stream) => {
                    *state = State::Open(Link::new(stream));
                    self.core.handle(now, Input::Connected(id), done);
                }
                Err(error) => {
                    self.trouble = Some(format!("{}: {error}", self.core.address_of(id)));
                    *place = None;
                    self.core.handle(now, Input::Disconnected(id), done);
                }
            }
        }
        is_busy
    }

    /// Writes the core's output until the sockets are full.
    fn transmit(&mut self, cx: &mut Context<'_>, done: &mut impl Completions) {
        for index in std::mem::take(&mut self.unwritten) {
            self.transmit_on(index, cx, done);
        }
        while let Some(id) = self.core.poll_transmit() {
            self.transmit_on(id.index(), cx, done);
        }
    }

    fn transmit_on(&mut self, index: usize, cx: &mut Context<'_>, done: &mut impl Completions) {
        let Some(Some(Connection { id, state: State::Open(link) })) = self.connections.get_mut(index) else {
            return;
        };
        let id = *id;
        loop {
            match link.poll_flush(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return self.lost(id, &error, done),
                Poll::Pending => {
                    if !self.unwritten.contains(&index) {
                        self.unwritten.push(index);
                    }
                    return;
                }
            }
            let Some(output) = link.free_output() else { return };
            self.core.take_output(id, output);
            if output.is_empty() {
                return;
            }
        }
    }

    /// Reads what has arrived; returns whether anything had.
    fn receive(&mut self, cx: &mut Context<'_>, done: &mut impl Completions) -> bool {
        let mut is_busy = false;
        for place in 0..self.connections.len() {
            let Some(Connection { id, state: State::Open(link) }) = &mut self.connections[place] else {
                continue;
            };
            let id = *id;
            match link.poll_fill(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    is_busy = true;
                    let now = MonotonicUs(self.started.elapsed().as_micros() as u64);
                    let consumed = self.core.received(now, id, link.unread(), done);
                    link.consume(consumed);
                }
                Poll::Ready(Err(error)) => {
                    is_busy = true;
                    self.lost(id, &error, done);
                }
            }
        }
        is_busy
    }

    fn lost(&mut self, id: ConnectionId, error: &std::io::Error, done: &mut impl Completions) {
        self.trouble = Some(format!("{}: {error}", self.core.address_of(id)));
        self.connections[id.index()] = None;
        self.core.handle(self.now(), Input::Disconnected(id), done);
    }

    /// Ticks the core if its time has come, and sets the timer for the next; returns whether it ticked.
    fn poll_timer(&mut self, cx: &mut Context<'_>, done: &mut impl Completions) -> bool {
        let Some(due) = self.core.poll_timeout() else {
            self.timer = None;
            return false;
        };
        let now = self.now();
        if due <= now {
            self.core.handle(now, Input::Tick, done);
            return true;
        }
        // A timer that fires early is cheaper than resetting it for each operation.
        if let Some((at, sleep)) = &mut self.timer
            && *at <= due
            && sleep.as_mut().poll(cx).is_pending()
        {
            return false;
        }
        let until = self.started + Duration::from_micros(due.0);
        let (at, sleep) = self.timer.get_or_insert_with(|| (due, Box::pin(tokio::time::sleep_until(until))));
        *at = due;
        sleep.as_mut().reset(until);
        sleep.as_mut().poll(cx).is_ready()
    }
}
