//! What work costs on the present machine.
//!
//! The state machines' share is timed in a model that runs a migration: it makes the calls that the server and the load generator
//! make, on a store that does not fit into the caches. What the system's calls take is measured over the loopback interface.

#![allow(clippy::disallowed_methods)] // it measures: clocks, sockets, a thread

use crate::costs::Costs;
use crate::course::{Course, ModelError, Plan};
use crate::machines::Machines;
use crate::stopwatch::{ClockNs, Stopwatch};
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};
use sidle_types::MigrationPolicy;
use sidle_workload::{Distribution, Workload};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

/// Records of the model that is timed: more than the caches hold.
const RECORDS: u64 = 1_000_000;
/// How long its load lasts before and after the move.
const MARGIN_NS: u64 = 200_000_000;
/// Bytes of a usual request or reply.
const MESSAGE_BYTES: usize = 150;
/// Bytes of a bulk message.
const BULK_BYTES: usize = 64 << 10;
/// How often each call is made.
const CALLS: u64 = 20_000;
/// In how many portions; the least portion counts, since whatever else runs only adds.
const PORTIONS: u64 = 20;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The system refused something.
    #[error("the system calls cannot be measured: {0}")]
    Io(#[from] io::Error),
    /// The timed model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// What work costs here, for keys and values of these sizes. Takes a few seconds on an otherwise idle machine.
///
/// # Errors
/// [`CalibrationError`] says what could not be measured.
pub fn costs(key_bytes: usize, value_bytes: usize) -> Result<Costs, CalibrationError> {
    let calls = Calls::measure()?;
    let watch = timed_model(key_bytes, value_bytes)?;
    Ok(Costs {
        poll_ns: calls.poll_ns,
        sleep_ns: calls.sleep_ns,
        read_ns: calls.read_ns,
        write_ns: calls.write_ns,
        copy_ns_per_kib: calls.copy_ns_per_kib,
        get_ns: watch.get.mean_ns(),
        set_ns: watch.set.mean_ns(),
        ask_get_ns: watch.ask_get.mean_ns() + watch.answer.mean_ns(),
        ask_set_ns: watch.ask_set.mean_ns() + watch.answer.mean_ns(),
        pack_ns_per_kib: watch.pack.ns_per_kib(),
        replay_ns_per_kib: watch.replay.ns_per_kib(),
        message_ns: watch.message.mean_ns(),
    })
}

fn timed_model(key_bytes: usize, value_bytes: usize) -> Result<Stopwatch, ModelError> {
    // What the model is charged matters little: the code does the same, a little sooner or later.
    let costs = Costs {
        poll_ns: 500,
        sleep_ns: 2000,
        read_ns: 1000,
        write_ns: 5000,
        copy_ns_per_kib: 200,
        get_ns: 700,
        set_ns: 900,
        ask_get_ns: 900,
        ask_set_ns: 1000,
        pack_ns_per_kib: 700,
        replay_ns_per_kib: 1000,
        message_ns: 1000,
    };
    let plan = Plan {
        machines: Machines::two_cores(1.0, 1.0),
        costs,
        protocol: "fulva".to_owned(),
        policy: MigrationPolicy::Adaptive,
        records: RECORDS,
        sample: RECORDS,
        key_bytes,
        value_bytes,
        workload: Workload::with_write_ratio(20.0),
        distribution: Distribution::Zipf(0.99),
        clients: 64,
        tracking: true,
        margin_ns: MARGIN_NS,
        seed: 1,
    };
    let mut course = Course::new(&plan, Stopwatch::by(monotonic_ns as ClockNs))?;
    course.go(&mut |_| true)?;
    Ok(course.model.watch)
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn monotonic_ns() -> u64 {
    ns(ClockId::Monotonic)
}

fn thread_cpu_ns() -> u64 {
    ns(ClockId::ThreadCPUTime)
}

/// What system calls take.
struct Calls {
    poll_ns: u64,
    sleep_ns: u64,
    read_ns: u64,
    write_ns: u64,
    copy_ns_per_kib: u64,
}

impl Calls {
    fn measure() -> io::Result<Calls> {
        let (mut near, mut far) = pair()?;
        let mut message = [7; MESSAGE_BYTES];
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poller, &far, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
        let mut events = Vec::with_capacity(64);
        let (mut write, mut poll, mut read) = (u64::MAX, u64::MAX, u64::MAX);
        for _ in 0..PORTIONS {
            let mut portion = [0; 3];
            for _ in 0..CALLS / PORTIONS {
                let begun_ns = monotonic_ns();
                near.write_all(&message)?;
                let written_ns = monotonic_ns();
                events.clear();
                epoll::wait(&poller, rustix::buffer::spare_capacity(&mut events), None)?;
                let polled_ns = monotonic_ns();
                far.read_exact(&mut message)?;
                let read_ns = monotonic_ns();
                portion[0] += written_ns - begun_ns;
                portion[1] += polled_ns - written_ns;
                portion[2] += read_ns - polled_ns;
            }
            let [w, p, r] = portion.map(|ns| ns * PORTIONS / CALLS);
            (write, poll, read) = (write.min(w), poll.min(p), read.min(r));
        }
        let mut bulk = vec![7; BULK_BYTES];
        let mut copy = u64::MAX;
        for _ in 0..CALLS / PORTIONS / 4 {
            let begun_ns = monotonic_ns();
            near.write_all(&bulk)?;
            far.read_exact(&mut bulk)?;
            copy = copy.min(monotonic_ns() - begun_ns);
        }
        // One write and one read of bulk make a copy each; a cost is charged at either end.
        let copy_ns_per_kib = copy.saturating_sub(write + read) * 1024 / BULK_BYTES as u64 / 2;
        let round_ns = round_trip_cpu_ns()?;
        let sleep_ns = round_ns.saturating_sub(write + poll + read);
        Ok(Calls { poll_ns: poll, sleep_ns, read_ns: read, write_ns: write, copy_ns_per_kib })
    }
}

/// Two ends of a connection over the loopback interface.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

/// Processor time of one thread for each message that it waits for asleep and answers.
fn round_trip_cpu_ns() -> io::Result<u64> {
    let (near, far) = pair()?;
    let rounds = CALLS / 4;
    let answer = move || answer_messages(far, rounds);
    let other = std::thread::Builder::new().name("answers".to_owned()).spawn(answer)?;
    let mut near = near;
    let mut message = [7; MESSAGE_BYTES];
    for _ in 0..rounds {
        near.write_all(&message)?;
        near.read_exact(&mut message)?;
    }
    other.join().unwrap_or_else(|_| Err(io::Error::other("the answering thread failed")))
}

fn answer_messages(mut far: TcpStream, rounds: u64) -> io::Result<u64> {
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poller, &far, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
    let mut events = Vec::with_capacity(64);
    let mut message = [0; MESSAGE_BYTES];
    let begun_ns = thread_cpu_ns();
    for _ in 0..rounds {
        events.clear();
        epoll::wait(&poller, rustix::buffer::spare_capacity(&mut events), None)?;
        far.read_exact(&mut message)?;
        far.write_all(&message)?;
    }
    Ok((thread_cpu_ns() - begun_ns) / rounds)
}
