//! Parts of transactions over nodes, as requests.

use sidle_txn::{Check, TransactionId, keys_of};
use std::collections::BTreeSet;

/// A command of a part, with the reply that it is to have still.
pub type Command<'c> = (Option<&'c str>, &'c str);

/// Its keys: most have one.
fn keys_of_command<'c>((_, command): &Command<'c>) -> Vec<&'c str> {
    let words: Vec<&str> = command.split(' ').collect();
    if words[0] == "MSET" {
        words[1..].iter().copied().step_by(2).collect()
    } else {
        words[1..].iter().copied().take(1).collect()
    }
}

/// A part of a transaction.
pub struct Part<'c> {
    /// The transaction.
    pub id: u128,
    /// When its first attempt began.
    pub age: u64,
    /// When this one was issued.
    pub issued: u64,
    /// 1: it is alone; 2: it keeps errors.
    pub marks: u8,
    /// The first key of all.
    pub first: &'c str,
    /// All keys, if the first one is among the part's.
    pub list: &'c [&'c str],
    /// In their order.
    pub commands: &'c [Command<'c>],
}

impl Default for Part<'_> {
    fn default() -> Self {
        Part {
            id: 1,
            age: 1,
            issued: 1_700_000_000_000,
            marks: 0,
            first: "a",
            list: &["a", "b"],
            commands: &[],
        }
    }
}

impl Part<'_> {
    /// The words of the request that prepares it.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let list = keys_of(self.list.iter().map(|key| key.as_bytes()));
        let id = TransactionId(self.id).to_string();
        let numbers = [self.age, self.issued, u64::from(self.marks)].map(|number| number.to_string());
        let mut words: Vec<Vec<u8>> = vec![b"SIDLE.TX".to_vec(), b"PREPARE".to_vec(), id.into_bytes()];
        words.extend(numbers.map(String::into_bytes));
        let keys: BTreeSet<&str> = self.commands.iter().flat_map(keys_of_command).collect();
        words.extend([self.first.as_bytes().to_vec(), list, keys.len().to_string().into_bytes()]);
        for (reply, command) in self.commands {
            words.push(reply.map_or(Vec::new(), |reply| Check::of(reply.as_bytes()).bytes().to_vec()));
            words.push(command.split(' ').count().to_string().into_bytes());
            words.extend(command.split(' ').map(|word| word.as_bytes().to_vec()));
        }
        words
    }
}
