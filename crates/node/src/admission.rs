//! What the user of a connection may not do is refused: once, at the node that has the client. What other
//! nodes forward has been judged there.

use crate::client_line::describe;
use crate::commands::commands;
use crate::request::commands_within;
use crate::session::Session;
use crate::shared::NodeShared;
use crate::table::{CommandFlags, CommandSpec, Found};
use sidle_access::{
    Catalogue, Categories, Cause, CommandIndex, Context, Denial, KeyUse, Question, Refused, User,
};
use sidle_commands::ReplyError;
use sidle_types::WallMs;
use smallvec::SmallVec;

/// All commands of a node, as rules name them.
pub(crate) fn catalogue() -> Catalogue {
    let categories = |spec: &CommandSpec| Categories::of(spec.flags.categories().map(|name| &name[1..]));
    Catalogue::new(commands().all().iter().map(|found| (found.spec.name, categories(found.spec))))
}

/// Why the connection's user may not run a request, if it may not. That is noted.
pub(crate) fn refusal(
    shared: &NodeShared,
    session: &Session,
    now: WallMs,
    found: Found,
    args: &[&[u8]],
) -> Option<ReplyError> {
    let user = session.rights.user()?;
    match judge(user, found, args) {
        Ok(()) => unnamed_refusal(user, found, args),
        Err(denied) => {
            session.client.touch(now, Some(found.id));
            note(shared, session, now, &denied);
            Some(denied.error())
        }
    }
}

/// The same of a command of a transaction that runs now.
pub(crate) fn refusal_in_exec(
    shared: &NodeShared,
    session: &Session,
    now: WallMs,
    found: Found,
    args: &[&[u8]],
) -> Option<ReplyError> {
    let user = session.rights.user()?;
    let Err(denied) = judge(user, found, args) else { return unnamed_refusal(user, found, args) };
    note(shared, session, now, &denied);
    let why = match denied.cause {
        Cause::Key => "no permission to touch the specified keys",
        Cause::Channel => "no permission to access one of the channels used as arguments to the command",
        _ => "no permission to execute the command or subcommand",
    };
    Some(ReplyError::owned(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
         command is no longer allowed for the following reason: {why}"
    )))
}

/// Why the connection's user may not read a key that its command names, if it may not.
pub(crate) fn refusal_to_read(
    shared: &NodeShared,
    session: &Session,
    now: WallMs,
    key: &[u8],
) -> Option<ReplyError> {
    let user = session.rights.user()?;
    if user.may_read(key) {
        return None;
    }
    let denied = Denied { cause: Cause::Key, object: key.to_vec() };
    note(shared, session, now, &denied);
    Some(denied.error())
}

/// Notes that a client gave a wrong name or password.
pub(crate) fn note_wrong(shared: &NodeShared, session: &Session, now: WallMs, command: &[u8], name: &[u8]) {
    enter(shared, session, now, (Cause::Auth, command), name);
}

fn note(shared: &NodeShared, session: &Session, now: WallMs, denied: &Denied) {
    enter(shared, session, now, (denied.cause, &denied.object), session.rights.name());
}

fn enter(shared: &NodeShared, session: &Session, now: WallMs, (cause, object): (Cause, &[u8]), user: &[u8]) {
    let mut client = String::new();
    describe(&session.client, now, &mut client);
    client.truncate(client.trim_end().len());
    let context = if session.transaction.is_some() { Context::Multi } else { Context::TopLevel };
    let (object, user) = (object.to_vec(), user.to_vec());
    shared.access.note(Refused { cause, context, object, user, at: now, client, count: 1 });
}

/// What a user may not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) cause: Cause,
    /// The command, key or channel.
    pub(crate) object: Vec<u8>,
}

impl Denied {
    /// What ACL DRYRUN says of it.
    pub(crate) fn told(&self) -> Vec<u8> {
        let (before, behind): (&[u8], &[u8]) = match self.cause {
            Cause::Key => (b"access the '", b"' key"),
            Cause::Channel => (b"access the '", b"' channel"),
            _ => (b"run the '", b"' command"),
        };
        [b"This user has no permissions to ", before, &self.object, behind].concat()
    }

    fn error(&self) -> ReplyError {
        match self.cause {
            Cause::Key => ReplyError::text(
                "NOPERM this user has no permissions to access one of the keys used as arguments",
            ),
            Cause::Channel => ReplyError::text(
                "NOPERM this user has no permissions to access one of the channels used as arguments",
            ),
            _ => ReplyError::owned(
                [b"NOPERM this user has no permissions to run the '", &self.object[..], b"' command"]
                    .concat(),
            ),
        }
    }
}

/// Whether a user may run a request, and the commands within it.
pub(crate) fn judge(user: &User, found: Found, args: &[&[u8]]) -> Result<(), Denied> {
    judge_one(user, found, args)?;
    commands_within(found, args).try_for_each(|within| judge_one(user, within.found, within.words))
}

fn judge_one(user: &User, found: Found, args: &[&[u8]]) -> Result<(), Denied> {
    user.check(&question(found, args, &key_uses(found, args))).map_err(|denial| match denial {
        Denial::Command => Denied { cause: Cause::Command, object: found.spec.name.into() },
        Denial::Key(at) => Denied { cause: Cause::Key, object: args[at].to_vec() },
        Denial::Channel(at) => Denied { cause: Cause::Channel, object: args[at].to_vec() },
    })
}

fn question<'r>(found: Found, args: &'r [&'r [u8]], keys: &'r [KeyUse]) -> Question<'r> {
    let is_for_all = found.spec.flags.contains(CommandFlags::NO_AUTH);
    Question { command: CommandIndex(found.id.0), is_for_all, args, keys, channels: &[] }
}

fn key_uses(found: Found, args: &[&[u8]]) -> SmallVec<[KeyUse; 8]> {
    let uses = |at| {
        let access = access_to(found.spec, args, at);
        let writes = ["insert", "update", "delete"].iter().any(|word| access.contains(word));
        KeyUse { at, reads: access.contains(&"access"), writes }
    };
    found.spec.keys.indices(args).map(uses).collect()
}

/// What a request does to the key with this index, in the words of COMMAND INFO. Only SET's depends on the
/// request.
pub(crate) fn access_to(spec: &CommandSpec, request: &[&[u8]], index: usize) -> &'static [&'static str] {
    let keys = spec.keys;
    match keys.last_access {
        _ if keys.access.contains(&"variable_flags") => {
            let gets = request[3..].iter().any(|option| option.eq_ignore_ascii_case(b"get"));
            if gets { &["RW", "access", "update"] } else { &["OW", "update"] }
        }
        Some(others) if index != usize::from(keys.first) => others,
        _ => keys.access,
    }
}

/// Who may not read all keys may not have SORT look up others than it names.
fn unnamed_refusal(user: &User, found: Found, args: &[&[u8]]) -> Option<ReplyError> {
    if !found.spec.is_over_unnamed(args) || user.may_read_all(&question(found, args, &key_uses(found, args)))
    {
        return None;
    }
    let option = args
        .iter()
        .skip(2)
        .find(|word| [&b"by"[..], b"get"].iter().any(|option| word.eq_ignore_ascii_case(option)));
    let option = option.map_or("GET", |word| if word.eq_ignore_ascii_case(b"by") { "BY" } else { "GET" });
    Some(ReplyError::owned(format!("ERR {option} option of SORT denied due to insufficient ACL permissions")))
}
