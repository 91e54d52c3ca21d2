//! Users and their rights.
//!
//! A listing depends on which commands there are. So the listings of Redis are compared with those that the
//! same rules get from Redis's own commands, and those of a node where no category is in part.

use crate::compare::value;
use crate::encode;
use crate::server::Both;
use sidle_access::{Catalogue, Categories, User, whole_rules};
use sidle_resp::Value;
use sidle_testbed::Random;

/// Rules, and what is none.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">p",
    ">q",
    "<p",
    "<nothing",
    "#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940",
    "!148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940",
    "#148de9",
    "!148DE9C5A7A44D19E56CD9AE1A554BF67847AFB0C58F6E12FA29AC7DDFCA9940",
    "+@all",
    "-@all",
    "allcommands",
    "nocommands",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@keyspace",
    "-@keyspace",
    "+@string",
    "-@string",
    "+@HASH",
    "+@sortedset",
    "-@pubsub",
    "+@pubsub",
    "-@dangerous",
    "+@dangerous",
    "-@admin",
    "+@admin",
    "+@fast",
    "-@slow",
    "-@connection",
    "+@scripting",
    "-@blocking",
    "+@nothing",
    "-@",
    "+get",
    "-get",
    "+GET",
    "-set",
    "+config",
    "-config",
    "+config|get",
    "-config|get",
    "-CONFIG|SET",
    "+config|nothing",
    "+config|get|x",
    "+select|0",
    "+select|1",
    "+select|0",
    "+select",
    "-select",
    "-select|0",
    "+select|",
    "+nothing",
    "-nothing",
    "+nothing|get",
    "+client|id",
    "-client",
    "~a*",
    "~b",
    "%R~a*",
    "%W~c",
    "%rw~d",
    "%RW~e",
    "%R",
    "%",
    "~",
    "%~x",
    "%X~y",
    "%RR~y",
    "~*",
    "allkeys",
    "resetkeys",
    "&c*",
    "&d",
    "&*",
    "allchannels",
    "resetchannels",
    "(+get ~a)",
    "(%R~b +@read)",
    "(&c -@all +@hash)",
    "(+nothing)",
    "(hello)",
    "()",
    "( +set   ~q )",
    "clearselectors",
    "reset",
    "sanitize-payload",
    "skip-sanitize-payload",
    "hello",
    "",
    "(",
    ")",
    "~a b",
    "&a b",
];

fn request(words: &[&str]) -> Vec<u8> {
    encode(&words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().expect("a text")).into_owned()
}

/// Redis's commands with their categories, as COMMAND tells them; then the subcommands.
fn catalogue_of_redis(both: &mut Both) -> Catalogue {
    let Value::Array(commands) = value(&both.redis.ask(&request(&["COMMAND"]))) else { panic!("an array") };
    let (mut all, mut subcommands) = (Vec::new(), Vec::new());
    let described = |command: &Value| {
        let Value::Array(facts) = command else { panic!("a command") };
        let (Value::Array(categories), Value::Array(within)) = (&facts[6], &facts[9]) else { panic!("sets") };
        let names: Vec<String> = categories.iter().map(|name| text_of_status(name)[1..].to_owned()).collect();
        let categories = Categories::of(names.iter().map(String::as_str));
        ((text(&facts[0]), categories), within.clone())
    };
    for command in &commands {
        let (own, within) = described(command);
        all.push(own);
        subcommands.extend(within.iter().map(|command| described(command).0));
    }
    all.extend(subcommands);
    Catalogue::new(all.iter().map(|(name, categories)| (name.as_str(), *categories)))
}

fn text_of_status(value: &Value) -> &str {
    let Value::Simple(text) = value else { panic!("a status") };
    text
}

/// A listing's words. Single commands stand in the order of a random table.
fn in_order(listing: &str) -> Vec<Vec<String>> {
    let selectors = listing.split_inclusive(['(', ')']);
    let words = selectors.map(|part| {
        let is_single = |word: &&str| word.starts_with(['+', '-']) && !word[1..].starts_with('@');
        let (mut single, other): (Vec<&str>, Vec<&str>) = part.split(' ').partition(is_single);
        single.sort_unstable();
        other.into_iter().chain(single).map(str::to_owned).collect()
    });
    words.collect()
}

