//! Strings against a model: a map with deadlines, on a clock that the test moves.

use proptest::collection::vec;
use proptest::prelude::*;
use sidle_node::testing::{SoloNode, TestClient};
use sidle_resp::Value;
use std::collections::{BTreeMap, BTreeSet};

type Bytes = Vec<u8>;

/// When SET writes.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    Absent,
    Present,
}

/// The effect on the deadline.
#[derive(Clone, Copy, Debug)]
enum Ttl {
    Endless,
    Keep,
    Ms(u64),
}

#[derive(Clone, Debug)]
enum Operation {
    Get(Bytes),
    Set(Bytes, Bytes, When, Ttl, bool),
    GetSet(Bytes, Bytes),
    GetDel(Bytes),
    GetExPersist(Bytes),
    Del(Vec<Bytes>),
    Exists(Vec<Bytes>),
    Mget(Vec<Bytes>),
    Mset(Vec<(Bytes, Bytes)>),
    MsetNx(Vec<(Bytes, Bytes)>),
    /// Whether it replaces.
    Copy(Bytes, Bytes, bool),
    Rename(Bytes, Bytes, bool),
    Append(Bytes, Bytes),
    SetRange(Bytes, usize, Bytes),
    GetRange(Bytes, i64, i64),
    IncrBy(Bytes, i64),
    Expire(Bytes, i64),
    Persist(Bytes),
    Pttl(Bytes),
    Wait(u64),
    Scan(usize),
}

/// Few keys, some in one slot, so that operations meet.
fn key() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec!["a", "b", "c", "{t}1", "{t}2", "{t}3", ""])
        .prop_map(|key| key.as_bytes().to_vec())
}

fn value() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        3 => vec(any::<u8>(), 0..40),
        3 => any::<i32>().prop_map(|number| number.to_string().into_bytes()),
        1 => Just(i64::MAX.to_string().into_bytes()),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let when = prop_oneof![2 => Just(When::Always), 1 => Just(When::Absent), 1 => Just(When::Present)];
    let ttl = prop_oneof![3 => Just(Ttl::Endless), 1 => Just(Ttl::Keep), 2 => (1..400u64).prop_map(Ttl::Ms)];
    prop_oneof![
        key().prop_map(Get),
        (key(), value(), when, ttl, any::<bool>()).prop_map(|(k, v, w, l, g)| Set(k, v, w, l, g)),
        (key(), value()).prop_map(|(k, v)| GetSet(k, v)),
        key().prop_map(GetDel),
        key().prop_map(GetExPersist),
        vec(key(), 1..4).prop_map(Del),
        vec(key(), 1..4).prop_map(Exists),
        vec(key(), 1..4).prop_map(Mget),
        vec((key(), value()), 1..4).prop_map(Mset),
        vec((key(), value()), 1..4).prop_map(MsetNx),
        (key(), key(), any::<bool>()).prop_map(|(from, to, replaces)| Copy(from, to, replaces)),
        (key(), key(), any::<bool>()).prop_map(|(from, to, replaces)| Rename(from, to, replaces)),
        (key(), value()).prop_map(|(k, v)| Append(k, v)),
        (key(), 0..60usize, value()).prop_map(|(k, at, v)| SetRange(k, at, v)),
        (key(), -50..50i64, -50..50i64).prop_map(|(k, a, b)| GetRange(k, a, b)),
        (key(), prop_oneof![Just(i64::MAX), -100..100i64]).prop_map(|(k, n)| IncrBy(k, n)),
        (key(), -10..400i64).prop_map(|(k, ms)| Expire(k, ms)),
        key().prop_map(Persist),
        key().prop_map(Pttl),
        (1..120u64).prop_map(Wait),
        (1..4usize).prop_map(Scan),
    ]
}

/// The expected node: values with deadlines.
#[derive(Default)]
struct Model {
    now_ms: u64,
    records: BTreeMap<Bytes, (Bytes, Option<u64>)>,
}

