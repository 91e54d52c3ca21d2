//! Runs several commands on an overlay before publishing. Each must see the writes before it, others must see
//! none, and publishing must give the same keys.

use bumpalo::Bump;
use proptest::prelude::*;
use sidle_collections::Limits;
use sidle_commands::{
    Blocking, Call, Change, CommandTable, Executor, Keyspace, OutOfMemory, Overlay, Reply, Run, Underlay,
    Value, Values, families,
};
use sidle_types::{HashedKey, ValueKind, WallMs};
use std::cell::RefCell;
use std::collections::BTreeMap;

const NOW: WallMs = WallMs(1_000_000);
const LONGEST_VALUE_BYTES: u64 = 1 << 16;

/// Keys and their values.
type Map<'g> = BTreeMap<Vec<u8>, Value<'g>>;

/// The executor of these tests.
#[derive(Clone, Copy, Debug)]
enum Toy {}

impl Executor for Toy {
    type Keyspace<'g> = Space<'g>;
    type Reply<'g> = Words;
    type OwnCall<'g> = ();
    type OwnResult = ();
}

/// A reply, one word after the other.
#[derive(Debug, Default)]
struct Words(Vec<String>);

impl Reply for Words {
    fn simple(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }

    fn integer(&mut self, number: i64) {
        self.0.push(number.to_string());
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.0.push(format!("'{}'", bytes.escape_ascii()));
    }

    fn bulk_parts(&mut self, parts: &[&[u8]]) {
        self.bulk(&parts.concat());
    }

    fn null(&mut self) {
        self.0.push("null".to_owned());
    }

    fn array(&mut self, elements: usize) {
        self.0.push(format!("{elements}:"));
    }

    fn map(&mut self, pairs: usize) {
        self.0.push(format!("{pairs}%"));
    }

    fn double(&mut self, number: f64) {
        self.0.push(format!("{number:?}"));
    }

    fn null_array(&mut self) {
        self.0.push("no array".to_owned());
    }

    fn set(&mut self, elements: usize) {
        self.0.push(format!("{elements}~"));
    }

    fn pairs(&mut self, pairs: usize) {
        self.0.push(format!("{pairs}="));
    }

    fn pair(&mut self) {}

    fn is_cut(&self) -> bool {
        false
    }
}

/// The key space that a command is given.
enum Space<'g> {
    Plain(Plain<'g>),
    Overlay(&'g RefCell<Overlay<'g, Below<'g>>>),
}

/// A map that changes at once.
struct Plain<'g> {
    map: &'g RefCell<Map<'g>>,
    arena: &'g Bump,
    keys: &'g [HashedKey<'g>],
}

/// A map that does not change.
struct Below<'g>(&'g Map<'g>);

fn live<'g>(map: &Map<'g>, key: HashedKey<'_>) -> Option<Value<'g>> {
    map.get(key.bytes()).copied().filter(|value| value.expires_at.is_none_or(|end| end > NOW))
}

impl Underlay for Below<'_> {
    fn get<'g>(&'g self, key: HashedKey<'_>) -> Option<Value<'g>> {
        live(self.0, key)
    }

    fn lends_all(&self) -> bool {
        true
    }

    fn count_look_ups(&self, _: usize, _: usize) {}

    fn longest_value_bytes(&self) -> u64 {
        LONGEST_VALUE_BYTES
    }

    fn collection_limits(&self) -> Limits {
        Limits::default()
    }

    fn takes_collections(&self) -> bool {
        true
    }

    fn random(&self) -> u64 {
        4
    }
}

impl<'g> Plain<'g> {
    fn present(&self, key: usize) -> Value<'g> {
        live(&self.map.borrow(), self.keys[key]).expect("a key that has a value")
    }

    fn set(&self, key: usize, kind: ValueKind, value: &[&[u8]], expires_at: Option<WallMs>) {
        let bytes = self.arena.alloc_slice_copy(&value.concat());
        self.map.borrow_mut().insert(self.keys[key].bytes().to_vec(), Value { kind, bytes, expires_at });
    }
}

