//! Transactions over keys of several nodes: with the single commands on the same keys they are strictly
//! serializable, no amount is lost between accounts, and nothing stays locked.

use super::Violation;
use crate::host::Host;
use crate::workload::Records;
use sidle_history::list_append::{self, Fate, Transaction};
use sidle_store::Store;
use sidle_txn::{Locks, State};
use sidle_types::{Position, PositionRange, ValueKind};
use std::collections::{BTreeMap, BTreeSet};

/// Judges all that was recorded.
pub fn check_transactions(records: &Records) -> Result<(), Violation> {
    list_append::check(&records.texts).map_err(|violation| {
        let numbers = violation.transactions();
        let told = numbers.into_iter().map(|number| told(number, &records.texts[number]));
        let what = format!("{violation}{}", told.collect::<String>());
        Violation::new("transactions", what)
    })?;
    check_accounts(records).map_err(|what| Violation::new("accounts", what))
}

fn told(number: usize, transaction: &Transaction) -> String {
    let Transaction { call, fate, steps } = transaction;
    format!("\n  T{number}, called at {call}, {fate:?}: {steps:?}")
}

/// What was left in the accounts is what moved, each amount once.
fn check_accounts(records: &Records) -> Result<(), String> {
    let sum: i64 = records.left.values().sum();
    if sum != 0 {
        return Err(format!("the sum of {:?} is {sum}, and was 0", records.left));
    }
    // Of each account, what moved for certain, and what may have.
    let mut moved: BTreeMap<u64, (i64, Vec<i64>)> = BTreeMap::new();
    for transfer in &records.transfers {
        let [from, to] = transfer.accounts;
        for (account, amount) in [(from, -transfer.amount), (to, transfer.amount)] {
            let (certain, perhaps) = moved.entry(account).or_default();
            match transfer.fate {
                Fate::Committed(_) => *certain += amount,
                Fate::Unknown => perhaps.push(amount),
                Fate::Aborted => {}
            }
        }
    }
    for (account, left) in &records.left {
        let (certain, perhaps) = moved.remove(account).unwrap_or_default();
        let mut possible = BTreeSet::from([certain]);
        for amount in perhaps {
            let with: Vec<i64> = possible.iter().map(|sum| sum + amount).collect();
            possible.extend(with);
        }
        if !possible.contains(left) {
            return Err(format!("account {account} has {left}: it was to have one of {possible:?}"));
        }
    }
    Ok(())
}

/// What is beside keys at rest, and may not be for long: votes, and outcomes that are not known to be
/// applied everywhere.
pub fn left_undecided(hosts: &[Host]) -> Option<String> {
    let stores = hosts.iter().enumerate().filter_map(|(number, host)| Some((number, host.process.as_ref()?)));
    let mut left = None;
    for (number, process) in stores {
        each_entry(&process.parts.store, PositionRange::ALL, &mut |key, entry| {
            if !matches!(entry.state, State::Settled | State::Refused) {
                let (state, id) = (entry.state, entry.id);
                left.get_or_insert_with(|| format!("node {number}: {key} is {state:?} for transaction {id}"));
            }
        });
    }
    left
}

/// How many transactions the nodes have settled, and how many keys have votes in this range.
pub fn settled(hosts: &[Host]) -> u64 {
    let mut settled = BTreeSet::new();
    for process in hosts.iter().filter_map(|host| host.process.as_ref()) {
        each_entry(&process.parts.store, PositionRange::ALL, &mut |_, entry| {
            if entry.state == State::Settled {
                settled.insert(entry.id);
            }
        });
    }
    settled.len() as u64
}

/// How many votes there are in a range of a store.
pub fn votes_in(store: &Store, range: PositionRange) -> u64 {
    let mut votes = 0;
    each_entry(store, range, &mut |_, entry| votes += u64::from(entry.state.is_prepared()));
    votes
}

fn each_entry(store: &Store, range: PositionRange, take: &mut dyn FnMut(&str, sidle_txn::Entry<'_>)) {
    let positions: Vec<Position> = store.positions_with_locks(range);
    for position in positions {
        store.visit(position, position, usize::MAX, &mut |record| {
            let key = sidle_types::beside_what(record.key()).filter(|_| record.kind() == ValueKind::Locks);
            let (Some(key), Some(locks)) = (key, Locks::read(record.value())) else { return };
            locks.entries().iter().for_each(|entry| take(&String::from_utf8_lossy(key), *entry));
        });
    }
}
