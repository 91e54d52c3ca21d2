//! Transactions over any keys, on any nodes.

use crate::client::Client;
use crate::clock::wall_now;
use crate::command::keys_of;
use crate::course::Course;
use crate::error::Error;
use crate::transaction_error::{Conflict, TransactionError};
use sidle_resp::Value;
use sidle_txn::{Age, Attempt, Committing, Outcome, TransactionCommand, TransactionId, check_of};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

/// A transaction in the making: it reads at once, and collects what it is to write.
#[derive(Debug)]
pub struct Transaction {
    client: Client,
    age: Age,
    reads: Vec<TransactionCommand>,
    writes: Vec<TransactionCommand>,
    written: BTreeSet<Vec<u8>>,
    before: Option<Conflict>,
}

/// A transaction that was committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The replies to the commands that it was given to write, in their order.
    pub replies: Vec<Value>,
}

impl Transaction {
    /// One whose first attempt began then.
    pub(crate) fn begin(client: Client, age: Age) -> Transaction {
        let (reads, writes) = (Vec::new(), Vec::new());
        Transaction { client, age, reads, writes, written: BTreeSet::new(), before: None }
    }

    /// The next attempt of one that this was in the way of.
    pub(crate) fn after(self, before: Option<Conflict>) -> Transaction {
        Transaction { before, ..self }
    }

    /// What was in the way of the attempt before this one, if it is one of several.
    pub fn conflict_before(&self) -> Option<&Conflict> {
        self.before.as_ref()
    }

    /// The value of a key, or none.
    ///
    /// # Errors
    /// [`TransactionError`]; nothing has an effect.
    pub async fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, TransactionError> {
        Ok(self.get_all(&[key]).await?.pop().flatten())
    }

    /// The values of keys, in their order; they are asked for together.
    ///
    /// # Errors
    /// [`TransactionError`]; nothing has an effect.
    pub async fn get_all(
        &mut self,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, TransactionError> {
        let commands: Vec<[&[u8]; 2]> = keys.iter().map(|key| [&b"GET"[..], key.as_ref()]).collect();
        let commands: Vec<&[&[u8]]> = commands.iter().map(|command| &command[..]).collect();
        let replies = self.read_all(&commands).await?;
        Ok(replies.into_iter().map(|reply| reply.as_bytes().map(<[u8]>::to_vec)).collect())
    }

    /// The reply to a command that only reads.
    ///
    /// # Errors
    /// [`TransactionError`]; nothing has an effect.
    pub async fn read(&mut self, args: &[&[u8]]) -> Result<Value, TransactionError> {
        Ok(self.read_all(&[args]).await?.pop().unwrap_or(Value::Null))
    }

    /// The replies to commands that only read, in their order; they are sent together. When the transaction
    /// commits, each would have this reply still.
    ///
    /// # Errors
    /// [`TransactionError`]; nothing has an effect.
    pub async fn read_all(&mut self, commands: &[&[&[u8]]]) -> Result<Vec<Value>, TransactionError> {
        let mut sent = Vec::with_capacity(commands.len());
        for args in commands {
            let keys = keys_of(args)?;
            if keys.iter().any(|&key| self.written.contains(args[key])) {
                return Err(TransactionError::Misused("it reads a key that it is to write: read it before"));
            }
            sent.push((keys, self.client.start(args)));
        }
        let mut replies = Vec::with_capacity(commands.len());
        for ((keys, call), args) in sent.into_iter().zip(commands) {
            let reply = call.await?;
            let words = args.iter().map(|word| word.to_vec()).collect();
            self.reads.push(TransactionCommand { words, keys, check: Some(check_of(&reply)) });
            replies.push(reply);
        }
        Ok(replies)
    }

    /// Has the transaction set a value.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let words = vec![b"SET".to_vec(), key.as_ref().to_vec(), value.as_ref().to_vec()];
        self.add(TransactionCommand { words, keys: vec![1], check: None });
    }

    /// Has the transaction remove a key.
    pub fn del(&mut self, key: impl AsRef<[u8]>) {
        let words = vec![b"DEL".to_vec(), key.as_ref().to_vec()];
        self.add(TransactionCommand { words, keys: vec![1], check: None });
    }

    /// Has the transaction run a command, its name as the first argument. It runs when the transaction
    /// commits, and its reply is among [`Committed::replies`]. Its keys must have one owner.
    ///
    /// # Errors
    /// [`TransactionError::Failed`] for a command without a key.
    pub fn queue(&mut self, args: &[&[u8]]) -> Result<(), TransactionError> {
        let keys = keys_of(args)?;
        self.add(TransactionCommand {
            words: args.iter().map(|word| word.to_vec()).collect(),
            keys,
            check: None,
        });
        Ok(())
    }

    fn add(&mut self, command: TransactionCommand) {
        self.written.extend(command.keys.iter().map(|&key| command.words[key].clone()));
        self.writes.push(command);
    }

    /// Commits: all that was read is still so, and all that is to be written is written, as if in one moment.
    /// When this returns, every reader sees it.
    ///
    /// # Errors
    /// [`TransactionError`]; only with [`TransactionError::Unknown`] it may have its effect.
    pub async fn commit(self) -> Result<Committed, TransactionError> {
        let Transaction { client, age, reads, writes, .. } = self;
        if reads.is_empty() && writes.is_empty() {
            return Ok(Committed { replies: Vec::new() });
        }
        let attempt = Attempt { id: new_id(), age, issued: wall_now(), keeps_errors: false };
        let commands = reads.into_iter().chain(writes).collect();
        let committing = client.with_core(|core, now| {
            Committing::begin(now, attempt, commands, |position| core.owner_at(position))
        });
        let committing = committing.map_err(|error| TransactionError::SeveralOwners(error.command))?;
        let decisions = client.of_decisions();
        let mut course = Course::new(client, decisions, committing);
        let outcome = course.outcome().await;
        let result = match outcome {
            Outcome::Committed(parts) => match course.committing.replies(&parts) {
                Some(replies) => Ok(Committed { replies }),
                None => {
                    let (command, reply) = ("SIDLE.TX PREPARE", Value::Null);
                    Err(TransactionError::Failed(Error::UnexpectedReply { command, reply }))
                }
            },
            Outcome::Aborted(why) => Err(TransactionError::of(why)),
            Outcome::Unknown => Err(TransactionError::Unknown),
        };
        if !course.committing.is_over() {
            // The keys are freed, or forget it, while the program goes on.
            tokio::spawn(async move { course.end().await });
        }
        result
    }
}

/// A name that no other transaction has.
fn new_id() -> TransactionId {
    let random = RandomState::new();
    TransactionId(u128::from(random.hash_one(1)) << 64 | u128::from(random.hash_one(2)))
}
