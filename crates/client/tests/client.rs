//! The client against small servers on loopback.

// A failed unwrap fails the test, and tests find free ports themselves.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use sidle_client::{
    Call, Client, Condition, Config, Effect, Error, Expiry, Reason, SetOptions, SetOutcome, Value,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Do, Server, Store, moving, publish, shared_out};

fn answer(text: &str) -> Do {
    Do::Answer(text.as_bytes().to_vec())
}

/// A client with short time limits, of one server that owns everything.
async fn impatient(server: &Server) -> Client {
    publish(&shared_out(1, &[server]), &[server]);
    let mut config = Config::new(vec![server.address.clone()]);
    config.operation_timeout_us = 100_000;
    Client::connect_with(config).await.unwrap()
}

#[tokio::test]
async fn commands_reach_the_owners_of_their_keys() {
    let (a, b) = (Server::storing().await, Server::storing().await);
    publish(&shared_out(1, &[&a, &b]), &[&a, &b]);
    let client = Client::connect(&[a.address.to_string()]).await.unwrap();

    let pairs: Vec<(String, String)> = (0..100).map(|i| (format!("k{i}"), format!("v{i}"))).collect();
    client.mset(&pairs).await.unwrap();
    let keys: Vec<&str> = pairs.iter().map(|(key, _)| key.as_str()).chain(["absent"]).collect();
    let values = client.mget(&keys).await.unwrap();
    assert!(
        values[..100].iter().zip(&pairs).all(|(got, (_, value))| got.as_deref() == Some(value.as_bytes()))
    );
    assert_eq!(values[100], None);
    assert!(a.reads.load(Ordering::Relaxed) > 1 && b.reads.load(Ordering::Relaxed) > 1);

    assert_eq!(client.get("k1").await.unwrap().as_deref(), Some(&b"v1"[..]));
    assert!(client.del("k1").await.unwrap());
    assert!(!client.del("k1").await.unwrap());
    assert_eq!(client.incr("n").await.unwrap(), 1);
    assert_eq!(client.incr_by("n", -5).await.unwrap(), -4);
    assert_eq!(client.exec(&[b"PING"]).await.unwrap(), Value::Simple("PONG".into()));
    let error = client.incr("k2").await.unwrap_err();
    assert_eq!(error, Error::Server("ERR value is not an integer or out of range".into()));
    assert_eq!(error.effect(), Effect::None);
}

#[tokio::test]
async fn set_options() {
    let server = Server::storing().await;
    let client = impatient(&server).await;
    let set = |value: &'static str, options| client.set_with("k", value, options);
    let outcome =
        |was_set, previous: Option<&str>| SetOutcome { was_set, previous: previous.map(Into::into) };
    let xx = Some(Condition::IfPresent);
    let nx = Some(Condition::IfAbsent);
    let plain = SetOptions::default();
    assert_eq!(set("1", SetOptions { condition: xx, ..plain }).await.unwrap(), outcome(false, None));
    assert_eq!(set("2", SetOptions { condition: nx, ..plain }).await.unwrap(), outcome(true, None));
    assert_eq!(set("3", SetOptions { condition: nx, ..plain }).await.unwrap(), outcome(false, None));
    let get = SetOptions { get_previous: true, ..plain };
    assert_eq!(set("4", SetOptions { condition: nx, ..get }).await.unwrap(), outcome(false, Some("2")));
    let expiry = Some(Expiry::Milliseconds(50));
    assert_eq!(
        set("5", SetOptions { condition: xx, expiry, ..get }).await.unwrap(),
        outcome(true, Some("2"))
    );
    assert_eq!(
        set("6", SetOptions { expiry: Some(Expiry::Keep), ..get }).await.unwrap(),
        outcome(true, Some("5"))
    );
}

