//! The cost of system calls: two threads exchange messages over the loopback interface, like a node and its
//! clients.
//!
//! Both are busy at the same time, on their own cores if there are two. A reader has to fetch what the
//! writer's cache holds, which a single thread would not show.

mod waking;

use super::{monotonic_ns, thread_cpu_ns};
use rustix::event::epoll;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use waking::Waking;

/// Connections between the two, each with one message in flight, like the load.
const CONNECTIONS: usize = 64;
/// Bytes of a typical request or reply.
const MESSAGE_BYTES: usize = 150;
/// Bytes of a bulk message.
const BULK_BYTES: usize = 64 << 10;
/// Messages that each thread answers.
const MESSAGES: u64 = 50_000;
/// The area that bulk messages are read from and written to, in turn: more than the caches hold.
const BULK_AREA_BYTES: usize = 64 << 20;

/// Processor time of each call, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    pub(super) poll_ns: u64,
    pub(super) read_ns: u64,
    pub(super) write_ns: u64,
    pub(super) copy_ns_per_kib: u64,
    pub(super) waking: Waking,
}

impl Calls {
    pub(super) fn measure() -> io::Result<Calls> {
        let poll_ns = poll_ns()?;
        let busy = exchange(CONNECTIONS, MESSAGES)?;
        let calls_ns = busy.cpu_ns.saturating_sub(poll_ns * busy.polls) / busy.messages;
        let read_ns = calls_ns * busy.reading_ns / (busy.reading_ns + busy.writing_ns).max(1);
        let write_ns = calls_ns - read_ns;
        let (copy_ns_per_kib, waking) = (copy_ns_per_kib()?, Waking::measure()?);
        Ok(Calls { poll_ns, read_ns, write_ns, copy_ns_per_kib, waking })
    }

    /// The median of each call over several measurements.
    pub(super) fn medians(all: &[Calls]) -> Calls {
        let median = |of: fn(&Calls) -> u64| median(all.iter().map(of).collect());
        Calls {
            poll_ns: median(|calls| calls.poll_ns),
            read_ns: median(|calls| calls.read_ns),
            write_ns: median(|calls| calls.write_ns),
            copy_ns_per_kib: median(|calls| calls.copy_ns_per_kib),
            waking: Waking {
                sleep_ns: median(|calls| calls.waking.sleep_ns),
                wake_ns: median(|calls| calls.waking.wake_ns),
                core_sleep_ns: median(|calls| calls.waking.core_sleep_ns),
                wake_core_ns: median(|calls| calls.waking.wake_core_ns),
                core_latency_ns: median(|calls| calls.waking.core_latency_ns),
            },
        }
    }
}

/// Polls many connections while some are ready.
fn poll_ns() -> io::Result<u64> {
    let mut pairs = (0..CONNECTIONS).map(|_| pair()).collect::<io::Result<Vec<_>>>()?;
    let poller = poller(pairs.iter().map(|(_, far)| far))?;
    for (near, _) in pairs.iter_mut().step_by(8) {
        near.write_all(&[7; MESSAGE_BYTES])?;
    }
    let mut events = Vec::with_capacity(CONNECTIONS);
    let begun_ns = thread_cpu_ns();
    for _ in 0..MESSAGES / 10 {
        events.clear();
        epoll::wait(&poller, rustix::buffer::spare_capacity(&mut events), None)?;
    }
    Ok((thread_cpu_ns() - begun_ns) / (MESSAGES / 10))
}

/// A write and a read of bulk data copy once each; the cost is charged at either end. The data is in no
/// cache, like records that a mover packs or has received.
fn copy_ns_per_kib() -> io::Result<u64> {
    let (mut near, mut far) = pair()?;
    let mut bulk = vec![7; BULK_AREA_BYTES];
    let mut small = [0; MESSAGE_BYTES];
    let mut times_ns = [Vec::new(), Vec::new()];
    for piece in bulk.chunks_exact_mut(BULK_BYTES) {
        for (buffer, times_ns) in [piece, &mut small].into_iter().zip(&mut times_ns) {
            let begun_ns = monotonic_ns();
            near.write_all(buffer)?;
            far.read_exact(buffer)?;
            times_ns.push(monotonic_ns() - begun_ns);
        }
    }
    let [bulk_ns, small_ns] = times_ns.map(median);
    Ok(bulk_ns.saturating_sub(small_ns) * 1024 / BULK_BYTES as u64 / 2)
}

fn median(mut times_ns: Vec<u64>) -> u64 {
    times_ns.sort_unstable();
    times_ns[times_ns.len() / 2]
}

/// What a thread used while it answered.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    cpu_ns: u64,
    messages: u64,
    polls: u64,
    /// Elapsed time in reads and in writes, for their proportion.
    reading_ns: u64,
    writing_ns: u64,
}

/// Two threads answer each other's messages; returns what the second used.
fn exchange(connections: usize, messages: u64) -> io::Result<Used> {
    let (near, far): (Vec<_>, Vec<_>) =
        (0..connections).map(|_| pair()).collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
    for mut stream in &near {
        stream.write_all(&[7; MESSAGE_BYTES])?;
    }
    // Both ends of each connection outlive both threads: the first to finish must not close what the other
    // still reads.
    let answered = move || answer(&far, messages).map(|used| (used, far));
    let other = std::thread::Builder::new().name("answers".to_owned()).spawn(answered)?;
    answer(&near, messages)?;
    let (used, _far) =
        other.join().unwrap_or_else(|_| Err(io::Error::other("the answering thread failed")))?;
    Ok(used)
}

/// Answers this many messages.
fn answer(streams: &[TcpStream], messages: u64) -> io::Result<Used> {
    let poller = poller(streams.iter())?;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(streams.len());
    let mut message = [0; MESSAGE_BYTES];
    let mut used = Used::default();
    let begun_ns = thread_cpu_ns();
    while used.messages < messages {
        epoll::wait(&poller, rustix::buffer::spare_capacity(&mut events), None)?;
        used.polls += 1;
        for event in events.drain(..) {
            let mut stream = &streams[event.data.u64() as usize];
            let begun_ns = monotonic_ns();
            stream.read_exact(&mut message)?;
            let read_ns = monotonic_ns();
            stream.write_all(&message)?;
            used.reading_ns += read_ns - begun_ns;
            used.writing_ns += monotonic_ns() - read_ns;
            used.messages += 1;
        }
    }
    used.cpu_ns = thread_cpu_ns() - begun_ns;
    Ok(used)
}

fn poller<'s>(streams: impl Iterator<Item = &'s TcpStream>) -> io::Result<rustix::fd::OwnedFd> {
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, stream) in streams.enumerate() {
        epoll::add(&poller, stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
    }
    Ok(poller)
}

/// Both ends of a connection over the loopback interface.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_costs_a_plausible_time() {
        let calls = Calls::measure().expect("the loopback interface works");
        for ns in [calls.poll_ns, calls.read_ns, calls.write_ns] {
            assert!((20..1_000_000).contains(&ns), "{ns} ns");
        }
        assert!(calls.copy_ns_per_kib < 100_000);
        let waking = calls.waking;
        for ns in [waking.sleep_ns, waking.wake_ns, waking.core_sleep_ns, waking.wake_core_ns] {
            assert!(ns < 10_000_000, "{ns} ns");
        }
    }
}
