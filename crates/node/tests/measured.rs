//! A node's reported command durations, with the test's stopwatch.

use sidle_node::testing::{SoloNode, TestClient};
use sidle_resp::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A node whose clock advances by `step_ns` with each reading.
struct Timed {
    node: SoloNode,
    client: TestClient,
    step_ns: Arc<AtomicU64>,
}

impl Timed {
    fn new() -> Timed {
        let mut node = SoloNode::new();
        let step_ns = Arc::new(AtomicU64::new(0));
        let (step, now) = (Arc::clone(&step_ns), AtomicU64::new(0));
        node.worker.measure_with(move || {
            let step = step.load(Relaxed);
            now.fetch_add(step, Relaxed) + step
        });
        let client = node.connect();
        Timed { node, client, step_ns }
    }

    /// From now on each lap takes this long.
    fn laps_take(&self, ns: u64) {
        self.step_ns.store(ns, Relaxed);
    }

    /// One batch of requests, and the replies.
    fn ask_all(&mut self, requests: &[&str]) -> Vec<Value> {
        for request in requests {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            self.client.send(&args);
        }
        // The stopwatch starts at 0 with each batch: the worker's reading is the number of readings since.
        self.node.now.reading_ns = self.reading();
        while self.client.serve(&mut self.node.worker, self.node.now) {}
        requests.iter().map(|_| self.client.receive().expect("a reply to each request")).collect()
    }

    fn ask(&mut self, request: &str) -> Value {
        self.ask_all(&[request]).remove(0)
    }

    /// The stopwatch's value, found by one more reading that costs nothing.
    fn reading(&mut self) -> u64 {
        let step = self.step_ns.swap(0, Relaxed);
        let reading = self.node.worker.reading_ns();
        self.step_ns.store(step, Relaxed);
        reading
    }

    /// The fields of an INFO line, by name.
    fn line(&mut self, section: &str, name: &str) -> Option<String> {
        self.laps_take(0);
        let Value::Bulk(text) = self.ask(&format!("INFO {section}")) else {
            panic!("INFO answers with text")
        };
        let text = String::from_utf8(text).expect("text");
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).next()
    }
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

#[test]
fn usec_is_what_the_stopwatch_measured() {
    let mut timed = Timed::new();
    timed.laps_take(40_000);
    timed.ask("SET a 1");
    timed.ask("SET a 2");
    timed.laps_take(64_000);
    timed.ask_all(&["GET a"; 16]);
    let line = |timed: &mut Timed, name| timed.line("commandstats", name).expect("the command ran");
    assert_eq!(
        line(&mut timed, "cmdstat_set"),
        "calls=2,usec=80,usec_per_call=40.00,rejected_calls=0,failed_calls=0"
    );
    assert_eq!(
        line(&mut timed, "cmdstat_get"),
        "calls=16,usec=64,usec_per_call=4.00,rejected_calls=0,failed_calls=0"
    );
    let percentiles = timed.line("latencystats", "latency_percentiles_usec_set").expect("it is counted");
    assert_eq!(percentiles, "p50=40.959,p99=40.959,p99.9=40.959");
    let steps = Value::Array(vec![Value::Integer(4), Value::Integer(16)]);
    let shown = vec![bulk("calls"), Value::Integer(16), bulk("histogram_usec"), steps];
    let histogram = timed.ask("LATENCY HISTOGRAM get nothing");
    assert_eq!(histogram, Value::Array(vec![bulk("get"), Value::Array(shown)]));
    timed.ask("CONFIG RESETSTAT");
    assert_eq!(timed.line("latencystats", "latency_percentiles_usec_set"), None);
    timed.ask("CONFIG SET latency-tracking no");
    timed.ask("GET a");
    assert_eq!(timed.line("latencystats", "latency_percentiles_usec_get"), None);
}

