//! Transactions over keys of several nodes: what clients draw, and what they record.
//!
//! There are texts (`a`), to which tokens are appended that nobody appends twice, and accounts (`b`), between
//! which amounts move, so that their sum stays 0. Half of each share the slot of [`TAG`].

use super::TAG;
use sidle_history::list_append::{Fate, Step, Transaction};
use sidle_resp::Value;
use sidle_testbed::Random;
use sidle_txn::{TransactionCommand, check_of};
use std::collections::BTreeMap;

/// What there is to be changed by transactions.
#[derive(Clone, Copy, Debug)]
pub struct Ledgers {
    /// How many texts there are.
    pub texts: u64,
    /// How many accounts there are.
    pub accounts: u64,
}

/// How many records there may be: all are judged together.
const MOST_RECORDS: usize = 600;
/// The most keys of a transaction.
const MOST_KEYS: usize = 4;

fn named(space: char, number: u64) -> String {
    match number.is_multiple_of(2) {
        true => format!("{space}{number}"),
        false => format!("{space}{TAG}{number}"),
    }
}

/// The key of a text.
pub fn text_key(number: u64) -> String {
    named('a', number)
}

/// The key of an account.
pub fn account_key(number: u64) -> String {
    named('b', number)
}

/// The tokens of a text, in their order.
pub fn tokens_of(reply: &Value) -> Result<Vec<u64>, String> {
    let bytes = match reply {
        Value::Null => return Ok(Vec::new()),
        Value::Bulk(bytes) => bytes,
        other => return Err(format!("a text was read as {other:?}")),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let tokens =
        text.split_terminator('.').map(|token| token.parse().map_err(|_| format!("token {token:?}")));
    tokens.collect()
}

/// What an account holds.
pub fn balance_of(reply: &Value) -> Result<i64, String> {
    let balance: Option<i64> = match reply {
        Value::Null => Some(0),
        Value::Bulk(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    balance.ok_or_else(|| format!("an account was read as {reply:?}"))
}

/// What a transaction is to do.
#[derive(Clone, Debug)]
pub enum Draft {
    /// Reads texts, or those to which it appends nothing, before it commits; the token for each.
    Read(Vec<(u64, Option<u64>)>),
    /// Appends a token to each, and reads it then, all within the commit.
    Within(Vec<(u64, u64)>),
    /// Moves an amount from an account to another one.
    Transfer([u64; 2], i64),
    /// Reads all accounts.
    Sum(u64),
}

impl Draft {
    /// The next transaction of a client.
    pub fn draw(ledgers: Ledgers, random: &mut Random, records: &mut Records) -> Draft {
        let Ledgers { texts, accounts } = ledgers;
        match random.below(16) {
            0..=2 => {
                let from = random.below(accounts);
                let to = (from + 1 + random.below(accounts - 1)) % accounts;
                Draft::Transfer([from, to], random.between(1, 9) as i64)
            }
            3 => Draft::Sum(accounts),
            4..=7 => {
                let keys = several(random, texts);
                Draft::Within(keys.into_iter().map(|key| (key, records.next_token())).collect())
            }
            8 => Draft::Read(several(random, texts).into_iter().map(|key| (key, None)).collect()),
            _ => {
                let keys = several(random, texts).into_iter();
                Draft::Read(
                    keys.map(|key| (key, (!random.one_in(3)).then(|| records.next_token()))).collect(),
                )
            }
        }
    }

    /// The same for another attempt: its tokens are others.
    #[must_use]
    pub fn again(self, records: &mut Records) -> Draft {
        match self {
            Draft::Read(keys) => {
                let keys = keys.into_iter().map(|(key, token)| (key, token.map(|_| records.next_token())));
                Draft::Read(keys.collect())
            }
            Draft::Within(keys) => {
                Draft::Within(keys.into_iter().map(|(key, _)| (key, records.next_token())).collect())
            }
            other => other,
        }
    }

    /// What it reads before it commits.
    pub fn read_first(&self) -> Vec<String> {
        match self {
            Draft::Read(keys) => keys.iter().map(|&(key, _)| text_key(key)).collect(),
            Draft::Sum(accounts) => (0..*accounts).map(account_key).collect(),
            Draft::Within(_) | Draft::Transfer(..) => Vec::new(),
        }
    }

    /// Its commands. `read`: what was read before.
    pub fn commands(&self, read: &[Value]) -> Vec<TransactionCommand> {
        let first = self.read_first();
        let checked = first.iter().zip(read).map(|(key, reply)| TransactionCommand {
            check: Some(check_of(reply)),
            ..command(&["GET", key])
        });
        let mut commands: Vec<TransactionCommand> = checked.collect();
        match self {
            Draft::Read(keys) => {
                let appended = keys.iter().filter_map(|&(key, token)| Some((key, token?)));
                commands.extend(appended.map(|(key, token)| append(key, token)));
            }
            Draft::Within(keys) => {
                for &(key, token) in keys {
                    commands.extend([append(key, token), command(&["GET", &text_key(key)])]);
                }
            }
            Draft::Transfer([from, to], amount) => {
                for (account, amount) in [(from, -amount), (to, *amount)] {
                    commands.push(command(&["INCRBY", &account_key(*account), &amount.to_string()]));
                }
            }
            Draft::Sum(_) => {}
        }
        commands
    }
}

fn command(words: &[&str]) -> TransactionCommand {
    let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    TransactionCommand { words, keys: vec![1], check: None }
}

fn append(key: u64, token: u64) -> TransactionCommand {
    command(&["APPEND", &text_key(key), &text_of(token)])
}

/// How a token stands in a text.
pub fn text_of(token: u64) -> String {
    format!("{token}.")
}

/// Up to [`MOST_KEYS`] of so many, each once.
fn several(random: &mut Random, of: u64) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..of).collect();
    let count = (1 + random.index(MOST_KEYS)).min(keys.len());
    for place in 0..count {
        let other = place + random.index(keys.len() - place);
        keys.swap(place, other);
    }
    keys.truncate(count);
    keys
}

/// A transfer, and its fate.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The accounts.
    pub accounts: [u64; 2],
    /// How much.
    pub amount: i64,
    /// What became of it.
    pub fate: Fate,
}

