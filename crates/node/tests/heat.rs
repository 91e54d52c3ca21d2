//! What a node shows of its heat: SIDLE.HEAT, CLUSTER SLOT-STATS and HOTKEYS, on virtual time.

use sidle_heat::HeatReport;
use sidle_node::testing::{SoloNode, TestClient, node_info, parts};
use sidle_node::{Now, RangeTable, Worker, WorkerIndex, connect};
use sidle_resp::Value;
use sidle_testbed::fixtures;
use sidle_types::{MonotonicUs, Position, Slot, WallMs};
use sidle_workload::{Random, Zipfian};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn words(request: &str) -> Vec<&[u8]> {
    request.split(' ').map(str::as_bytes).collect()
}

fn error(text: &str) -> Value {
    Value::Error(text.into())
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// A node that has been idle for a second, and so counts every request.
struct Quiet {
    node: SoloNode,
    client: TestClient,
}

impl Quiet {
    /// Each reading of its stopwatch takes 8 us, so a request of its own takes as long.
    fn new() -> Quiet {
        let mut node = SoloNode::new();
        let readings = Arc::new(AtomicU64::new(0));
        node.worker.measure_with(move || 8_000 * (1 + readings.fetch_add(1, Relaxed)));
        let client = node.connect();
        let mut quiet = Quiet { node, client };
        (0..2).for_each(|_| quiet.pass_second());
        quiet
    }

    fn pass_second(&mut self) {
        self.node.worker.hand_over_heat(self.node.now.mono);
        self.node.now.mono = self.node.now.mono.plus_us(1_000_000);
        self.node.now.wall = WallMs(self.node.now.wall.0 + 1_000);
        self.node.worker.hand_over_heat(self.node.now.mono);
    }

    fn ask(&mut self, request: &str) -> Value {
        self.node.now.reading_ns = self.node.worker.reading_ns();
        self.node.ask(&mut self.client, request)
    }

    fn speak(&mut self, version: u8) {
        self.ask(&format!("HELLO {version}"));
    }
}

fn report(value: &Value) -> HeatReport {
    serde_json::from_slice(value.as_bytes().expect("a text")).expect("a report")
}

/// How many requests it takes for five standard deviations to be less than 10 %: a worker samples its first
/// 16,384 requests in a second all, and then one in two. A share `p` of `n` requests, of which three quarters
/// are sampled by half, has a relative standard deviation of `sqrt(0.75 / (n p))`. For the tenth key
/// (0.80 %): `n >= 0.75 * 50^2 / 0.008 = 234,000`. Four workers with 32,000 requests in each of two seconds.
#[test]
fn a_zipf_loads_ten_hottest_keys_are_named_within_two_seconds() {
    const WORKERS: u16 = 4;
    const KEYS: u64 = 100_000;
    const BATCHES_A_SECOND: usize = 2_000;
    let info = node_info(1);
    let parts = parts(&info, WORKERS, 64 << 20);
    let (ports, _movers) = connect(WORKERS, 1);
    let map = Arc::new(sidle_cluster::TabletMap::founded_by(info.clone()));
    let _ticket = parts.published.publish(Arc::new(RangeTable::new(info.id, map, &[], &[])));
    let mut now =
        Now { mono: MonotonicUs(0), wall: WallMs(1_700_000_000_000), wall_micros: 0, reading_ns: 0 };
    let mut workers: Vec<(Worker, TestClient)> = ports
        .into_iter()
        .zip(0..)
        .map(|(ports, index)| {
            let worker = Worker::new(&parts, WorkerIndex(index), ports, u64::from(index));
            (worker, TestClient::connect(&parts.shared, now))
        })
        .collect();
    let mut pass_second = |workers: &mut [(Worker, TestClient)]| {
        workers.iter_mut().for_each(|(worker, _)| worker.hand_over_heat(now.mono));
        now.mono = now.mono.plus_us(1_000_000);
        workers.iter_mut().for_each(|(worker, _)| worker.hand_over_heat(now.mono));
        now
    };
    let mut now = pass_second(&mut workers);
    let (zipf, mut random) = (Zipfian::new(KEYS, 0.99), Random::new(7, 0));
    let mut truth = vec![0_u64; KEYS as usize];
    for _ in 0..2 {
        for (worker, client) in &mut workers {
            for _ in 0..BATCHES_A_SECOND {
                for _ in 0..16 {
                    let key = zipf.next(&mut random);
                    truth[key as usize] += 1;
                    client.send(&[b"GET", format!("user:{key}").as_bytes()]);
                }
                while client.serve(worker, now) {}
                (0..16).for_each(|_| assert_eq!(client.receive(), Some(Value::Null)));
            }
        }
        now = pass_second(&mut workers);
    }
    let (worker, client) = &mut workers[0];
    client.send(&words("SIDLE.HEAT 2"));
    client.serve(worker, now);
    let report = report(&client.receive().expect("a reply at once"));
    let requests = truth.iter().sum::<u64>();
    assert_eq!(report.window_us, 2_000_000);
    assert!(report.operations.abs_diff(requests) < requests / 100, "{}", report.operations);
    assert_eq!((report.writes, report.node), (0, info.id));
    for (key, &accesses) in truth.iter().enumerate().take(10) {
        let name = format!("user:{key}");
        let place = report.keys.iter().position(|hot| hot.key == name);
        let place = place.unwrap_or_else(|| panic!("{name} is not named"));
        // Neighbours' shares differ by less than 10 %: two may change places.
        assert!(place.abs_diff(key) <= 2, "{name} is at {place}");
        let hot = &report.keys[place];
        let found = hot.operations as f64 / report.operations as f64;
        let is = accesses as f64 / requests as f64;
        assert!((found / is - 1.0).abs() < 0.1, "{name}: {found}, {is}");
        assert_eq!(hot.position, Position::of_key(name.as_bytes()));
        assert!(hot.operations <= hot.operations_at_most);
    }
    let hottest = parts.shared.heat.hottest_in(sidle_types::PositionRange::ALL, 3, 2);
    assert_eq!(hottest[0].position, Position::of_key(b"user:0"));
    assert!(hottest[0].per_second.abs_diff(truth[0] / 2) < truth[0] / 20, "{hottest:?}");
}

#[test]
fn a_transaction_counts_each_key_of_its_commands() {
    let mut quiet = Quiet::new();
    for request in ["MULTI", "SET {a}1 value", "GET {a}1", "MGET {a}1 {a}2", "PING", "EXEC"] {
        quiet.ask(request);
    }
    quiet.pass_second();
    let report = report(&quiet.ask("SIDLE.HEAT 1"));
    assert_eq!((report.operations, report.writes), (4, 1));
    let [first, second] = &report.keys[..] else { panic!("{report:?}") };
    assert_eq!((first.key.as_str(), first.operations, first.writes), ("{a}1", 3, 1));
    assert_eq!((second.key.as_str(), second.operations), ("{a}2", 1));
}

#[test]
fn heat_is_shown_with_what_each_key_took() {
    let mut quiet = Quiet::new();
    quiet.ask("SET {a}1 value");
    (0..3).for_each(|_| drop(quiet.ask("GET {a}1")));
    quiet.ask("MGET {a}1 {a}2");
    quiet.ask("PING");
    assert_eq!(report(&quiet.ask("SIDLE.HEAT")).keys, []);
    quiet.pass_second();
    let report = report(&quiet.ask("SIDLE.HEAT 1"));
    assert_eq!((report.window_us, report.operations, report.writes), (1_000_000, 6, 1));
    let [first, second] = &report.keys[..] else { panic!("{report:?}") };
    assert_eq!((first.key.as_str(), first.operations, first.writes), ("{a}1", 5, 1));
    assert_eq!((second.key.as_str(), second.operations, second.is_cut), ("{a}2", 1, false));
    // Each request takes one reading or two; what MGET takes is divided.
    assert!(first.cpu_us >= 4 * 8 && second.cpu_us >= 4, "{report:?}");
    // *3 $3 SET $4 {a}1 $5 value; *2 $3 GET $4 {a}1; *3 $4 MGET $4 {a}1 $4 {a}2.
    assert_eq!((first.bytes_in, second.bytes_in), (34 + 3 * 23 + 34 / 2, 34 / 2));
    let slot = Slot::of_key(b"{a}1");
    assert_eq!((first.slot, second.slot), (slot, slot));
    assert_eq!(report.slots.iter().map(|hot| (hot.slot, hot.operations)).collect::<Vec<_>>(), [(slot, 6)]);
    for wrong in ["SIDLE.HEAT 0", "SIDLE.HEAT 61", "SIDLE.HEAT x"] {
        assert_eq!(quiet.ask(wrong), error("ERR give how many of the last seconds to look at: 1 to 60"));
    }
    let arity = error("ERR wrong number of arguments for 'sidle.heat' command");
    assert_eq!(quiet.ask("SIDLE.HEAT 1 2"), arity);
}

/// A slot's five figures in a reply of RESP3.
fn figures(value: &Value) -> Vec<(i64, [i64; 5])> {
    let Value::Array(slots) = value else { panic!("{value:?}") };
    let figures = slots.iter().map(|slot| {
        let Value::Array(pair) = slot else { panic!("{slot:?}") };
        let [Value::Integer(number), Value::Map(fields)] = &pair[..] else { panic!("{pair:?}") };
        let names = ["key-count", "memory-bytes", "cpu-usec", "network-bytes-in", "network-bytes-out"];
        assert!(fields.iter().map(|(name, _)| name).eq(names.map(bulk).iter()), "{fields:?}");
        let numbers: Vec<i64> = fields
            .iter()
            .map(|(_, figure)| match figure {
                Value::Integer(figure) => *figure,
                other => panic!("{other:?}"),
            })
            .collect();
        (*number, numbers.try_into().expect("five figures"))
    });
    figures.collect()
}

#[test]
fn slot_stats_have_redis_s_shapes_in_both_protocols() {
    let mut quiet = Quiet::new();
    quiet.ask("SET {a}1 value");
    quiet.ask("SET {a}2 value");
    let request = "CLUSTER SLOT-STATS SLOTSRANGE 15495 15495";
    let Value::Array(slots) = quiet.ask(request) else { panic!("an array") };
    let [Value::Array(pair)] = &slots[..] else { panic!("{slots:?}") };
    let [Value::Integer(15495), Value::Array(fields)] = &pair[..] else { panic!("{pair:?}") };
    assert_eq!((fields.len(), &fields[0], &fields[1]), (10, &bulk("key-count"), &Value::Integer(2)));
    quiet.speak(3);
    let [(15495, [2, memory, cpu, 68, 10])] = figures(&quiet.ask(request))[..] else {
        panic!("{:?}", quiet.ask(request))
    };
    assert!(memory > 2 * 9 && cpu >= 16, "{memory} {cpu}");
    let all = figures(&quiet.ask("CLUSTER SLOT-STATS SLOTSRANGE 0 16383"));
    assert!(all.iter().map(|(slot, _)| *slot).eq(0..16384));
    // What commands took begins anew; what the slot holds does not.
    quiet.ask("CONFIG RESETSTAT");
    assert_eq!(figures(&quiet.ask(request)), [(15495, [2, memory, 0, 0, 0])]);
    assert_eq!(
        quiet.ask("CONFIG GET cluster-slot-stats-enabled"),
        Value::Map(vec![(bulk("cluster-slot-stats-enabled"), bulk("yes"))])
    );
}

#[test]
fn slots_are_ordered_by_any_metric() {
    let mut quiet = Quiet::new();
    quiet.speak(3);
    // Slots 15495, 3300 and 7365.
    for request in [
        "SET a 1",
        "SET b 22222222222222222222222222222222",
        "SET {b}2 2",
        "GET c",
        "GET c",
        "GET c",
        "GET b",
    ] {
        quiet.ask(request);
    }
    for (by, expected) in [
        ("key-count", [3300, 15495, 0]),
        ("memory-bytes", [3300, 15495, 0]),
        ("cpu-usec", [3300, 7365, 15495]),
        ("NETWORK-BYTES-IN", [3300, 7365, 15495]),
        ("network-bytes-out", [3300, 7365, 15495]),
    ] {
        let found = figures(&quiet.ask(&format!("CLUSTER SLOT-STATS ORDERBY {by} LIMIT 3")));
        assert_eq!(found.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), expected, "{by}: {found:?}");
    }
    let first = |found: Vec<(i64, [i64; 5])>| found[0].0;
    assert_eq!(first(figures(&quiet.ask("CLUSTER SLOT-STATS ORDERBY key-count ASC LIMIT 1"))), 0);
    assert_eq!(first(figures(&quiet.ask("cluster slot-stats orderby key-count desc limit 1"))), 3300);
    assert_eq!(figures(&quiet.ask("CLUSTER SLOT-STATS ORDERBY key-count")).len(), 16384);
}