#[test]
fn a_batch_of_several_kinds_is_shared_out_by_what_each_may_have_taken() {
    let mut timed = Timed::new();
    timed.laps_take(30_000);
    // The light ones before and after KEYS share a lap each; KEYS has its own.
    timed.ask_all(&["SET a 1", "GET a", "KEYS *", "INCR a", "INCR a", "GET a"]);
    let mut per_call = |command| {
        let line = timed.line("commandstats", &format!("cmdstat_{command}")).expect("it ran");
        line.split(',').find_map(|field| field.strip_prefix("usec=")?.parse::<u64>().ok()).expect("a number")
    };
    // Time beyond 5 us goes to the command that moved most bytes: SET, and the last GET, whose reply is a
    // bulk.
    assert_eq!([per_call("set"), per_call("keys"), per_call("incr"), per_call("get")], [25, 30, 10, 25]);
}

/// As in Redis: SLOWLOG has the commands, and not their EXEC.
#[test]
fn commands_of_a_transaction_are_measured_one_by_one() {
    let mut timed = Timed::new();
    timed.laps_take(12_000_000);
    timed.ask_all(&["MULTI", "SET a 1", "GET a", "DBSIZE", "EXEC"]);
    timed.laps_take(0);
    let Value::Array(entries) = timed.ask("SLOWLOG GET") else { panic!("an array") };
    let name = |entry: &Value| {
        let Value::Array(fields) = entry else { panic!("an entry is an array") };
        let Value::Array(words) = &fields[3] else { panic!("it has the command") };
        words[0].clone()
    };
    let names: Vec<Value> = entries.iter().map(name).filter(|name| *name != bulk("MULTI")).collect();
    assert_eq!(names, [bulk("DBSIZE"), bulk("GET"), bulk("SET")]);
    for command in ["set", "get", "dbsize"] {
        let line = timed.line("commandstats", &format!("cmdstat_{command}")).expect("it ran");
        assert!(line.starts_with("calls=1,usec=12000,"), "{command}: {line}");
    }
    let exec = timed.line("commandstats", "cmdstat_exec").expect("it ran");
    assert!(exec.starts_with("calls=1,usec=") && !exec.starts_with("calls=1,usec=12000,"), "{exec}");
}

#[test]
fn slow_commands_are_kept_with_who_sent_them() {
    let mut timed = Timed::new();
    timed.ask("CLIENT SETNAME me");
    timed.laps_take(9_999_999);
    timed.ask("SET quick 1");
    timed.laps_take(12_345_678);
    timed.ask("SET slow 1");
    timed.ask_all(&["GET x", "SET heavy 123456789012345", "GET x"]);
    timed.laps_take(0);
    let Value::Array(entries) = timed.ask("SLOWLOG GET") else { panic!("an array") };
    let address = timed.client.session().client.address.clone();
    let entry = |id, us, args: &[&str]| {
        let args = args.iter().map(|arg| bulk(arg)).collect();
        let numbers = [id, 1_700_000_000, us].map(Value::Integer);
        Value::Array([&numbers[..], &[Value::Array(args), bulk(&address), bulk("me")]].concat())
    };
    let expected =
        [entry(1, 12_335, &["SET", "heavy", "123456789012345"]), entry(0, 12_345, &["SET", "slow", "1"])];
    assert_eq!(entries, expected);
    assert_eq!(timed.ask("SLOWLOG LEN"), Value::Integer(2));
    timed.ask("SLOWLOG RESET");
    assert_eq!(timed.ask("SLOWLOG LEN"), Value::Integer(0));
    timed.ask("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2");
    timed.ask_all(&["GET a", "GET b", "AUTH secret"]);
    let Value::Array(entries) = timed.ask("SLOWLOG GET 1") else { panic!("an array") };
    let Value::Array(fields) = &entries[0] else { panic!("an entry") };
    assert_eq!(fields[3], Value::Array(vec![bulk("AUTH"), bulk("(redacted)")]));
    assert_eq!(timed.ask("SLOWLOG LEN"), Value::Integer(2));
    timed.ask("CONFIG SET slowlog-log-slower-than -1");
    timed.laps_take(u64::from(u32::MAX));
    timed.ask("GET a");
    timed.laps_take(0);
    timed.ask("SLOWLOG RESET");
    timed.ask("KEYS *");
    assert_eq!(timed.ask("SLOWLOG LEN"), Value::Integer(0));
}

