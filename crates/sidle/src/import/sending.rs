//! Each key as a RESTORE, many at a time.

use super::contents::{Contents, SHOWN_EVERY};
use super::{Existing, ImportArguments, display, now_ms, open, unreadable};
use crate::hints;
use sidle_bench::words::{bytes, counted};
use sidle_cli::exit::{Failure, Status};
use sidle_client::{Call, Client, Config, Effect, Error};
use sidle_rdb::{FileKey, FileReader, FileValue};
use std::collections::VecDeque;
use std::fs::File;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How much is under way at most: keys, and bytes of their payloads.
const KEYS_UNDER_WAY: usize = 512;
const BYTES_UNDER_WAY: usize = 8 << 20;
/// How long a RESTORE may take: a large collection is built piece by piece.
const PATIENCE: Duration = Duration::from_secs(60);
/// A key whose RESTORE was not answered is sent again so often, and after so long.
const TRIES: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) keys: u64,
    /// Of the imported keys' payloads.
    pub(super) payload_bytes: u64,
    /// Keys that the cluster had.
    pub(super) existing: u64,
    /// Keys whose deadline was over.
    pub(super) expired: u64,
    /// Keys of types that Sidle does not have.
    pub(super) unknown: u64,
}

/// An import that goes on.
pub(super) struct Sending<'a> {
    arguments: &'a ImportArguments,
    database: u64,
    client: Client,
    reader: FileReader<File>,
    /// In the order of their start.
    under_way: VecDeque<(Restore, Call)>,
    bytes_under_way: usize,
    pub(super) imported: Imported,
}

/// A key's RESTORE.
struct Restore {
    name: Vec<u8>,
    payload: Vec<u8>,
    /// What stands behind the payload.
    options: Vec<Vec<u8>>,
    deadline: Vec<u8>,
}

impl Restore {
    fn new(key: &FileKey, payload: Vec<u8>, existing: Existing) -> Restore {
        let mut options = vec![b"ABSTTL".to_vec()];
        if existing == Existing::Replace {
            options.push(b"REPLACE".to_vec());
        }
        if let Some(idle_s) = key.idle_s {
            options.extend([b"IDLETIME".to_vec(), idle_s.to_string().into_bytes()]);
        } else if let Some(frequency) = key.frequency {
            options.extend([b"FREQ".to_vec(), frequency.to_string().into_bytes()]);
        }
        let deadline = key.expires_at_ms.unwrap_or(0).to_string().into_bytes();
        Restore { name: key.name.clone(), payload, options, deadline }
    }

    fn start(&self, client: &Client) -> Call {
        let mut words: Vec<&[u8]> = vec![b"RESTORE", &self.name, &self.deadline, &self.payload];
        words.extend(self.options.iter().map(Vec::as_slice));
        client.start(&words)
    }
}

impl<'a> Sending<'a> {
    /// Connects to the cluster.
    pub(super) async fn begin(arguments: &'a ImportArguments, database: u64) -> Result<Sending<'a>, Failure> {
        let (reader, _) = open(arguments)?;
        let via = &arguments.via.via;
        let seed = via.via.parse().map_err(Failure::wrong_line)?;
        let mut config = Config::new(vec![seed]);
        config.credentials = via.password.clone().map(|password| ("default".to_owned(), password));
        config.operation_timeout_us = PATIENCE.as_micros() as u64;
        let patience = Duration::from_secs(arguments.via.timeout);
        let unreachable = |why: String| Failure::new(Status::Unreachable, hints::unreachable(&via.via, why));
        let client = match timeout(patience, Client::connect_with(config)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(unreachable(error.to_string())),
            Err(_) => return Err(unreachable(format!("no map of the cluster in {} s", patience.as_secs()))),
        };
        Ok(Sending {
            arguments,
            database,
            client,
            reader,
            under_way: VecDeque::new(),
            bytes_under_way: 0,
            imported: Imported::default(),
        })
    }

    /// Sends all keys of the database.
    pub(super) async fn all(&mut self, contents: &Contents) -> Result<(), Failure> {
        let line = display(self.arguments);
        let mut read = 0_u64;
        while let Some(key) = self.reader.next_key().map_err(unreadable(self.arguments))? {
            read += 1;
            if read.is_multiple_of(SHOWN_EVERY) {
                let part = self.reader.bytes_read() as f64 / contents.file_bytes.max(1) as f64;
                let done = &self.imported;
                let text = format!("{}, {}", counted(done.keys, "key"), bytes(done.payload_bytes as f64));
                line.show("importing", part, &text);
            }
            if key.database == self.database {
                self.send(key).await?;
            }
        }
        while !self.under_way.is_empty() {
            self.oldest_ends().await?;
        }
        Ok(())
    }

    async fn send(&mut self, mut key: FileKey) -> Result<(), Failure> {
        let value = std::mem::replace(&mut key.value, FileValue::Other(""));
        let FileValue::Payload(payload) = value else {
            self.imported.unknown += 1;
            return Ok(());
        };
        if key.expires_at_ms.is_some_and(|deadline| deadline <= now_ms()) {
            self.imported.expired += 1;
            return Ok(());
        }
        while self.under_way.len() >= KEYS_UNDER_WAY
            || (self.bytes_under_way + payload.len() > BYTES_UNDER_WAY && !self.under_way.is_empty())
        {
            self.oldest_ends().await?;
        }
        self.bytes_under_way += payload.len();
        let restore = Restore::new(&key, payload, self.arguments.existing);
        let call = restore.start(&self.client);
        self.under_way.push_back((restore, call));
        Ok(())
    }

    /// Waits for the RESTORE that was started first.
    async fn oldest_ends(&mut self) -> Result<(), Failure> {
        let Some((restore, call)) = self.under_way.pop_front() else { return Ok(()) };
        self.bytes_under_way -= restore.payload.len();
        let (mut outcome, mut tries, mut may_be_there) = (call.await, 1, false);
        while let Err(error) = &outcome
            && is_worth_another_try(error)
            && tries < TRIES
        {
            may_be_there |= error.effect() == Effect::Unknown;
            sleep(RETRY_AFTER).await;
            outcome = restore.start(&self.client).await;
            tries += 1;
        }
        let refused = match outcome {
            Ok(sidle_resp::Value::Error(text)) => text.to_string(),
            Err(Error::Server(text)) => text,
            Ok(_) => {
                self.imported.keys += 1;
                self.imported.payload_bytes += restore.payload.len() as u64;
                return Ok(());
            }
            Err(error) => {
                return Err(Failure::new(Status::Unreachable, format!("{}: {error}", named(&restore.name))));
            }
        };
        match refused.starts_with("BUSYKEY") {
            // The first try may have been carried out.
            true if may_be_there => self.imported.keys += 1,
            true => self.imported.existing += 1,
            false => return Err(Failure::refused(format!("{}: {refused}", named(&restore.name)))),
        }
        Ok(())
    }
}

/// Nobody answered, or a node that is starting.
fn is_worth_another_try(error: &Error) -> bool {
    match error {
        Error::NoAnswer(_) | Error::Busy | Error::Unreachable { .. } => true,
        Error::Server(text) => text.starts_with("LOADING") || text.starts_with("CLUSTERDOWN"),
        _ => false,
    }
}

/// A key in a message.
fn named(name: &[u8]) -> String {
    const SHOWN_BYTES: usize = 60;
    let shown = &name[..name.len().min(SHOWN_BYTES)];
    let more = if shown.len() < name.len() { ".." } else { "" };
    format!("key '{}{more}'", shown.escape_ascii())
}