#[tokio::test]
async fn operations_started_together_are_sent_together() {
    const OPERATIONS: usize = 2000;
    let server = Server::storing().await;
    let client = impatient(&server).await;
    let before = server.reads.load(Ordering::Relaxed);
    let keys: Vec<String> = (0..OPERATIONS).map(|i| format!("key{i}")).collect();
    let calls: Vec<Call> = keys.iter().map(|key| client.start(&[b"SET", key.as_bytes(), b"v"])).collect();
    for call in calls {
        call.await.unwrap();
    }
    let reads = server.reads.load(Ordering::Relaxed) - before;
    assert!(reads <= OPERATIONS / 50, "{OPERATIONS} requests took {reads} reads");
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_share_connections_across_threads() {
    let server = Server::storing().await;
    let client = impatient(&server).await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    client.incr("n").await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(client.incr("n").await.unwrap(), 1001);
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn values_larger_than_any_buffer() {
    let server = Server::storing().await;
    let client = impatient(&server).await;
    let large = vec![b'x'; 5_000_000];
    client.set("large", &large).await.unwrap();
    let small = client.start(&[b"SET", b"small", b"1"]);
    assert!(client.get("large").await.unwrap() == Some(large));
    small.await.unwrap();
}

#[tokio::test]
async fn no_answer_in_time_leaves_writes_unknown() {
    let server = Server::start(|_| Do::Hang).await;
    let client = impatient(&server).await;
    let (write, read) = (client.start(&[b"SET", b"k", b"v"]), client.start(&[b"GET", b"k"]));
    let error = write.await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(matches!(error, Error::NoAnswer(failure) if failure.reason == Reason::TimedOut));
    assert_eq!(read.await.unwrap_err().effect(), Effect::None);
}

#[tokio::test]
async fn a_cut_connection_leaves_writes_unknown_and_retries_reads() {
    let mut store = Store::default();
    let mut cuts = 2;
    let server = Server::start(move |args| {
        let is_cut = cuts > 0 && args[0] != b"PING";
        cuts -= i32::from(is_cut);
        if is_cut { Do::Close } else { store.run(args) }
    })
    .await;
    let client = impatient(&server).await;
    let error = client.set("k", "v").await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer(failure) if failure.reason == Reason::ConnectionLost));
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(client.get("k").await.unwrap(), None, "cut once more, then read over a new connection");
    client.set("k", "v").await.unwrap();
    assert!(server.connections.load(Ordering::Relaxed) >= 3);
}

