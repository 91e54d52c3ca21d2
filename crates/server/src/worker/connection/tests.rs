//! Connections over real sockets, each polled by hand: so it is seen what they leave to the next poll, and
//! when that comes.

use super::*;
use crate::clock::Clock;
use crate::config::LimitsConfig;
use crate::limits::ClientLimits;
use crate::worker::WorkerLink;
use crate::worker::engine::OtherThreads;
use sidle_node::NodeParts;
use sidle_node::testing::SoloNode;
use sidle_resp::{RequestWriter, Value};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Wake;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

const MEMORY_BYTES: u64 = 16 << 20;
const MEMBERS: usize = 30_000;
/// RESTORE of so many members takes more slices.
const SLICES: usize = 45;

/// How many reads a request takes, if `need` returns how many bytes are known to be missing.
fn reads(bytes: usize, need: impl Fn(usize) -> usize) -> usize {
    let (mut have, mut reads) = (READ_BYTES, 0);
    while have < bytes {
        have += read_ahead(need(have), have);
        reads += 1;
    }
    reads
}

#[test]
fn a_request_of_many_arguments_takes_few_reads() {
    assert!(reads(3 << 20, |_| 4) < 20, "short arguments");
    assert!(reads(3 << 20, |have| (3 << 20) - have) < 10, "one long argument");
}

#[test]
fn no_more_is_read_than_an_announced_argument_needs_nor_than_was_sent() {
    assert_eq!(read_ahead(READ_BYTES + 1, 3 * READ_BYTES), READ_BYTES + 1);
    assert_eq!(read_ahead(1 << 30, 3 * READ_BYTES), 3 * READ_BYTES);
}

/// A worker that owns everything, without its thread.
struct Scene {
    engine: SharedEngine,
    parts: NodeParts,
    _control: mpsc::UnboundedReceiver<ControlCall>,
    /// A RESTORE of a large set.
    restore: Vec<u8>,
}

/// Counts wakes.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Scene {
    fn new() -> Scene {
        let mut node = SoloNode::with_memory(MEMORY_BYTES);
        let mut client = node.connect();
        for first in (0..MEMBERS).step_by(1000) {
            let names: Vec<String> = (first..first + 1000).map(|number| format!("name:{number}")).collect();
            node.ask(&mut client, &format!("SADD k {}", names.join(" ")));
        }
        let Value::Bulk(payload) = node.ask(&mut client, "DUMP k") else { panic!("a payload") };
        node.ask(&mut client, "DEL k");
        drop(client);
        // Its replies were sent.
        node.worker.take_shown();
        let mut restore = Vec::new();
        RequestWriter::new(&mut restore).request(&[b"RESTORE", b"k", b"0", &payload]);
        let SoloNode { parts, worker, .. } = node;
        let (control, _control) = mpsc::unbounded_channel();
        let workers = vec![Arc::<WorkerLink>::default()];
        let others = OtherThreads { movers: Vec::new(), workers, control, log: Some(Arc::default()) };
        let limits = ClientLimits::new(&LimitsConfig::default(), MEMORY_BYTES);
        let engine = Engine::new(worker, others, Arc::clone(&parts.shared), limits, Clock::start());
        Scene { engine, parts, _control, restore }
    }

    /// A client's connection, or another node's, and the other end, once it has sent these bytes.
    fn connect(&self, is_forwarded: bool, sends: Vec<u8>) -> (Connection, JoinHandle<std::net::TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut client =
            std::net::TcpStream::connect(listener.local_addr().expect("its address")).expect("it listens");
        let (accepted, _) = listener.accept().expect("it connected");
        accepted.set_nonblocking(true).expect("a socket");
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let client = std::thread::spawn(move || {
            client.write_all(&sends).expect("it is read");
            client
        });
        let stream = TcpStream::from_std(accepted).expect("a runtime");
        let clients = &self.parts.shared.clients;
        let now = self.engine.borrow().now().wall;
        let session = match is_forwarded {
            true => {
                let registration = clients.unlisted("node".to_owned(), now);
                let mut session = Session::forwarded(registration, RespVersion::Resp2);
                session.let_step_aside();
                session
            }
            false => Session::new(clients.register("client".to_owned(), "node".to_owned(), now), true),
        };
        let place = self.engine.borrow().limits.places.take(usize::MAX).expect("there are many");
        let connection = Connection::of(
            stream,
            session,
            Seat::Client { _place: place },
            SharedEngine::clone(&self.engine),
        );
        (connection, client)
    }
}

