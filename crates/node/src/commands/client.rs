//! CLIENT and its subcommands.

use super::client_kill::{Kind, kill};
use super::client_pause::{pause, unpause};
use super::connection::{check_name_length, check_word, set_name};
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::client_line::describe;
use crate::clients::{ClientRecord, Unblock};
use crate::session::Replies;
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::parse_i64;
use sidle_commands::reply_help;
use sidle_resp::RespVersion;
use sidle_types::{ProtocolVersion, Speaks};

const HELP: CommandFlags = CommandFlags::LOADING
    .with(CommandFlags::STALE)
    .with(CommandFlags::CONNECTION)
    .with(CommandFlags::WITHOUT_LEASE)
    .with(CommandFlags::FOR_OPERATORS);
const FLAGS: CommandFlags = HELP.with(CommandFlags::NOSCRIPT);
const ADMIN: CommandFlags = FLAGS.with(CommandFlags::ADMIN);
const VARIES: &[&str] = &["nondeterministic_output"];

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::container(
    "client",
    CommandFlags::NONE,
    SUBCOMMANDS,
)
.docs("connection", "2.4.0", "Depends on subcommand", "Lists connections and changes this one.")];

const SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("client|id", 2, FLAGS, id).docs(
        "connection",
        "5.0.0",
        "O(1)",
        "Returns this connection's id.",
    ),
    CommandSpec::new("client|info", 2, FLAGS, info)
        .docs("connection", "6.2.0", "O(1)", "Describes this connection.")
        .tips(VARIES),
    CommandSpec::new("client|list", -2, ADMIN, list)
        .docs("connection", "2.4.0", "O(N) where N is the number of connections", "Lists connections.")
        .tips(VARIES),
    CommandSpec::new("client|kill", -3, ADMIN, kill).docs(
        "connection",
        "2.4.0",
        "O(N) where N is the number of connections",
        "Closes connections.",
    ),
    CommandSpec::new("client|getname", 2, FLAGS, getname).docs(
        "connection",
        "2.6.9",
        "O(1)",
        "Returns the name that the client gave itself.",
    ),
    CommandSpec::new("client|setname", 3, FLAGS, setname).docs(
        "connection",
        "2.6.9",
        "O(1)",
        "Gives this connection a name.",
    ),
    CommandSpec::new("client|setinfo", 4, FLAGS, setinfo).docs(
        "connection",
        "7.2.0",
        "O(1)",
        "Sets the name or the version of the client's library.",
    ),
    CommandSpec::new("client|capa", -3, FLAGS, capa).docs(
        "connection",
        "8.0.0",
        "O(1)",
        "Announces what the client understands: sidle for Sidle's own replies.",
    ),
    CommandSpec::new("client|reply", 3, FLAGS, reply).docs(
        "connection",
        "3.2.0",
        "O(1)",
        "Turns replies on or off, or skips one.",
    ),
    CommandSpec::new("client|pause", -3, ADMIN, pause).docs(
        "connection",
        "2.9.50",
        "O(1)",
        "Has all clients of this node wait with their commands, or with those that write.",
    ),
    CommandSpec::new("client|unpause", 2, ADMIN, unpause).docs(
        "connection",
        "6.2.0",
        "O(N) where N is the number of paused clients",
        "Ends a pause of clients.",
    ),
    CommandSpec::new("client|unblock", -3, ADMIN.with(CommandFlags::NOSCRIPT), unblock).docs(
        "connection",
        "5.0.0",
        "O(log N) where N is the number of client connections",
        "Ends the wait of a client's command: as if its time were over, or with an error.",
    ),
    CommandSpec::new("client|no-evict", 3, ADMIN, no_evict).docs(
        "connection",
        "7.0.0",
        "O(1)",
        "Exempts this connection from being closed to save memory, or no longer.",
    ),
    CommandSpec::new("client|no-touch", 3, FLAGS, no_touch).docs(
        "connection",
        "7.2.0",
        "O(1)",
        "Accepted; reads never change what is known of a key.",
    ),
    CommandSpec::new("client|help", 2, HELP, help).docs(
        "connection",
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
];

fn id(call: &mut Call<'_>) -> CommandResult {
    call.reply.integer(call.session.client.id as i64);
    Ok(Flow::Done)
}

fn info(call: &mut Call<'_>) -> CommandResult {
    let mut text = String::new();
    describe(&call.session.client, call.now, &mut text);
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(Flow::Done)
}