#[test]
fn spikes_are_noted_from_the_threshold_on() {
    let mut timed = Timed::new();
    timed.laps_take(50_000_000);
    timed.ask("KEYS *");
    timed.laps_take(0);
    assert_eq!(timed.ask("LATENCY LATEST"), Value::Array(vec![]), "no threshold is set");
    timed.ask("CONFIG SET latency-monitor-threshold 50");
    timed.laps_take(50_000_000);
    timed.ask("KEYS *");
    timed.ask("GET a");
    timed.laps_take(0);
    let spike = |ms| Value::Array(vec![Value::Integer(1_700_000_000), Value::Integer(ms)]);
    assert_eq!(timed.ask("LATENCY HISTORY command"), Value::Array(vec![spike(50)]));
    assert_eq!(timed.ask("LATENCY HISTORY fast-command"), Value::Array(vec![spike(50)]));
    assert_eq!(timed.ask("LATENCY RESET command"), Value::Integer(1));
    assert_eq!(timed.ask("LATENCY RESET"), Value::Integer(1));
}

#[test]
fn a_flush_is_one_call_and_takes_what_all_of_its_steps_take() {
    let mut timed = Timed::new();
    for index in 0..5000 {
        timed.ask(&format!("SET key{index} 1"));
    }
    timed.laps_take(1_000_000);
    timed.client.send(&[b"FLUSHALL"]);
    let mut steps = 0;
    loop {
        timed.node.now.reading_ns = timed.reading();
        while timed.client.serve(&mut timed.node.worker, timed.node.now) {}
        steps += 1;
        match timed.client.receive() {
            Some(reply) => break assert_eq!(reply, Value::Simple("OK".into())),
            None => {
                timed.node.worker.turn();
                while let Some(ticket) = timed.node.worker.poll_woken() {
                    timed.client.wake(ticket);
                }
            }
        }
    }
    assert!(steps > 2, "{steps}");
    let line = timed.line("commandstats", "cmdstat_flushall").expect("it ran");
    let expected =
        format!("calls=1,usec={0},usec_per_call={0}.00,rejected_calls=0,failed_calls=0", steps * 1000);
    assert_eq!(line, expected);
}

#[test]
fn what_is_refused_before_it_runs_is_counted_and_takes_no_time() {
    let mut timed = Timed::new();
    timed.laps_take(1_000_000);
    for request in ["GET", "GET a b", "CONFIG", "CONFIG SET a", "CONFIG FOO", "NOTHING", "INCR a b"] {
        assert!(matches!(timed.ask(request), Value::Error(_)), "{request}");
    }
    timed.ask("SET text x");
    assert!(matches!(timed.ask("INCR text"), Value::Error(_)));
    let mut line = |name: &str| timed.line("commandstats", name);
    let refused =
        |count: u32| format!("calls=0,usec=0,usec_per_call=0.00,rejected_calls={count},failed_calls=0");
    assert_eq!(line("cmdstat_get"), Some(refused(2)));
    assert_eq!(line("cmdstat_config"), Some(refused(1)));
    assert_eq!(line("cmdstat_config|set"), Some(refused(1)));
    let incr = "calls=1,usec=1000,usec_per_call=1000.00,rejected_calls=1,failed_calls=1";
    assert_eq!(line("cmdstat_incr").as_deref(), Some(incr));
    assert_eq!(timed.line("errorstats", "errorstat_ERR").as_deref(), Some("count=8"));
}
