//! The accounts, those who transfer money between them, and those who sum it up.

use crate::support::{PATIENCE, StopWhenDropped, TestCluster};
use sidle_client::{
    Client, Committed, Config, Conflict, Effect, TransactPolicy, Transaction, TransactionError, Value,
};
use sidle_types::Slot;
use sidle_workload::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Accounts in slots of their own, and as many in a slot that may be split.
const ACCOUNTS: u64 = 16;
/// What each has at first.
const MONEY: i64 = 1_000;
/// Clients that transfer.
const WRITERS: u64 = 4;
/// The last slot of the lower half.
const HALF: u16 = 8191;

/// What a client may meet.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Weather {
    /// Every transaction commits in the end.
    Fair,
    /// Nodes die: a transaction may fail, or its end may not be known.
    Foul,
}

/// What all clients share.
pub(crate) struct Bank {
    accounts: Vec<String>,
    tag: String,
    weather: Weather,
    is_over: AtomicBool,
    /// Transfers and sums that were committed.
    pub(crate) transfers: AtomicU64,
    pub(crate) sums: AtomicU64,
    pub(crate) counts: Counts,
}

/// What was in the way.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    changed: AtomicU64,
    locked: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

impl Counts {
    fn note(&self, transaction: &Transaction) {
        match transaction.conflict_before() {
            Some(Conflict::Changed) => self.changed.fetch_add(1, Relaxed),
            Some(Conflict::Locked) => self.locked.fetch_add(1, Relaxed),
            Some(Conflict::Moved) => self.moved.fetch_add(1, Relaxed),
            Some(Conflict::Late) => self.late.fetch_add(1, Relaxed),
            None => 0,
        };
    }
}

/// How many transfers of a client were committed, as it knows itself.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    committed: i64,
    /// So many more may have been.
    perhaps: i64,
}

/// What is kept of a client.
fn counter(client: u64) -> String {
    format!("committed:{client}")
}

fn policy() -> TransactPolicy {
    TransactPolicy { patience: PATIENCE, ..TransactPolicy::default() }
}

fn number(value: Option<&Vec<u8>>) -> i64 {
    let text = value.map(|bytes| std::str::from_utf8(bytes).expect("it was written as text"));
    text.map_or(0, |text| text.parse().expect("it was written as a number"))
}

impl Bank {
    /// With all accounts filled.
    pub(crate) fn open(cluster: &TestCluster, weather: Weather) -> Bank {
        let tags = (0..).map(|number| format!("{{t{number}}}"));
        let mut upper = tags.filter(|tag| Slot::of_key(tag.as_bytes()).number() > HALF);
        let tag = upper.next().expect("half of all tags");
        let spread = (0..ACCOUNTS).map(|number| format!("account:{number}"));
        let tagged = (0..ACCOUNTS).map(|number| format!("{tag}account:{number}"));
        let accounts: Vec<String> = spread.chain(tagged).collect();
        let mut client = cluster.client(0);
        for account in &accounts {
            let filled = client.request_anywhere(&["SET", account, &MONEY.to_string()]);
            assert_eq!(filled, Value::Simple("OK".into()));
        }
        Bank {
            accounts,
            tag,
            weather,
            is_over: AtomicBool::new(false),
            transfers: AtomicU64::new(0),
            sums: AtomicU64::new(0),
            counts: Counts::default(),
        }
    }

