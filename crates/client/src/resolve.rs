//! A transaction that somebody else began is carried on with.

use crate::client::Client;
use crate::course::Course;
use sidle_cluster::HostPort;
use sidle_txn::{Committing, Outcome, TransactionId};
use sidle_types::Position;
use std::time::Duration;

/// What is known of a transaction that was carried on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Whether it was committed; `None` if it is not decided.
    pub committed: Option<bool>,
    /// Keys that have not answered: without them it cannot be decided, or they do not know the decision yet.
    pub unanswered: Vec<UnansweredKey>,
}

/// A key whose owner has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredKey {
    /// The key.
    pub key: Vec<u8>,
    /// Its owner, as far as that is known.
    pub owner: Option<HostPort>,
    /// What came instead of an answer.
    pub why: String,
}

/// Carries on with a transaction in place of whoever began it, as nodes do where its client is gone: asks
/// all of its keys, and has them know the decision. `key` is any that it has locked, `first` the first of
/// all, as `SIDLE.TX LIST` shows both.
///
/// A key that has not voted refuses from then on. So it is safe at any time, also while its client goes
/// on; it may abort what that would have committed. It is decided only if all keys have answered, or one
/// has it applied.
pub async fn resolve(client: &Client, id: u128, key: &[u8], first: &[u8], patience: Duration) -> Resolution {
    let committing = Committing::in_place_of(TransactionId(id), key, first);
    let mut course = Course::new(client.clone(), client.of_decisions(), committing);
    // What is not over then stays with the nodes.
    _ = tokio::time::timeout(patience, course.end()).await;
    let committed = match course.committing.poll_outcome() {
        Some(Outcome::Committed(_)) => Some(true),
        Some(Outcome::Aborted(_)) => Some(false),
        Some(Outcome::Unknown) | None => None,
    };
    let nodes = client.nodes();
    let owner = |key: &[u8]| {
        let place = client.with_core(|core, _| core.owner_at(Position::of_key(key)));
        place.and_then(|place| nodes.get(place).cloned())
    };
    let unanswered = match course.committing.is_over() {
        true => Vec::new(),
        false => course
            .unanswered()
            .into_iter()
            .map(|(key, why)| UnansweredKey { owner: owner(&key), key, why })
            .collect(),
    };
    Resolution { committed, unanswered }
}