fn bulk(value: Option<Bytes>) -> Value {
    value.map_or(Value::Null, Value::Bulk)
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

impl Model {
    fn live(&mut self) {
        let now = self.now_ms;
        // As in Redis, a key exists for the whole millisecond of its deadline.
        self.records.retain(|_, (_, end)| end.is_none_or(|end| end >= now));
    }

    fn value(&self, key: &Bytes) -> Option<Bytes> {
        self.records.get(key).map(|(value, _)| value.clone())
    }

    fn end(&self, key: &Bytes) -> Option<u64> {
        self.records.get(key).and_then(|(_, end)| *end)
    }

    /// Keeps the deadline, like commands that change a part of a value.
    fn change(&mut self, key: Bytes, value: Bytes) {
        let end = self.end(&key);
        self.records.insert(key, (value, end));
    }

    fn run(&mut self, operation: Operation) -> Value {
        use Operation::*;
        self.live();
        match operation {
            Get(key) => bulk(self.value(&key)),
            Set(key, value, when, ttl, returns_old) => {
                let old = self.value(&key);
                let writes = match when {
                    When::Always => true,
                    When::Absent => old.is_none(),
                    When::Present => old.is_some(),
                };
                if writes {
                    let end = match ttl {
                        Ttl::Endless => None,
                        Ttl::Keep => self.end(&key),
                        Ttl::Ms(ms) => Some(self.now_ms + ms),
                    };
                    self.records.insert(key, (value, end));
                }
                match (returns_old, writes) {
                    (true, _) => bulk(old),
                    (false, true) => ok(),
                    (false, false) => Value::Null,
                }
            }
            GetSet(key, value) => {
                let old = self.value(&key);
                self.records.insert(key, (value, None));
                bulk(old)
            }
            GetDel(key) => bulk(self.records.remove(&key).map(|(value, _)| value)),
            GetExPersist(key) => {
                if let Some((_, end)) = self.records.get_mut(&key) {
                    *end = None;
                }
                bulk(self.value(&key))
            }
            Del(keys) => {
                Value::Integer(keys.iter().filter(|key| self.records.remove(*key).is_some()).count() as i64)
            }
            Exists(keys) => {
                Value::Integer(keys.iter().filter(|key| self.records.contains_key(*key)).count() as i64)
            }
            Mget(keys) => Value::Array(keys.iter().map(|key| bulk(self.value(key))).collect()),
            Mset(pairs) => {
                self.records.extend(pairs.into_iter().map(|(key, value)| (key, (value, None))));
                ok()
            }
            MsetNx(pairs) => {
                let all_absent = pairs.iter().all(|(key, _)| !self.records.contains_key(key));
                if all_absent {
                    self.records.extend(pairs.into_iter().map(|(key, value)| (key, (value, None))));
                }
                Value::Integer(all_absent.into())
            }
            Copy(from, to, _) if from == to => {
                Value::Error("ERR source and destination objects are the same".into())
            }
            Copy(from, to, replaces) => {
                let copied = self.records.get(&from).cloned();
                let copied = copied.filter(|_| replaces || !self.records.contains_key(&to));
                let has_copied = copied.is_some();
                copied.into_iter().for_each(|record| drop(self.records.insert(to.clone(), record)));
                Value::Integer(has_copied.into())
            }
            Rename(from, to, replaces) => {
                if !self.records.contains_key(&from) {
                    return Value::Error("ERR no such key".into());
                }
                let moves = from != to && (replaces || !self.records.contains_key(&to));
                if moves {
                    let record = self.records.remove(&from).expect("it is there");
                    self.records.insert(to, record);
                }
                if replaces { ok() } else { Value::Integer(moves.into()) }
            }
            Append(key, more) => {
                let value = [self.value(&key).unwrap_or_default(), more].concat();
                let length = value.len();
                self.change(key, value);
                Value::Integer(length as i64)
            }
            SetRange(key, at, part) => {
                let mut value = self.value(&key).unwrap_or_default();
                if !part.is_empty() {
                    value.resize(value.len().max(at + part.len()), 0);
                    value[at..at + part.len()].copy_from_slice(&part);
                    self.change(key, value.clone());
                }
                Value::Integer(value.len() as i64)
            }
            GetRange(key, first, last) => {
                let value = self.value(&key).unwrap_or_default();
                let length = value.len() as i64;
                if first < 0 && last < 0 && first > last {
                    return Value::Bulk(Vec::new());
                }
                let from_start = |at: i64| if at < 0 { (length + at).max(0) } else { at };
                let (first, last) = (from_start(first), from_start(last).min(length - 1));
                let part = (first..=last).filter_map(|at| value.get(at as usize).copied()).collect();
                Value::Bulk(part)
            }
            IncrBy(key, amount) => {
                let old = self.value(&key).unwrap_or(b"0".to_vec());
                let text = String::from_utf8_lossy(&old).into_owned();
                let canonical = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
                let Some(old) = canonical else {
                    return Value::Error("ERR value is not an integer or out of range".into());
                };
                match old.checked_add(amount) {
                    Some(sum) => {
                        self.change(key, sum.to_string().into_bytes());
                        Value::Integer(sum)
                    }
                    None => Value::Error("ERR increment or decrement would overflow".into()),
                }
            }
            Expire(key, ms) => {
                let present = self.records.contains_key(&key);
                if ms <= 0 {
                    self.records.remove(&key);
                } else if let Some((_, end)) = self.records.get_mut(&key) {
                    *end = Some(self.now_ms + ms as u64);
                }
                Value::Integer(present.into())
            }
            Persist(key) => {
                let ends = self.end(&key).is_some();
                if let Some((_, end)) = self.records.get_mut(&key) {
                    *end = None;
                }
                Value::Integer(ends.into())
            }
            Pttl(key) => Value::Integer(match self.records.get(&key) {
                None => -2,
                Some((_, None)) => -1,
                Some((_, Some(end))) => (end - self.now_ms) as i64,
            }),
            Wait(_) | Scan(_) => unreachable!("the test runs these itself"),
        }
    }
}

fn request(operation: &Operation) -> Vec<Bytes> {
    use Operation::*;
    let text = |text: &str| text.as_bytes().to_vec();
    let number = |number: i64| number.to_string().into_bytes();
    let pairs = |name, pairs: &[(Bytes, Bytes)]| {
        let flat = pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]);
        [text(name)].into_iter().chain(flat).collect()
    };
    let keys = |name, keys: &[Bytes]| [text(name)].into_iter().chain(keys.iter().cloned()).collect();
    match operation {
        Get(key) => vec![text("GET"), key.clone()],
        Set(key, value, when, ttl, returns_old) => {
            let mut args = vec![text("SET"), key.clone(), value.clone()];
            match when {
                When::Always => {}
                When::Absent => args.push(text("NX")),
                When::Present => args.push(text("XX")),
            }
            match ttl {
                Ttl::Endless => {}
                Ttl::Keep => args.push(text("KEEPTTL")),
                Ttl::Ms(ms) => args.extend([text("PX"), number(*ms as i64)]),
            }
            if *returns_old {
                args.push(text("GET"));
            }
            args
        }
        GetSet(key, value) => vec![text("GETSET"), key.clone(), value.clone()],
        GetDel(key) => vec![text("GETDEL"), key.clone()],
        GetExPersist(key) => vec![text("GETEX"), key.clone(), text("PERSIST")],
        Del(list) => keys("DEL", list),
        Exists(list) => keys("EXISTS", list),
        Mget(list) => keys("MGET", list),
        Mset(list) => pairs("MSET", list),
        MsetNx(list) => pairs("MSETNX", list),
        Copy(from, to, replaces) => {
            let mut args = vec![text("COPY"), from.clone(), to.clone()];
            args.extend(replaces.then(|| text("REPLACE")));
            args
        }
        Rename(from, to, replaces) => {
            vec![text(if *replaces { "RENAME" } else { "RENAMENX" }), from.clone(), to.clone()]
        }
        Append(key, value) => vec![text("APPEND"), key.clone(), value.clone()],
        SetRange(key, at, part) => vec![text("SETRANGE"), key.clone(), number(*at as i64), part.clone()],
        GetRange(key, first, last) => vec![text("GETRANGE"), key.clone(), number(*first), number(*last)],
        IncrBy(key, amount) => vec![text("INCRBY"), key.clone(), number(*amount)],
        Expire(key, ms) => vec![text("PEXPIRE"), key.clone(), number(*ms)],
        Persist(key) => vec![text("PERSIST"), key.clone()],
        Pttl(key) => vec![text("PTTL"), key.clone()],
        Wait(_) | Scan(_) => unreachable!("the test runs these itself"),
    }
}