#[test]
fn slot_stats_refuse_what_redis_refuses() {
    let mut quiet = Quiet::new();
    let unknown = "ERR unknown subcommand or wrong number of arguments for 'slot-stats'. Try CLUSTER HELP.";
    let limit = "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
    for (arguments, refusal) in [
        ("SLOTSRANGE", "ERR wrong number of arguments for 'cluster|slot-stats' command"),
        ("SLOTSRANGE 1", unknown),
        ("SLOTSRANGE 1 2 3", unknown),
        ("KEYS 1 2", unknown),
        ("SLOTSRANGE 1 x", "ERR Invalid or out of range slot"),
        ("SLOTSRANGE -1 5", "ERR Invalid or out of range slot"),
        ("SLOTSRANGE 0 16384", "ERR Invalid or out of range slot"),
        ("SLOTSRANGE 5 4", "ERR Start slot number 5 is greater than end slot number 4"),
        ("ORDERBY keys", "ERR Unrecognized sort metric for ORDERBY."),
        ("ORDERBY key-count LIMIT 0", limit),
        ("ORDERBY key-count LIMIT 16385", limit),
        ("ORDERBY key-count LIMIT x", limit),
        ("ORDERBY key-count LIMIT", "ERR syntax error"),
        ("ORDERBY key-count SIDEWAYS", "ERR syntax error"),
        ("ORDERBY key-count ASC DESC", "ERR Multiple filters of the same type are disallowed."),
        ("ORDERBY key-count LIMIT 1 LIMIT 2", "ERR Multiple filters of the same type are disallowed."),
    ] {
        assert_eq!(quiet.ask(&format!("CLUSTER slot-stats {arguments}")), error(refusal), "{arguments}");
    }
}

