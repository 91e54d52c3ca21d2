//! The course of a commit: requests are sent, and what became of them goes to its machine.

use crate::client::{Call, Client};
use crate::error::Error;
use sidle_client_core::{Class, Destination, Effect};
use sidle_resp::Value;
use sidle_txn::{CommitRequest, Committing, Ended, Outcome};
use sidle_types::HashedKey;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// A transaction that is being committed, with its requests under way.
pub(crate) struct Course {
    client: Client,
    /// Over its connections goes what waits for no other transaction.
    decisions: Client,
    pub(crate) committing: Committing,
    /// Under way: their numbers, and the keys that they are about.
    calls: Vec<(u64, Vec<u8>, Call)>,
    /// Keys whose last request was not answered, with the reason.
    unanswered: BTreeMap<Vec<u8>, String>,
}

impl Course {
    pub(crate) fn new(client: Client, decisions: Client, committing: Committing) -> Course {
        Course { client, decisions, committing, calls: Vec::new(), unanswered: BTreeMap::new() }
    }

    /// Keys that have not been answered yet, with the last reason.
    pub(crate) fn unanswered(&self) -> BTreeMap<Vec<u8>, String> {
        let open = self.calls.iter().map(|(_, key, _)| (key.clone(), "no answer".to_owned()));
        open.chain(self.unanswered.clone()).collect()
    }

    pub(crate) async fn outcome(&mut self) -> Outcome {
        loop {
            if let Some(outcome) = self.committing.poll_outcome() {
                return outcome;
            }
            self.step().await;
        }
    }

    pub(crate) async fn end(&mut self) {
        while !self.committing.is_over() {
            self.step().await;
        }
    }

    /// Sends what is to be sent, and waits for a reply, or for time to pass.
    async fn step(&mut self) {
        while let Some(CommitRequest { number, key, words, waits }) = self.committing.poll_request() {
            let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
            let client = if waits { &self.client } else { &self.decisions };
            let call = client.start_as(Class::Write, Destination::Key(HashedKey::new(&key)), &words);
            self.calls.push((number, key, call));
        }
        let now = self.client.now();
        let rest = self.committing.poll_timeout().map(|at| at.0.saturating_sub(now.0));
        let mut sleep = rest.map(|rest| Box::pin(tokio::time::sleep(Duration::from_micros(rest))));
        let calls = &mut self.calls;
        let ended = poll_fn(|cx| {
            for place in 0..calls.len() {
                if let Poll::Ready(result) = pin!(&mut calls[place].2).poll(cx) {
                    let (number, key, _) = calls.swap_remove(place);
                    return Poll::Ready(Some((number, key, result)));
                }
            }
            let is_over = sleep.as_mut().is_some_and(|sleep| Pin::new(sleep).poll(cx).is_ready());
            if is_over { Poll::Ready(None) } else { Poll::Pending }
        })
        .await;
        let now = self.client.now();
        if let Some((number, key, result)) = ended {
            match &result {
                Ok(_) => _ = self.unanswered.remove(&key),
                Err(error) => _ = self.unanswered.insert(key, error.to_string()),
            }
            let (committing, ended) = (&mut self.committing, ended_with(result));
            self.client.with_core(|core, now| {
                committing.handle(now, number, &ended, |position| core.owner_at(position));
            });
        }
        self.committing.handle_time(now);
    }
}

/// What became of a request.
fn ended_with(result: Result<Value, Error>) -> Ended {
    match result {
        Ok(reply) => Ended::Reply(reply),
        Err(Error::Server(text)) => Ended::Reply(Value::Error(text)),
        Err(error) if error.effect() == Effect::None => Ended::NotRun,
        Err(_) => Ended::Lost,
    }
}