fn ask(node: &mut SoloNode, client: &mut TestClient, args: &[Bytes]) -> Value {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    client.send(&args);
    while client.serve(&mut node.worker, node.now) {}
    client.receive().expect("a node that owns everything answers at once")
}

/// Walks over all keys with SCAN; between two steps `meanwhile` runs.
fn scan_all(
    node: &mut SoloNode,
    client: &mut TestClient,
    count: usize,
    mut meanwhile: impl FnMut(&mut SoloNode, &mut TestClient),
) -> Vec<Bytes> {
    let mut cursor = b"0".to_vec();
    let mut found = Vec::new();
    loop {
        let args = [b"SCAN".to_vec(), cursor, b"COUNT".to_vec(), count.to_string().into_bytes()];
        let Value::Array(reply) = ask(node, client, &args) else { panic!("SCAN answers with an array") };
        let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else { panic!("a cursor and keys") };
        for key in keys {
            let Value::Bulk(key) = key else { panic!("a key") };
            found.push(key.clone());
        }
        if next == b"0" {
            return found;
        }
        cursor = next.clone();
        meanwhile(node, client);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn strings_behave_as_the_model(operations in vec(operation(), 1..120)) {
        let mut node = SoloNode::new();
        let mut client = node.connect();
        let mut model = Model { now_ms: node.now.wall.0, records: BTreeMap::new() };
        for operation in operations {
            match operation {
                Operation::Wait(ms) => {
                    node.now.wall.0 += ms;
                    model.now_ms += ms;
                }
                Operation::Scan(count) => {
                    model.live();
                    let found = scan_all(&mut node, &mut client, count, |_, _| {});
                    let distinct: BTreeSet<Bytes> = found.iter().cloned().collect();
                    prop_assert_eq!(distinct.len(), found.len(), "a key was returned twice without changes");
                    prop_assert_eq!(distinct, model.records.keys().cloned().collect::<BTreeSet<Bytes>>());
                }
                operation => {
                    let actual = ask(&mut node, &mut client, &request(&operation));
                    let shown = format!("{operation:?}");
                    prop_assert_eq!(actual, model.run(operation), "{}", shown);
                }
            }
        }
    }
}

/// SCAN's guarantee: a key that exists throughout is returned, however the index grows and shrinks meanwhile.
#[test]
fn scan_finds_what_stays_while_the_index_grows_and_shrinks() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let set = |node: &mut SoloNode, client: &mut TestClient, key: String| {
        ask(node, client, &[b"SET".to_vec(), key.into_bytes(), b"v".to_vec()]);
    };
    // One slot, so that one table grows.
    for index in 0..500 {
        set(&mut node, &mut client, format!("{{t}}stays{index}"));
    }
    let mut step = 0;
    let found = scan_all(&mut node, &mut client, 20, |node, client| {
        step += 1;
        for index in 0..300 {
            let key = format!("{{t}}passes{step}:{index}");
            if step % 2 == 0 {
                ask(
                    node,
                    client,
                    &[b"DEL".to_vec(), format!("{{t}}passes{}:{index}", step - 1).into_bytes()],
                );
            } else {
                set(node, client, key);
            }
        }
    });
    let found: BTreeSet<Bytes> = found.into_iter().collect();
    for index in 0..500 {
        assert!(found.contains(format!("{{t}}stays{index}").as_bytes()), "key {index} was not returned");
    }
}