/// Polls a connection up to `turns` times while a RESTORE goes on there, each time after the runtime has
/// looked at all sockets. Returns how many turns it had, and whether the connection has ended.
async fn go_on(connection: &mut Connection, turns: usize) -> (usize, bool) {
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let goes_on =
        |connection: &Connection| connection.session.builds_aside() || connection.session.has_asides();
    let mut had = 0;
    while had < turns {
        let before = woken.0.load(SeqCst);
        let had_begun = goes_on(connection);
        if Pin::new(&mut *connection).poll(&mut Context::from_waker(&waker)).is_ready() {
            return (had, true);
        }
        let at_once = woken.0.load(SeqCst) - before;
        if goes_on(connection) {
            assert_eq!(at_once, 0, "it goes on before all sockets were looked at");
            had += 1;
        } else if had_begun {
            return (had, false);
        }
        // What waits for the runtime is woken meanwhile.
        let looks = std::time::Instant::now();
        while woken.0.load(SeqCst) == before {
            assert!(looks.elapsed() < Duration::from_secs(60), "nothing wakes it");
            tokio::task::yield_now().await;
        }
    }
    (had, false)
}

fn run(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime needs only an epoll descriptor").block_on(story);
}

fn read_until(client: JoinHandle<std::net::TcpStream>, end: &[u8]) -> Vec<u8> {
    let mut client = client.join().expect("it has sent all");
    let mut received = Vec::new();
    while !received.ends_with(end) {
        let mut bytes = [0; 1024];
        let length = client.read(&mut bytes).expect("a reply");
        assert!(length > 0, "it closed behind {:?}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&bytes[..length]);
    }
    received
}

/// A client's RESTORE takes a turn for each slice, and so does one that another node forwarded, beside the
/// requests behind it.
#[test]
fn all_sockets_are_looked_at_between_two_slices() {
    run(async {
        let scene = Scene::new();
        let (mut connection, client) = scene.connect(false, scene.restore.clone());
        let (turns, has_ended) = go_on(&mut connection, usize::MAX).await;
        assert!(turns > SLICES && !has_ended, "{turns} turns");
        assert_eq!(read_until(client, b"\r\n"), b"+OK\r\n");
        assert_eq!(scene.parts.store.len(), 1);

        let scene = Scene::new();
        let sent = [&scene.restore[..], b"*1\r\n$4\r\nPING\r\n"].concat();
        let (mut connection, client) = scene.connect(true, sent);
        assert_eq!(go_on(&mut connection, usize::MAX).await, (turns, false));
        let received = read_until(client, b"$5\r\n+OK\r\n\r\n");
        let pong = received.windows(7).position(|bytes| bytes == b"+PONG\r\n");
        let late = received.iter().position(|byte| *byte == b'>');
        assert!(pong.is_some() && pong < late, "{}", String::from_utf8_lossy(&received));
        assert_eq!(scene.parts.store.len(), 1);
    });
}

/// Polls a connection for as long as it takes to read what was sent and to answer it.
async fn serve(connection: &mut Connection) {
    for _ in 0..100 {
        let polled = Pin::new(&mut *connection).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "it has ended");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// C5: what describes the node is answered without a lease, and nothing overtakes a read that waits for it.
#[test]
fn without_a_lease_what_shows_no_data_is_answered_and_replies_stay_in_order() {
    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    run(async {
        let scene = Scene::new();
        let lease = |until_us| scene.parts.shared.durability.lease.set(MonotonicUs(until_us));
        lease(0);
        let (mut connection, client) = scene.connect(false, PING.to_vec());
        serve(&mut connection).await;
        assert_eq!(read_until(client, b"\r\n"), b"+PONG\r\n");
        let (mut connection, client) = scene.connect(false, [GET, PING].concat());
        serve(&mut connection).await;
        assert_eq!(connection.output, b"$-1\r\n+PONG\r\n", "nothing is sent");
        lease(u64::MAX);
        serve(&mut connection).await;
        let mut client = client.join().expect("it has sent all");
        let mut read = |length: usize| {
            let mut bytes = vec![0; length];
            client.read_exact(&mut bytes).expect("a reply");
            client.write_all(PING).expect("it is read");
            bytes
        };
        assert_eq!(read(12), b"$-1\r\n+PONG\r\n");
        // A read that was sent holds up nothing.
        lease(0);
        serve(&mut connection).await;
        assert_eq!(read(7), b"+PONG\r\n");
    });
}
