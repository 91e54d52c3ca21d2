//! DEBUG: refused, unless the node was started to allow it; then what tests of the protocol use.

use super::walk::for_each_live;
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::content_digest::ContentDigest;
use crate::refusals::LOADING;
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::{Content, Value, encoding_of, parse_i64, reply_help};
use sidle_outline::Large;
use sidle_resp::RespVersion;
use sidle_store::Guard;
use sidle_types::{HashedKey, Slot, WallMs};
use std::sync::atomic::Ordering::Relaxed;

const ADMIN: CommandFlags =
    CommandFlags::ADMIN.with(CommandFlags::NOSCRIPT).with(CommandFlags::LOADING).with(CommandFlags::STALE);

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::new("debug", -2, ADMIN, debug).docs(
    "server",
    "1.0.0",
    "Depends on subcommand",
    "Helps tests, where the node was started to allow it.",
)];

const NOT_ALLOWED: ReplyError = ReplyError::text(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from \
     a local connection, otherwise you need to set this option in the configuration file, and then restart the \
     server.",
);

fn debug(call: &mut Call<'_>) -> CommandResult {
    if call.shared.config.value("enable-debug-command") != "yes" {
        return Err(NOT_ALLOWED);
    }
    // What it looks at is half there.
    if call.shared.loading.is_on() {
        return Err(LOADING);
    }
    let (name, arguments) = (call.args[1].to_ascii_lowercase(), &call.args[2..]);
    match (name.as_slice(), arguments) {
        (b"help", []) => help(call),
        (b"digest", []) => digest(call),
        (b"digest-value", keys) => digest_values(call, keys),
        (b"object", [key]) => object(call, key)?,
        (b"protocol", [kind]) => protocol(call, kind)?,
        (b"set-active-expire", [number]) => {
            let is_on = parse_i64(number).unwrap_or(0) != 0;
            call.shared.expires_actively.store(is_on, Relaxed);
            call.reply.ok();
        }
        (b"reload", _) if call.is_locked => {
            return Err(ReplyError::text("ERR DEBUG RELOAD does not run in a transaction"));
        }
        (b"reload", _) => {
            for slot in Slot::all() {
                call.store.rebuild(slot);
            }
            call.reply.ok();
        }
        (b"collection-sizes", [packed, chunk]) => {
            let bytes = |text: &[u8]| parse_i64(text).and_then(|bytes| u64::try_from(bytes).ok());
            let (Some(packed), Some(chunk)) = (bytes(packed), bytes(chunk)) else {
                return Err(ReplyError::NotAnInteger);
            };
            call.shared.config.set_collection_sizes(packed, chunk);
            call.reply.ok();
        }
        // Lists have no nodes, so that nothing depends on their size.
        (b"quicklist-packed-threshold", [_]) | (b"jmap", []) => call.reply.ok(),
        _ => return Err(ReplyError::wrong_subcommand(call.args)),
    }
    Ok(Flow::Done)
}

/// The digest of all live keys of this node.
fn digest(call: &mut Call<'_>) {
    let mut all = ContentDigest::default();
    for_each_live(call, &mut |record| {
        let guard = call.store.pin();
        with_value(&guard, record.key(), call.now, |value| {
            let digest = ContentDigest::of_value(value);
            all.add(&[record.key(), &digest.0.to_be_bytes(), &[value.expires_at.is_some().into()]]);
        });
        true
    });
    call.reply.simple(&all.to_string());
}

/// The digests of the values of some keys; of an absent one, that of nothing.
fn digest_values(call: &mut Call<'_>, keys: &[&[u8]]) {
    call.reply.array(keys.len());
    let guard = call.store.pin();
    for key in keys {
        let digest = with_value(&guard, key, call.now, ContentDigest::of_value);
        call.reply.simple(&digest.unwrap_or_default().to_string());
    }
}

/// Passes a key's value to `f`, if it has one.
fn with_value<T>(guard: &Guard<'_>, key: &[u8], now: WallMs, f: impl FnOnce(Value<'_>) -> T) -> Option<T> {
    let (entry, outline) = guard.get_whole(HashedKey::new(key));
    let record = entry.value().filter(|record| !record.is_expired(now))?;
    let content = match &outline {
        Some(outline) => Content::Large(Large::new(outline, guard)),
        None => Content::Whole(record.value()),
    };
    Some(f(Value { kind: record.kind(), content, expires_at: record.expires_at() }))
}

/// What Redis says of a value's object. Where a value lies changes; a key's position does not.
fn object(call: &mut Call<'_>, key: &[u8]) -> Result<(), ReplyError> {
    let position = HashedKey::new(key).position();
    let guard = call.store.pin();
    let text = with_value(&guard, key, call.now, |value| {
        format!(
            "Value at:{:#x} refcount:1 encoding:{} serializedlength:{} lru:0 lru_seconds_idle:0",
            position.0,
            encoding_of(value),
            value.content_bytes(),
        )
    });
    call.reply.simple(&text.ok_or(ReplyError::text("ERR no such key"))?);
    Ok(())
}

/// Redis's example of a number.
#[expect(clippy::approx_constant, reason = "it stands for no other number")]
const DOUBLE: f64 = 3.141;

/// A reply of each kind that the protocol has.
fn protocol(call: &mut Call<'_>, kind: &[u8]) -> Result<(), ReplyError> {
    let is_resp3 = call.session.version == RespVersion::Resp3;
    let reply = &mut call.reply;
    match kind.to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(DOUBLE),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            (0..3).for_each(|number| {
                reply.integer(number);
                reply.boolean(number == 1);
            });
        }
        b"attrib" => {
            if is_resp3 {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if !is_resp3 => return Err(ReplyError::text("ERR RESP2 is not supported by this command")),
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim(*b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => {
            return Err(ReplyError::text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

fn help(call: &mut Call<'_>) {
    reply_help(
        &mut call.reply,
        "DEBUG",
        &[
            "COLLECTION-SIZES <packed> <chunk>",
            "    Keep collections of more bytes in chunks, and split longer chunks.",
            "DIGEST",
            "    Return a digest of all keys of this node, their values, and whether they expire.",
            "DIGEST-VALUE <key> [<key> ...]",
            "    Return digests of values of this node.",
            "JMAP",
            "    Do nothing.",
            "OBJECT <key>",
            "    Return the position of a key of this node, and how its value is kept.",
            "PROTOCOL <type>",
            "    Return a reply of this type.",
            "QUICKLIST-PACKED-THRESHOLD <size>",
            "    Do nothing.",
            "RELOAD",
            "    Build the index anew from the records.",
            "SET-ACTIVE-EXPIRE <0|1>",
            "    Keep expired keys that nobody reads, or remove them again.",
        ],
    );
}