/// Where a transaction is recorded.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Among those on texts.
    Text(usize),
    /// Among the transfers.
    Transfer(usize),
    /// Nowhere: it sums.
    Nowhere,
}

/// What clients know of transactions.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Transactions and single commands on texts.
    pub texts: Vec<Transaction>,
    /// Those that moved amounts.
    pub transfers: Vec<Transfer>,
    /// What was found in each account in the end.
    pub left: BTreeMap<u64, i64>,
    /// Whether a death has cost what was acknowledged: nothing after that is recorded.
    pub is_cut: bool,
    last_token: u64,
}

impl Records {
    /// Whether there are as many as are to be judged.
    pub fn is_full(&self) -> bool {
        self.texts.len() >= MOST_RECORDS
    }

    /// A token that nobody has appended.
    pub fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// A transaction begins to commit; nobody knows its fate. `read`: what it read before.
    pub fn begin(&mut self, draft: &Draft, read: &[Value], call: u64) -> Result<Place, String> {
        let fate = Fate::Unknown;
        let mut steps = Vec::new();
        match draft {
            Draft::Read(keys) => {
                for (&(key, token), reply) in keys.iter().zip(read) {
                    steps.push(Step::Read { key, tokens: tokens_of(reply)? });
                    steps.extend(token.map(|token| Step::Append { key, token }));
                }
            }
            Draft::Within(keys) => {
                steps.extend(keys.iter().map(|&(key, token)| Step::Append { key, token }));
            }
            &Draft::Transfer(accounts, amount) => {
                self.transfers.push(Transfer { accounts, amount, fate });
                return Ok(Place::Transfer(self.transfers.len() - 1));
            }
            Draft::Sum(_) => return Ok(Place::Nowhere),
        }
        Ok(self.begin_steps(steps, call))
    }

    /// The same of steps.
    pub fn begin_steps(&mut self, steps: Vec<Step>, call: u64) -> Place {
        self.texts.push(Transaction { call, fate: Fate::Unknown, steps });
        Place::Text(self.texts.len() - 1)
    }

    /// What became of it is known.
    pub fn end(&mut self, place: Place, fate: Fate) {
        match place {
            Place::Text(number) => self.texts[number].fate = fate,
            Place::Transfer(number) => self.transfers[number].fate = fate,
            Place::Nowhere => {}
        }
    }

    /// A transaction has committed. `replies`: those to its commands without a check.
    pub fn commit(
        &mut self,
        (draft, place): (&Draft, Place),
        (read, replies): (&[Value], &[Value]),
        now: u64,
    ) -> Result<(), String> {
        self.end(place, Fate::Committed(now));
        match (draft, place) {
            (Draft::Within(keys), Place::Text(number)) => {
                if replies.len() != 2 * keys.len() {
                    return Err(format!("{draft:?} has the replies {replies:?}"));
                }
                let steps = &mut self.texts[number].steps;
                steps.clear();
                for (&(key, token), replies) in keys.iter().zip(replies.chunks(2)) {
                    steps.push(Step::Append { key, token });
                    steps.push(Step::Read { key, tokens: tokens_of(&replies[1])? });
                }
            }
            (Draft::Sum(_), _) => {
                let balances = read.iter().map(balance_of).collect::<Result<Vec<i64>, _>>()?;
                if balances.iter().sum::<i64>() != 0 {
                    return Err(format!(
                        "a transaction has read the balances {balances:?}: their sum is not 0"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
