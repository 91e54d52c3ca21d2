//! Commands with typed arguments and results, and transactions.

use crate::client::{Call, Client};
use crate::clock::wall_now;
use crate::error::Error;
use crate::transact::{TransactPolicy, transact};
use crate::transaction::{Committed, Transaction};
use crate::transaction_error::TransactionError;
use sidle_resp::Value;
use sidle_txn::Age;

/// When a value that is set expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// After this many seconds.
    Seconds(u64),
    /// After this many milliseconds.
    Milliseconds(u64),
    /// When the value that it replaces would have.
    Keep,
}

/// The condition for setting a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key has no value.
    IfAbsent,
    /// The key has a value.
    IfPresent,
}

/// How a value is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// When the value expires; never by default.
    pub expiry: Option<Expiry>,
    /// The condition; none by default.
    pub condition: Option<Condition>,
    /// Whether to return the previous value.
    pub get_previous: bool,
}

/// The result of setting a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOutcome {
    /// Whether the value was set; if not, the condition did not hold.
    pub was_set: bool,
    /// The previous value, if requested and present.
    pub previous: Option<Vec<u8>>,
}

impl Client {
    /// Begins a transaction. Nothing is locked before [`Transaction::commit`], and nothing of it is seen.
    pub fn transaction(&self) -> Transaction {
        Transaction::begin(self.clone(), Age(wall_now()))
    }

    /// Runs a closure as a transaction. It reads, and says what is to be written; then it is committed. Where
    /// another transaction was in its way, the closure runs again, from its start and with new reads. It
    /// keeps its age, so that it is the oldest in the end, and others give way to it.
    ///
    /// What waits for another transaction's key holds up its connection, and what is sent behind it.
    /// Decisions go over connections of their own, so that they never wait for themselves.
    ///
    /// Returns what the closure returned in the attempt that was committed, with the replies to its commands.
    ///
    /// # Errors
    /// [`TransactionError`]. Only with [`TransactionError::Unknown`] it may have its effect, all of it.
    pub async fn transact<T>(
        &self,
        policy: TransactPolicy,
        closure: impl AsyncFnMut(&mut Transaction) -> Result<T, TransactionError>,
    ) -> Result<(T, Committed), TransactionError> {
        transact(self, policy, closure).await
    }

    /// The value of a key, or `None` if it has none.
    ///
    /// # Errors
    /// [`Error`]; a read has no effect.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        value("GET", self.start(&[b"GET", key.as_ref()]).await?)
    }

    /// Sets a value.
    ///
    /// # Errors
    /// [`Error`], with whether the operation took effect.
    pub async fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        done("SET", self.start(&[b"SET", key.as_ref(), value.as_ref()]).await?)
    }

    /// Sets a value with options.
    ///
    /// # Errors
    /// [`Error`], with whether the operation took effect.
    pub async fn set_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: SetOptions,
    ) -> Result<SetOutcome, Error> {
        let number;
        let mut args: Vec<&[u8]> = vec![b"SET", key.as_ref(), value.as_ref()];
        match options.condition {
            Some(Condition::IfAbsent) => args.push(b"NX"),
            Some(Condition::IfPresent) => args.push(b"XX"),
            None => {}
        }
        match options.expiry {
            Some(Expiry::Seconds(seconds)) => {
                number = seconds.to_string();
                args.extend([b"EX", number.as_bytes()]);
            }
            Some(Expiry::Milliseconds(milliseconds)) => {
                number = milliseconds.to_string();
                args.extend([b"PX", number.as_bytes()]);
            }
            Some(Expiry::Keep) => args.push(b"KEEPTTL"),
            None => {}
        }
        if options.get_previous {
            args.push(b"GET");
        }
        let reply = self.start(&args).await?;
        if !options.get_previous {
            let was_set = reply != Value::Null;
            if was_set {
                done("SET", reply)?;
            }
            return Ok(SetOutcome { was_set, previous: None });
        }
        let previous = self::value("SET", reply)?;
        let was_set = match options.condition {
            None => true,
            Some(Condition::IfAbsent) => previous.is_none(),
            Some(Condition::IfPresent) => previous.is_some(),
        };
        Ok(SetOutcome { was_set, previous })
    }

    /// Removes a key; returns whether it had a value.
    ///
    /// # Errors
    /// [`Error`], with whether the operation took effect.
    pub async fn del(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        integer("DEL", self.start(&[b"DEL", key.as_ref()]).await?).map(|removed| removed > 0)
    }

    /// Adds 1 to a counter; returns the sum.
    ///
    /// # Errors
    /// [`Error`], with whether the operation took effect.
    pub async fn incr(&self, key: impl AsRef<[u8]>) -> Result<i64, Error> {
        integer("INCR", self.start(&[b"INCR", key.as_ref()]).await?)
    }

    /// Adds to a counter; returns the sum.
    ///
    /// # Errors
    /// [`Error`], with whether the operation took effect.
    pub async fn incr_by(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Error> {
        integer("INCRBY", self.start(&[b"INCRBY", key.as_ref(), by.to_string().as_bytes()]).await?)
    }

    /// The values of several keys on any nodes. The reads are separate and concurrent: together they are no
    /// snapshot.
    ///
    /// # Errors
    /// The first [`Error`] of any of them.
    pub async fn mget<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let calls: Vec<Call> = keys.iter().map(|key| self.start(&[b"GET", key.as_ref()])).collect();
        let mut values = Vec::with_capacity(calls.len());
        for call in calls {
            values.push(value("GET", call.await?)?);
        }
        Ok(values)
    }

    /// Sets several values on any nodes. The writes are separate and concurrent: others may see only some of
    /// them.
    ///
    /// # Errors
    /// The first [`Error`] of any of them, once all have ended. The others may have taken effect.
    pub async fn mset<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<(), Error> {
        let set = |(key, value): &(K, V)| self.start(&[b"SET", key.as_ref(), value.as_ref()]);
        let calls: Vec<Call> = pairs.iter().map(set).collect();
        let mut first = Ok(());
        for call in calls {
            let result = call.await.and_then(|reply| done("SET", reply));
            first = first.and(result);
        }
        first
    }

    /// Runs any command, its name as the first argument, at the owner of its first key.
    ///
    /// # Errors
    /// [`Error`], with whether the operation took effect.
    pub async fn exec(&self, args: &[&[u8]]) -> Result<Value, Error> {
        self.start(args).await
    }
}

fn value(command: &'static str, reply: Value) -> Result<Option<Vec<u8>>, Error> {
    match reply {
        Value::Null => Ok(None),
        Value::Bulk(bytes) => Ok(Some(bytes)),
        reply => Err(Error::UnexpectedReply { command, reply }),
    }
}

fn integer(command: &'static str, reply: Value) -> Result<i64, Error> {
    match reply {
        Value::Integer(number) => Ok(number),
        reply => Err(Error::UnexpectedReply { command, reply }),
    }
}

fn done(command: &'static str, reply: Value) -> Result<(), Error> {
    match reply {
        Value::Simple(text) if text == "OK" => Ok(()),
        reply => Err(Error::UnexpectedReply { command, reply }),
    }
}
