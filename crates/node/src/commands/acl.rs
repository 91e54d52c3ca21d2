//! ACL: the users of this node, and what each may do.

use crate::admission::judge;
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::outcome::ControlRequest;
use crate::table::{CommandFlags, CommandSpec, commands};
use sidle_access::{CATEGORIES, DEFAULT_USER, Unmatched, has_spaces, whole_rules};
use sidle_commands::{parse_i64, reply_help};

const HELP: CommandFlags = CommandFlags::LOADING.with(CommandFlags::STALE).with(CommandFlags::WITHOUT_LEASE);
const ANYONE: CommandFlags = HELP.with(CommandFlags::NOSCRIPT);
const ADMIN: CommandFlags = ANYONE.with(CommandFlags::ADMIN);

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::container("acl", CommandFlags::NONE, SUBCOMMANDS)
    .docs("server", "6.0.0", "Depends on subcommand.", "Shows and changes users, and what each may do.")];

const SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("acl|cat", -2, ANYONE, cat).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of commands",
        "Lists the categories of commands, or the commands of one.",
    ),
    CommandSpec::new("acl|deluser", -3, ADMIN, deluser).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of users and connections",
        "Removes users, and closes their connections.",
    ),
    CommandSpec::new("acl|dryrun", -4, ADMIN, dryrun).docs(
        "server",
        "7.0.0",
        "O(1)",
        "Tells whether a user may run a command, without running it.",
    ),
    CommandSpec::new("acl|genpass", -2, ANYONE, genpass).docs(
        "server",
        "6.0.0",
        "O(1)",
        "Makes a password that nobody guesses.",
    ),
    CommandSpec::new("acl|getuser", 3, ADMIN, getuser).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of the user's rules",
        "Returns a user's rules.",
    ),
    CommandSpec::new("acl|list", 2, ADMIN, list).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of users",
        "Returns all users with their rules, as a file of users holds them.",
    ),
    CommandSpec::new("acl|load", 2, ADMIN, load).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of users",
        "Reads the file of users again.",
    ),
    CommandSpec::new("acl|log", -2, ADMIN, log).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of entries shown",
        "Shows what was refused, and to whom.",
    ),
    CommandSpec::new("acl|save", 2, ADMIN, save).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of users",
        "Writes the file of users.",
    ),
    CommandSpec::new("acl|setuser", -3, ADMIN, setuser).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of rules",
        "Makes a user, or changes what it may do.",
    ),
    CommandSpec::new("acl|users", 2, ADMIN, users).docs(
        "server",
        "6.0.0",
        "O(N) where N is the number of users",
        "Returns the users' names.",
    ),
    CommandSpec::new("acl|whoami", 2, ANYONE, whoami).docs(
        "server",
        "6.0.0",
        "O(1)",
        "Returns the name of this connection's user.",
    ),
    CommandSpec::new("acl|help", 2, HELP, help).docs("server", "6.0.0", "O(1)", "Lists the subcommands."),
];

/// How many entries ACL LOG shows that is not told.
const SHOWN_ENTRIES: i64 = 10;
const MOST_BITS: i64 = 4096;

const NO_FILE: ReplyError = ReplyError::text(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
     command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store \
     users in the Redis configuration.",
);

fn cat(call: &mut Call<'_>) -> CommandResult {
    match call.args[2..] {
        [] => {
            call.reply.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
        }
        [category] => {
            let known = |name: &&&str| name.as_bytes().eq_ignore_ascii_case(category);
            let Some(name) = CATEGORIES.iter().find(known) else {
                return Err(ReplyError::owned([b"ERR Unknown category '", category, b"'"].concat()));
            };
            let has = |spec: &CommandSpec| spec.flags.categories().any(|category| category[1..] == **name);
            let all = commands().all().iter().filter(|found| has(found.spec));
            let names: Vec<&str> = all.map(|found| found.spec.name).collect();
            call.reply.array(names.len());
            names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
        }
        _ => return Err(ReplyError::wrong_subcommand(call.args)),
    }
    Ok(Flow::Done)
}

fn deluser(call: &mut Call<'_>) -> CommandResult {
    let names = &call.args[2..];
    if names.contains(&DEFAULT_USER) {
        return Err(ReplyError::text("ERR The 'default' user cannot be removed"));
    }
    let own_id = call.session.client.id;
    let removed = call.shared.access.remove_users(names, &call.shared.clients, own_id);
    call.reply.integer(removed as i64);
    let is_own_end = !call.shared.access.has(call.session);
    Ok(if is_own_end { Flow::Close } else { Flow::Done })
}

fn dryrun(call: &mut Call<'_>) -> CommandResult {
    let (name, request) = (call.args[2], &call.args[3..]);
    let users = call.shared.access.users();
    let Some(entry) = users.find(name) else {
        return Err(ReplyError::owned([b"ERR User '", name, b"' not found"].concat()));
    };
    let found = match commands().resolve(request) {
        Ok(found) => found,
        Err(ReplyError::WrongArity(name)) => return Err(ReplyError::WrongArity(name)),
        Err(_) => return Err(ReplyError::owned([b"ERR Command '", request[0], b"' not found"].concat())),
    };
    match judge(&entry.user, found, request) {
        Ok(()) => call.reply.ok(),
        Err(denied) => call.reply.bulk(&denied.told()),
    }
    Ok(Flow::Done)
}