/// A slot that is split is shown with the part that is here.
#[test]
fn a_split_slot_is_shown_by_its_owner_with_what_it_owns() {
    let mut quiet = Quiet::new();
    for number in 0..200 {
        quiet.ask(&format!("SET {{a}}{number} value"));
    }
    let (slot, half) = (Slot::of_key(b"{a}"), 1 << 49);
    let middle = Position::first_of(slot).0 + half;
    let map = fixtures::map(2, 2, &[(0, 2, 1), (middle, 1, 2)], vec![]);
    let node = quiet.node.parts.shared.process.node;
    let table = RangeTable::new(node, Arc::new(map), &[], &[]);
    let _ticket = quiet.node.parts.published.publish(Arc::new(table));
    quiet.speak(3);
    let found = figures(&quiet.ask("CLUSTER SLOT-STATS SLOTSRANGE 0 16383"));
    assert!(found.iter().map(|(slot, _)| *slot).eq(i64::from(slot.number())..16384));
    let here = (0..200).filter(|number| Position::of_key(format!("{{a}}{number}").as_bytes()).0 >= middle);
    assert_eq!(found[0].1[0], here.count() as i64);
    let refused = quiet.ask("HOTKEYS START METRICS 1 CPU SLOTS 1 0");
    assert_eq!(refused, error("ERR slot 0 not handled by this node"));
}

