//! The commands of a transaction as the nodes run them: one over keys of several nodes, as MGET, is a command
//! for each of its keys.

use crate::prepared::{Prepared, prepare};
use crate::request::Request;
use crate::transaction::Transaction;
use sidle_commands::Split;
use sidle_resp::Value;
use sidle_txn::TransactionCommand;
use sidle_types::HashedKey;

/// What one command of the client became.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    /// How their replies become one.
    split: Split,
    count: usize,
}

/// The commands of a transaction, in order, in pieces where their keys have several owners.
pub(super) fn in_pieces(
    transaction: &Transaction,
    owner: impl Fn(HashedKey<'_>) -> Option<usize>,
) -> (Vec<TransactionCommand>, Vec<Pieces>) {
    let (mut commands, mut all) = (Vec::new(), Vec::new());
    for Prepared { found, words, keys } in prepare(transaction) {
        let command = |words: &[&[u8]]| TransactionCommand {
            words: words.iter().map(|word| word.to_vec()).collect(),
            keys: found.spec.keys.indices(words).collect(),
            check: None,
        };
        let may_be_split = matches!(found.spec.split, Split::Each | Split::Sum | Split::AllOk)
            && found.spec.keys.are_whole(words.len());
        let is_over_several = keys.iter().any(|&key| owner(key) != owner(keys[0]));
        if !may_be_split || !is_over_several {
            commands.push(command(&words));
            all.push(Pieces { split: Split::Never, count: 1 });
            continue;
        }
        let request = Request { found, keys: &keys, args: &words };
        commands.extend((0..keys.len()).map(|key| command(&request.part(&[key]))));
        all.push(Pieces { split: found.spec.split, count: keys.len() });
    }
    (commands, all)
}

/// The replies to the client's commands, from those to their pieces.
pub(super) fn join(all: &[Pieces], replies: Vec<Value>) -> Option<Vec<Value>> {
    let mut replies = replies.into_iter();
    let joined = all.iter().map(|pieces| {
        let of_pieces: Vec<Value> = replies.by_ref().take(pieces.count).collect();
        if of_pieces.len() < pieces.count {
            return None;
        }
        if let Some(error) = of_pieces.iter().find(|reply| matches!(reply, Value::Error(_))) {
            return Some(error.clone());
        }
        match pieces.split {
            Split::Each => {
                let elements = of_pieces.into_iter().map(|reply| match reply {
                    Value::Array(elements) => Some(elements),
                    _ => None,
                });
                elements.collect::<Option<Vec<_>>>().map(|elements| Value::Array(elements.concat()))
            }
            Split::Sum => {
                let counts = of_pieces.iter().map(|reply| match reply {
                    Value::Integer(count) => Some(*count),
                    _ => None,
                });
                counts.sum::<Option<i64>>().map(Value::Integer)
            }
            Split::Never | Split::AllOk | Split::AllOrNone => of_pieces.into_iter().next(),
        }
    });
    let joined = joined.collect::<Option<Vec<Value>>>()?;
    replies.next().is_none().then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(split: Split, count: usize) -> Pieces {
        Pieces { split, count }
    }

    #[test]
    fn replies_of_pieces_become_those_of_their_commands() {
        let all =
            [pieces(Split::Never, 1), pieces(Split::Each, 2), pieces(Split::Sum, 3), pieces(Split::AllOk, 2)];
        let ok = Value::Simple("OK".into());
        let one = |value: i64| Value::Array(vec![Value::Integer(value)]);
        let replies = vec![
            Value::Null,
            one(1),
            one(2),
            Value::Integer(1),
            Value::Integer(0),
            Value::Integer(1),
            ok.clone(),
            ok.clone(),
        ];
        let both = Value::Array(vec![Value::Integer(1), Value::Integer(2)]);
        let expected = vec![Value::Null, both, Value::Integer(2), ok];
        assert_eq!(join(&all, replies.clone()), Some(expected));
        assert_eq!(join(&all, replies[..7].to_vec()), None, "one is missing");
        assert_eq!(join(&all[..3], replies), None, "nobody asked for the last");
        let error = Value::Error("ERR of one".into());
        assert_eq!(join(&all[2..3], vec![Value::Integer(1), error.clone(), one(1)]), Some(vec![error]));
    }
}
