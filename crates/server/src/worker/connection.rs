//! One client's connection: read, let others read, run everything that is complete, write once; again.
//!
//! A connection is one future, polled by hand instead of an `async fn`. So a turn that finds
//! everything ready makes two system calls (read, write) and uses its waker once, to queue behind others that
//! are ready too.
//!
//! Invariants:
//! - C1: replies leave in the order of their requests: while output is pending, nothing is run.
//! - C2: `input` starts at the first byte of a request that has not been run.
//! - C3: a parked command is run again before anything behind it.
//! - C4: the shared output buffer is empty between two uses, however a use ended: one client's
//!   output never reaches another.
//! - C5: a reply is sent once the commit that has what it shows is safe, and, if it shows anything of the
//!   data, while the node's lease lasts.
//!
//! The shared buffers are borrowed within one poll only, never across a wait.

mod lifetime;
#[cfg(test)]
mod tests;

use super::engine::{Engine, JOIN_BYTES, READ_BYTES, ROUND_BYTES, SharedEngine};
use super::waits::ConnectionId;
use crate::control::ControlCall;
use crate::control::links::Lane;
use crate::door;
use crate::limits::Place;
use lifetime::Owes;
use sidle_node::{ClientTotals, Closing, ControlReply, Session, Shown, Then, Ticket};
use sidle_resp::{RequestParser, RespVersion};
use sidle_types::MonotonicUs;
use sidle_wire::Forward;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// How many full reads one connection makes before others have their turn.
const READS_A_TURN: usize = 4;
/// How long a connection lets others go first while some make room for it. They end when their
/// workers reach them; then the next takes its turn, and may have others make room for it.
const WAY_PATIENCE_US: u64 = 2_000_000;
/// How much is read ahead of a waiting command, to detect that its client is gone.
const WAITING_INPUT_BYTES: usize = 64 << 10;
/// An argument's header is shorter: `$`, a length, and two line ends.
const ARGUMENT_HEADER_BYTES: usize = 32;
/// How much is read and discarded after the reason for closing was sent, so that the message reaches
/// the client: closing with unread input would reset the connection. As long as a request refused at
/// its first line can be.
const LINGER_BYTES: usize = 1 << 30;

/// What the connection does next, once its output is sent.
enum State {
    /// Read.
    Reading,
    /// Run the requests in `input`.
    Running,
    /// Run `input` again when the ticket is woken.
    Parked(Ticket),
    /// Write the control thread's answer, then run `input`.
    Asking(oneshot::Receiver<ControlReply>),
    /// Send the last reply.
    Closing,
    /// Wait for the client to close, discarding up to this many more bytes.
    Lingering(usize),
}

/// What to do next within this poll.
enum Step {
    /// Continue.
    Go,
    /// Let others have their turn.
    Yield,
    /// Continue once all others had their turn, those too whose requests are still in their sockets.
    LetOthers,
    /// The connection is over.
    Over,
}

/// A connection's place until it ends.
enum Seat {
    /// Among the clients.
    Client { _place: Place },
    /// Among the nodes that forward their clients' requests.
    Node { _place: door::Place },
}