/// Some rules for one user, and what is told of each rule and then of the user.
fn drawn(random: &mut Random) -> Vec<&'static str> {
    let count = random.between(1, 12);
    (0..count).map(|_| RULES[random.index(RULES.len())]).collect()
}

#[test]
fn rules_make_the_user_that_they_make_in_redis() {
    let Some(mut both) = Both::start() else { return };
    let catalogue = catalogue_of_redis(&mut both);
    for seed in 0..300 {
        let rules = drawn(&mut Random::new(seed));
        both.redis.ask(&request(&["ACL", "DELUSER", "u"]));
        let mut user = User::default();
        both.redis.ask(&request(&["ACL", "SETUSER", "u"]));
        for rule in &rules {
            let reply = both.redis.ask(&request(&["ACL", "SETUSER", "u", rule]));
            let own = match whole_rules(&[rule.as_bytes()]) {
                Err(_) => format!("-ERR Unmatched parenthesis in acl selector starting at '{rule}'.\r\n"),
                Ok(whole) => match user.apply(&catalogue, &whole[0]) {
                    Ok(()) => "+OK\r\n".to_owned(),
                    Err(error) => format!("-ERR Error in ACL SETUSER modifier '{rule}': {error}\r\n"),
                },
            };
            assert_eq!(own, String::from_utf8_lossy(&reply), "seed {seed}: {rule} of {rules:?}");
        }
        let Value::Array(lines) = value(&both.redis.ask(&request(&["ACL", "LIST"]))) else { panic!("lines") };
        let lines: Vec<String> = lines.iter().map(text).collect();
        let redis = lines.iter().find_map(|line| line.strip_prefix("user u ")).expect("it is there");
        let own = String::from_utf8_lossy(&user.rules(&catalogue)).into_owned();
        assert_eq!(in_order(&own), in_order(redis), "seed {seed}: {rules:?}\n{own}\n{redis}");
    }
}

/// The same requests to both, among them every rule by itself.
#[test]
fn a_node_answers_to_rules_as_redis_does() {
    let Some(mut both) = Both::start() else { return };
    // These categories are of commands that are here only in part.
    let is_partial =
        |rule: &str| ["@pubsub", "@scripting", "@blocking"].iter().any(|category| rule.contains(category));
    for rule in RULES.iter().filter(|rule| !is_partial(rule)) {
        for before in ["reset", "+@all", "allkeys", ">p", "&*"] {
            for words in [
                &["ACL", "SETUSER", "u", before, rule][..],
                &["ACL", "SETUSER", "u", rule],
                &["ACL", "GETUSER", "u"],
                &["ACL", "LIST"],
                &["ACL", "USERS"],
                &["ACL", "DELUSER", "u", "nobody"],
            ] {
                let (redis, sidle) = both.ask(&request(words));
                let shown = |reply: &[u8]| String::from_utf8_lossy(reply).into_owned();
                assert_eq!(shown(&sidle), shown(&redis), "{words:?}");
            }
        }
    }
}

/// What a user with these rules may do.
const RIGHTS: &[&str] = &[
    "",
    "+@all ~*",
    "+@all ~a*",
    "+@all %R~a* %W~b*",
    "+@all -@write ~*",
    "-@all +@read ~a",
    "+get +set ~a",
    "+get ~a (+set ~b)",
    "+config|get +client",
    "+@all -config|set ~*",
    "+select|0 +object|encoding ~a",
    "+@all -@dangerous %RW~a",
    "+sort +sort_ro ~a*",
    "+sort %R~* ~a",
];