/// The fields of HOTKEYS GET.
fn fields(value: &Value) -> Vec<(String, Value)> {
    let Value::Array(maps) = value else { panic!("{value:?}") };
    let [Value::Map(fields)] = &maps[..] else { panic!("{maps:?}") };
    let text = |name: &Value| String::from_utf8_lossy(name.as_bytes().expect("a name")).into_owned();
    fields.iter().map(|(name, value)| (text(name), value.clone())).collect()
}

fn field(value: &Value, name: &str) -> Value {
    let fields = fields(value);
    fields.into_iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("{name}: {value:?}")).1
}

#[test]
fn hotkeys_shows_what_was_tracked() {
    let mut quiet = Quiet::new();
    assert_eq!(quiet.ask("HOTKEYS GET"), Value::Null);
    assert_eq!(quiet.ask("HOTKEYS STOP"), Value::Null);
    assert_eq!(quiet.ask("HOTKEYS RESET"), ok());
    quiet.ask("SET before 1");
    assert_eq!(quiet.ask("HOTKEYS START METRICS 2 CPU NET"), ok());
    let began = quiet.node.now.wall.0 as i64;
    quiet.ask("SET a 1");
    quiet.ask(&format!("SET long {}", "v".repeat(1000)));
    (0..5).for_each(|_| drop(quiet.ask("GET a")));
    quiet.pass_second();
    // RESP2: one flat list of names and values.
    let Value::Array(maps) = quiet.ask("HOTKEYS GET") else { panic!("an array") };
    let [Value::Array(flat)] = &maps[..] else { panic!("{maps:?}") };
    assert_eq!((flat.len(), &flat[0], &flat[1]), (24, &bulk("tracking-active"), &Value::Integer(1)));
    quiet.speak(3);
    let shown = quiet.ask("HOTKEYS GET");
    let names: Vec<String> = fields(&shown).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "tracking-active",
            "sample-ratio",
            "selected-slots",
            "all-commands-all-slots-us",
            "net-bytes-all-commands-all-slots",
            "collection-start-time-unix-ms",
            "collection-duration-ms",
            "total-cpu-time-user-ms",
            "total-cpu-time-sys-ms",
            "total-net-bytes",
            "by-cpu-time-us",
            "by-net-bytes",
        ]
    );
    let all = Value::Array(vec![Value::Array(vec![Value::Integer(0), Value::Integer(16383)])]);
    assert_eq!(field(&shown, "selected-slots"), all);
    assert_eq!(field(&shown, "collection-start-time-unix-ms"), Value::Integer(began));
    assert_eq!(field(&shown, "collection-duration-ms"), Value::Integer(1_000));
    // *3 $3 SET $1 a $1 1 and +OK; *2 $3 GET $1 a and $1 1; *3 $3 SET $4 long $1000 v.. and +OK.
    let of_a = 27 + 5 + 5 * (20 + 7);
    let of_long = 23 + 1_009 + 5;
    let by_net = [bulk("long"), Value::Integer(of_long), bulk("a"), Value::Integer(of_a)];
    assert_eq!(field(&shown, "by-net-bytes"), Value::Array(by_net.to_vec()));
    assert_eq!(field(&shown, "total-net-bytes"), Value::Integer(of_a + of_long));
    let Value::Array(by_cpu) = field(&shown, "by-cpu-time-us") else { panic!("{shown:?}") };
    assert_eq!((&by_cpu[0], &by_cpu[2]), (&bulk("a"), &bulk("long")));
    assert_eq!(
        quiet.ask("HOTKEYS RESET"),
        error("ERR hotkey tracking session in progress, stop tracking first")
    );
    assert_eq!(quiet.ask("HOTKEYS STOP"), ok());
    quiet.ask("GET a");
    quiet.pass_second();
    let after = quiet.ask("HOTKEYS GET");
    assert_eq!(field(&after, "tracking-active"), Value::Integer(0));
    assert_eq!(field(&after, "collection-duration-ms"), Value::Integer(1_000));
    assert_eq!(field(&after, "by-net-bytes"), field(&shown, "by-net-bytes"));
    assert_eq!((quiet.ask("HOTKEYS RESET"), quiet.ask("HOTKEYS GET")), (ok(), Value::Null));
}