/// A client's connection.
pub(super) struct Connection {
    stream: TcpStream,
    engine: SharedEngine,
    id: ConnectionId,
    session: Session,
    parser: RequestParser,
    /// The bytes read and not run; see C2.
    input: Vec<u8>,
    /// The least number of bytes that the unfinished request still needs.
    need: usize,
    /// The output that the socket did not take.
    output: Vec<u8>,
    /// How much of `output` was written since.
    written: usize,
    /// What `output` shows.
    shown: Shown,
    state: State,
    is_aware: bool,
    is_subscribed: bool,
    is_monitoring: bool,
    /// What it owes by a deadline.
    owes: Owes,
    /// A command goes on that is to be polled once all others had their turn, those too whose requests are
    /// still in their sockets.
    lets_others: bool,
    /// Its size as last announced to others.
    held_bytes: usize,
    /// Whether it was polled.
    has_begun: bool,
    /// Since when it has let others go first.
    makes_way_since: Option<MonotonicUs>,
    /// Among the clients, or among the nodes that forward.
    _seat: Seat,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        address: SocketAddr,
        place: Place,
        engine: SharedEngine,
    ) -> Connection {
        let borrowed = engine.borrow();
        let local = stream.local_addr().map_or_else(|_| "?:0".to_owned(), |local| local.to_string());
        let now = borrowed.now();
        let registration = borrowed.shared.clients.register(address.to_string(), local, now.wall);
        let owes_password = !borrowed.shared.access.is_open();
        drop(borrowed);
        registration.note_descriptor(stream.as_raw_fd());
        let mut session = Session::new(registration, !owes_password);
        session.is_guest = place.is_reserved();
        if session.is_guest {
            session.client.make_guest();
        }
        Connection::of(stream, session, Seat::Client { _place: place }, engine)
    }

    /// A connection over which another node forwards its clients' requests, with the bytes already read.
    pub(super) fn forwarded(forward: &Forward, lane: Lane, engine: SharedEngine) -> io::Result<Connection> {
        let stream = TcpStream::from_std(lane.stream)?;
        let address = stream.peer_addr()?.to_string();
        let borrowed = engine.borrow();
        let registration = borrowed.shared.clients.unlisted(address, borrowed.now().wall);
        drop(borrowed);
        let version = if forward.is_resp3 { RespVersion::Resp3 } else { RespVersion::Resp2 };
        let mut session = Session::forwarded(registration, version);
        session.let_step_aside();
        let mut connection = Connection::of(stream, session, Seat::Node { _place: lane.place }, engine);
        connection.input = lane.reader.into_rest();
        connection.state = State::Running;
        // Not a client: it is not watched, since it owes nothing and nobody may end it.
        connection.has_begun = true;
        Ok(connection)
    }

    fn of(stream: TcpStream, session: Session, seat: Seat, engine: SharedEngine) -> Connection {
        let borrowed = engine.borrow();
        let limits = match session.is_forwarded {
            true => borrowed.limits.forwarded(),
            false => borrowed.limits.requests(&borrowed.shared.config),
        };
        let parser = RequestParser::new(limits);
        drop(borrowed);
        Connection {
            stream,
            engine,
            id: session.client.id,
            session,
            parser,
            input: Vec::new(),
            need: 0,
            output: Vec::new(),
            written: 0,
            shown: Shown::default(),
            state: State::Reading,
            is_aware: false,
            is_subscribed: false,
            is_monitoring: false,
            owes: Owes::Nothing,
            lets_others: false,
            held_bytes: 0,
            has_begun: false,
            makes_way_since: None,
            _seat: seat,
        }
    }

    /// Reads, and runs the requests.
    fn read(&mut self, cx: &mut Context<'_>, full_reads: &mut usize) -> Poll<io::Result<Step>> {
        if self.input.len() > JOIN_BYTES {
            return self.read_large(cx, full_reads);
        }
        let shared = SharedEngine::clone(&self.engine);
        let engine = &mut *shared.borrow_mut();
        let mut buffer = ReadBuf::new(&mut engine.input[JOIN_BYTES..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        let length = buffer.filled().len();
        if length == 0 {
            return Poll::Ready(Ok(Step::Over));
        }
        if length == READ_BYTES {
            *full_reads += 1;
        }
        if self.input.is_empty() && length < ROUND_BYTES {
            return Poll::Ready(Ok(self.await_round(engine, length)));
        }
        let start = JOIN_BYTES - self.input.len();
        engine.input[start..JOIN_BYTES].copy_from_slice(&self.input);
        let step = self.run(cx, engine, start..JOIN_BYTES + length)?;
        Poll::Ready(Ok(if *full_reads >= READS_A_TURN { step.or_yield() } else { step }))
    }

    /// Lets other ready connections read before the requests are run, so that the data of all is loaded
    /// at the same time.
    fn await_round(&mut self, engine: &mut Engine, length: usize) -> Step {
        engine.stats.bytes_in.add(length as u64);
        engine.worker.foresee(&engine.input[JOIN_BYTES..JOIN_BYTES + length]);
        self.input = engine.round_buffer(length);
        self.state = State::Running;
        Step::Yield
    }

    /// Continues reading a request that is too long to be joined in the shared buffer.
    fn read_large(&mut self, cx: &mut Context<'_>, full_reads: &mut usize) -> Poll<io::Result<Step>> {
        if self.input.len() == self.input.capacity() {
            self.input.reserve_exact(read_ahead(self.need, self.input.len()));
            self.account();
            if let Some(why) = self.session.client.ending() {
                return Poll::Ready(Ok(self.ends(why)));
            }
        }
        let length = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx))?;
        if length == 0 {
            return Poll::Ready(Ok(Step::Over));
        }
        let now = {
            let engine = self.engine.borrow();
            engine.stats.bytes_in.add(length as u64);
            engine.now()
        };
        self.session.client.seen(now.wall);
        *full_reads += 1;
        let step = if length < self.need {
            self.need -= length;
            Step::Go
        } else {
            self.run_kept(cx)?
        };
        Poll::Ready(Ok(if *full_reads >= READS_A_TURN { step.or_yield() } else { step }))
    }

    /// Runs the requests in the shared input buffer, and keeps the rest.
    fn run(
        &mut self,
        cx: &Context<'_>,
        engine: &mut Engine,
        range: std::ops::Range<usize>,
    ) -> io::Result<Step> {
        let now = engine.now();
        self.session.client.seen(now.wall);
        engine.stats.bytes_in.add((range.end - JOIN_BYTES) as u64);
        engine.begin_output();
        let input = &engine.input[range];
        let served = engine.worker.serve(now, &mut self.session, &mut self.parser, input, &mut engine.output);
        let rest = &input[served.consumed..];
        if rest.is_empty() {
            if self.input.capacity() > 0 {
                self.input = Vec::new();
            }
        } else {
            self.input.clear();
            self.input.extend_from_slice(rest);
        }
        self.after_serving(cx, engine, served.then)
    }

    /// Runs the requests in the connection's own buffer, and keeps the rest.
    fn run_kept(&mut self, cx: &Context<'_>) -> io::Result<Step> {
        let shared = SharedEngine::clone(&self.engine);
        let engine = &mut *shared.borrow_mut();
        let now = engine.now();
        engine.begin_output();
        let served =
            engine.worker.serve(now, &mut self.session, &mut self.parser, &self.input, &mut engine.output);
        if served.consumed == self.input.len() {
            engine.give_back(std::mem::take(&mut self.input));
        } else {
            self.input.drain(..served.consumed);
        }
        self.after_serving(cx, engine, served.then)
    }

    fn after_serving(&mut self, cx: &Context<'_>, engine: &mut Engine, then: Then) -> io::Result<Step> {
        if self.session.is_aware() != self.is_aware
            || self.session.is_subscribed() != self.is_subscribed
            || self.session.is_monitoring() != self.is_monitoring
        {
            self.follow_awareness(cx, engine);
        }
        let mut step = Step::Go;
        self.state = match then {
            Then::Read { need } => {
                self.need = need;
                State::Reading
            }
            Then::Again => {
                step = Step::Yield;
                State::Running
            }
            Then::Close(why) => {
                if why != Closing::Asked {
                    self.tell_why(engine, why);
                }
                State::Closing
            }
            Then::Parked(ticket) => {
                engine.waits.park(ticket, Waker::noop().clone());
                State::Parked(ticket)
            }
            Then::Control(request) => {
                let (call, answer) = ControlCall::new(request);
                // Without a control thread the process is ending; the answer then fails as well.
                let _ = engine.control.send(call);
                State::Asking(answer)
            }
            Then::Shutdown => {
                let _ = engine.control.send(ControlCall::Shutdown);
                State::Lingering(LINGER_BYTES)
            }
        };
        let asides = self.note_asides(engine);
        self.follow_debts(engine);
        // After the tickets were noted: they may have been woken already.
        engine.after_serving();
        self.watch_asides(cx, engine, asides);
        if let State::Parked(ticket) = self.state
            && !engine.waits.is_woken_later(ticket, cx.waker())
        {
            step = Step::LetOthers;
        }
        self.send(engine)?;
        Ok(step)
    }

    /// Starts or stops pushes to the connection.
    #[cold]
    fn follow_awareness(&mut self, cx: &Context<'_>, engine: &mut Engine) {
        self.is_aware = self.session.is_aware();
        if self.is_aware {
            engine.waits.add_aware(self.id, cx.waker().clone());
        } else {
            engine.waits.remove_aware(self.id);
        }
        self.is_subscribed = self.session.is_subscribed();
        if self.is_subscribed {
            engine.waits.add_subscribed(self.id, cx.waker().clone());
        } else {
            engine.waits.remove_subscribed(self.id);
        }
        self.is_monitoring = self.session.is_monitoring();
        if self.is_monitoring {
            engine.waits.add_monitor(self.id, cx.waker().clone());
        } else {
            engine.waits.remove_monitor(self.id);
        }
    }

    /// Notes requests that have stepped aside since the last call.
    #[inline]
    fn note_asides(&mut self, engine: &mut Engine) -> Vec<Ticket> {
        if !self.session.has_asides() {
            return Vec::new();
        }
        let asides = self.session.take_aside_tickets();
        asides.iter().for_each(|&ticket| engine.waits.park(ticket, Waker::noop().clone()));
        asides
    }

    /// Has the connection woken for them. One that was woken at once goes on.
    #[inline]
    fn watch_asides(&mut self, cx: &Context<'_>, engine: &mut Engine, asides: Vec<Ticket>) {
        for ticket in asides {
            self.lets_others |= !engine.waits.is_woken_later(ticket, cx.waker());
        }
    }

    /// Answers requests that have stepped aside and were woken; `output` is empty before.
    #[cold]
    fn run_asides(&mut self, cx: &Context<'_>) -> io::Result<()> {
        let shared = SharedEngine::clone(&self.engine);
        let engine = &mut *shared.borrow_mut();
        let now = engine.now();
        engine.begin_output();
        self.lets_others = engine.worker.serve_asides(now, &mut self.session, &mut engine.output);
        let asides = self.note_asides(engine);
        engine.after_serving();
        self.watch_asides(cx, engine, asides);
        self.send(engine)
    }

    /// Sends the shared output buffer, keeps what the socket does not take, and empties it (C4). `output`
    /// is empty before (C1), unless this is a push.
    fn send(&mut self, engine: &mut Engine) -> io::Result<()> {
        self.shown.add(engine.worker.take_shown());
        if engine.output.is_empty() {
            return Ok(());
        }
        let sent = self.send_or_keep(engine);
        engine.clear_output();
        sent
    }

    fn send_or_keep(&mut self, engine: &mut Engine) -> io::Result<()> {
        engine.stats.bytes_out.add(engine.output.len() as u64);
        let is_free = self.output.is_empty() && engine.may_send(self.shown);
        let sent = if is_free { self.try_write(&engine.output)? } else { 0 };
        if sent < engine.output.len() {
            self.keep(engine, sent);
            let unread = (self.output.len() - self.written) as u64;
            if unread > engine.shared.config.output_bytes() {
                return Err(self.left_unread(engine, unread));
            }
        } else {
            self.shown.sent();
        }
        Ok(())
    }

    /// It is to be closed, since it has left too much unread.
    #[cold]
    fn left_unread(&self, engine: &Engine, bytes: u64) -> io::Error {
        ClientTotals::count(&engine.shared.clients.totals.output_limit);
        let address = &self.session.client.address;
        tracing::warn!("closed {address}: it left {bytes} bytes of replies unread");
        io::ErrorKind::OutOfMemory.into()
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    #[cold]
    fn keep(&mut self, engine: &mut Engine, sent: usize) {
        if self.output.is_empty() && engine.output.len() > READ_BYTES {
            // Large replies are handed over, not copied.
            self.output = std::mem::take(&mut engine.output);
            self.written = sent;
        } else {
            self.output.extend_from_slice(&engine.output[sent..]);
        }
    }

    /// Writes pending output.
    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.engine.borrow().may_send(self.shown) {
            self.engine.borrow_mut().hold(self.shown, cx.waker().clone());
            return Poll::Pending;
        }
        while self.written < self.output.len() {
            let rest = &self.output[self.written..];
            self.written += ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            self.session.client.seen(self.engine.borrow().now().wall);
        }
        self.output = Vec::new();
        self.written = 0;
        self.shown.sent();
        Poll::Ready(Ok(()))
    }

    /// Announces a changed tablet map to an opted-in client, and what cuts gave to one that subscribed and
    /// reads; shows one that monitors what has run.
    fn push_changes(&mut self) -> io::Result<()> {
        let shared = SharedEngine::clone(&self.engine);
        let engine = &mut *shared.borrow_mut();
        engine.begin_output();
        engine.worker.write_pushes(&mut self.session, &mut engine.output);
        if self.output.is_empty() {
            engine.worker.write_digests(&mut self.session, &mut engine.output);
        }
        if !engine.worker.write_lines(&self.session, &mut engine.output) {
            engine.clear_output();
            return Err(self.left_unread(engine, engine.shared.config.output_bytes()));
        }
        // What is pushed tells of keys.
        self.shown.is_of_data |= !engine.output.is_empty();
        self.send(engine)
    }

    /// Continues at the present state.
    fn step(&mut self, cx: &mut Context<'_>, full_reads: &mut usize) -> Poll<io::Result<Step>> {
        match &mut self.state {
            State::Reading => self.read(cx, full_reads),
            State::Running => self.run_kept(cx).into(),
            State::Parked(ticket) => {
                let ticket = *ticket;
                if self.engine.borrow().waits.is_parked(ticket) {
                    return self.read_while_waiting(cx);
                }
                self.state = State::Running;
                Poll::Ready(Ok(Step::Go))
            }
            State::Asking(answer) => match Pin::new(answer).poll(cx) {
                Poll::Pending => self.read_while_waiting(cx),
                Poll::Ready(Ok(reply)) => self.answer(reply).into(),
                Poll::Ready(Err(_)) => Poll::Ready(Ok(Step::Over)),
            },
            // Its node has sent all of its output.
            State::Closing if self.session.is_forwarded => Poll::Ready(Ok(Step::Over)),
            State::Closing => {
                self.input = Vec::new();
                ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
                self.state = State::Lingering(LINGER_BYTES);
                Poll::Ready(Ok(Step::Go))
            }
            State::Lingering(left) => {
                let engine = SharedEngine::clone(&self.engine);
                let mut engine = engine.borrow_mut();
                let mut buffer = ReadBuf::new(&mut engine.input);
                ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
                let length = buffer.filled().len();
                *left = left.saturating_sub(length);
                *full_reads += 1;
                Poll::Ready(Ok(match length {
                    0 => Step::Over,
                    _ if *left == 0 => Step::Over,
                    _ if *full_reads >= READS_A_TURN => Step::Yield,
                    _ => Step::Go,
                }))
            }
        }
    }

    fn answer(&mut self, reply: ControlReply) -> io::Result<Step> {
        let shared = SharedEngine::clone(&self.engine);
        let engine = &mut *shared.borrow_mut();
        engine.begin_output();
        engine.worker.answer(&mut self.session, &reply, &mut engine.output);
        self.state = State::Running;
        self.send(engine)?;
        Ok(Step::Go)
    }

    /// Reads ahead a little while a command waits, to detect that the client is gone.
    fn read_while_waiting(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Step>> {
        if self.input.len() >= WAITING_INPUT_BYTES {
            return Poll::Pending;
        }
        let length = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx))?;
        Poll::Ready(Ok(if length == 0 { Step::Over } else { Step::Go }))
    }

    /// Whether others go first, since some that hold too much memory have yet to end.
    fn is_to_make_way(&mut self) -> bool {
        let takes_more = matches!(self.state, State::Reading | State::Running) && !self.session.is_forwarded;
        let engine = self.engine.borrow();
        if !takes_more || !engine.shared.clients.is_making_room() {
            self.makes_way_since = None;
            return false;
        }
        let now = engine.now().mono;
        now.since(*self.makes_way_since.get_or_insert(now)) < WAY_PATIENCE_US
    }

    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut full_reads = 0;
        if !self.has_begun {
            self.begin(cx);
        }
        if let Some(why) = self.session.client.ending()
            && let Step::Over = self.ends(why)
        {
            return Poll::Ready(Ok(()));
        }
        if self.is_aware || self.is_subscribed || self.is_monitoring {
            self.push_changes()?;
        }
        loop {
            if !self.output.is_empty() {
                ready!(self.flush(cx))?;
            }
            if self.session.has_asides() && !self.lets_others {
                self.run_asides(cx)?;
                if !self.output.is_empty() {
                    continue;
                }
            }
            if self.is_to_make_way() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match ready!(self.step(cx, &mut full_reads))? {
                Step::Go => {}
                Step::Yield => {
                    if !self.lets_others {
                        cx.waker().wake_by_ref();
                    }
                    return Poll::Pending;
                }
                Step::LetOthers => {
                    self.lets_others = true;
                    return Poll::Pending;
                }
                Step::Over => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// How many bytes to make room for behind `have` bytes of a request that still needs at least `need` bytes.
///
/// The announced length is trusted step by step: a client that announces much must also send much. Bytes
/// behind the request are left to the shared buffer. If no more than the next argument's header
/// is missing, the request's length is unknown: reading headers alone would take some calls for
/// each argument.
fn read_ahead(need: usize, have: usize) -> usize {
    let wanted = if need < ARGUMENT_HEADER_BYTES { READ_BYTES.max(have / 2) } else { need };
    wanted.min(have.max(READ_BYTES))
}

impl Step {
    fn or_yield(self) -> Step {
        match self {
            Step::Go => Step::Yield,
            other => other,
        }
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let ended = match self.drive(cx) {
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                if std::mem::take(&mut self.lets_others) {
                    // Woken once the runtime has looked at all sockets.
                    let _ = pin!(tokio::task::yield_now()).poll(cx);
                }
                self.account();
                return Poll::Pending;
            }
        };
        if let Err(error) = ended {
            tracing::debug!("lost {}: {error}", self.session.client.address);
        }
        Poll::Ready(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let engine = &mut *self.engine.borrow_mut();
        if let State::Parked(ticket) = self.state {
            engine.waits.unpark(ticket);
        }
        // A ticket that was woken and has not run since is forgotten too.
        if let Some(ticket) = self.session.ticket() {
            engine.worker.forget(ticket);
        }
        for ticket in self.session.aside_tickets() {
            engine.waits.unpark(ticket);
            engine.worker.forget(ticket);
        }
        if self.is_aware {
            engine.waits.remove_aware(self.id);
        }
        if self.is_subscribed {
            engine.waits.remove_subscribed(self.id);
        }
        if self.is_monitoring {
            engine.waits.remove_monitor(self.id);
        }
        engine.watch.leave(self.id);
        self.session.stop_waiting();
        engine.after_serving();
    }
}