const REQUESTS: &[&str] = &[
    "GET a",
    "GET b",
    "SET a 1",
    "SET b 1",
    "SET a 1 GET",
    "SET b 1 GET",
    "MSET a 1 b 2",
    "MGET a b",
    "MGET a ab",
    "GETEX a",
    "GETDEL b",
    "DEL b",
    "EXISTS b",
    "TYPE b",
    "OBJECT ENCODING a",
    "OBJECT FREQ a",
    "INCR b",
    "APPEND b x",
    "STRLEN b",
    "COPY a b",
    "RENAME a b",
    "SUNIONSTORE b a",
    "ZUNIONSTORE b 1 a",
    "ZADD b 1 x",
    "LMOVE a b LEFT RIGHT",
    "BLMOVE a b LEFT RIGHT 1",
    "SORT a",
    "SORT a STORE b",
    "SORT_RO a",
    "HSET b f 1",
    "HGETALL a",
    "KEYS *",
    "SCAN 0",
    "FLUSHALL",
    "DBSIZE",
    "CONFIG GET port",
    "CONFIG SET timeout 0",
    "CONFIG NOTHING",
    "CONFIG",
    "CLIENT ID",
    "CLIENT LIST",
    "SELECT 0",
    "SELECT 1",
    "PING",
    "ECHO x",
    "AUTH x y",
    "HELLO",
    "ACL WHOAMI",
    "ACL SETUSER x",
    "MULTI",
    "EXEC",
    "NOTHING",
    "GET",
    "WATCH a b",
    "EXPIRE a 1",
    "TTL b",
    "DUMP b",
    "RESTORE b 0 x",
];

#[test]
fn a_user_may_do_what_it_may_do_in_redis() {
    let Some(mut both) = Both::start() else { return };
    let mut compared = |words: &[&str], rules: &str| {
        let (redis, sidle) = both.ask(&request(words));
        let shown = |reply: &[u8]| String::from_utf8_lossy(reply).into_owned();
        assert_eq!(shown(&sidle), shown(&redis), "{words:?} ({rules})");
    };
    for rules in RIGHTS {
        let set: Vec<&str> =
            ["ACL", "SETUSER", "u", "reset", "on", ">p"].into_iter().chain(split(rules)).collect();
        compared(&set, rules);
        for line in REQUESTS {
            let dryrun: Vec<&str> = ["ACL", "DRYRUN", "u"].into_iter().chain(split(line)).collect();
            compared(&dryrun, rules);
        }
    }
}

fn split(line: &str) -> impl Iterator<Item = &str> {
    line.split(' ').filter(|word| !word.is_empty())
}

/// Lines for two connections: the second's begin with `*`.
const REFUSALS: &[&str] = &[
    "ACL SETUSER u on >p ~a* +@all -@dangerous -incr",
    "ACL SETUSER v on nopass +@read ~*",
    "AUTH wrong",
    "* AUTH u wrong",
    "* AUTH u wrong",
    "* AUTH nobody wrong",
    "* HELLO 2 AUTH u wrong",
    "* MULTI",
    "* AUTH u wrong",
    "* DISCARD",
    "* AUTH u p",
    "* ACL WHOAMI",
    "* SET a 1",
    "* GET b",
    "* GET b",
    "* INCR a",
    "* KEYS *",
    "* CONFIG GET port",
    "* CONFIG",
    "* NOTHING",
    "* SET a",
    "* MULTI",
    "* SET a 2",
    "* SET b 2",
    "* EXEC",
    "* MULTI",
    "* INCR a",
    "* DISCARD",
    // What is taken away meanwhile.
    "* MULTI",
    "* SET a 3",
    "* SET ab 3",
    "* GET a",
    "ACL SETUSER u resetkeys ~a -set",
    "* EXEC",
    "* GET a",
    "ACL SETUSER u +set",
    "* MULTI",
    "* SET a 4",
    "* GET a",
    "ACL SETUSER u resetkeys %W~a",
    "* EXEC",
    "* MULTI",
    "* SET a 4",
    "ACL SETUSER u -exec",
    "* EXEC",
    "ACL SETUSER u +exec",
    "* EXEC",
    "ACL LOG",
    "ACL LOG 2",
    "ACL LOG 0",
    "ACL LOG -1",
    "ACL LOG x",
    "ACL LOG RESET",
    "ACL LOG",
    "* AUTH v anything",
    "* ACL WHOAMI",
    "* GET a",
    "* SET a 1",
    "* RESET",
    "* ACL WHOAMI",
    "* SET a 1",
    // The default user is one as all others.
    "ACL SETUSER default -set",
    "* SET a 1",
    "SET a 1",
    "ACL SETUSER default +set off",
    "SET a 1",
    "* GET a",
    "ACL SETUSER default on",
    "CONFIG SET requirepass secret",
    "ACL GETUSER default",
    "AUTH wrong",
    "AUTH secret",
    "* RESET",
    "* GET a",
    "* HELLO 2",
    "* AUTH default secret",
    "* GET a",
    "ACL SETUSER default nopass",
    "CONFIG GET requirepass",
    "AUTH anything",
    "CONFIG SET requirepass \"\"",
    "ACL LIST",
    "ACL CAT",
    "ACL CAT nothing",
    "ACL CAT a b",
    "ACL DELUSER default",
    "ACL DELUSER u default",
    "ACL DELUSER",
    "ACL GETUSER nobody",
    "ACL SETUSER",
    "ACL GENPASS 0",
    "ACL GENPASS 4097",
    "ACL GENPASS x",
    "ACL GENPASS 1 2",
    "ACL LOAD",
    "ACL SAVE",
    "ACL NOTHING",
    "ACL",
    "ACL HELP",
    "ACL DRYRUN nobody GET a",
    "ACL DRYRUN u NOTHING",
    "ACL DRYRUN u GET",
    "ACL SETUSER w (+get ~x +set) (~y",
    "ACL SETUSER w (%R~y +get &z ~x) on",
    "ACL GETUSER w",
    "ACL DELUSER w v u",
    "ACL DELUSER w v u",
];

