//! Serving a connection's input: requests are read ahead in batches, so that their cache misses overlap.
//!
//! Purpose: a pipelined batch mostly waits for index slots, buckets and records. So the whole batch is parsed
//! and hashed first, prefetching slots, then all buckets, then all records, before the first command runs.
//! That turns sixteen misses in a row into sixteen at once. Single requests over
//! many connections are a batch too, if all of them are [foreseen](Worker::foresee) before the first is
//! served.

use crate::execute::Executor;
use crate::forward::{Aside, Skip};
use crate::now::Now;
use crate::observe::{Lap, Spent};
use crate::outcome::{Closing, ControlRequest, Outcome};
use crate::prepared::accesses;
use crate::queue::Ticket;
use crate::request::{Keys, add_keys, keys_of};
use crate::routing::INLINE_KEYS;
use crate::session::Session;
use crate::table::{CommandFlags, Found};
use crate::worker::Worker;
use sidle_commands::ReplyError;
use sidle_heat::{Access, Noted, Usage};
use sidle_resp::{Args, Parsed, ProtocolError, ReplyWriter, RequestParser, Slices, likely_key};
use sidle_types::HashedKey;
use smallvec::SmallVec;

/// How many requests are read ahead.
pub const BATCH_REQUESTS: usize = 16;
/// How many connections' first requests are foreseen at most; more would evict each other.
const FORESEEN_KEYS: usize = 64;
/// After so much [work](work_of) other connections have their turn, and the range table may change: so many
/// short requests, empty ones included.
pub const SERVE_REQUESTS: usize = 512;
/// So many arguments count as one more request, and so do so many bytes: a turn is bounded for any requests.
const ARGUMENTS_A_REQUEST: usize = 64;
const BYTES_A_REQUEST: usize = 4 << 10;
/// After so many bytes of replies a connection sends, and others have their turn.
pub const SERVE_REPLY_BYTES: usize = 1 << 20;

/// The result of serving a connection's input.
#[derive(Debug)]
pub struct Served {
    /// How many bytes of the input are consumed. The rest must precede what is read later.
    pub consumed: usize,
    /// The connection's next step, after the output was sent.
    pub then: Then,
}

/// A connection's next step after it was served.
#[derive(Debug)]
pub enum Then {
    /// Read more: the input ends inside a request, or behind the last one.
    Read {
        /// At least so many bytes are missing.
        need: usize,
    },
    /// More is to be done; let other connections have their turn first.
    Again,
    /// Close.
    Close(Closing),
    /// Wait until [`Worker::poll_woken`] returns the ticket, then serve the rest of the input.
    Parked(Ticket),
    /// Wait for the control thread's reply, write it with [`Worker::answer`], then serve the rest of the
    /// input.
    Control(ControlRequest),
    /// End the process.
    Shutdown,
}

/// A request that was read ahead.
struct Ahead<'b> {
    args: Slices<'b>,
    found: Result<Found, ReplyError>,
    /// None where no command was found.
    keys: Keys<'b>,
}

/// Where a request stands in the input.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
}

/// What was read ahead.
struct Batch {
    /// How many requests.
    count: usize,
    /// Where the next request starts.
    end: usize,
    /// The work of the requests, and of reading them.
    work: usize,
    stop: Stop,
}

/// How reading ahead ended.
enum Stop {
    /// The batch is full, or reached the most work of a turn.
    Full,
    /// The input ends; so many bytes are missing.
    Incomplete(usize),
    /// The input breaks the protocol.
    Broken(ProtocolError),
}

impl Ahead<'_> {
    /// The command, if the request names one.
    #[inline]
    fn command(&self) -> Option<Found> {
        self.found.as_ref().ok().copied()
    }

    /// Whether what it is answered shows nothing of the data. That a name is unknown shows nothing of it.
    #[inline]
    fn is_answered_without_lease(&self) -> bool {
        let shows_nothing = |found: &Found| found.spec.flags.contains(CommandFlags::WITHOUT_LEASE);
        self.found.as_ref().map_or(true, shows_nothing)
    }

    /// Whether it is usually fast: it touches one key, or is marked as fast.
    #[inline]
    fn is_light(&self) -> bool {
        match &self.found {
            Ok(found) => {
                let keys = self.keys.len();
                keys == 1 || keys == 0 && found.spec.flags.contains(CommandFlags::FAST)
            }
            Err(_) => true,
        }
    }
}

