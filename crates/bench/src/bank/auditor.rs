//! Whoever sums all accounts up, again and again.

use super::books::Books;
use crate::demo::DemoError;
use crate::transactions::client;
use std::time::Duration;

/// The rest between two sums: each locks all accounts for a moment.
const REST: Duration = Duration::from_millis(50);

/// Sums up until the bank closes.
pub(crate) async fn work(books: &Books) -> Result<(), DemoError> {
    let client = client(books.day.node()).await?;
    while !books.day.is_over() {
        let mut conflicts = 0;
        let sum = books.sum(&client, |attempt| conflicts += u64::from(attempt.conflict_before().is_some()));
        let sum = sum.await;
        books.note_sum(sum, conflicts);
        tokio::time::sleep(REST).await;
    }
    Ok(())
}