impl<'g> Keyspace<'g> for Space<'g> {
    fn len(&self) -> usize {
        match self {
            Space::Plain(plain) => plain.keys.len(),
            Space::Overlay(overlay) => overlay.borrow().len(),
        }
    }

    fn get(&mut self, key: usize) -> Option<Value<'g>> {
        match self {
            Space::Plain(plain) => live(&plain.map.borrow(), plain.keys[key]),
            Space::Overlay(overlay) => overlay.borrow_mut().get(key),
        }
    }

    fn lends_unnamed(&self) -> bool {
        true
    }

    fn get_unnamed(&mut self, key: &[u8]) -> Option<Value<'g>> {
        match self {
            Space::Plain(plain) => live(&plain.map.borrow(), HashedKey::new(key)),
            Space::Overlay(overlay) => overlay.borrow_mut().get_unnamed(key),
        }
    }

    fn get_all(&mut self) -> Values<'g> {
        (0..self.len()).map(|key| self.get(key)).collect()
    }

    fn put(
        &mut self,
        key: usize,
        kind: ValueKind,
        value: &[&[u8]],
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => plain.set(key, kind, value, expires_at),
            Space::Overlay(overlay) => overlay.borrow_mut().put(key, kind, value, expires_at)?,
        }
        Ok(())
    }

    fn put_lasting(&mut self, key: usize, value: Value<'g>) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => plain.set(key, value.kind, &[value.bytes], value.expires_at),
            Space::Overlay(overlay) => overlay.borrow_mut().put_lasting(key, value)?,
        }
        Ok(())
    }

    fn extend(&mut self, key: usize, added: &[&[u8]]) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => {
                let old = plain.present(key);
                plain.set(key, old.kind, &[old.bytes, &added.concat()], old.expires_at);
            }
            Space::Overlay(overlay) => overlay.borrow_mut().extend(key, added)?,
        }
        Ok(())
    }

    fn set_end(&mut self, key: usize, expires_at: Option<WallMs>) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => {
                let old = plain.present(key);
                plain.set(key, old.kind, &[old.bytes], expires_at);
            }
            Space::Overlay(overlay) => overlay.borrow_mut().set_end(key, expires_at)?,
        }
        Ok(())
    }

    fn remove(&mut self, key: usize) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => drop(plain.map.borrow_mut().remove(plain.keys[key].bytes())),
            Space::Overlay(overlay) => overlay.borrow_mut().remove(key)?,
        }
        Ok(())
    }

    fn count_look_ups(&mut self, _: usize, _: usize) {}

    fn longest_value_bytes(&self) -> u64 {
        LONGEST_VALUE_BYTES
    }

    fn collection_limits(&self) -> Limits {
        Limits::default()
    }

    fn takes_collections(&self) -> bool {
        true
    }

    fn random(&mut self) -> u64 {
        4
    }
}

/// A request: its words, and which of them are keys.
struct Request<'g> {
    args: Vec<&'g [u8]>,
    keys: Vec<HashedKey<'g>>,
    run: Run<Toy>,
}

/// DUMP's payload of "hello", which a line names so.
const PAYLOAD: (&str, &[u8]) = ("PAYLOAD", b"\x00\x05hello\n\x00cr\xdfve4 \n");

fn parse<'g>(table: &CommandTable<Toy>, line: &'g str) -> Request<'g> {
    let args: Vec<&[u8]> =
        line.split(' ').map(|word| if word == PAYLOAD.0 { PAYLOAD.1 } else { word.as_bytes() }).collect();
    let spec = table.resolve(&args).unwrap_or_else(|error| panic!("{line}: {error}")).spec;
    let keys = spec.keys.indices(&args).map(|index| HashedKey::new(args[index])).collect();
    Request { args, keys, run: spec.run }
}