/// The words of a request that runs once, and what it asks for.
fn once<'w>(args: &[&'w [u8]]) -> ([&'w [u8]; 4], Vec<&'w [u8]>) {
    assert_eq!(args[0], b"SIDLE.ONCE");
    ([args[1], args[2], args[3], args[4]], args[5..].to_vec())
}

#[tokio::test]
async fn a_command_that_runs_once_is_sent_again_in_the_same_words_until_it_is_answered() {
    let asked: Arc<Mutex<Vec<Vec<Vec<u8>>>>> = Arc::default();
    let mut left = vec![Do::Hang, answer("-TRYAGAIN later\r\n"), Do::Close];
    let server = {
        let asked = Arc::clone(&asked);
        Server::start(move |args| {
            asked.lock().unwrap().push(args.iter().map(|word| word.to_vec()).collect());
            left.pop().unwrap_or_else(|| answer(":1\r\n"))
        })
        .await
    };
    let client = impatient(&server).await;
    assert_eq!(client.exec_once(&[b"INCR", b"k"]).await.unwrap(), Value::Integer(1));
    let first = std::mem::take(&mut *asked.lock().unwrap());
    assert_eq!(first.len(), 4);
    assert!(first.iter().all(|words| *words == first[0]), "{first:?}");
    // The next one reports that the first has its reply.
    client.exec_once(&[b"INCR", b"k"]).await.unwrap();
    let second = asked.lock().unwrap()[0].clone();
    let [first, second] = [&first[0], &second].map(|words| words.iter().map(|word| &word[..]).collect());
    let (first, second): (Vec<&[u8]>, Vec<&[u8]>) = (first, second);
    let ([key, number, lowest, _], command) = once(&first);
    assert_eq!((number, lowest, command), (&b"1"[..], &b"1"[..], vec![&b"INCR"[..], b"k"]));
    let ([same_key, number, lowest, _], _) = once(&second);
    assert_eq!((same_key, number, lowest), (key, &b"2"[..], &b"2"[..]));
}

#[tokio::test]
async fn a_command_that_runs_once_is_given_up_with_its_effect() {
    let server = Server::start(|_| Do::Close).await;
    let client = impatient(&server).await;
    let patience = Duration::from_millis(300);
    let error = client.exec_once_within(patience, &[b"INCR", b"k"]).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Server::start(move |args| {
        count.fetch_add(usize::from(args[0] == b"SIDLE.ONCE"), Ordering::Relaxed);
        answer("-SIDLELATE issued long ago\r\n")
    })
    .await;
    let error = impatient(&server).await.exec_once_within(patience, &[b"INCR", b"k"]).await.unwrap_err();
    assert_eq!(
        (&error, error.effect()),
        (&Error::Server("SIDLELATE issued long ago".into()), Effect::Unknown)
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1, "it would be refused for ever");
    let server = Server::start(|_| answer("-SIDLEUNKNOWN it did not answer\r\n")).await;
    let error = impatient(&server).await.exec_once_within(patience, &[b"INCR", b"k"]).await.unwrap_err();
    assert!(
        matches!(error, Error::NoAnswer(_)) && error.effect() == Effect::Unknown,
        "it was sent again: {error:?}"
    );
    let error = impatient(&server).await.incr("k").await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let server = Server::start(|_| answer("-WRONGTYPE no number\r\n")).await;
    let client = impatient(&server).await;
    let error = client.exec_once(&[b"INCR", b"k"]).await.unwrap_err();
    assert_eq!((&error, error.effect()), (&Error::Server("WRONGTYPE no number".into()), Effect::None));
    assert!(client.exec_once(&[b"PING"]).await.is_err());
}

#[tokio::test]
async fn double_reads_take_the_source_s_value_only_when_the_target_has_none() {
    let source = Server::start(|args| match args {
        [b"SIDLE.FROZEN", b"7", b"GET", b"cold" | b"warm"] => answer("$3\r\nold\r\n"),
        _ => answer("-ERR frozen\r\n"),
    })
    .await;
    let target = Server::start(|args| match args {
        [b"GET", b"cold"] => answer("+EMPTY\r\n"),
        [b"GET", b"warm"] => answer("$3\r\nnew\r\n"),
        [b"SET", ..] => answer("+OK\r\n"),
        _ => answer("-ERR what\r\n"),
    })
    .await;
    publish(&moving(3, [&source, &target]), &[&source, &target]);
    let client = Client::connect(&[source.address.to_string()]).await.unwrap();
    assert_eq!(client.get("cold").await.unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(client.get("warm").await.unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(client.get("warm").await.unwrap().as_deref(), Some(&b"new"[..]));
    client.set("cold", "1").await.unwrap();
    let counters = client.counters();
    assert_eq!((counters.double_reads, counters.single_target_reads), (2, 1));
}

#[tokio::test]
async fn moved_is_followed_and_the_map_follows() {
    let there = Server::storing().await;
    let address = there.address.clone();
    let here = Server::start(move |_| answer(&format!("-MOVED 1 {address}\r\n"))).await;
    publish(&shared_out(1, &[&here]), &[&here]);
    let client = Client::connect(&[here.address.to_string()]).await.unwrap();
    publish(&shared_out(2, &[&there]), &[&here, &there]);
    client.set("k", "v").await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(client.map_epoch().unwrap().0, 2);
    client.set("k", "w").await.unwrap();
    assert_eq!(client.counters().redirects, 1);
}

#[tokio::test]
async fn the_next_seed_is_used_when_one_is_gone() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let server = Server::storing().await;
    publish(&shared_out(1, &[&server]), &[&server]);
    let client = Client::connect(&[gone, server.address.to_string()]).await.unwrap();
    client.set("k", "v").await.unwrap();
}

#[tokio::test]
async fn connect_reports_the_reason() {
    assert!(matches!(Client::connect(&["nowhere"]).await, Err(Error::Address(_))));
    let server = Server::storing().await;
    let mut config = Config::new(vec![server.address.clone()]);
    config.operation_timeout_us = 200_000;
    let error = Client::connect_with(config).await.unwrap_err();
    let Error::Unreachable { why } = error else { panic!("{error}") };
    assert!(why.contains("unknown command 'SIDLE.MAP'"), "{why}");
}

#[tokio::test]
async fn too_many_operations_are_refused() {
    let server = Server::start(|_| Do::Hang).await;
    publish(&shared_out(1, &[&server]), &[&server]);
    let mut config = Config::new(vec![server.address.clone()]);
    config.max_outstanding = 3;
    let client = Client::connect_with(config).await.unwrap();
    let calls: Vec<Call> = (0..3).map(|_| client.start(&[b"GET", b"k"])).collect();
    assert_eq!(client.get("k").await, Err(Error::Busy));
    drop(calls);
}

/// A client with several open connections to one server that owns everything.
async fn pooled(server: &Server, connections_per_node: usize) -> Client {
    publish(&shared_out(1, &[server]), &[server]);
    let config = Config { connections_per_node, ..Config::new(vec![server.address.clone()]) };
    let client = Client::connect_with(config).await.unwrap();
    while server.connections.load(Ordering::Relaxed) < connections_per_node {
        client.set("k", "v").await.unwrap();
    }
    // Server and client take turns on one thread: this is long enough for the last greeting.
    for _ in 0..50 {
        client.set("k", "v").await.unwrap();
    }
    client
}

#[tokio::test]
async fn a_slow_command_blocks_one_connection_of_several() {
    let mut store = Store::default();
    let server = Server::start(move |args| if args[1] == b"slow" { Do::Hang } else { store.run(args) }).await;
    let client = pooled(&server, 3).await;
    let slow = client.start(&[b"GET", b"slow"]);
    for number in 0..50 {
        let key = format!("k{number}");
        client.set(&key, "v").await.unwrap();
        assert_eq!(client.get(&key).await.unwrap().as_deref(), Some(&b"v"[..]));
    }
    drop(slow);
    assert_eq!(server.connections.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_connection_that_closes_leaves_the_others_alone() {
    let mut store = Store::default();
    let server =
        Server::start(move |args| if args[1] == b"fatal" { Do::Close } else { store.run(args) }).await;
    let client = pooled(&server, 2).await;
    let fatal = client.start(&[b"SET", b"fatal", b"v"]);
    client.set("k", "v").await.unwrap();
    let Err(Error::NoAnswer(failure)) = fatal.await else { panic!("it gets no answer") };
    assert_eq!((failure.reason, failure.effect), (Reason::ConnectionLost, Effect::Unknown));
    // A new one is opened when two are needed again.
    while server.connections.load(Ordering::Relaxed) < 3 {
        client.mset(&[("a", "v"), ("b", "v")]).await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_call_is_still_sent() {
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    let server = Server::start(move |_| {
        *count.lock().unwrap() += 1;
        answer("+OK\r\n")
    })
    .await;
    let client = impatient(&server).await;
    for _ in 0..10 {
        drop(client.start(&[b"SET", b"k", b"v"]));
    }
    client.set("k", "v").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), 11);
}

#[test]
fn a_client_outlives_its_runtime_without_hanging() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let server = Server::start(|_| Do::Hang).await;
        publish(&shared_out(1, &[&server]), &[&server]);
        Client::connect(&[server.address.to_string()]).await.unwrap()
    });
    let call = client.start(&[b"SET", b"k", b"v"]);
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(other.block_on(call), Err(Error::Closed));
    assert_eq!(other.block_on(client.get("k")), Err(Error::Closed));
}
