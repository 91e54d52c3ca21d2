//! Rules, their listing, and what they let through.

use proptest::prelude::*;
use sidle_access::{
    AccessLog, Catalogue, Categories, Cause, Context, Denial, KeyUse, Question, Refused, RuleError,
    Unmatched, User, Users, whole_rules,
};
use sidle_types::WallMs;

/// A few commands with Redis's categories.
const COMMANDS: &[(&str, &str)] = &[
    ("get", "read string fast"),
    ("set", "write string slow"),
    ("del", "keyspace write slow"),
    ("keys", "keyspace read slow dangerous"),
    ("flushall", "keyspace write slow dangerous"),
    ("hget", "read hash fast"),
    ("hset", "write hash fast"),
    ("select", "fast connection"),
    ("auth", "fast connection"),
    ("config", "slow"),
    ("config|get", "admin slow dangerous"),
    ("config|set", "admin slow dangerous"),
    ("config|help", "slow"),
    ("publish", "pubsub fast"),
];

fn catalogue() -> Catalogue {
    Catalogue::new(COMMANDS.iter().map(|(name, words)| (*name, Categories::of(words.split(' ')))))
}

fn user(rules: &str) -> User {
    let mut user = User::default();
    let words: Vec<&[u8]> = rules.split_whitespace().map(str::as_bytes).collect();
    for rule in whole_rules(&words).expect("parentheses match") {
        user.apply(&catalogue(), &rule).unwrap_or_else(|error| panic!("{rules}: {error}"));
    }
    user
}

fn listed(user: &User) -> String {
    String::from_utf8(user.rules(&catalogue())).expect("a text")
}

#[test]
fn a_listing_is_the_shortest_rules_that_redis_finds() {
    for (rules, expected) in [
        ("", "off resetchannels -@all"),
        ("on nopass allkeys allchannels allcommands", "on nopass ~* &* +@all"),
        ("reset", "off sanitize-payload resetchannels -@all"),
        ("ON NoPass +@ALL", "on nopass resetchannels +@all"),
        ("+get +config|get", "off resetchannels -@all +get +config|get"),
        ("+config -config|set", "off resetchannels -@all +config -config|set"),
        ("+@all -@dangerous", "off resetchannels +@all -@dangerous"),
        ("+@read -keys", "off resetchannels -@all +@read -keys"),
        ("+@all -config|set", "off resetchannels +@all -config|set"),
        ("+select|1 +select|0 +select|1", "off resetchannels -@all +select|1 +select|0"),
        ("+select|1 +select", "off resetchannels -@all +select"),
        ("+select|1 -select", "off resetchannels -@all"),
        ("~a %R~b %W~c %RW~d %r~c", "off ~a %R~b ~c ~d resetchannels -@all"),
        ("~a ~* resetkeys ~b", "off ~b resetchannels -@all"),
        ("&a &b &a", "off resetchannels &a &b -@all"),
        ("%R %W~b", "off %R~ %W~b resetchannels -@all"),
        ("&a &*", "off &* -@all"),
        (
            "(~x +get) (%R~y &z +@string)",
            "off resetchannels -@all (~x resetchannels -@all +get) (%R~y resetchannels &z -@all +@string)",
        ),
        ("(+get) clearselectors", "off resetchannels -@all"),
        ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"),
        (
            ">p >p",
            "off #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 resetchannels -@all",
        ),
        (">p nopass", "off nopass resetchannels -@all"),
        ("nopass >p <p", "off resetchannels -@all"),
        ("nopass resetpass", "off resetchannels -@all"),
    ] {
        assert_eq!(listed(&user(rules)), expected, "{rules}");
    }
}

#[test]
fn what_is_no_rule_changes_nothing() {
    for (rule, error) in [
        ("hello", RuleError::Syntax),
        ("+", RuleError::Unknown),
        ("+nothing", RuleError::Unknown),
        ("-nothing", RuleError::Unknown),
        ("+@nothing", RuleError::Unknown),
        ("+config|nothing", RuleError::Unknown),
        ("-select|0", RuleError::Unknown),
        ("+config|get|x", RuleError::SubcommandArgument),
        ("+select|", RuleError::Syntax),
        ("~a", RuleError::AllKeys),
        ("%R~a", RuleError::AllKeys),
        ("&a", RuleError::AllChannels),
        ("<p", RuleError::NoSuchPassword),
        ("#148d", RuleError::NoDigest),
        ("!148d", RuleError::NoDigest),
        ("(+nothing)", RuleError::Unknown),
        ("(hello)", RuleError::Syntax),
        ("(", RuleError::Syntax),
    ] {
        let mut user = user("allkeys allchannels +get >q");
        let before = listed(&user);
        assert_eq!(user.apply(&catalogue(), rule.as_bytes()), Err(error), "{rule}");
        assert_eq!(listed(&user), before, "{rule}");
    }
    for rule in ["%~a", "%X~a", "%RR~a", "%", "~a b", "&a\tb", "~a\0"] {
        assert_eq!(User::default().apply(&catalogue(), rule.as_bytes()), Err(RuleError::Syntax), "{rule}");
    }
    assert_eq!(whole_rules(&[b"on", b"(+get", b"~x"]), Err(Unmatched(1)));
}