impl Worker {
    /// Announces input that will be served soon, after other connections' input: loading of its first
    /// request's data begins. It has no other effect.
    #[inline]
    pub fn foresee(&mut self, input: &[u8]) {
        if let Some(key) = likely_key(input)
            && self.foreseen.len() < FORESEEN_KEYS
        {
            let key = HashedKey::new(key);
            self.dispatcher.executor.store.prefetch_slot(key.slot());
            self.foreseen.push((key.slot(), key.hash()));
        }
    }

    /// Continues to load what was foreseen: every bucket, then every record in them.
    #[inline]
    fn load_foreseen(&mut self) {
        if self.foreseen.len() > 1 {
            let guard = self.dispatcher.executor.store.pin();
            self.foreseen.iter().for_each(|&(slot, hash)| guard.prefetch_bucket(slot, hash));
            self.foreseen.iter().for_each(|&(slot, hash)| guard.prefetch_record(slot, hash));
        }
        self.foreseen.clear();
    }

    /// Runs the requests in `input`, which starts where the last call stopped, and appends their replies to
    /// `out`.
    pub fn serve(
        &mut self,
        now: Now,
        session: &mut Session,
        parser: &mut RequestParser,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Served {
        self.note_begin(now.mono);
        self.pass_boundary();
        self.load_foreseen();
        self.dispatcher.executor.shared.access.keep_up(session);
        self.lap = Lap::begin(now.reading_ns);
        let mut arguments = std::mem::take(&mut self.read_ahead);
        if arguments.is_empty() {
            arguments.resize_with(BATCH_REQUESTS, Args::new);
        }
        let start = out.len();
        let full_at = start + SERVE_REPLY_BYTES.min(self.dispatcher.executor.reply_bytes);
        let (mut consumed, mut work) = (0, 0);
        let then = loop {
            if work >= SERVE_REQUESTS || out.len() >= full_at {
                break Then::Again;
            }
            if session.skip.is_some() {
                match session.skip(&input[consumed..]) {
                    Some((bytes, is_over)) => {
                        consumed += bytes;
                        if !is_over {
                            break Then::Read { need: 1 };
                        }
                    }
                    None => break Then::Close(Closing::Protocol),
                }
            }
            let mut places = [Place { start: 0, end: 0 }; BATCH_REQUESTS];
            let most = SERVE_REQUESTS - work;
            let Batch { count, end, work: more, stop } =
                read_ahead(session, parser, input, consumed, most, &mut arguments, &mut places);
            work += more;
            let places = &places[..count];
            let (spent, then) =
                self.run_batch(now, session, input, &arguments[..count], places, full_at, out);
            if let Some(then) = then {
                if spent > 0 {
                    consumed = places[spent - 1].end;
                }
                // It may be inside a request that will be read again from an earlier place.
                parser.restart();
                break then;
            }
            consumed = end;
            match stop {
                Stop::Full => self.lap = self.lap.next_batch(),
                Stop::Incomplete(need) => break Then::Read { need },
                Stop::Broken(error) => {
                    if let Some(then) = answer_broken(session, parser, error, out) {
                        break then;
                    }
                }
            }
        };
        self.read_ahead = arguments;
        if session.capa_given && !session.is_subscribed() {
            self.begin_digests(session, out);
        }
        self.dispatcher.executor.stats.parked.set(self.dispatcher.parking.len() as u64);
        Served { consumed, then }
    }

    fn begin_digests(&mut self, session: &mut Session, out: &mut Vec<u8>) {
        let before = out.len();
        let Executor { ranges, stats, .. } = &self.dispatcher.executor;
        self.digests.begin(session, ranges, stats, out);
        self.shows_data |= out.len() > before;
    }

    /// Runs the connection's woken asides, and appends their replies to `out`. Returns whether some are left
    /// for the next turn.
    #[cold]
    pub fn serve_asides(&mut self, now: Now, session: &mut Session, out: &mut Vec<u8>) -> bool {
        self.note_begin(now.mono);
        self.pass_boundary();
        let woken: Vec<Ticket> =
            session.aside_tickets().filter(|&ticket| !self.dispatcher.parking.is_waiting(ticket)).collect();
        let start = out.len();
        for ticket in woken {
            if out.len() - start >= SERVE_REPLY_BYTES {
                return true;
            }
            let Some(aside) = session.asides.as_mut().and_then(|asides| asides.take(ticket)) else {
                continue;
            };
            self.resume_aside(now, session, aside, out);
            self.shows_data |= out.len() > start;
        }
        false
    }

    fn resume_aside(&mut self, now: Now, session: &mut Session, mut aside: Aside, out: &mut Vec<u8>) {
        let args: Vec<&[u8]> = aside.args.iter().map(|arg| &arg[..]).collect();
        let mut reply = Vec::new();
        // The connection's own waiting request is another one.
        std::mem::swap(&mut session.route, &mut aside.route);
        let began_ns = self.reading_ns();
        let outcome = match self.dispatcher.commands.resolve(&args) {
            Ok(found) => {
                let outcome =
                    self.dispatcher.run(now, session, found, &keys_of(found, &args), &args, &mut reply);
                if std::mem::take(&mut self.dispatcher.executor.has_run) {
                    let took_ns = self.reading_ns().saturating_sub(began_ns);
                    let tracks = self.dispatcher.executor.shared.config.thresholds().tracks();
                    self.dispatcher.executor.stats.command(found.id).took(took_ns, 1, tracks);
                }
                outcome
            }
            Err(error) => self.dispatcher.refuse_unresolved(now, session, &args, error, &mut reply),
        };
        std::mem::swap(&mut session.route, &mut aside.route);
        match (outcome, &mut session.asides) {
            (Outcome::Parked(ticket), Some(asides)) => asides.add(ticket, aside),
            _ => {
                let mut late = ReplyWriter::new(out, sidle_resp::RespVersion::Resp3);
                late.push(2);
                late.integer(aside.number as i64);
                late.bulk(&reply);
            }
        }
    }

    /// Runs requests that were read ahead, until `out` is as long as `full_at`. Returns how many are
    /// consumed, and what to do unless all of them ran.
    #[expect(clippy::too_many_arguments, reason = "the parts of one turn, which live in its frame")]
    fn run_batch(
        &mut self,
        now: Now,
        session: &mut Session,
        input: &[u8],
        arguments: &[Args],
        places: &[Place],
        full_at: usize,
        out: &mut Vec<u8>,
    ) -> (usize, Option<Then>) {
        // Filled in place: it is some kilobytes, and would otherwise be copied several times.
        let mut batch: SmallVec<[Ahead<'_>; BATCH_REQUESTS]> = SmallVec::new();
        for (args, place) in arguments.iter().zip(places) {
            batch.push(Ahead { args: Slices::new(), found: Err(ReplyError::Syntax), keys: Keys::new() });
            let ahead = batch.last_mut().expect("it was just pushed");
            ahead.args.extend(args.iter(&input[place.start..place.end]));
            self.look_ahead(ahead);
        }
        if batch.len() > 1 {
            self.prefetch(&batch);
        }
        let sampled = self.heat.plan(batch.len(), || self.dispatcher.executor.random.next());
        for (index, (ahead, place)) in batch.iter().zip(places).enumerate() {
            // Large replies are sent before more of them are made.
            if out.len() >= full_at && index > 0 {
                self.end_lap(now, session, &batch);
                return (index, Some(Then::Again));
            }
            let is_light = ahead.is_light();
            if !is_light {
                self.end_lap(now, session, &batch);
                self.lap.backdate(std::mem::take(&mut session.route.spent_ns));
            }
            let before = out.len();
            let outcome = match &ahead.found {
                Ok(found) => self.dispatcher.run(now, session, *found, &ahead.keys, &ahead.args, out),
                Err(error) => {
                    self.dispatcher.refuse_unresolved(now, session, &ahead.args, error.clone(), out)
                }
            };
            let outcome = self.after_run(session, ahead, outcome, (before, out));
            let has_run = std::mem::take(&mut self.dispatcher.executor.has_run);
            if has_run && matches!(outcome, Outcome::Parked(_)) {
                session.route.spent_ns = self.lap.elapsed(self.reading_ns());
            } else {
                let moved_bytes = (place.end - place.start) + out.len().saturating_sub(before);
                if sampled >> index & 1 != 0 && has_run {
                    self.heat.note(index, place.end - place.start, out.len().saturating_sub(before));
                }
                let kind = ahead.command().map(|found| found.id);
                if self.lap.take_in(kind, moved_bytes, has_run) || !is_light {
                    self.end_own_lap(now, session, &batch);
                }
            }
            let then = match outcome {
                Outcome::Done => continue,
                Outcome::Close(why) => (index + 1, Then::Close(why)),
                Outcome::Parked(ticket) => (index, Then::Parked(ticket)),
                Outcome::Control(request) => (index + 1, Then::Control(request)),
                Outcome::Shutdown => (index + 1, Then::Shutdown),
            };
            self.end_lap(now, session, &batch);
            return (then.0, Some(then.1));
        }
        self.end_lap(now, session, &batch);
        (arguments.len(), None)
    }

    /// A request that waits steps aside, where its connection has those. And what is written since `before`
    /// may show something of the data.
    #[inline]
    fn after_run(
        &mut self,
        session: &mut Session,
        ahead: &Ahead<'_>,
        outcome: Outcome,
        (before, out): (usize, &mut Vec<u8>),
    ) -> Outcome {
        let outcome = match outcome {
            Outcome::Parked(ticket) => session.step_aside(ticket, &ahead.args, out),
            outcome => outcome,
        };
        let is_free = self.dispatcher.executor.is_refused || ahead.is_answered_without_lease();
        self.shows_data |= out.len() > before && !is_free;
        outcome
    }

    /// Ends a lap that may be an EXEC's, whose commands have now been counted.
    fn end_own_lap(&mut self, now: Now, session: &Session, batch: &[Ahead<'_>]) {
        self.end_lap(now, session, batch);
        self.dispatcher.executor.executed = None;
    }

    /// Ends a lap with commands in it: their time is counted, and noted if long.
    #[inline]
    fn end_lap(&mut self, now: Now, session: &Session, batch: &[Ahead<'_>]) {
        if self.lap.is_empty() {
            return;
        }
        let lap = self.lap;
        let spent = self.lap.end(self.reading_ns());
        if self.heat.has_noted() {
            self.count_sampled(now, batch, lap, spent);
        }
        let thresholds = self.dispatcher.executor.shared.config.thresholds();
        match lap.only_kind() {
            Some(kind) if spent.each_ns == spent.heaviest_ns => {
                let calls = lap.places().len() as u64;
                self.dispatcher.executor.stats.command(kind).took(spent.each_ns, calls, thresholds.tracks());
            }
            _ => self.count_lap(batch, lap, spent, thresholds.tracks()),
        }
        if spent.heaviest_ns >= thresholds.notable_ns() {
            self.note_lap(now, session, batch, lap, spent);
        }
    }

    /// Counts the time of each of a lap's commands.
    fn count_lap(&self, batch: &[Ahead<'_>], lap: Lap, spent: Spent, tracks: bool) {
        for place in lap.places().filter(|&place| lap.has_run(place)) {
            if let Some(found) = batch[place].command() {
                self.dispatcher.executor.stats.command(found.id).took(spent.of(place, lap), 1, tracks);
            }
        }
    }

    /// Counts what a lap's sampled commands touched, for as many commands as each stands for. What a command
    /// took is divided evenly among its keys.
    #[cold]
    fn count_sampled(&mut self, now: Now, batch: &[Ahead<'_>], lap: Lap, spent: Spent) {
        let heat = &self.dispatcher.executor.shared.heat;
        while let Some(Noted { place, bytes_in, bytes_out, weight }) = self.heat.take_noted() {
            let Ahead { found: Ok(found), keys, .. } = &batch[place] else { continue };
            // Of an EXEC all keys of its commands.
            let is_write = found.spec.access.is_write();
            let executed = self.dispatcher.executor.executed.as_ref().filter(|_| keys.is_empty());
            let queued = executed.map_or_else(Vec::new, |transaction| accesses(transaction));
            let alone = keys.iter().map(|key| (*key, is_write));
            let touched: SmallVec<[_; INLINE_KEYS]> = alone.chain(queued).collect();
            let count = touched.len().max(1) as u64;
            let each = |amount: u64| amount / count;
            let usage = |is_write| Usage {
                operations: 1,
                writes: u64::from(is_write),
                bytes_in: each(bytes_in as u64),
                bytes_out: each(bytes_out as u64),
                nanoseconds: each(spent.of(place, lap)),
            };
            for (key, is_write) in touched {
                let usage = usage(is_write).times(u64::from(weight));
                let access = Access { position: key.position(), key: key.bytes(), usage };
                self.heat.record(heat, now.wall, access);
                self.dispatcher.executor.note_access(key.position());
            }
        }
    }

    /// Enters a lap's slow commands into SLOWLOG and LATENCY.
    #[cold]
    fn note_lap(&self, now: Now, session: &Session, batch: &[Ahead<'_>], lap: Lap, spent: Spent) {
        for place in lap.places().filter(|&place| lap.has_run(place)) {
            let Some(found) = batch[place].command() else { continue };
            let ns = spent.of(place, lap);
            self.dispatcher.executor.note_slow(now, session, found, &batch[place].args, ns);
        }
    }

    /// Resolves a request, and prefetches the slots of its keys, even of a single one: they arrive while its
    /// session is read.
    #[inline]
    fn look_ahead(&self, ahead: &mut Ahead<'_>) {
        ahead.found = self.dispatcher.commands.resolve(&ahead.args);
        if let Ok(found) = &ahead.found {
            add_keys(*found, &ahead.args, &mut ahead.keys);
            ahead.keys.iter().for_each(|key| self.dispatcher.executor.store.prefetch_slot(key.slot()));
        }
    }

    /// Prefetches every bucket of the batch, then every record in the buckets.
    fn prefetch(&self, batch: &[Ahead<'_>]) {
        let guard = self.dispatcher.executor.store.pin();
        for ahead in batch {
            ahead.keys.iter().for_each(|key| guard.prefetch_bucket(key.slot(), key.hash()));
        }
        for ahead in batch {
            ahead.keys.iter().for_each(|key| guard.prefetch_record(key.slot(), key.hash()));
        }
    }
}

/// Answers invalid input, and skips it if it ends one request only; otherwise what to do.
#[cold]
fn answer_broken(
    session: &mut Session,
    parser: &mut RequestParser,
    error: ProtocolError,
    out: &mut Vec<u8>,
) -> Option<Then> {
    let is_skipped = session.skips(&error);
    let is_too_long = matches!(error, ProtocolError::QueryBufferLimit | ProtocolError::ExceedsMemory { .. });
    ReplyWriter::new(out, session.version).protocol_error(error);
    if is_skipped {
        session.skip = Some(Skip::default());
        parser.restart();
        return None;
    }
    Some(Then::Close(if is_too_long { Closing::RequestTooLong } else { Closing::Protocol }))
}

/// The work of a request, in short requests: it counts costs without a command, too.
#[inline]
fn work_of(arguments: usize, bytes: usize) -> usize {
    1 + arguments / ARGUMENTS_A_REQUEST + bytes / BYTES_A_REQUEST
}

/// Parses requests from `at` on, at least one and then no more than about `most` work. `places` gets the
/// place of each.
fn read_ahead(
    session: &Session,
    parser: &mut RequestParser,
    input: &[u8],
    mut at: usize,
    most: usize,
    arguments: &mut [Args],
    places: &mut [Place; BATCH_REQUESTS],
) -> Batch {
    // Before authentication tighter limits hold, and the request in front may authenticate.
    let most_requests = if session.authenticated { BATCH_REQUESTS } else { 1 };
    parser.set_authenticated(session.authenticated);
    let (mut count, mut work) = (0, 0);
    let stop = loop {
        if count == most_requests || work >= most {
            break Stop::Full;
        }
        if at == input.len() {
            // The usual end, found without the parser.
            break Stop::Incomplete(1);
        }
        match parser.parse(&input[at..], &mut arguments[count]) {
            Ok(Parsed::Complete { consumed }) => {
                places[count] = Place { start: at, end: at + consumed };
                at += consumed;
                work += work_of(arguments[count].len(), consumed);
                // Empty requests are skipped without a reply, as in Redis.
                if !arguments[count].is_empty() {
                    count += 1;
                }
            }
            Ok(Parsed::Incomplete { need }) => break Stop::Incomplete(need),
            Err(error) => break Stop::Broken(error),
        }
    };
    Batch { count, end: at, work, stop }
}
