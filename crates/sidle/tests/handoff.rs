//! A hand-off between real processes: what clients access often is given first, on the source's hints, and
//! the target's digest spares Sidle's client the trips to the source.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests run processes and read clocks

mod support;

use sidle_client::{Client as Library, Config, Counters};
use sidle_resp::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use support::{Node, StopWhenDropped, TestCluster, bulk, eventually};

/// Keys, of which the first few are hot.
const KEYS: usize = 20_000;
const HOT: usize = 20;
const VALUE_BYTES: usize = 1_000;
/// Reads of hot keys before the move. Heat is counted in windows of a second.
const HEATING: Duration = Duration::from_millis(2_500);
/// Reads of hot keys once all of them are given.
const READS: u64 = 5_000;

fn key(number: usize) -> String {
    format!("key:{number}")
}

fn value() -> String {
    "v".repeat(VALUE_BYTES)
}

fn fill(cluster: &TestCluster) {
    let mut client = cluster.client(0);
    let set = |number| vec!["SET".to_owned(), key(number), value()];
    for first in (0..KEYS).step_by(500) {
        client.pipeline(&(first..first + 500).map(set).collect::<Vec<_>>());
    }
}

/// One figure of INFO.
fn figure(node: &Node, name: &str) -> u64 {
    let reply = node.client().request(&["INFO", "everything"]);
    let text = String::from_utf8_lossy(reply.as_bytes().expect("INFO is a text")).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("INFO has no {name}")).trim().parse().expect("a number")
}

/// What the reader is to do.
#[derive(Debug, Default)]
struct Wanted {
    /// It asks for nothing, so that no key is given because it waits for it.
    rest: AtomicBool,
    stop: AtomicBool,
}

/// Reads the hot keys, one after the other, until it is stopped.
fn read_hot_keys(address: &str, wanted: &Wanted, reads: &AtomicU64, counters: &Mutex<Counters>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let config = Config::new(vec![address.parse().expect("an address")]);
        let client = Library::connect_with(config).await.expect("the cluster is up");
        let expected = value();
        for number in (0..HOT).cycle() {
            while wanted.rest.load(Relaxed) && !wanted.stop.load(Relaxed) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let read = client.get(key(number).as_bytes()).await.expect("it is answered");
            assert_eq!(read.as_deref(), Some(expected.as_bytes()), "{}", key(number));
            reads.fetch_add(1, Relaxed);
            *counters.lock().expect("nobody panics with it") = client.counters();
            if wanted.stop.load(Relaxed) {
                return;
            }
        }
    });
}

/// Starts a move of everything that is copied so slowly that it does not end by itself in time.
fn start_slowly(cluster: &TestCluster) -> u64 {
    let to = cluster.nodes[1].address();
    let line = ["migrate", "--to", &to, "--slots", "0-16383", "--protocol", "handoff", "--rate", "0.5"];
    let output = cluster.nodes[0].run(&[&line[..], &["--detach", "--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    let begun: serde_json::Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    begun["id"].as_u64().expect("the id is a number")
}

/// Whether the source has given a key: a plain client is sent to the target.
fn is_given(source: &mut support::Client, number: usize) -> bool {
    match source.request(&["GET", &key(number)]) {
        Value::Error(text) => {
            assert!(text.starts_with("MOVED "), "{text}");
            true
        }
        found => {
            assert_eq!(found, bulk(&value()), "{}", key(number));
            false
        }
    }
}

/// Trips to the source that a client made in vain.
fn in_vain(counters: &Counters) -> u64 {
    counters.given + counters.redirects
}

#[test]
fn hot_keys_go_first_and_the_digest_spares_trips_to_the_source() {
    let cluster = TestCluster::start(2);
    fill(&cluster);
    let (wanted, reads) = (Wanted::default(), AtomicU64::new(0));
    let counters = Mutex::new(Counters::default());
    let address = cluster.nodes[0].address();
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(&wanted.stop);
        let reader = scope.spawn(|| read_hot_keys(&address, &wanted, &reads, &counters));
        std::thread::sleep(HEATING);
        wanted.rest.store(true, Relaxed);
        let id = start_slowly(&cluster);
        let mut source = cluster.client(0);
        eventually("all hot keys are given", || (0..HOT).all(|n| is_given(&mut source, n)).then_some(()));
        let cold = (HOT..KEYS).step_by(50);
        let (all, kept) =
            (cold.clone().count(), cold.filter(|&number| !is_given(&mut source, number)).count());
        assert!(kept > all / 2, "the source keeps {kept} of {all} others");
        assert_eq!(cluster.migration(id).expect("it is known")["state"], "running");

        eventually("keys are taken on the source's hints", || {
            (figure(&cluster.nodes[1], "migration_hinted") >= HOT as u64 / 2).then_some(())
        });
        wanted.rest.store(false, Relaxed);
        eventually("the client is told what cuts gave", || {
            let told = counters.lock().expect("nobody panics with it").given_pushes;
            assert!(!reader.is_finished(), "the reader goes on");
            (told > 0).then_some(())
        });
        assert!(figure(&cluster.nodes[1], "migration_digest_bytes") > 0);

        let begun = reads.load(Relaxed);
        eventually("many reads more", || {
            assert!(!reader.is_finished(), "the reader goes on");
            (reads.load(Relaxed) >= begun + READS).then_some(())
        });
        let made = in_vain(&counters.lock().expect("nobody panics with it"));
        assert!(made <= 2 * HOT as u64, "{made} of {} reads went to the source in vain", begun + READS);

        let id_text = id.to_string();
        let set = cluster.nodes[0].run(&["migrate", "set", &id_text, "--adaptive"]);
        assert!(set.status.success(), "{set:?}");
        assert_eq!(cluster.wait_for_migration(id)["state"], "done");
        wanted.stop.store(true, Relaxed);
        reader.join().expect("every read was right");
    });
    let mut target = cluster.client(1);
    assert!((0..KEYS).step_by(100).all(|n| target.request(&["GET", &key(n)]) == bulk(&value())));
}