/// Of a log's entries what is the same at both: all but the age, and the client's description.
fn without_times(reply: &[u8]) -> Value {
    let Value::Array(entries) = value(reply) else { return value(reply) };
    let is_entry = |entry: &Value| matches!(entry, Value::Array(facts) if facts.len() == 14);
    if !entries.iter().any(is_entry) {
        return Value::Array(entries);
    }
    let kept = entries.into_iter().map(|entry| match entry {
        Value::Array(facts) => {
            assert!(text(&facts[11]).parse::<f64>().is_ok());
            let client = text(&facts[13]);
            let words =
                client.split(' ').filter(|word| word.starts_with("cmd=") || word.starts_with("user="));
            let words = words.map(|word| Value::Simple(word.to_owned()));
            Value::Array(facts[..10].iter().cloned().chain(words).collect())
        }
        other => other,
    });
    Value::Array(kept.collect())
}

#[test]
fn refusals_are_those_of_redis() {
    let Some(mut both) = Both::start() else { return };
    for line in REFUSALS {
        let words: Vec<&str> =
            split(line.trim_start_matches("* ")).map(|word| word.trim_matches('"')).collect();
        let (redis, sidle) = match line.starts_with("* ") {
            true => both.ask_beside(&request(&words)),
            false => both.ask(&request(&words)),
        };
        assert_eq!(without_times(&sidle), without_times(&redis), "{line}");
    }
}

/// Commands of a category, as far as they are here.
#[test]
fn categories_have_the_commands_that_they_have_in_redis() {
    let Some(mut both) = Both::start() else { return };
    let names = |reply: &[u8]| -> Vec<String> {
        let Value::Array(names) = value(reply) else { panic!("names") };
        names.iter().map(text).collect()
    };
    let here = names(&both.sidle.ask(&request(&["COMMAND", "LIST"])));
    // Which have other categories, and why, is listed where their descriptions are compared.
    let differs = |name: &str| name == "lastsave" || name == "role";
    for category in sidle_access::CATEGORIES {
        let (redis, sidle) = both.ask(&request(&["ACL", "CAT", category]));
        let known = |name: &String| here.contains(name) && !differs(name);
        let mut redis: Vec<String> = names(&redis).into_iter().filter(known).collect();
        let theirs = names(&both.redis.ask(&request(&["COMMAND", "LIST"])));
        let mut sidle: Vec<String> =
            names(&sidle).into_iter().filter(|name| !differs(name) && theirs.contains(name)).collect();
        redis.sort_unstable();
        sidle.sort_unstable();
        assert_eq!(sidle, redis, "{category}");
    }
}
