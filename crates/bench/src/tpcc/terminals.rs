//! Terminals: each runs one transaction after the other, most often of its own warehouse.

use super::store::Store;
use super::{TpccOptions, Transactions};
use crate::demo::{DemoError, DemoOptions};
use crate::latencies::Latencies;
use crate::transactions::{Day, Tally, client, policy};
use sidle_client::{Client, TransactionError};
use sidle_tpcc::{Broken, Draws, Input, Kind, Next, Run, Write};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

/// What terminals have counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    pub(super) tally: Tally,
    /// By kind and part of the run: how long those took that were committed.
    pub(super) kinds: BTreeMap<Kind, [Latencies; 3]>,
    /// New orders that their terminal took back (clause 2.4.1.4).
    pub(super) rolled_back: u64,
}

impl Done {
    pub(super) fn add(&mut self, other: Done) {
        self.tally.add(other.tally);
        for (kind, parts) in other.kinds {
            let own = self.kinds.entry(kind).or_default();
            own.iter_mut().zip(&parts).for_each(|(own, part)| own.add(part));
        }
        self.rolled_back += other.rolled_back;
    }
}

/// The end of a transaction.
enum Ended {
    Committed,
    RolledBack,
}

/// Has the terminals of one thread work until the run is over.
pub(super) async fn work(store: Arc<Store>, options: &DemoOptions, thread: u32) -> Result<Done, DemoError> {
    let done = Rc::new(RefCell::new(Done::default()));
    let mut tasks = Vec::new();
    for number in (0..options.clients).filter(|client| client % options.threads == thread) {
        let client = client(store.day.node()).await?;
        for lane in 0..options.outstanding {
            let number = number * options.outstanding + lane;
            let draws = Draws::new(options.seed ^ (u64::from(number) + 1) << 32, true);
            let (store, done, client) = (Arc::clone(&store), Rc::clone(&done), client.clone());
            let terminal = Terminal { client, store, done, draws, number, made: 0 };
            tasks.push(tokio::task::spawn_local(terminal.work()));
        }
    }
    for task in tasks {
        task.await.expect("a terminal does not panic");
    }
    Ok(done.take())
}

/// How long a terminal of new orders rests after each, as Fulva's published code does.
const REST_NS: u64 = 100_000;

/// Lets other terminals work for so long: the runtime's timer knows milliseconds only.
async fn rest(day: &Day) {
    let until_ns = day.now_ns() + REST_NS;
    while day.now_ns() < until_ns {
        tokio::task::yield_now().await;
    }
}

struct Terminal {
    client: Client,
    store: Arc<Store>,
    done: Rc<RefCell<Done>>,
    draws: Draws,
    number: u32,
    made: u64,
}

impl Terminal {
    async fn work(mut self) {
        while !self.store.day.is_over() {
            let input = self.input();
            let kind = input.kind();
            let began_ns = self.store.day.now_ns();
            let ended = self.run(&input).await;
            self.note(kind, ended, began_ns);
            if self.store.options.transactions == Transactions::NewOrder {
                rest(&self.store.day).await;
            }
        }
    }

    /// Counts a transaction that has ended.
    fn note(&self, kind: Kind, ended: Result<Result<Ended, Broken>, TransactionError>, began_ns: u64) {
        let (now_ns, part) = (self.store.day.now_ns(), self.store.day.part());
        let mut done = self.done.borrow_mut();
        match ended {
            Ok(Ok(ended)) => {
                let latency_ns = now_ns - began_ns;
                done.tally.note_committed(part, self.number, latency_ns, now_ns);
                done.kinds.entry(kind).or_default()[part as usize].record(latency_ns);
                done.rolled_back += u64::from(matches!(ended, Ended::RolledBack));
                self.store.day.note_committed(now_ns);
            }
            Ok(Err(broken)) => done.tally.note_error(format!("{}: {broken}", kind.name())),
            Err(error) => done.tally.note_error(format!("{}: {error}", kind.name())),
        }
    }

    /// What the terminal asks for next.
    fn input(&mut self) -> Input {
        let TpccOptions { scale, transactions, .. } = self.store.options;
        self.made += 1;
        let kind = match transactions {
            Transactions::Standard => Kind::draw(&mut self.draws),
            Transactions::NewOrder => Kind::NewOrder,
        };
        let (w, number) = (self.number % scale.warehouses + 1, (u64::from(self.number), self.made));
        let at = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() as i64);
        Input::draw(&mut self.draws, scale, kind, w, number, at)
    }

    /// Runs a transaction until it is committed, or taken back. What it reads may not fit together, and then
    /// it is run again. Only where all of it held in one moment a missing row is an error.
    async fn run(&self, input: &Input) -> Result<Result<Ended, Broken>, TransactionError> {
        let keys = self.store.options.keys;
        let run = self.client.transact(policy(), async |transaction| {
            if let Some(conflict) = transaction.conflict_before() {
                let day = &self.store.day;
                self.done.borrow_mut().tally.note_conflict(day.part(), conflict, day.now_ns());
            }
            let (mut run, mut found) = (Run::begin(keys, input.clone()), Vec::new());
            loop {
                match run.next(&found) {
                    Ok(Next::Read(read)) => found = transaction.get_all(&read).await?,
                    Ok(Next::Commit(writes)) => {
                        for Write { key, value } in writes {
                            match value {
                                Some(value) => transaction.set(key, value),
                                None => transaction.del(key),
                            }
                        }
                        return Ok(Ok(Ended::Committed));
                    }
                    Ok(Next::RollBack) => return Ok(Ok(Ended::RolledBack)),
                    Err(broken) => return Ok(Err(broken)),
                }
            }
        });
        run.await.map(|(ended, _)| ended)
    }
}