    /// The tag of the slot that half of the accounts are in.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// What all accounts have together.
    fn total(&self) -> i64 {
        self.accounts.len() as i64 * MONEY
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Has clients at work while something is done to the cluster; then all must be right.
    pub(crate) fn run<T>(&self, cluster: &TestCluster, meanwhile: impl FnOnce(&TestCluster) -> T) -> T {
        let addresses: Vec<String> = cluster.nodes.iter().map(|node| node.address()).collect();
        self.run_at(&addresses, || meanwhile(cluster))
    }

    /// The same with the nodes' addresses.
    pub(crate) fn run_at<T>(&self, addresses: &[String], meanwhile: impl FnOnce() -> T) -> T {
        let (result, own) = std::thread::scope(|scope| {
            let guard = StopWhenDropped(&self.is_over);
            let writers: Vec<_> = (0..WRITERS)
                .map(|client| scope.spawn(move || on_runtime(self.transfer_on(addresses, client))))
                .collect();
            let reader = scope.spawn(move || on_runtime(self.sum_on(addresses)));
            let result = meanwhile();
            assert!(writers.iter().all(|writer| !writer.is_finished()), "a client ended early");
            assert!(!reader.is_finished(), "the reader ended early");
            drop(guard);
            reader.join().expect("the reader did not panic");
            let own: Vec<Own> =
                writers.into_iter().map(|writer| writer.join().expect("no writer panicked")).collect();
            (result, own)
        });
        on_runtime(self.check(addresses, &own));
        result
    }

    /// Waits until so many more transfers were committed, and a sum.
    pub(crate) fn await_more(&self, transfers: u64) {
        let (before, began) = (self.transfers.load(Relaxed), Instant::now());
        let sums = self.sums.load(Relaxed);
        while self.transfers.load(Relaxed) < before + transfers || self.sums.load(Relaxed) == sums {
            assert!(!self.is_over(), "a client has ended");
            assert!(began.elapsed() < 2 * PATIENCE, "too little happens: {:?}", self.counts);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    async fn client(&self, addresses: &[String]) -> Client {
        let seeds = addresses.iter().map(|address| address.parse().expect("an address")).collect();
        Client::connect_with(Config::new(seeds)).await.expect("the cluster is up")
    }

    /// Transfers until it is over.
    async fn transfer_on(&self, addresses: &[String], number: u64) -> Own {
        let _stop = StopOnPanic(&self.is_over);
        let client = self.client(addresses).await;
        let (mut random, mut own) = (Random::new(7, number), Own::default());
        while !self.is_over() {
            match self.transfer(&client, &mut random, number).await {
                Ok(count) => {
                    let may_be = own.committed + 1..=own.committed + 1 + own.perhaps;
                    assert!(may_be.contains(&count), "client {number}: {own:?}, and then {count}");
                    own = Own { committed: count, perhaps: 0 };
                    self.transfers.fetch_add(1, Relaxed);
                }
                Err(error) => own.perhaps += self.note(&error),
            }
        }
        own
    }

    /// An error that a client met; how many transactions it may have had committed.
    fn note(&self, error: &TransactionError) -> i64 {
        assert!(self.weather == Weather::Foul, "nothing was wrong, but: {error}");
        let is_unknown = error.effect() != Effect::None;
        let count = if is_unknown { &self.counts.unknown } else { &self.counts.failed };
        count.fetch_add(1, Relaxed);
        i64::from(is_unknown)
    }

    /// One transfer; how many this client has had committed.
    pub(crate) async fn transfer(
        &self,
        client: &Client,
        random: &mut Random,
        number_of_client: u64,
    ) -> Result<i64, TransactionError> {
        let count = self.accounts.len() as u64;
        let from = random.below(count);
        let to = (from + 1 + random.below(count - 1)) % count;
        let [from, to] = [from, to].map(|place| self.accounts[place as usize].as_str());
        let (amount, counter) = (1 + random.below(100) as i64, counter(number_of_client));
        let transferred = client.transact(policy(), async |transaction| {
            self.counts.note(transaction);
            let values = transaction.get_all(&[from, to]).await?;
            let [has, other] = [0, 1].map(|place| number(values[place].as_ref()));
            let amount = amount.min(has);
            transaction.set(from, (has - amount).to_string());
            transaction.set(to, (other + amount).to_string());
            transaction.queue(&[b"INCR", counter.as_bytes()])?;
            Ok(())
        });
        let ((), Committed { replies }) = transferred.await?;
        match replies[..] {
            [Value::Simple(_), Value::Simple(_), Value::Integer(count)] => Ok(count),
            _ => panic!("unexpected replies: {replies:?}"),
        }
    }

    async fn sum_on(&self, addresses: &[String]) {
        let _stop = StopOnPanic(&self.is_over);
        let client = self.client(addresses).await;
        for turn in 0u64.. {
            if self.is_over() {
                return;
            }
            let sum = if turn % 2 == 0 { self.sum(&client).await } else { self.sum_at_commit(&client).await };
            match sum {
                Ok(sum) => {
                    assert_eq!(sum, self.total(), "money was made, or lost");
                    self.sums.fetch_add(1, Relaxed);
                }
                Err(error) => _ = self.note(&error),
            }
        }
    }

    /// What all accounts have together, in one moment.
    async fn sum(&self, client: &Client) -> Result<i64, TransactionError> {
        let summed = client.transact(policy(), async |transaction| {
            self.counts.note(transaction);
            let values = transaction.get_all(&self.accounts).await?;
            Ok(values.iter().map(|value| number(value.as_ref())).sum())
        });
        summed.await.map(|(sum, _)| sum)
    }

    /// The same, read when it commits: no change comes between, but all accounts must be free at one time.
    async fn sum_at_commit(&self, client: &Client) -> Result<i64, TransactionError> {
        let summed = client.transact(policy(), async |transaction| {
            self.counts.note(transaction);
            self.accounts.iter().try_for_each(|account| transaction.queue(&[b"GET", account.as_bytes()]))?;
            Ok(())
        });
        let ((), Committed { replies }) = summed.await?;
        Ok(replies.iter().map(|reply| number(reply.as_bytes().map(<[u8]>::to_vec).as_ref())).sum())
    }

    /// Nobody is at work: what was committed is there, and nothing is locked.
    async fn check(&self, addresses: &[String], own: &[Own]) {
        let client = self.client(addresses).await;
        assert_eq!(self.sum(&client).await, Ok(self.total()), "the sum at the end");
        self.await_free(&client).await;
        for (number_of_client, own) in own.iter().enumerate() {
            let count = client.get(counter(number_of_client as u64)).await.expect("it is read");
            let count = number(count.as_ref());
            let may_be = own.committed..=own.committed + own.perhaps;
            assert!(may_be.contains(&count), "client {number_of_client}: {own:?}, but {count}");
        }
    }

    /// Every account can be written, and has then what it had: nothing has stayed locked.
    pub(crate) async fn await_free(&self, client: &Client) {
        let began = Instant::now();
        for account in &self.accounts {
            let written = client.exec(&[b"INCRBY", account.as_bytes(), b"0"]).await;
            assert!(
                matches!(written, Ok(Value::Integer(_))),
                "{account} after {:?}: {written:?}",
                began.elapsed()
            );
        }
    }
}

/// Ends the run of all when one panics.
struct StopOnPanic<'s>(&'s AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs this on a runtime of its own.
pub(crate) fn on_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(future)
}