fn checked(rules: &str, request: &str, keys: &[KeyUse], channels: &[usize]) -> Result<(), Denial> {
    let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    let catalogue = catalogue();
    let whole = args.get(1).map(|first| [args[0], b"|", first].concat());
    let command = whole.and_then(|whole| catalogue.find(&whole)).or_else(|| catalogue.find(args[0]));
    let command = command.expect("it is in the catalogue");
    user(rules).check(&Question { command, is_for_all: args[0] == b"auth", args: &args, keys, channels })
}

#[test]
fn a_request_needs_one_selector_that_has_all_of_it() {
    const READ: &[KeyUse] = &[KeyUse { at: 1, reads: true, writes: false }];
    const WRITE: &[KeyUse] = &[KeyUse { at: 1, reads: false, writes: true }];
    const BOTH: &[KeyUse] = &[KeyUse { at: 1, reads: true, writes: true }];
    const EXISTS: &[KeyUse] = &[KeyUse { at: 1, reads: false, writes: false }];
    let denied = |index| Err(Denial::Key(index));
    for (rules, request, keys, expected) in [
        ("", "get a", READ, Err(Denial::Command)),
        ("", "auth a", &[], Ok(())),
        ("+get", "get a", READ, denied(1)),
        ("+get ~a*", "get abc", READ, Ok(())),
        ("+get ~a*", "get b", READ, denied(1)),
        ("+@all %R~a", "get a", READ, Ok(())),
        ("+@all %R~a", "set a 1", WRITE, denied(1)),
        ("+@all %W~a", "set a 1", WRITE, Ok(())),
        ("+@all %W~a", "set a 1 get", BOTH, denied(1)),
        // As in Redis one pattern has to allow both.
        ("+@all %W~a %R~a*", "set a 1 get", BOTH, denied(1)),
        ("+@all %W~a", "keys a", EXISTS, Ok(())),
        ("+@all -@dangerous ~*", "keys *", &[], Err(Denial::Command)),
        ("+config|get", "config get a", &[], Ok(())),
        ("+config|get", "config set a b", &[], Err(Denial::Command)),
        ("+select|0", "select 0", &[], Ok(())),
        ("+select|0", "select 1", &[], Err(Denial::Command)),
        ("+get ~a (+set ~b)", "set b 1", WRITE, Ok(())),
        ("+get ~a (+set ~b)", "set a 1", WRITE, denied(1)),
        ("+get ~a (+set ~b)", "get b", READ, denied(1)),
        ("+get ~a (+set ~b)", "del b", WRITE, Err(Denial::Command)),
    ] {
        assert_eq!(checked(rules, request, keys, &[]), expected, "{rules}: {request}");
    }
    assert_eq!(checked("+publish &a*", "publish ab x", &[], &[1]), Ok(()));
    assert_eq!(checked("+publish", "publish ab x", &[], &[1]), Err(Denial::Channel(1)));
}

#[test]
fn a_file_is_taken_whole_or_not_at_all() {
    let catalogue = catalogue();
    let mut users = Users::new(&catalogue);
    users.change(&catalogue, b"old", &[b"on".to_vec()]).expect("rules");
    for (text, error) in [
        ("user a on\nuser a off", "WARNING: Duplicate user 'a' found on line 2. "),
        ("usr a on", "f:1: should start with user keyword followed by the username. "),
        ("user", "f:1: should start with user keyword followed by the username. "),
        ("\nuser a (on", "f:2: Unmatched parenthesis in selector definition. "),
        (
            "user a +nothing",
            "f:1: Error in applying operation '+nothing': Unknown command or category name in ACL. ",
        ),
        ("user a >secret hello", "f:1: Syntax error. "),
    ] {
        let refused = users.load(&catalogue, "f", text.as_bytes()).expect_err("it is wrong");
        assert!(refused.starts_with(error), "{text}: {refused}");
        assert!(!refused.contains("secret") && users.find(b"old").is_some(), "{text}");
    }
    users.load(&catalogue, "f", b" user a on nopass +get ~x \r\n\n").expect("a file");
    assert!(users.find(b"old").is_none() && users.default_user().user.is_open());
    let lines = users.lines(&catalogue);
    let lines: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
    assert_eq!(lines, ["user a on nopass ~x resetchannels -@all +get", "user default on nopass ~* &* +@all"]);
    let born = users.find(b"a").expect("there").born;
    assert!(users.remove(b"a") && !users.remove(b"a") && !users.remove(b"default"));
    users.change(&catalogue, b"a", &[]).expect("no rules");
    assert_ne!(users.find(b"a").expect("there").born, born);
}