fn genpass(call: &mut Call<'_>) -> CommandResult {
    let bits = match call.args[2..] {
        [] => 256,
        [bits] => parse_i64(bits).ok_or(ReplyError::NotAnInteger)?,
        _ => return Err(ReplyError::wrong_subcommand(call.args)),
    };
    if !(1..=MOST_BITS).contains(&bits) {
        return Err(ReplyError::text(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let password = call.shared.access.password(bits as usize);
    call.reply.bulk(password.as_bytes());
    Ok(Flow::Done)
}

fn getuser(call: &mut Call<'_>) -> CommandResult {
    let users = call.shared.access.users();
    let Some(entry) = users.find(call.args[2]) else {
        call.reply.null();
        return Ok(Flow::Done);
    };
    let reply = &mut call.reply;
    let flags = entry.user.flags();
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(entry.user.passwords().len());
    entry.user.passwords().iter().for_each(|digest| reply.bulk(digest.text()));
    let selectors = entry.user.described(&call.shared.access.catalogue);
    for (index, selector) in selectors.iter().enumerate() {
        if index == 1 {
            reply.bulk(b"selectors");
            reply.array(selectors.len() - 1);
        }
        if index > 0 {
            reply.map(3);
        }
        for (name, rules) in [&b"commands"[..], b"keys", b"channels"].iter().zip(selector) {
            reply.bulk(name);
            reply.bulk(rules);
        }
    }
    if selectors.len() == 1 {
        reply.bulk(b"selectors");
        reply.array(0);
    }
    Ok(Flow::Done)
}

fn list(call: &mut Call<'_>) -> CommandResult {
    let lines = call.shared.access.users().lines(&call.shared.access.catalogue);
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.bulk(line));
    Ok(Flow::Done)
}

/// Whether there is a file of users.
fn has_file(call: &Call<'_>) -> bool {
    !call.shared.config.value("aclfile").is_empty()
}

fn load(call: &mut Call<'_>) -> CommandResult {
    match has_file(call) {
        true => Ok(Flow::Control(ControlRequest::LoadUsers { client: call.session.client.id })),
        false => Err(NO_FILE),
    }
}

fn save(call: &mut Call<'_>) -> CommandResult {
    if has_file(call) { Ok(Flow::Control(ControlRequest::SaveUsers)) } else { Err(NO_FILE) }
}

fn log(call: &mut Call<'_>) -> CommandResult {
    let most = match call.args[2..] {
        [] => SHOWN_ENTRIES,
        [word] if word.eq_ignore_ascii_case(b"reset") => {
            call.shared.access.forget_refused();
            call.reply.ok();
            return Ok(Flow::Done);
        }
        [count] => parse_i64(count).ok_or(ReplyError::NotAnInteger)?,
        _ => return Err(ReplyError::wrong_subcommand(call.args)),
    };
    let refused = call.shared.access.refused(usize::try_from(most).unwrap_or(0));
    let reply = &mut call.reply;
    reply.array(refused.len());
    for entry in refused {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        for (name, text) in [
            (&b"reason"[..], entry.cause.name().as_bytes()),
            (b"context", entry.context.name().as_bytes()),
            (b"object", &entry.object),
            (b"username", &entry.user),
        ] {
            reply.bulk(name);
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double(call.now.0.saturating_sub(entry.at.0) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
    Ok(Flow::Done)
}

fn setuser(call: &mut Call<'_>) -> CommandResult {
    let (name, words) = (call.args[2], &call.args[3..]);
    if has_spaces(name) {
        return Err(ReplyError::text("ERR Usernames can't contain spaces or null characters"));
    }
    let rules = whole_rules(words).map_err(|Unmatched(index)| {
        let start = b"ERR Unmatched parenthesis in acl selector starting at '";
        ReplyError::owned([start, words[index], b"'."].concat())
    })?;
    call.shared.access.set_user(name, &rules).map_err(|(index, error)| {
        let why = error.to_string();
        let parts: [&[u8]; 4] =
            [b"ERR Error in ACL SETUSER modifier '", &rules[index], b"': ", why.as_bytes()];
        ReplyError::owned(parts.concat())
    })?;
    call.shared.access.keep_up(call.session);
    call.reply.ok();
    Ok(Flow::Done)
}

fn users(call: &mut Call<'_>) -> CommandResult {
    let users = call.shared.access.users();
    call.reply.array(users.all().count());
    users.all().for_each(|(name, _)| call.reply.bulk(name));
    Ok(Flow::Done)
}

fn whoami(call: &mut Call<'_>) -> CommandResult {
    call.reply.bulk(call.session.rights.name());
    Ok(Flow::Done)
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "ACL",
        &[
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
            "DELUSER <username> [<username> ...]",
            "    Delete a list of users.",
            "DRYRUN <username> <command> [<arg> ...]",
            "    Returns whether the user can execute the given command without executing the command.",
            "GETUSER <username>",
            "    Get the user's details.",
            "GENPASS [<bits>]",
            "    Generate a secure 256-bit user password. The optional `bits` argument can",
            "    be used to specify a different size.",
            "LIST",
            "    Show users details in config file format.",
            "LOAD",
            "    Reload users from the ACL file.",
            "LOG [<count> | RESET]",
            "    Show the ACL log entries.",
            "SAVE",
            "    Save the current config to the ACL file.",
            "SETUSER <username> <attribute> [<attribute> ...]",
            "    Create or modify a user with the specified attributes.",
            "USERS",
            "    List all the registered usernames.",
            "WHOAMI",
            "    Return the current connection username.",
        ],
    );
    Ok(Flow::Done)
}