fn list(call: &mut Call<'_>) -> CommandResult {
    let wanted: Box<dyn Fn(&ClientRecord) -> bool> = match call.args[2..] {
        [] => Box::new(|_| true),
        [option, kind] if option.eq_ignore_ascii_case(b"type") => {
            let is_here = Kind::parse(kind)?.is_here();
            Box::new(move |_| is_here)
        }
        [option, _, ..] if option.eq_ignore_ascii_case(b"id") => {
            let mut ids = Vec::new();
            for id in &call.args[3..] {
                ids.push(parse_i64(id).ok_or(ReplyError::text("ERR Invalid client ID"))?);
            }
            Box::new(move |client| ids.contains(&(client.id as i64)))
        }
        _ => return Err(ReplyError::Syntax),
    };
    let mut text = String::new();
    for client in call.shared.clients.list().iter().filter(|client| wanted(client)) {
        describe(client, call.now, &mut text);
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(Flow::Done)
}

fn getname(call: &mut Call<'_>) -> CommandResult {
    let name = call.session.client.details().name.clone();
    if name.is_empty() {
        call.reply.null()
    } else {
        call.reply.bulk(name.as_bytes())
    }
    Ok(Flow::Done)
}

fn setname(call: &mut Call<'_>) -> CommandResult {
    set_name(call.session, call.args[2])?;
    call.reply.ok();
    Ok(Flow::Done)
}

fn setinfo(call: &mut Call<'_>) -> CommandResult {
    let (option, value) = (call.args[2], call.args[3]);
    let is_name = option.eq_ignore_ascii_case(b"lib-name");
    if !is_name && !option.eq_ignore_ascii_case(b"lib-ver") {
        return Err(ReplyError::owned([b"ERR Unrecognized option '", option, b"'"].concat()));
    }
    let refusal = if is_name {
        "ERR lib-name cannot contain spaces, newlines or special characters."
    } else {
        "ERR lib-ver cannot contain spaces, newlines or special characters."
    };
    check_word(value, refusal)?;
    check_name_length(value)?;
    let value = String::from_utf8_lossy(value).into_owned();
    {
        let mut details = call.session.client.details();
        if is_name { details.library = value } else { details.library_version = value }
    }
    call.reply.ok();
    Ok(Flow::Done)
}

/// `CLIENT CAPA sidle [sidle-<version> ...] [sidle-given]`, and `CLIENT CAPA cross-slot`. Unknown words are
/// ignored: other servers, or later versions, offer them.
fn capa(call: &mut Call<'_>) -> CommandResult {
    let version = call.args[2..].iter().filter_map(|word| capability(word)).max();
    let is_given = call.args[2..].iter().any(|word| word.eq_ignore_ascii_case(b"sidle-given"));
    if (version.is_some() || is_given) && call.session.version != RespVersion::Resp3 {
        return Err(ReplyError::text("ERR CLIENT CAPA sidle needs RESP3: send HELLO 3 first"));
    }
    call.session.capa_given |= is_given;
    call.session.crosses_slots |= call.args[2..].iter().any(|word| word.eq_ignore_ascii_case(b"cross-slot"));
    if let Some(version) = version {
        call.session.capa_sidle = true;
        call.session.reads_version = version;
    }
    call.reply.ok();
    Ok(Flow::Done)
}

/// The version whose readers name this word.
fn capability(word: &[u8]) -> Option<ProtocolVersion> {
    let word = std::str::from_utf8(word).ok()?.to_ascii_lowercase();
    let version = match word.strip_prefix("sidle")? {
        "" => ProtocolVersion::UNSAID,
        numbered => ProtocolVersion(numbered.strip_prefix('-')?.parse().ok()?),
    };
    Some(version).filter(|&version| Speaks::THIS_BUILD.includes(version))
}

fn reply(call: &mut Call<'_>) -> CommandResult {
    match call.args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            call.session.replies = Replies::On;
            call.reply.ok();
        }
        b"off" => call.session.replies = Replies::Off,
        b"skip" if call.session.replies == Replies::Off => {}
        b"skip" => call.session.replies = Replies::SkipNext,
        _ => return Err(ReplyError::Syntax),
    }
    Ok(Flow::Done)
}

fn unblock(call: &mut Call<'_>) -> CommandResult {
    let how = match call.args[3..] {
        [] => Unblock::AsIfOver,
        [word] if word.eq_ignore_ascii_case(b"timeout") => Unblock::AsIfOver,
        [word] if word.eq_ignore_ascii_case(b"error") => Unblock::WithError,
        [_] => return Err(ReplyError::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(ReplyError::wrong_subcommand(call.args)),
    };
    let id = parse_i64(call.args[2]).ok_or(ReplyError::NotAnInteger)?;
    let client = u64::try_from(id).ok().and_then(|id| call.shared.clients.find(id));
    let waiting = client.and_then(|client| client.waiter().map(|waiter| (client, waiter)));
    if let Some((client, waiter)) = &waiting {
        client.unblock(how);
        call.shared.waiters.wake(*waiter);
    }
    call.reply.integer(waiting.is_some().into());
    Ok(Flow::Done)
}

fn no_evict(call: &mut Call<'_>) -> CommandResult {
    let on = switch(call.args[2])?;
    call.session.client.details().no_evict = on;
    call.reply.ok();
    Ok(Flow::Done)
}

fn no_touch(call: &mut Call<'_>) -> CommandResult {
    let on = switch(call.args[2])?;
    call.session.client.details().no_touch = on;
    call.reply.ok();
    Ok(Flow::Done)
}

fn switch(word: &[u8]) -> Result<bool, ReplyError> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(ReplyError::Syntax),
    }
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "CLIENT",
        &[
            "CAPA <word> ...",
            "    Announce what this client understands.",
            "GETNAME",
            "    Return this connection's name.",
            "ID",
            "    Return this connection's id.",
            "INFO",
            "    Describe this connection.",
            "KILL <ip:port>",
            "    Close the connection from this address.",
            "KILL <option> <value> [<option> <value> ...]",
            "    Close the connections that fit all of: ID, ADDR, LADDR, USER, TYPE, MAXAGE <seconds>.",
            "    SKIPME NO: this one too.",
            "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB) | ID <id> ...]",
            "    List connections.",
            "NO-EVICT (ON|OFF)",
            "    Keep this connection from being closed to save memory.",
            "NO-TOUCH (ON|OFF)",
            "    Accepted, without effect.",
            "PAUSE <milliseconds> [WRITE|ALL]",
            "    Have all clients wait with their commands, or with those that write.",
            "REPLY (ON|OFF|SKIP)",
            "    Turn replies on or off, or skip the next one.",
            "SETINFO (LIB-NAME|LIB-VER) <value>",
            "    Set the client library's name or version.",
            "SETNAME <name>",
            "    Give this connection a name.",
            "UNBLOCK <id> [TIMEOUT|ERROR]",
            "    End a client's wait: as if its time were over, or with an error.",
            "UNPAUSE",
            "    End a pause of clients.",
        ],
    );
    Ok(Flow::Done)
}