#[test]
fn out_of_memory_is_an_error_and_reads_and_deletions_go_on() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let value = vec![b'x'; 200_000];
    let oom = Value::Error("OOM command not allowed when used memory > 'maxmemory'.".into());
    let set = |index: u32| [b"SET".to_vec(), format!("k{index}").into_bytes(), value.clone()];
    let full = (0..500).find(|&index| ask(&mut node, &mut client, &set(index)) == oom);
    let full = full.expect("64 MiB do not hold 500");
    assert!(full > 200, "memory ended after {full} values");
    assert_eq!(ask(&mut node, &mut client, &[b"STRLEN".to_vec(), b"k0".to_vec()]), Value::Integer(200_000));
    assert_eq!(ask(&mut node, &mut client, &[b"GET".to_vec(), format!("k{full}").into_bytes()]), Value::Null);
    for index in 0..full {
        let del = [b"DEL".to_vec(), format!("k{index}").into_bytes()];
        assert_eq!(ask(&mut node, &mut client, &del), Value::Integer(1));
    }
    assert_eq!(ask(&mut node, &mut client, &[b"DBSIZE".to_vec()]), Value::Integer(0));
}

#[test]
fn several_keys_are_set_all_or_none_for_want_of_memory() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let (before, after) = (b"before".to_vec(), vec![b'x'; 400_000]);
    let line =
        |words: &[&str]| -> Vec<Vec<u8>> { words.iter().map(|word| word.as_bytes().to_vec()).collect() };
    let get = |key: &str| line(&["GET", key]);
    assert_eq!(
        ask(&mut node, &mut client, &line(&["MSET", "a", "before", "b", "before"])),
        Value::Simple("OK".into())
    );
    let fill = |index: u32| [b"SET".to_vec(), format!("k{index}").into_bytes(), vec![b'y'; 200_000]];
    let is_refused = |reply: Value| matches!(reply, Value::Error(text) if text.starts_with("OOM "));
    let full = (0..500).find(|&index| is_refused(ask(&mut node, &mut client, &fill(index))));
    let full = full.expect("64 MiB do not hold 500");
    // There is room for one of the two.
    for index in 0..3 {
        ask(&mut node, &mut client, &line(&["DEL", &format!("k{index}")]));
    }
    for (command, new) in [("MSET", "a"), ("MSETNX", "c")] {
        let both = [command.as_bytes(), new.as_bytes(), &after, b"d", &after].map(<[u8]>::to_vec);
        assert!(is_refused(ask(&mut node, &mut client, &both)), "{command}");
        assert_eq!(ask(&mut node, &mut client, &get("a")), Value::Bulk(before.clone()));
        assert_eq!(ask(&mut node, &mut client, &line(&["EXISTS", "c", "d"])), Value::Integer(0));
    }
    for index in 3..full {
        ask(&mut node, &mut client, &line(&["DEL", &format!("k{index}")]));
    }
    let both = [b"MSET".as_slice(), b"a", &after, b"d", &after].map(<[u8]>::to_vec);
    assert_eq!(ask(&mut node, &mut client, &both), Value::Simple("OK".into()));
    assert_eq!(ask(&mut node, &mut client, &get("d")), Value::Bulk(after));
}

/// Small values' remains are cleaned for a large one, however many segments it takes at once.
#[test]
fn a_large_value_has_room_made_for_it() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let small = vec![b'x'; 2_000];
    let names: Vec<Vec<u8>> = (0..40_000).map(|index| format!("k{index}").into_bytes()).collect();
    let ok = Value::Simple("OK".into());
    let full = names.iter().take_while(|name| {
        ask(&mut node, &mut client, &[b"SET".to_vec(), name.to_vec(), small.clone()]) == ok
    });
    let full = full.count();
    assert!((10_000..40_000).contains(&full), "{full}");
    // Two of three are removed, all over the memory.
    for name in names[..full].iter().enumerate().filter(|(index, _)| index % 3 != 0).map(|(_, name)| name) {
        assert_eq!(ask(&mut node, &mut client, &[b"DEL".to_vec(), name.clone()]), Value::Integer(1));
    }
    let large = vec![b'y'; 30 << 20];
    assert_eq!(ask(&mut node, &mut client, &[b"SET".to_vec(), b"large".to_vec(), large]), ok);
}
