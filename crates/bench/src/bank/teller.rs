//! Clients that transfer money between two accounts, one transfer after the other.

use super::books::{Books, counter, number};
use crate::demo::{DemoError, DemoOptions};
use crate::transactions::{Tally, client, policy};
use sidle_client::{Client, TransactionError};
use sidle_workload::{Chooser, Random};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The most that one transfer moves.
const MOST: u64 = 100;

/// Has the clients of one thread transfer until the bank closes.
pub(crate) async fn work(books: Arc<Books>, options: &DemoOptions, thread: u32) -> Result<Tally, DemoError> {
    let clients: Vec<u32> =
        (0..options.clients).filter(|client| client % options.threads == thread).collect();
    let tally = Rc::new(RefCell::new(Tally::default()));
    let mut tasks = Vec::new();
    for number in clients {
        for lane in 0..options.outstanding {
            let lane = number * options.outstanding + lane;
            let random = Random::new(options.seed, u64::from(lane));
            let chooser = Chooser::new(options.distribution, books.accounts().len() as u64, options.seed);
            // What waits for a lock holds up its connection, and must not hold up whoever has the lock.
            let client = client(books.day.node()).await?;
            let (books, tally) = (Arc::clone(&books), Rc::clone(&tally));
            let teller = Teller { client, books, tally, random, chooser, number: lane };
            tasks.push(tokio::task::spawn_local(teller.work()));
        }
    }
    for task in tasks {
        task.await.expect("a teller does not panic");
    }
    Ok(tally.take())
}

/// One client, or one of several transfers that it has under way.
struct Teller {
    client: Client,
    books: Arc<Books>,
    tally: Rc<RefCell<Tally>>,
    random: Random,
    chooser: Chooser,
    number: u32,
}

impl Teller {
    async fn work(mut self) {
        while !self.books.day.is_over() {
            let began_ns = self.books.day.now_ns();
            let outcome = self.transfer().await;
            let (now_ns, part) = (self.books.day.now_ns(), self.books.day.part());
            let mut tally = self.tally.borrow_mut();
            match outcome {
                Ok(()) => {
                    tally.note_committed(part, self.number, now_ns - began_ns, now_ns);
                    self.books.day.note_committed(now_ns);
                }
                Err(error) => tally.note_error(error.to_string()),
            }
        }
    }

    async fn transfer(&mut self) -> Result<(), TransactionError> {
        let accounts = self.books.accounts();
        let from = self.chooser.next(&mut self.random);
        let others = accounts.len() as u64 - 1;
        let to = match self.chooser.next(&mut self.random) {
            to if to != from => to,
            _ => (from + 1 + self.random.below(others)) % (others + 1),
        };
        let [from, to] = [from, to].map(|place| accounts[place as usize].as_bytes());
        let (amount, counter) = (1 + self.random.below(MOST) as i64, counter(self.number));
        let transferred = self.client.transact(policy(), async |transaction| {
            if let Some(conflict) = transaction.conflict_before() {
                let day = &self.books.day;
                self.tally.borrow_mut().note_conflict(day.part(), conflict, day.now_ns());
            }
            let values = transaction.get_all(&[from, to]).await?;
            let [has, other] = [0, 1].map(|place: usize| number(values[place].as_deref()));
            let amount = amount.min(has);
            transaction.set(from, (has - amount).to_string());
            transaction.set(to, (other + amount).to_string());
            transaction.queue(&[b"INCR", counter.as_bytes()])
        });
        transferred.await.map(|_| ())
    }
}
