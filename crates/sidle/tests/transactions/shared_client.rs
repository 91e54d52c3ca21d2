//! Transactions at the same time over one client, with one connection to each node.

use crate::bank::{Bank, Weather, on_runtime};
use crate::support::TestCluster;
use sidle_client::{Client, Config};
use sidle_workload::Random;
use std::time::{Duration, Instant};

/// Who transfers at a time, and how often each.
const LANES: u64 = 16;
const TRANSFERS: u64 = 25;
/// Nodes help a transaction that has not gone on for so long.
const HELP: Duration = Duration::from_secs(1);

/// A decision does not wait behind a request that waits for it: the nodes need not help.
#[test]
fn a_decision_is_not_behind_what_waits_for_it() {
    let cluster = TestCluster::start(2);
    let id = cluster.start_migration("0-8191", 1);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    let bank = Bank::open(&cluster, Weather::Fair);
    let seeds = cluster.nodes.iter().map(|node| node.address().parse().expect("an address")).collect();
    let config = Config { connections_per_node: 1, ..Config::new(seeds) };
    let slow = on_runtime(async {
        let client = Client::connect_with(config).await.expect("the cluster is up");
        let lanes = (0..LANES).map(|lane| {
            let (bank, client) = (&bank, &client);
            async move {
                let (mut random, mut slow) = (Random::new(11, lane), 0);
                for _ in 0..TRANSFERS {
                    let began = Instant::now();
                    bank.transfer(client, &mut random, lane).await.expect("nothing is wrong");
                    slow += u64::from(began.elapsed() >= HELP);
                }
                slow
            }
        });
        futures_of(lanes).await.into_iter().sum::<u64>()
    });
    assert!(slow * 50 < LANES * TRANSFERS, "{slow} of {} transfers waited for help", LANES * TRANSFERS);
}

/// Runs all of them at the same time, on this task.
async fn futures_of<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, result) in running.iter_mut().filter(|(_, result)| result.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(cx) {
                *result = Some(value);
            }
        }
        match running.iter().all(|(_, result)| result.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    running.into_iter().map(|(_, result)| result.expect("all have ended")).collect()
}
