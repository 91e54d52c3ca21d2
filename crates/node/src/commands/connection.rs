//! The connection itself: HELLO, AUTH, SELECT, QUIT, RESET, PING, ECHO.

use crate::admission::note_wrong;
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::session::{Replies, Session};
use crate::shared::REDIS_VERSION;
use crate::table::{CommandFlags, CommandSpec};
use sidle_access::DEFAULT_USER;
use sidle_commands::{parse_i32, parse_i64};
use sidle_resp::RespVersion;
use sidle_types::ProtocolVersion;

const ALWAYS: CommandFlags = CommandFlags::LOADING
    .with(CommandFlags::STALE)
    .with(CommandFlags::FAST)
    .with(CommandFlags::CONNECTION)
    .with(CommandFlags::WITHOUT_LEASE);
const WITHOUT_PASSWORD: CommandFlags =
    ALWAYS.with(CommandFlags::NOSCRIPT).with(CommandFlags::NO_AUTH).with(CommandFlags::ALLOW_BUSY);

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(
        "ping",
        -1,
        CommandFlags::FAST.with(CommandFlags::CONNECTION).with(CommandFlags::WITHOUT_LEASE),
        ping,
    )
    .docs("connection", "1.0.0", "O(1)", "Answers, to show that the node is there.")
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    CommandSpec::new("echo", 2, ALWAYS, echo).docs(
        "connection",
        "1.0.0",
        "O(1)",
        "Answers with its argument.",
    ),
    CommandSpec::new("hello", -1, WITHOUT_PASSWORD, hello).docs(
        "connection",
        "6.0.0",
        "O(1)",
        "Chooses the protocol's version, and may authenticate.",
    ),
    CommandSpec::new("auth", -2, WITHOUT_PASSWORD, auth).docs(
        "connection",
        "1.0.0",
        "O(N) where N is the length of the password",
        "Authenticates the connection.",
    ),
    CommandSpec::new("select", 2, ALWAYS, select).docs(
        "connection",
        "1.0.0",
        "O(1)",
        "Chooses the database: there is only 0.",
    ),
    CommandSpec::new("quit", -1, WITHOUT_PASSWORD, quit).docs(
        "connection",
        "1.0.0",
        "O(1)",
        "Closes the connection.",
    ),
    CommandSpec::new("reset", 1, WITHOUT_PASSWORD, reset).docs(
        "connection",
        "6.2.0",
        "O(1)",
        "Makes the connection as new.",
    ),
];

fn ping(call: &mut Call<'_>) -> CommandResult {
    match call.args {
        [_] => call.reply.simple("PONG"),
        [_, message] => call.reply.bulk(message),
        _ => return Err(ReplyError::WrongArity("ping")),
    }
    Ok(Flow::Done)
}

fn echo(call: &mut Call<'_>) -> CommandResult {
    call.reply.bulk(call.args[1]);
    Ok(Flow::Done)
}

/// Takes HELLO's arguments in order, each at once, as in Redis: a wrong password stops those behind it, not
/// those before it. Returns the requested version.
fn greeting(call: &mut Call<'_>) -> Result<Option<RespVersion>, ReplyError> {
    let [version, options @ ..] = &call.args[1..] else { return Ok(None) };
    let version = match parse_i64(version) {
        None => return Err(ReplyError::text("ERR Protocol version is not an integer or out of range")),
        Some(2) => RespVersion::Resp2,
        Some(3) => RespVersion::Resp3,
        Some(_) => return Err(ReplyError::text("NOPROTO unsupported protocol version")),
    };
    let mut rest = options;
    while let [option, more @ ..] = rest {
        rest = match more {
            [user, password, after @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                authenticate(call, user, password)?;
                after
            }
            [name, after @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                set_name(call.session, name)?;
                after
            }
            _ => {
                let text = [b"ERR Syntax error in HELLO option '", *option, b"'"].concat();
                return Err(ReplyError::owned(text));
            }
        };
    }
    Ok(Some(version))
}

fn hello(call: &mut Call<'_>) -> CommandResult {
    let version = greeting(call)?;
    if !call.session.authenticated {
        return Err(ReplyError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
             <pass> option can be used to authenticate the client and select the RESP protocol version at the same \
             time",
        ));
    }
    if let Some(version) = version {
        speak(call.session, version);
    }
    let id = call.session.client.id as i64;
    let version = call.session.version;
    let reply = &mut call.reply;
    reply.set_version(version);
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if version == RespVersion::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"cluster");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(Flow::Done)
}

fn speak(session: &mut Session, version: RespVersion) {
    session.version = version;
    if version != RespVersion::Resp3 {
        session.unsubscribe();
    }
    session.client.details().resp3 = version == RespVersion::Resp3;
}

fn auth(call: &mut Call<'_>) -> CommandResult {
    match *call.args {
        [_, password] => {
            if call.shared.access.needs_no_password() {
                return Err(ReplyError::text(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                     your configuration is correct?",
                ));
            }
            authenticate(call, DEFAULT_USER, password)?;
        }
        [_, user, password] => authenticate(call, user, password)?,
        _ => return Err(ReplyError::Syntax),
    }
    call.reply.ok();
    Ok(Flow::Done)
}

/// Makes the connection a user's.
fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<(), ReplyError> {
    let access = &call.shared.access;
    if access.admit(call.session, user, password) {
        return Ok(());
    }
    note_wrong(call.shared, call.session, call.now, call.args[0], user);
    Err(ReplyError::WrongPass)
}

fn select(call: &mut Call<'_>) -> CommandResult {
    match parse_i32(call.args[1])? {
        0 => {
            call.reply.ok();
            Ok(Flow::Done)
        }
        _ => Err(ReplyError::text("ERR DB index is out of range")),
    }
}

fn quit(call: &mut Call<'_>) -> CommandResult {
    call.reply.ok();
    Ok(Flow::Close)
}

fn reset(call: &mut Call<'_>) -> CommandResult {
    let session = &mut *call.session;
    speak(session, RespVersion::Resp2);
    call.shared.access.forget_user(session);
    session.asking = false;
    session.readonly = false;
    session.capa_sidle = false;
    session.crosses_slots = false;
    session.reads_version = ProtocolVersion::CURRENT;
    session.replies = Replies::On;
    session.end_transaction();
    session.set_monitoring(None);
    {
        let mut details = session.client.details();
        details.name.clear();
        details.readonly = false;
    }
    call.reply.simple("RESET");
    Ok(Flow::Done)
}

/// Names the connection; an empty name is none.
pub(super) fn set_name(session: &Session, name: &[u8]) -> Result<(), ReplyError> {
    check_word(name, "ERR Client names cannot contain spaces, newlines or special characters.")?;
    check_name_length(name)?;
    session.client.details().name = String::from_utf8_lossy(name).into_owned();
    Ok(())
}

/// Checks what a client reports about itself: printable, and one word.
pub(super) fn check_word(word: &[u8], refusal: &'static str) -> Result<(), ReplyError> {
    if word.iter().all(u8::is_ascii_graphic) { Ok(()) } else { Err(ReplyError::text(refusal)) }
}

/// A client's reported names are kept for the whole connection, and count towards no limit.
const LONGEST_NAME_BYTES: usize = 1024;

/// Checks the length of a client's or its library's name.
pub(super) fn check_name_length(name: &[u8]) -> Result<(), ReplyError> {
    match name.len() <= LONGEST_NAME_BYTES {
        true => Ok(()),
        false => Err(ReplyError::text("ERR Names of clients and libraries have at most 1024 bytes.")),
    }
}
