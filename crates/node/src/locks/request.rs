//! A part of a transaction that is to be prepared, as its request has it.

use super::look::LOOK;
use crate::request::{Inner, Keys, Request, commands_within, keys_of};
use crate::table::{CommandFlags, NodeExecutor};
use sidle_commands::{OverKeys, ReplyError, Run, parse_i64};
use sidle_txn::{Age, Check, TransactionId};
use sidle_types::{HashedKey, WallMs};

/// Where the commands begin.
pub(crate) const COMMANDS_AT: u8 = 9;
/// The mark of a part that is the whole transaction: it is committed at once.
const ALONE: i64 = 1;
/// The mark of one in which an error of a command is its reply, as in EXEC.
const KEEPS_ERRORS: i64 = 2;

const NO_ID: ReplyError = ReplyError::text("ERR a transaction's id is 32 hex digits");
const NO_MARKS: ReplyError = ReplyError::text("ERR a part's marks are 0 to 3: 1 alone, 2 keeps errors");
const NO_COMMANDS: ReplyError = ReplyError::text(
    "ERR a part has commands over keys, each behind a check (8 bytes, or empty) and its number of words",
);
const NO_LIST: ReplyError =
    ReplyError::text("ERR the part with a transaction's first key has the list of all, and no other has one");

/// A part to be prepared.
pub(super) struct Part<'r> {
    pub(super) id: TransactionId,
    pub(super) age: Age,
    /// When this attempt was issued, by its coordinator's clock.
    pub(super) issued: WallMs,
    pub(super) is_alone: bool,
    pub(super) keeps_errors: bool,
    /// The first key of all.
    pub(super) first: &'r [u8],
    /// The list of all keys, where the first one is in this part.
    pub(super) list: &'r [u8],
    pub(super) steps: Vec<Step<'r>>,
    /// The part's keys, each once.
    pub(super) keys: Vec<HashedKey<'r>>,
}

/// A command of a part.
pub(super) struct Step<'r> {
    pub(super) name: &'static str,
    /// None of one that looks at its key's state.
    pub(super) run: Option<OverKeys<NodeExecutor>>,
    pub(super) words: &'r [&'r [u8]],
    pub(super) keys: Keys<'r>,
    /// What its reply is to be; otherwise the reply is sent.
    pub(super) check: Option<Check>,
}

/// The transaction that is named so.
pub(super) fn id_of(text: &[u8]) -> Result<TransactionId, ReplyError> {
    TransactionId::parse(text).ok_or(NO_ID)
}

fn time_of(text: &[u8]) -> Result<WallMs, ReplyError> {
    let ms = parse_i64(text).and_then(|ms| u64::try_from(ms).ok());
    ms.map(WallMs).ok_or(ReplyError::NotAnInteger)
}

impl<'r> Part<'r> {
    /// The part in a request.
    pub(super) fn of(request: Request<'r>) -> Result<Part<'r>, ReplyError> {
        let Request { found, args, keys } = request;
        let (id, age, issued) = (id_of(args[2])?, Age(time_of(args[3])?), time_of(args[4])?);
        let marks = parse_i64(args[5]).filter(|marks| (0..=3).contains(marks)).ok_or(NO_MARKS)?;
        let (first, list, known) = (args[6], args[7], parse_i64(args[8]));
        let (mut steps, mut end) = (Vec::new(), usize::from(COMMANDS_AT));
        for inner in commands_within(found, args) {
            end = inner.at + inner.words.len();
            steps.push(Step::of(inner)?);
        }
        if steps.is_empty() || end != args.len() {
            return Err(NO_COMMANDS);
        }
        let mut keys = keys.to_vec();
        keys.sort_unstable_by_key(|key| (key.position(), key.bytes()));
        keys.dedup_by(|a, b| a.bytes() == b.bytes());
        if known != i64::try_from(keys.len()).ok() {
            return Err(other_keys(keys.len()));
        }
        let has_first = keys.iter().any(|key| key.bytes() == first);
        let all = sidle_txn::Keys(list);
        if has_first == list.is_empty() || !all.is_whole() || has_first && all.iter().next() != Some(first) {
            return Err(NO_LIST);
        }
        let (is_alone, keeps_errors) = (marks & ALONE != 0, marks & KEEPS_ERRORS != 0);
        Ok(Part { id, age, issued, is_alone, keeps_errors, first, list, steps, keys })
    }
}

impl<'r> Step<'r> {
    fn of(inner: Inner<'r, 'r>) -> Result<Step<'r>, ReplyError> {
        let Inner { found, words, check, .. } = inner;
        let (spec, keys) = (found.spec, keys_of(found, words));
        let run = match spec.run {
            Run::OverKeys(run) => Some(run),
            Run::Own(_) if spec.name == LOOK => None,
            Run::Own(_) => return Err(not_in_a_part(spec.name)),
        };
        let waits = spec.flags.contains(CommandFlags::BLOCKING);
        if waits || keys.is_empty() || spec.is_over_unnamed(words) {
            return Err(not_in_a_part(spec.name));
        }
        let check = match check {
            [] => None,
            bytes => Some(Check::read(bytes).ok_or(NO_COMMANDS)?),
        };
        Ok(Step { name: spec.name, run, words, keys, check })
    }
}

/// Keys that the coordinator does not know would stay locked.
#[cold]
fn other_keys(count: usize) -> ReplyError {
    ReplyError::owned(format!("ERR the part's commands have {count} keys, and its coordinator knows others"))
}

#[cold]
fn not_in_a_part(name: &str) -> ReplyError {
    ReplyError::owned(format!(
        "ERR '{name}' cannot be part of a transaction over several nodes: it blocks, or names no keys"
    ))
}
