//! The database before the first transaction, and behind the last.

use super::store::Store;
use crate::demo::DemoError;
use crate::transactions::{client, lost};
use sidle_client::{Client, Error};
use sidle_tpcc::{check_warehouse, rows_of_warehouse};
use std::sync::atomic::{AtomicBool, Ordering};

/// Commands that are under way.
const AT_ONCE: usize = 200;

/// Writes every row; how many there are.
pub(super) async fn fill(
    store: &Store,
    seed: u64,
    progress: impl Fn(u64),
    stop: &AtomicBool,
) -> Result<u64, DemoError> {
    let client = client(store.day.node()).await?;
    let (scale, keys, mut count) = (store.options.scale, store.options.keys, 0);
    for w in 1..=scale.warehouses {
        let mut rows = Vec::new();
        rows_of_warehouse(keys, scale, w, seed, |key, value| rows.push((key, value)));
        for some in rows.chunks(AT_ONCE) {
            if stop.load(Ordering::Relaxed) {
                return Ok(count);
            }
            let calls: Vec<_> = some.iter().map(|(key, value)| client.start(&[b"SET", key, value])).collect();
            for call in calls {
                call.await.map_err(|error| lost(&error))?;
            }
            count += some.len() as u64;
        }
        progress(u64::from(w));
    }
    Ok(count)
}

/// Checks the conditions of clause 3.3.2 of every warehouse; what does not hold.
pub(super) fn check(store: &Store, progress: impl Fn(u64)) -> Result<Vec<String>, DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(client(store.day.node()))?;
    let (scale, keys) = (store.options.scale, store.options.keys);
    let (mut violations, mut failed) = (Vec::new(), None);
    for w in 1..=scale.warehouses {
        let mut get = |key: &[u8]| match runtime.block_on(value(&client, key)) {
            Ok(value) => value,
            Err(error) => {
                failed.get_or_insert(error);
                None
            }
        };
        let checked = check_warehouse(keys, scale, w, &mut get);
        if let Some(error) = failed {
            return Err(lost(&error));
        }
        violations.extend(checked.err().map(|violation| violation.to_string()));
        progress(u64::from(w));
    }
    Ok(violations)
}

async fn value(client: &Client, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    client.get(key).await
}
