//! Whoever looks whether a warehouse has taken what its districts have, again and again.

use super::store::Store;
use crate::demo::DemoError;
use crate::transactions::{client, policy};
use sidle_client::{Committed, Value};
use std::time::Duration;

/// The rest between two looks: each locks the sums of a warehouse for a moment.
const REST: Duration = Duration::from_millis(50);

/// Looks at one warehouse after the other until the run is over.
pub(super) async fn work(store: &Store) -> Result<(), DemoError> {
    let client = client(store.day.node()).await?;
    let (scale, keys) = (store.options.scale, store.options.keys);
    for w in (1..=scale.warehouses).cycle() {
        if store.day.is_over() {
            return Ok(());
        }
        // They are read when it commits, so no change comes between.
        let looked = client.transact(policy(), async |transaction| {
            transaction.queue(&[b"GET", &keys.warehouse_ytd(w)])?;
            for d in 1..=scale.districts {
                transaction.queue(&[b"GET", &keys.district_ytd(w, d)])?;
            }
            Ok(())
        });
        store.note_audit(looked.await.ok().map(|((), committed)| holds(&committed)));
        tokio::time::sleep(REST).await;
    }
    Ok(())
}

/// Whether the first sum is that of all others.
fn holds(Committed { replies }: &Committed) -> bool {
    let sums: Option<Vec<i64>> = replies.iter().map(Value::as_bytes).map(|row| cents(row?)).collect();
    sums.is_some_and(|sums| sums.split_first().is_some_and(|(all, of)| *all == of.iter().sum::<i64>()))
}

fn cents(row: &[u8]) -> Option<i64> {
    sidle_tpcc::sum_in_cents(row)
}
