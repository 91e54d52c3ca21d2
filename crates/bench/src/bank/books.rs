//! The accounts, and what all threads of the bank share.

use crate::demo::DemoError;
use crate::transactions::{Day, Tally, client, lost, policy};
use crate::words::{count, counted};
use sidle_client::{Client, Committed, Transaction, TransactionError, Value};
use std::sync::Mutex;

/// What each account has at first.
const MONEY: i64 = 1_000;
/// Commands that are under way at the opening.
const AT_ONCE: usize = 100;

/// The sums that the auditor has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// How many.
    pub(crate) count: u64,
    /// The last one.
    pub(crate) last: Option<i64>,
    /// How many were not what all accounts had at first.
    pub(crate) wrong: u64,
    /// Sums that could not be made.
    pub(crate) failed: u64,
    /// How often an attempt gave way to another transaction.
    pub(crate) conflicts: u64,
}

/// What was found at the end, when nobody was at work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closed {
    /// What all accounts had.
    pub(crate) sum: i64,
    /// Committed transfers that no client's number shows.
    pub(crate) lost: u64,
}

/// What all threads of the bank share.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) day: Day,
    accounts: Vec<String>,
    sums: Mutex<Sums>,
}

/// Where a client's committed transfers are counted.
pub(crate) fn counter(client: u32) -> String {
    format!("bank:transfers:{client}")
}

/// A number that was read; an absent one counts as nothing.
pub(crate) fn number(value: Option<&[u8]>) -> i64 {
    value.and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok()).unwrap_or(0)
}

impl Books {
    pub(crate) fn new(accounts: u64, node: &str) -> Books {
        Books {
            day: Day::new(node),
            accounts: (0..accounts).map(|number| format!("bank:account:{number}")).collect(),
            sums: Mutex::new(Sums::default()),
        }
    }

    pub(crate) fn accounts(&self) -> &[String] {
        &self.accounts
    }

    /// What all accounts have together.
    pub(crate) fn total(&self) -> i64 {
        self.accounts.len() as i64 * MONEY
    }

    pub(crate) fn sums(&self) -> Sums {
        *self.sums.lock().expect("nobody panics with the sums")
    }

    /// The last sum, and how many there were.
    pub(crate) fn sum_in_words(&self) -> String {
        let sums = self.sums();
        let Some(last) = sums.last else { return "no sum yet".to_owned() };
        let wrong = match sums.wrong {
            0 => String::new(),
            wrong => format!(", {} WRONG", count(wrong)),
        };
        format!("sum {} ({}{wrong})", count(last.max(0) as u64), counted(sums.count, "time"))
    }

    pub(crate) fn note_sum(&self, sum: Result<i64, TransactionError>, conflicts: u64) {
        let mut sums = self.sums.lock().expect("nobody panics with the sums");
        sums.conflicts += conflicts;
        match sum {
            Ok(sum) => {
                sums.count += 1;
                sums.wrong += u64::from(sum != self.total());
                sums.last = Some(sum);
            }
            Err(_) => sums.failed += 1,
        }
    }

    /// Has every account get its money.
    pub(crate) async fn open(&self) -> Result<(), DemoError> {
        let (client, money) = (client(self.day.node()).await?, MONEY.to_string());
        for some in self.accounts.chunks(AT_ONCE) {
            let words = some.iter().map(|account| [&b"SET"[..], account.as_bytes(), money.as_bytes()]);
            let calls: Vec<_> = words.map(|words| client.start(&words)).collect();
            for call in calls {
                call.await.map_err(|error| lost(&error))?;
            }
        }
        Ok(())
    }

    /// What all accounts have together, in one moment. They are read when it commits, so no change comes
    /// between; `note` is called at each attempt.
    pub(crate) async fn sum(
        &self,
        client: &Client,
        mut note: impl FnMut(&Transaction),
    ) -> Result<i64, TransactionError> {
        let summed = client.transact(policy(), async |transaction| {
            note(transaction);
            for account in &self.accounts {
                transaction.queue(&[b"GET", account.as_bytes()])?;
            }
            Ok(())
        });
        let ((), Committed { replies }) = summed.await?;
        Ok(replies.iter().map(|reply: &Value| number(reply.as_bytes())).sum())
    }

    /// Looks at everything when nobody is at work any more.
    pub(crate) async fn close(&self, tally: &Tally) -> Result<Closed, DemoError> {
        let client = client(self.day.node()).await?;
        let sum = self.sum(&client, |_| {}).await.map_err(|error| DemoError::Node(error.to_string()))?;
        let mut closed = Closed { sum, lost: 0 };
        for (&of, &committed) in &tally.committed {
            let counted = client.get(counter(of)).await.map_err(|error| lost(&error))?;
            closed.lost += committed.saturating_sub(number(counted.as_deref()).max(0) as u64);
        }
        Ok(closed)
    }
}