/// Runs a request; returns its reply in words.
fn run<'g>(request: &'g Request<'g>, keyspace: Space<'g>) -> String {
    let Run::OverKeys(run) = request.run else { panic!("a command over keys") };
    let (reply, blocking) = (Words::default(), Blocking::No);
    let mut call: Call<'g, Toy> = Call { args: &request.args, keyspace, now: NOW, reply, blocking };
    match run(&mut call) {
        Ok(()) => call.reply.0.join(" "),
        Err(error) => {
            assert!(call.reply.0.is_empty(), "a written reply before an error");
            error.to_string()
        }
    }
}

fn live_only<'g>(map: &Map<'g>) -> Map<'g> {
    map.iter()
        .filter(|(key, _)| live(map, HashedKey::new(key)).is_some())
        .map(|(key, value)| (key.clone(), *value))
        .collect()
}

/// Runs these lines on a map that changes at once, and on an overlay over the map after the first `before`
/// lines. The replies and the final keys must be the same. Returns the replies.
fn check(lines: &[impl AsRef<str>], before: usize) -> Vec<String> {
    let table = CommandTable::<Toy>::new(families().into_iter());
    let requests: Vec<Request<'_>> = lines.iter().map(|line| parse(&table, line.as_ref())).collect();
    let (arena, map) = (Bump::new(), RefCell::new(Map::new()));
    let mut below = Map::new();
    let mut replies = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        if number == before {
            below = map.borrow().clone();
        }
        replies.push(run(request, Space::Plain(Plain { map: &map, arena: &arena, keys: &request.keys })));
    }

    let base = Below(&below);
    let overlay = RefCell::new(Overlay::new(&base, &arena, &[]));
    for number in before..requests.len() {
        overlay.borrow_mut().next_command(&requests[number].keys);
        let reply = run(&requests[number], Space::Overlay(&overlay));
        assert_eq!(reply, replies[number], "{}", lines[number].as_ref());
    }
    let mut published = below.clone();
    for (key, change) in overlay.replace(Overlay::new(&base, &arena, &[])).into_changes() {
        match change {
            Change::Put(value) => drop(published.insert(key.bytes().to_vec(), value)),
            Change::Remove => drop(published.remove(key.bytes())),
        }
    }
    assert_eq!(live_only(&published), live_only(&map.borrow()));
    replies
}

#[test]
fn a_command_reads_earlier_writes() {
    let replies = check(
        &[
            "set a 1",
            "set b two ex 100",
            "incr a",
            "mset c 3 c 4 d 5",
            "mget a b c d e",
            "append b s",
            "ttl b",
            "setrange c 3 x",
            "del a a e d",
            "msetnx a 1 b 2",
            "msetnx a 1 d 2",
            "expire d -1",
            "exists a b c d e",
            "getex b persist",
            "ttl b",
        ],
        2,
    );
    assert_eq!(
        replies[2..],
        ["2", "OK", "5: '2' 'two' '4' '5' null", "4", "100", "4", "2", "0", "1", "1", "3", "'twos'", "-1"]
    );
}

#[test]
fn a_value_goes_from_key_to_key() {
    let replies = check(
        &[
            "set a 1 ex 100",
            "set b 2",
            "rename a b",
            "mget a b",
            "ttl b",
            "renamenx b a",
            "copy a b",
            "append b x",
            "copy a b",
            "renamenx a b",
            "copy b a replace",
            "mget a b",
            "ttl a",
            "rename c a",
            "rename a a",
            "renamenx a a",
            "copy a a",
            "restore c 0 PAYLOAD",
            "restore c 0 PAYLOAD",
            "lcs a c",
            "rename c a",
            "dump a",
            "restore a 1 PAYLOAD absttl replace",
            "copy a d replace",
            "renamenx a d",
            "mget a b c d",
        ],
        4,
    );
    assert_eq!(
        replies[2..],
        [
            "OK",
            "2: null '1'",
            "100",
            "1",
            "1",
            "2",
            "0",
            "0",
            "1",
            "2: '1x' '1x'",
            "100",
            "ERR no such key",
            "OK",
            "0",
            "ERR source and destination objects are the same",
            "OK",
            "BUSYKEY Target key name already exists.",
            "''",
            "OK",
            r"'\x00\x05hello\n\x00cr\xdfve4 \n'",
            "OK",
            "0",
            "ERR no such key",
            "4: null '1x' null null",
        ]
    );
}

