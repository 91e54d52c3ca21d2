//! Commands that run once, also where their answers are lost.

use crate::client::Client;
use crate::clock::wall_now;
use crate::command::{Kind, kind_of};
use crate::error::Error;
use crate::numbers::Open;
use sidle_client_core::{Class, Destination, Effect};
use sidle_resp::Value;
use sidle_types::HashedKey;
use std::time::{Duration, Instant};

/// A command is sent again for so long, if its settings say nothing else.
const PATIENCE: Duration = Duration::from_secs(60);
/// Behind this, nodes do not know any more whether it ran.
const MOST_PATIENCE: Duration = Duration::from_secs(240);
/// How long it rests before it is sent again, where nothing else makes it wait.
const REST: Duration = Duration::from_millis(50);

impl Client {
    /// Runs a command that writes, its name as the first argument, exactly once: it is sent again when its
    /// connection is lost or nobody answers, also to another node, for up to a minute. A node that has run it
    /// answers as before, whatever died or moved since.
    ///
    /// It takes commands whose keys are all in one slot, which neither block nor only read. Several commands
    /// may be under way at the same time, and may run in any order.
    ///
    /// # Errors
    /// [`Error`], with whether the command took effect: unknown only if no node answered for that long.
    pub async fn exec_once(&self, args: &[&[u8]]) -> Result<Value, Error> {
        self.exec_once_within(PATIENCE, args).await
    }

    /// The same with another time after which it is given up; four minutes at most.
    ///
    /// # Errors
    /// [`Error`], with whether the command took effect: unknown only if no node answered for that long.
    pub async fn exec_once_within(&self, patience: Duration, args: &[&[u8]]) -> Result<Value, Error> {
        let Kind::Key(_, key) = kind_of(args)? else { return Err(Error::IncompleteCommand("a key")) };
        let key = HashedKey::new(key);
        let issued = wall_now();
        let (_open, words) = Open::begin(self.once(), key.slot(), issued, args);
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let began = Instant::now();
        let mut may_have_run = false;
        loop {
            let class = Class::Once { may_have_run };
            let ended = self.start_as(class, Destination::Key(key), &words).await;
            let Err(error) = ended else { return ended };
            may_have_run |= error.effect() == Effect::Unknown;
            let is_final = match &error {
                Error::NoAnswer(_) | Error::Busy => false,
                Error::Server(_)
                | Error::Closed
                | Error::UnexpectedReply { .. }
                | Error::IncompleteCommand(_)
                | Error::Address(_)
                | Error::Unreachable { .. } => true,
            };
            if is_final || began.elapsed() >= patience.min(MOST_PATIENCE) {
                return Err(error.if_it_may_have_run(may_have_run));
            }
            tokio::time::sleep(REST).await;
        }
    }
}
