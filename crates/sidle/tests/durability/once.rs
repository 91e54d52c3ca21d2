//! What runs exactly once: nodes die, are taken over and move their data, and clients repeat what they lost.

use super::support::{NodeOptions, TestCluster, eventually};
use super::{number, takeovers::cluster};
use sidle_client::{Client, Config};
use sidle_resp::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const WRITERS: usize = 4;
const COUNTERS: usize = 8;

/// What a writer was answered.
#[derive(Default)]
struct Answered {
    /// Of each counter, the sums.
    sums: Vec<Vec<i64>>,
    /// The items that it has pushed to its list.
    items: Vec<String>,
}

async fn write(addresses: &[String], writer: usize, is_over: &AtomicBool, done: &AtomicU64) -> Answered {
    let seeds = addresses.iter().map(|address| address.parse().expect("an address")).collect();
    // Much shorter than an outage.
    let config = Config { operation_timeout_us: 300_000, ..Config::new(seeds) };
    let client = Client::connect_with(config).await.expect("the cluster is up");
    let mut answered = Answered { sums: vec![Vec::new(); COUNTERS], ..Answered::default() };
    let list = format!("list:{writer}");
    for turn in 0.. {
        if is_over.load(Ordering::Acquire) {
            return answered;
        }
        let (counter, item) = (turn % COUNTERS, format!("{writer}.{turn}"));
        let key = format!("counter:{counter}");
        match client.exec_once(&[b"INCR", key.as_bytes()]).await {
            Ok(Value::Integer(sum)) => answered.sums[counter].push(sum),
            other => panic!("writer {writer}: {other:?}"),
        }
        let pushed = client.exec_once(&[b"RPUSH", list.as_bytes(), item.as_bytes()]).await;
        answered.items.push(item);
        assert_eq!(pushed, Ok(Value::Integer(answered.items.len() as i64)), "writer {writer}");
        done.fetch_add(1, Ordering::Release);
    }
    unreachable!("it is stopped")
}

/// Waits until so much more was done by all writers together.
fn await_writes(done: &AtomicU64) {
    let before = done.load(Ordering::Acquire);
    eventually("they write", || (done.load(Ordering::Acquire) > before + 200).then_some(()));
}

fn disturb(cluster: &mut TestCluster, done: &AtomicU64) {
    await_writes(done);
    cluster.nodes[1].kill();
    cluster.nodes[1].restart();
    await_writes(done);
    let id = cluster.start_migration("0-8191", 2);
    await_writes(done);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    // The coordinator is spared: nobody else takes over what it has.
    for dead in [2, 1] {
        cluster.nodes[dead].kill();
        // Longer than each operation, until others have it.
        await_writes(done);
        std::thread::sleep(Duration::from_millis(500));
        cluster.nodes[dead].restart();
        await_writes(done);
    }
}

#[test]
fn what_is_to_run_once_runs_once_though_nodes_die_and_data_moves() {
    let mut cluster = cluster(3, &NodeOptions::default().flag("--takeover-after", "2s"));
    let addresses: Vec<String> = cluster.nodes.iter().map(|node| node.address()).collect();
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let answered: Vec<Answered> = std::thread::scope(|scope| {
        let spawn = |writer| {
            let (addresses, is_over, done) = (&addresses, &is_over, &done);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime can be made").block_on(write(addresses, writer, is_over, done))
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(spawn).collect();
        disturb(&mut cluster, &done);
        is_over.store(true, Ordering::Release);
        writers.into_iter().map(|writer| writer.join().expect("no writer panicked")).collect()
    });
    let mut client = cluster.client(0);
    for counter in 0..COUNTERS {
        let mut sums: Vec<i64> = answered.iter().flat_map(|of| of.sums[counter].iter().copied()).collect();
        sums.sort_unstable();
        let each_once: Vec<i64> = (1..=sums.len() as i64).collect();
        assert_eq!(sums, each_once, "counter {counter}");
        let last = client.request_anywhere(&["GET", &format!("counter:{counter}")]);
        assert_eq!(last.as_bytes(), Some(sums.len().to_string().as_bytes()));
    }
    for (writer, of) in answered.iter().enumerate() {
        let list = client.request_anywhere(&["LRANGE", &format!("list:{writer}"), "0", "-1"]);
        let Value::Array(items) = list else { panic!("{list:?}") };
        let items: Vec<_> = items.iter().filter_map(|item| item.as_bytes()).collect();
        assert_eq!(items, of.items.iter().map(|item| item.as_bytes()).collect::<Vec<_>>());
    }
    let keys: i64 = (0..3).map(|node| number(&mut cluster.client(node), &["DBSIZE"])).sum();
    assert_eq!(keys as usize, COUNTERS + WRITERS);
}