#[test]
fn hotkeys_tracks_what_it_was_told_to() {
    let mut quiet = Quiet::new();
    quiet.speak(3);
    // Slots 15495, 3300, 7365 and 11298.
    let [a, b] = ["a", "b"].map(|key| Slot::of_key(key.as_bytes()).number());
    let start = format!("HOTKEYS START METRICS 1 NET COUNT 1 SAMPLE 10 DURATION 2 SLOTS 3 {b} {a} {}", a - 1);
    assert_eq!(quiet.ask(&start), ok());
    for key in ["a", "b", "b", "c"] {
        (0..10).for_each(|_| drop(quiet.ask(&format!("GET {key}"))));
    }
    let shown = quiet.ask("HOTKEYS GET");
    let run = |ends: &[u16]| Value::Array(ends.iter().map(|&end| Value::Integer(end.into())).collect());
    assert_eq!(field(&shown, "selected-slots"), Value::Array(vec![run(&[b]), run(&[a - 1, a])]));
    assert_eq!(field(&shown, "sample-ratio"), Value::Integer(10));
    // *2 $3 GET $1 a, and a null of RESP3.
    let each = 20 + 3;
    assert_eq!(field(&shown, "net-bytes-all-commands-all-slots"), Value::Integer(40 * each));
    assert_eq!(field(&shown, "net-bytes-all-commands-selected-slots"), Value::Integer(30 * each));
    assert_eq!(field(&shown, "net-bytes-sampled-commands-selected-slots"), Value::Integer(3 * each));
    assert_eq!(field(&shown, "total-net-bytes"), Value::Integer(3 * each));
    let by_net = Value::Array(vec![bulk("b"), Value::Integer(2 * each)]);
    assert_eq!(field(&shown, "by-net-bytes"), by_net);
    assert!(fields(&shown).iter().all(|(name, _)| name != "by-cpu-time-us"));
    // Its time ends.
    (0..3).for_each(|_| quiet.pass_second());
    quiet.ask("GET b");
    let after = quiet.ask("HOTKEYS GET");
    assert_eq!(field(&after, "tracking-active"), Value::Integer(0));
    assert_eq!(field(&after, "collection-duration-ms"), Value::Integer(2_000));
    assert_eq!(field(&after, "by-net-bytes"), by_net);
    assert_eq!(quiet.ask("HOTKEYS START METRICS 1 CPU"), ok());
}