#[test]
fn a_failed_command_changes_nothing() {
    let replies = check(&["set a x", "incr a", "getset b 1", "incrby b 9223372036854775807", "get b"], 0);
    assert_eq!(replies[1], "ERR value is not an integer or out of range");
    assert_eq!(replies[3], "ERR increment or decrement would overflow");
    assert_eq!(replies[4], "'1'");
}

/// One of a few keys.
fn key() -> impl Strategy<Value = String> {
    (0..6u8).prop_map(|number| format!("{{t}}{number}"))
}

/// A request over few keys.
fn line() -> impl Strategy<Value = String> {
    let word = || {
        prop_oneof!["[a-z]{0,6}", (-20i64..20).prop_map(|number| number.to_string())]
            .prop_map(|word: String| if word.is_empty() { "0".to_owned() } else { word })
    };
    let option = prop_oneof![
        Just(""),
        Just(" nx"),
        Just(" xx"),
        Just(" get"),
        Just(" keepttl"),
        Just(" ex 5"),
        Just(" pxat 7"),
        Just(" nx get"),
        Just(" xx ex 9 get"),
    ];
    let one = prop_oneof![
        Just("get"),
        Just("incr"),
        Just("decr"),
        Just("getdel"),
        Just("ttl"),
        Just("pttl"),
        Just("persist"),
        Just("strlen"),
        Just("type"),
        Just("getex"),
        Just("expiretime"),
        Just("object encoding"),
        Just("memory usage"),
        Just("dump"),
    ];
    let with_word = prop_oneof![
        Just("append"),
        Just("getset"),
        Just("setnx"),
        Just("incrby"),
        Just("incrbyfloat"),
        Just("expire"),
        Just("pexpireat"),
        Just("decrby"),
    ];
    let many = prop_oneof![Just("mget"), Just("del"), Just("unlink"), Just("exists"), Just("touch")];
    let two = prop_oneof![
        Just("rename"),
        Just("renamenx"),
        Just("copy"),
        Just("copy replace"),
        Just("lcs"),
        Just("lcs idx"),
    ];
    let restored = prop_oneof![
        Just("0 PAYLOAD"),
        Just("0 PAYLOAD replace"),
        Just("7 PAYLOAD replace absttl"),
        Just("5000 PAYLOAD replace freq 3"),
    ];
    let pairs = prop_oneof![Just("mset"), Just("msetnx")];
    prop_oneof![
        (key(), word(), option).prop_map(|(key, word, option)| format!("set {key} {word}{option}")),
        (one, key()).prop_map(|(name, key)| format!("{name} {key}")),
        (with_word, key(), word()).prop_map(|(name, key, word)| format!("{name} {key} {word}")),
        (many, prop::collection::vec(key(), 1..6))
            .prop_map(|(name, keys)| format!("{name} {}", keys.join(" "))),
        (pairs, prop::collection::vec((key(), word()), 1..5)).prop_map(|(name, pairs)| {
            pairs.iter().fold(name.to_owned(), |line, (key, word)| format!("{line} {key} {word}"))
        }),
        (two, key(), key()).prop_map(|(form, from, to)| {
            let (name, options) = form.split_once(' ').unwrap_or((form, ""));
            format!("{name} {from} {to} {options}").trim_end().to_owned()
        }),
        (key(), restored).prop_map(|(key, rest)| format!("restore {key} {rest}")),
        (key(), 0..9u8, word()).prop_map(|(key, at, word)| format!("setrange {key} {at} {word}")),
    ]
}

proptest! {
    #[test]
    fn commands_do_the_same_on_an_overlay(
        lines in prop::collection::vec(line(), 1..40), before in 0..20usize,
    ) {
        check(&lines, before.min(lines.len() - 1));
    }
}