#[test]
fn a_user_comes_in_by_one_of_its_passwords() {
    for (rules, password, admitted) in [
        ("on >p >q", "q", true),
        ("on >p >q", "r", false),
        ("off >p", "p", false),
        ("on nopass", "anything", true),
        ("on", "", false),
    ] {
        assert_eq!(user(rules).admits(password.as_bytes()), admitted, "{rules}");
    }
}

#[test]
fn the_log_counts_what_is_alike() {
    let refused = |object: &str, at: u64| Refused {
        cause: Cause::Key,
        context: Context::TopLevel,
        object: object.into(),
        user: b"u".to_vec(),
        at: WallMs(at),
        client: String::new(),
        count: 1,
    };
    let mut log = AccessLog::default();
    for (object, at) in [("a", 0), ("b", 1), ("a", 2), ("c", 60_002), ("a", 60_002), ("a", 200_000)] {
        log.note(refused(object, at), 3);
    }
    let shown: Vec<_> = log.all().map(|entry| (entry.object.as_slice(), entry.count)).collect();
    assert_eq!(shown, [(&b"a"[..], 1), (b"a", 3), (b"c", 1)]);
    log.reset();
    assert_eq!(log.all().count(), 0);
}

fn any_rule() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "+get",
        "-get",
        "+set",
        "-set",
        "+config",
        "-config",
        "+config|get",
        "-config|get",
        "+config|set",
        "+select|0",
        "+select|1",
        "-select",
        "+select",
        "+@all",
        "-@all",
        "+@read",
        "-@read",
        "+@write",
        "-@dangerous",
        "+@slow",
        "-@slow",
        "+@fast",
        "-@hash",
        "~a",
        "%R~a",
        "%W~b",
        "resetkeys",
        "~*",
        "&x",
        "&*",
        "resetchannels",
        "on",
        "off",
        "nopass",
        ">p",
        ">q",
        "<p",
        "resetpass",
        "(+get ~z)",
        "(%R~y -@all +@string &c)",
        "clearselectors",
        "sanitize-payload",
        "skip-sanitize-payload",
        "reset",
    ])
    .prop_map(str::to_owned)
}

fn after(rules: &[String]) -> User {
    let mut user = User::default();
    for rule in rules {
        // What is refused changes nothing.
        let _ = user.apply(&catalogue(), rule.as_bytes());
    }
    user
}

/// Which commands it may run, over keys that patterns may name.
fn rights(user: &User) -> Vec<bool> {
    let catalogue = catalogue();
    let mut rights = Vec::new();
    for (name, _) in COMMANDS {
        for key in ["0", "a", "b", "y", "z"] {
            for (reads, writes) in [(false, false), (true, false), (false, true), (true, true)] {
                let args: [&[u8]; 2] = [name.as_bytes(), key.as_bytes()];
                let command = catalogue.find(name.as_bytes()).expect("it is there");
                let keys = &[KeyUse { at: 1, reads, writes }];
                let question = Question { command, is_for_all: false, args: &args, keys, channels: &[] };
                rights.push(user.check(&question).is_ok());
            }
        }
    }
    rights
}

proptest! {
    /// The rules that are listed make the same user, with the same listing.
    #[test]
    fn a_listing_makes_the_same_user(rules in prop::collection::vec(any_rule(), 0..20)) {
        let user = after(&rules);
        let text = listed(&user);
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let mut again = User::default();
        for rule in whole_rules(&words).expect("parentheses match") {
            prop_assert_eq!(again.apply(&catalogue(), &rule), Ok(()));
        }
        prop_assert_eq!(listed(&again), text);
        prop_assert_eq!(rights(&again), rights(&user));
    }

    /// Of two rules about one command the later one counts.
    #[test]
    fn the_later_rule_counts(rules in prop::collection::vec(any_rule(), 0..10), allowed: bool) {
        let mut rules = rules;
        rules.extend(["clearselectors".to_owned(), if allowed { "+get" } else { "-get" }.to_owned()]);
        rules.extend(["resetkeys".to_owned(), "~*".to_owned()]);
        let args: [&[u8]; 2] = [b"get", b"a"];
        let command = catalogue().find(b"get").expect("it is there");
        let keys = &[KeyUse { at: 1, reads: true, writes: false }];
        let question = Question { command, is_for_all: false, args: &args, keys, channels: &[] };
        prop_assert_eq!(after(&rules).check(&question).is_ok(), allowed);
    }
}