#[test]
fn hotkeys_refuses_what_redis_refuses() {
    let mut quiet = Quiet::new();
    let count = "ERR METRICS count must be > 0 and <= 2";
    let mismatch = "ERR METRICS count does not match number of metric types provided";
    for (arguments, refusal) in [
        ("", "ERR METRICS parameter is required"),
        (" METRICS", "ERR METRICS parameter is required"),
        (" COUNT 1 CPU", "ERR METRICS parameter is required"),
        (" METRICS 0 CPU", count),
        (" METRICS 3 CPU NET", count),
        (" METRICS x CPU", count),
        (" METRICS 2 CPU", mismatch),
        (" METRICS 1", mismatch),
        (" METRICS 2 CPU CPU", "ERR METRICS CPU defined more than once!"),
        (" METRICS 2 NET net", "ERR METRICS NET defined more than once!"),
        (" METRICS 1 GPU", "ERR METRICS no valid metrics passed. Supported: CPU|NET"),
        (" METRICS 1 CPU NET", "ERR syntax error"),
        (" METRICS 1 CPU COUNT", "ERR syntax error"),
        (" METRICS 1 CPU COUNT 65", "ERR COUNT must be between 1 and 64"),
        (" METRICS 1 CPU DURATION 0", "ERR DURATION must be between 1 and 1000000"),
        (" METRICS 1 CPU SAMPLE 0", "ERR SAMPLE ratio must be positive"),
        (" METRICS 1 CPU SLOTS 0", "ERR SLOTS count must be between 1 and 16384"),
        (" METRICS 1 CPU SLOTS 2 0", "ERR not enough slot numbers provided"),
        (" METRICS 1 CPU SLOTS 2 0 0", "ERR duplicate slot number"),
        (" METRICS 1 CPU SLOTS 1 16384", "ERR Invalid or out of range slot"),
        (" METRICS 1 CPU SLOTS 1 0 SLOTS 1 5", "ERR SLOTS parameter already specified"),
    ] {
        assert_eq!(quiet.ask(&format!("HOTKEYS START{arguments}")), error(refusal), "{arguments}");
    }
    assert_eq!(quiet.ask("HOTKEYS START METRICS 2 GPU CPU"), ok());
    let active = error("ERR hotkey tracking session already in progress");
    assert_eq!(quiet.ask("HOTKEYS START"), active);
    let arity = error("ERR wrong number of arguments for 'hotkeys|get' command");
    assert_eq!(quiet.ask("HOTKEYS GET x"), arity);
}
