//! A closure as a transaction, tried again where others are in its way.

use crate::client::Client;
use crate::clock::wall_now;
use crate::transaction::{Committed, Transaction};
use crate::transaction_error::TransactionError;
use sidle_txn::Age;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// How often a transaction is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactPolicy {
    /// It is not tried again after so long.
    pub patience: Duration,
    /// The rest before the second attempt; at random between half of it and all of it.
    pub first_rest: Duration,
    /// Each rest is twice the one before, up to this.
    pub longest_rest: Duration,
}

impl Default for TransactPolicy {
    fn default() -> TransactPolicy {
        TransactPolicy {
            patience: Duration::from_secs(10),
            first_rest: Duration::from_millis(1),
            longest_rest: Duration::from_millis(50),
        }
    }
}

/// See [`Client::transact`].
pub(crate) async fn transact<T>(
    client: &Client,
    policy: TransactPolicy,
    mut closure: impl AsyncFnMut(&mut Transaction) -> Result<T, TransactionError>,
) -> Result<(T, Committed), TransactionError> {
    let (age, began) = (Age(wall_now()), Instant::now());
    let (random, mut rest, mut before) = (RandomState::new(), policy.first_rest, None);
    for attempt in 0u32.. {
        let mut transaction = Transaction::begin(client.clone(), age).after(before);
        let value = closure(&mut transaction).await?;
        match transaction.commit().await {
            Ok(committed) => return Ok((value, committed)),
            Err(TransactionError::Conflict(why)) if began.elapsed() < policy.patience => before = Some(why),
            Err(error) => return Err(error),
        }
        let part = 0.5 + 0.5 * (random.hash_one(attempt) % 1024) as f64 / 1024.0;
        tokio::time::sleep(rest.mul_f64(part)).await;
        rest = (rest * 2).min(policy.longest_rest);
    }
    unreachable!("it is tried until it ends")
}
