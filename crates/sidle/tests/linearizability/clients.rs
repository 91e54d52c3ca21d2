//! The clients: Sidle's own, aware or not, and plain connections that follow redirections.

use crate::recording::{Recorder, Run};
use crate::support::{Client as Connection, PATIENCE};
use sidle_client::{Awareness, Client, Config, Effect, Error};
use sidle_history::Operation;
use sidle_resp::Value;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Operations that each client of the library has under way.
const LANES: u64 = 3;

/// Connects a client of the library with this many connections to each node.
pub(crate) async fn connect(
    addresses: &[String],
    awareness: Awareness,
    connections_per_node: usize,
) -> Client {
    let seeds = addresses.iter().map(|address| address.parse().expect("an address")).collect();
    let operation_timeout_us = 10_000_000;
    let config = Config { awareness, operation_timeout_us, connections_per_node, ..Config::new(seeds) };
    Client::connect_with(config).await.expect("the cluster is up")
}

/// A request of the library and its answer.
///
/// # Panics
/// If the server answers an error.
pub(crate) async fn request(client: &Client, words: &[String]) -> Result<Value, Effect> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    match client.exec(&words).await {
        Err(Error::Server(text)) => panic!("{:?} was answered {text}", words[0]),
        answer => answer.map_err(|error| error.effect()),
    }
}

/// Runs the library's clients on a runtime of this thread until the run is over; returns all their
/// operations.
pub(crate) fn on_runtime(run: &Run, addresses: &[String], clients: &[Awareness]) -> Vec<Operation> {
    let runtime = runtime();
    runtime.block_on(async {
        let (mut lanes, mut handles) = (Vec::new(), Vec::new());
        for (number, &awareness) in clients.iter().enumerate() {
            let client = connect(addresses, awareness, 1 + number % 2).await;
            handles.push(client.clone());
            for lane in 0..LANES {
                lanes.push(Box::pin(one_lane(run, client.clone(), number as u64 * LANES + lane)));
            }
        }
        let history = all(lanes).await.into_iter().flatten().collect();
        for counters in handles.iter().map(Client::counters) {
            run.double_reads.fetch_add(counters.double_reads, Ordering::Relaxed);
            run.source_values.fetch_add(counters.source_values, Ordering::Relaxed);
        }
        history
    })
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made")
}

async fn one_lane(run: &Run, client: Client, number: u64) -> Vec<Operation> {
    let mut recorder = Recorder::new(run, number);
    while let Some(asked) = recorder.next() {
        let answer = request(&client, &asked.words).await;
        recorder.answered(asked, answer);
    }
    recorder.history
}

/// Awaits several futures at once, on this task.
async fn all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let std::task::Poll::Ready(value) = std::pin::Pin::new(future).poll(cx)
            {
                *output = Some(value);
            }
        }
        if outputs.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// A client that remembers only each key's last redirection, with one connection to each node.
pub(crate) struct Plain {
    first: String,
    connections: BTreeMap<String, Connection>,
    owners: BTreeMap<String, String>,
}

impl Plain {
    pub(crate) fn new(address: &str) -> Plain {
        Plain { first: address.to_owned(), connections: BTreeMap::new(), owners: BTreeMap::new() }
    }

    fn connection(&mut self, address: &str) -> &mut Connection {
        self.connections.entry(address.to_owned()).or_insert_with(|| Connection::connect(address))
    }

    /// Sends a request about the key that is its second word, and breaks the connection before the answer
    /// arrives.
    pub(crate) fn request_and_leave(&mut self, words: &[String]) -> Result<Value, Effect> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let at = self.owners.get(words[1]).unwrap_or(&self.first).clone();
        self.connection(&at).send(&words);
        self.connections.remove(&at);
        Err(Effect::Unknown)
    }

    /// A request about the key that is its second word, and its answer, from any node.
    ///
    /// # Panics
    /// If a node answers an error, or the redirections never end.
    pub(crate) fn request(&mut self, run: &Run, words: &[String]) -> Result<Value, Effect> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let key = words[1];
        let mut at = self.owners.get(key).unwrap_or(&self.first).clone();
        let mut is_asked = false;
        let deadline = Instant::now() + PATIENCE;
        for round in 0.. {
            assert!(Instant::now() < deadline, "{words:?} is redirected in circles");
            if round > 5 {
                // A new map is on its way, and two nodes redirect to each other.
                std::thread::sleep(Duration::from_micros(200));
            }
            let connection = self.connection(&at);
            if std::mem::take(&mut is_asked) {
                connection.send(&["ASKING"]);
                connection.send(&words);
                assert_eq!(connection.reply(), Value::Simple("OK".into()));
            } else {
                connection.send(&words);
            }
            let reply = connection.reply();
            let Value::Error(text) = &reply else { return Ok(reply) };
            let mut parts = text.split(' ');
            let (code, address) = (parts.next(), parts.nth(1).map(str::to_owned));
            match (code, address) {
                (Some("MOVED"), Some(address)) => {
                    run.moved.fetch_add(1, Ordering::Relaxed);
                    self.owners.insert(key.to_owned(), address.clone());
                    at = address;
                }
                (Some("ASK"), Some(address)) => {
                    run.asked.fetch_add(1, Ordering::Relaxed);
                    (at, is_asked) = (address, true);
                }
                _ => panic!("{words:?} was answered {text}"),
            }
        }
        unreachable!("the rounds have no end")
    }
}
