//! A node's description of its commands, figures and settings, against Redis's.
//!
//! What Redis shows and a node does not is listed here with the reason. Neither list may hold anything
//! untrue.

use crate::compare::value;
use crate::encode;
use crate::server::Both;
use sidle_resp::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Commands whose description differs from Redis's, in which part, and why.
const OTHER_DESCRIPTIONS: &[(&str, &str, &str)] = &[
    ("set", "key specifications", "its note on the key, a text, is not repeated"),
    ("getex", "key specifications", "its note on the key, a text, is not repeated"),
    ("sort", "key specifications", "patterns that name keys are refused, and notes are not repeated"),
    ("sort_ro", "key specifications", "patterns that name keys are refused"),
    ("lastsave", "categories", "@admin goes with the flag admin, which it has not"),
    ("role", "categories", "@admin goes with the flag admin, which it has not"),
    ("sort", "arguments", "patterns are no key specifications here"),
    ("sort_ro", "arguments", "patterns are no key specifications here"),
    ("client|kill", "arguments", "MAXAGE is of later versions"),
    ("command|getkeys", "arguments", "7.0 has none, later versions do"),
    ("command|getkeysandflags", "arguments", "7.0 has none, later versions do"),
    ("debug", "doc_flags", "it is refused, not a command of the system"),
];

/// Commands of later versions only, or of none.
const UNKNOWN_TO_REDIS: &[&str] = &[
    "client|capa",
    "client|no-touch",
    "client|setinfo",
    "cluster|slot-stats",
    "hotkeys",
    "hotkeys|get",
    "hotkeys|help",
    "hotkeys|reset",
    "hotkeys|start",
    "hotkeys|stop",
    "sidle",
    "sidle.bus",
    "sidle.forget",
    "sidle.frozen",
    "sidle.heat",
    "sidle.help",
    "sidle.map",
    "sidle.migrate",
    "sidle.migrate|cancel",
    "sidle.migrate|help",
    "sidle.migrate|set",
    "sidle.migrate|start",
    "sidle.migrate|status",
    "sidle.migrate|wait",
    "sidle.once",
    "sidle.status",
    "sidle.takeover",
    "sidle.tx",
    "sidle.tx|decide",
    "sidle.tx|forget",
    "sidle.tx|help",
    "sidle.tx|list",
    "sidle.tx|look",
    "sidle.tx|prepare",
    "sidle.tx|resolve",
    "sidle.tx|settle",
    "sidle.upgrade",
    "sidle|help",
    "waitaof",
];

/// Lines of INFO that are left out: the section, the reason, the names.
const NOT_TOLD: &[(&str, &str, &[&str])] = &[
    (
        "Server",
        "how Redis was built",
        &[
            "redis_git_sha1",
            "redis_git_dirty",
            "redis_build_id",
            "gcc_version",
            "atomicvar_api",
            "monotonic_clock",
        ],
    ),
    (
        "Server",
        "a node has no such loop or clock",
        &["multiplexing_api", "hz", "configured_hz", "lru_clock", "io_threads_active", "process_supervised"],
    ),
    ("Clients", "CLUSTER LINKS shows the connections between nodes", &["cluster_connections"]),
    ("Clients", "there is no tracking of keys", &["tracking_clients"]),
    ("Clients", "there are no time-outs of blocked clients", &["clients_in_timeout_table"]),
    (
        "Memory",
        "data lies in a log of its own, not in an allocator's blocks",
        &["mem_allocator", "active_defrag_running", "used_memory_startup"],
    ),
    (
        "Memory",
        "there are no scripts and no functions",
        &[
            "used_memory_lua",
            "used_memory_vm_eval",
            "used_memory_lua_human",
            "used_memory_scripts_eval",
            "number_of_cached_scripts",
            "number_of_functions",
            "number_of_libraries",
            "used_memory_vm_functions",
            "used_memory_vm_total",
            "used_memory_vm_total_human",
            "used_memory_functions",
            "used_memory_scripts",
            "used_memory_scripts_human",
        ],
    ),
    (
        "Memory",
        "nothing is evicted, replicated or freed later",
        &[
            "mem_not_counted_for_evict",
            "mem_replication_backlog",
            "mem_total_replication_buffers",
            "mem_clients_slaves",
            "mem_cluster_links",
            "lazyfree_pending_objects",
            "lazyfreed_objects",
        ],
    ),
    (
        "Persistence",
        "no process is forked, no change is counted, and there is no AOF",
        &[
            "current_cow_peak",
            "current_cow_size",
            "current_cow_size_age",
            "current_fork_perc",
            "current_save_keys_processed",
            "current_save_keys_total",
            "rdb_changes_since_last_save",
            "rdb_last_cow_size",
            "rdb_last_load_keys_expired",
            "rdb_last_load_keys_loaded",
            "aof_rewrite_in_progress",
            "aof_rewrite_scheduled",
            "aof_last_rewrite_time_sec",
            "aof_current_rewrite_time_sec",
            "aof_last_bgrewrite_status",
            "aof_rewrites",
            "aof_rewrites_consecutive_failures",
            "aof_last_write_status",
            "aof_last_cow_size",
            "module_fork_in_progress",
            "module_fork_last_cow_size",
        ],
    ),
    (
        "Stats",
        "there is no replication",
        &[
            "total_net_repl_input_bytes",
            "total_net_repl_output_bytes",
            "instantaneous_input_repl_kbps",
            "instantaneous_output_repl_kbps",
            "sync_full",
            "sync_partial_ok",
            "sync_partial_err",
            "slave_expires_tracked_keys",
        ],
    ),
    (
        "Stats",
        "it is not measured",
        &[
            "expired_stale_perc",
            "expired_time_cap_reached_count",
            "expire_cycle_cpu_milliseconds",
            "unexpected_error_replies",
            "total_reads_processed",
            "total_writes_processed",
            "reply_buffer_shrinks",
            "reply_buffer_expands",
        ],
    ),
    (
        "Stats",
        "there is nothing that it could count",
        &[
            "total_eviction_exceeded_time",
            "current_eviction_exceeded_time",
            "pubsub_channels",
            "pubsub_patterns",
            "pubsubshard_channels",
            "latest_fork_usec",
            "total_forks",
            "migrate_cached_sockets",
            "active_defrag_hits",
            "active_defrag_misses",
            "active_defrag_key_hits",
            "active_defrag_key_misses",
            "total_active_defrag_time",
            "current_active_defrag_time",
            "tracking_total_keys",
            "tracking_total_items",
            "tracking_total_prefixes",
            "dump_payload_sanitizations",
            "io_threaded_reads_processed",
            "io_threaded_writes_processed",
        ],
    ),
    (
        "Replication",
        "there is no replication",
        &[
            "master_failover_state",
            "master_replid",
            "master_replid2",
            "second_repl_offset",
            "repl_backlog_active",
            "repl_backlog_size",
            "repl_backlog_first_byte_offset",
            "repl_backlog_histlen",
        ],
    ),
    (
        "CPU",
        "there are no child processes, and no thread is the main one",
        &[
            "used_cpu_sys_children",
            "used_cpu_user_children",
            "used_cpu_sys_main_thread",
            "used_cpu_user_main_thread",
        ],
    ),
];

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Simple(text) => text.clone(),
        Value::Verbatim { text, .. } => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no text: {other:?}"),
    }
}

/// The elements of any collection, those of sets in order: they have none.
fn elements(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(elements) => elements.clone(),
        Value::Set(elements) => {
            let mut elements = elements.clone();
            elements.sort_by_key(|element| format!("{element:?}"));
            elements
        }
        other => panic!("no elements: {other:?}"),
    }
}

fn ask(both: &mut Both, words: &[&str]) -> (Value, Value) {
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let (redis, sidle) = both.ask(&encode(&words));
    (value(&redis), value(&sidle))
}

/// The names of all of a node's commands, and the subcommands' too.
fn command_names(both: &mut Both) -> Vec<String> {
    elements(&ask(both, &["COMMAND", "LIST"]).1).iter().map(text).collect()
}

/// Both servers, speaking RESP3.
fn start() -> Option<Both> {
    let mut both = Both::start()?;
    ask(&mut both, &["HELLO", "3"]);
    Some(both)
}

#[test]
fn commands_are_described_as_redis_describes_them() {
    const FACTS: [&str; 9] = [
        "name",
        "arity",
        "flags",
        "first key",
        "last key",
        "step",
        "categories",
        "tips",
        "key specifications",
    ];
    let Some(mut both) = start() else { return };
    let names = command_names(&mut both);
    let request: Vec<&str> =
        ["COMMAND", "INFO"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let (redis, sidle) = ask(&mut both, &request);
    let (mut differing, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for (name, (redis, sidle)) in names.iter().zip(elements(&redis).iter().zip(elements(&sidle))) {
        if *redis == Value::Null {
            unknown.insert(name.as_str());
            continue;
        }
        let comparable = |fact: &Value| match fact {
            Value::Set(_) => Value::Array(elements(fact)),
            other => other.clone(),
        };
        for ((fact, redis), sidle) in FACTS.iter().zip(elements(redis)).zip(elements(&sidle)) {
            if comparable(&redis) != comparable(&sidle) {
                eprintln!("{name}, {fact}:\n    redis: {redis:?}\n    sidle: {sidle:?}");
                differing.insert((name.as_str(), *fact));
            }
        }
    }
    assert_eq!(unknown, UNKNOWN_TO_REDIS.iter().copied().collect());
    let listed = OTHER_DESCRIPTIONS.iter().filter(|(_, what, _)| FACTS.contains(what));
    assert_eq!(differing, listed.map(|&(name, what, _)| (name, what)).collect());
}

#[test]
fn commands_are_documented_as_redis_documents_them() {
    const DOCUMENTED: [&str; 6] =
        ["since", "group", "doc_flags", "deprecated_since", "replaced_by", "arguments"];
    let Some(mut both) = start() else { return };
    let names = command_names(&mut both);
    let request: Vec<&str> =
        ["COMMAND", "DOCS"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let (redis, sidle) = ask(&mut both, &request);
    let by_name = |docs: Value| -> BTreeMap<String, BTreeMap<String, Value>> {
        let Value::Map(pairs) = docs else { panic!("a map") };
        let facts = |docs: Value| {
            let Value::Map(pairs) = docs else { panic!("a map") };
            pairs.into_iter().map(|(name, fact)| (text(&name), fact)).collect()
        };
        pairs.into_iter().map(|(name, docs)| (text(&name), facts(docs))).collect()
    };
    let (redis, sidle) = (by_name(redis), by_name(sidle));
    let mut differing = BTreeSet::new();
    for (name, redis) in &redis {
        let sidle = &sidle[name];
        for fact in DOCUMENTED {
            if redis.get(fact) != sidle.get(fact) {
                eprintln!("{name}, {fact}: {:?}, {:?}", redis.get(fact), sidle.get(fact));
                differing.insert((name.as_str(), fact));
            }
        }
        // In this project's own words.
        assert!(["summary", "complexity"].iter().all(|fact| !text(&sidle[*fact]).is_empty()), "{name}");
    }
    let listed = OTHER_DESCRIPTIONS.iter().filter(|(_, what, _)| DOCUMENTED.contains(what));
    assert_eq!(differing, listed.map(|&(name, what, _)| (name, what)).collect());
}

/// INFO's lines by section.
fn sections(reply: &Value) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut section = String::new();
    for line in text(reply).lines() {
        if let Some(title) = line.strip_prefix("# ") {
            section = title.to_owned();
            sections.entry(section.clone()).or_default();
        } else if let Some((name, value)) = line.split_once(':') {
            sections
                .get_mut(&section)
                .expect("a title comes first")
                .insert(name.to_owned(), value.to_owned());
        }
    }
    sections
}

/// The kind of value: digits become 0, so that numbers differ by their form only.
pub(crate) fn form(value: &str) -> &'static str {
    if value.parse::<i64>().is_ok() {
        "an integer"
    } else if value.strip_suffix('%').unwrap_or(value).parse::<f64>().is_ok() {
        if value.ends_with('%') { "per cent" } else { "a decimal number" }
    } else if value.trim_end_matches(['B', 'K', 'M', 'G', 'T']).parse::<f64>().is_ok() {
        "a size"
    } else {
        "text"
    }
}

#[test]
fn info_tells_what_redis_tells_or_says_why_not() {
    let Some(mut both) = start() else { return };
    for request in ["SET a 1", "GET a", "GET b", "SET a 2 EX 100", "GET", "NOTHING", "INCR a x"] {
        ask(&mut both, &request.split(' ').collect::<Vec<_>>());
    }
    let (redis, sidle) = ask(&mut both, &["INFO", "everything"]);
    let (redis, sidle) = (sections(&redis), sections(&sidle));
    for (section, lines) in &redis {
        // A node has no modules.
        let Some(own) = sidle.get(section) else {
            assert_eq!(section, "Modules");
            continue;
        };
        if ["Commandstats", "Errorstats", "Latencystats"].contains(&section.as_str()) {
            let names = |lines: &BTreeMap<String, String>| lines.keys().cloned().collect::<BTreeSet<_>>();
            assert_eq!(names(lines), names(own), "{section}");
            continue;
        }
        let missing: BTreeSet<&str> =
            lines.keys().map(String::as_str).filter(|name| !own.contains_key(*name)).collect();
        let listed = NOT_TOLD.iter().filter(|(of, _, _)| of == section).flat_map(|(_, _, names)| *names);
        assert_eq!(missing, listed.copied().collect(), "{section}");
        for (name, value) in lines.iter().filter(|(name, _)| own.contains_key(*name)) {
            assert_eq!(form(value), form(&own[name]), "{name}: {value}, {}", own[name]);
        }
    }
    // Errors and refusals are counted as Redis counts them.
    assert_eq!(redis["Errorstats"], sidle["Errorstats"]);
    for command in ["get", "incr", "set", "hello"] {
        let counted = |sections: &BTreeMap<String, BTreeMap<String, String>>| -> Vec<String> {
            let fields = sections["Commandstats"][&format!("cmdstat_{command}")].split(',');
            fields.filter(|field| !field.starts_with("usec")).map(str::to_owned).collect()
        };
        assert_eq!(counted(&redis), counted(&sidle), "{command}");
    }
    // And the measured figures have been measured.
    for name in
        ["used_memory", "used_memory_peak", "used_memory_rss", "used_memory_dataset", "used_memory_overhead"]
    {
        assert_ne!(sidle["Memory"][name], "0", "{name}");
    }
    assert_eq!(sidle["Stats"]["keyspace_hits"], "1");
    assert_eq!(sidle["Stats"]["keyspace_misses"], "1");
    let calls = &sidle["Commandstats"]["cmdstat_get"];
    assert!(!calls.contains("usec_per_call=0.00"), "{calls}");
}

/// Figures of MEMORY STATS that are left out, and why.
const NOT_COUNTED: &[(&str, &[&str])] = &[
    (
        "only what keys, values and their index take is counted, which is nothing at the start",
        &["startup.allocated"],
    ),
    ("there is no replication", &["replication.backlog", "clients.slaves"]),
    ("connections between nodes are not counted apart", &["cluster.links"]),
    ("there are no scripts and no functions", &["lua.caches", "functions.caches"]),
    (
        "a record has its deadline and its slot",
        &["overhead.hashtable.expires", "overhead.hashtable.slot-to-keys"],
    ),
];

/// The figures of MEMORY STATS by name, those of a database among them.
fn counted(reply: Value) -> BTreeMap<String, Value> {
    let Value::Map(pairs) = reply else { panic!("a map") };
    let mut figures = BTreeMap::new();
    for (name, figure) in pairs {
        match figure {
            Value::Map(_) => figures.extend(counted(figure)),
            _ => drop(figures.insert(text(&name), figure)),
        }
    }
    figures
}

#[test]
fn memory_stats_has_what_redis_has_or_says_why_not() {
    let Some(mut both) = start() else { return };
    for request in ["SET a 1", "SET b 2 EX 100", "INFO"] {
        ask(&mut both, &request.split(' ').collect::<Vec<_>>());
    }
    // Another thread makes pages ready for writes: what two replies have in common was so between them.
    let mut info = sections(&ask(&mut both, &["INFO", "memory"]).1);
    let (redis, sidle, info) = loop {
        let (redis, sidle) = ask(&mut both, &["MEMORY", "STATS"]);
        let before = std::mem::replace(&mut info, sections(&ask(&mut both, &["INFO", "memory"]).1));
        if before["Memory"]["allocator_resident"] == info["Memory"]["allocator_resident"] {
            break (counted(redis), counted(sidle), info);
        }
    };
    let missing: BTreeSet<&str> =
        redis.keys().map(String::as_str).filter(|name| !sidle.contains_key(*name)).collect();
    assert_eq!(missing, NOT_COUNTED.iter().flat_map(|(_, names)| *names).copied().collect());
    for (name, figure) in &sidle {
        let theirs = redis.get(name).unwrap_or_else(|| panic!("Redis has no figure {name}"));
        assert_eq!(
            matches!(theirs, Value::Integer(_)),
            matches!(figure, Value::Integer(_)),
            "{name}: {theirs:?}, {figure:?}"
        );
    }
    assert_eq!(sidle["keys.count"], redis["keys.count"]);
    let number = |name: &str| match sidle[name] {
        Value::Integer(number) => number,
        _ => panic!("{name} is no integer"),
    };
    // It adds up, and agrees with INFO.
    assert_eq!(number("total.allocated"), number("overhead.total") + number("dataset.bytes"));
    assert_eq!(number("allocator.active"), number("total.allocated"));
    assert!(number("allocator.resident") >= number("allocator.active"));
    for (figure, line) in [
        ("total.allocated", "used_memory"),
        ("peak.allocated", "used_memory_peak"),
        ("dataset.bytes", "used_memory_dataset"),
        ("overhead.hashtable.main", "used_memory_index"),
        ("allocator.allocated", "allocator_allocated"),
        ("allocator.active", "allocator_active"),
        ("allocator.resident", "allocator_resident"),
        ("allocator-rss.bytes", "allocator_rss_bytes"),
    ] {
        assert_eq!(number(figure).to_string(), info["Memory"][line], "{figure}");
    }
}

/// Parameters that later versions have.
const OF_LATER_VERSIONS: &[&str] = &["cluster-slot-stats-enabled"];

#[test]
fn config_tells_only_what_redis_has_and_what_is_so() {
    let Some(mut both) = start() else { return };
    let (redis, sidle) = ask(&mut both, &["CONFIG", "GET", "*"]);
    let parameters = |reply: Value| -> BTreeMap<String, String> {
        let Value::Map(pairs) = reply else { panic!("a map") };
        pairs.iter().map(|(name, value)| (text(name), text(value))).collect()
    };
    let (redis, sidle) = (parameters(redis), parameters(sidle));
    for (name, value) in sidle.iter().filter(|(name, _)| !OF_LATER_VERSIONS.contains(&name.as_str())) {
        let theirs = redis.get(name).unwrap_or_else(|| panic!("Redis has no parameter {name}"));
        assert_eq!(form(theirs), form(value), "{name}: {theirs}, {value}");
    }
    // A feature that a node lacks is no setting: showing it would mean nothing.
    const ASKED_FOR: [&str; 12] = [
        "appendonly",
        "cluster-enabled",
        "databases",
        "latency-monitor-threshold",
        "latency-tracking",
        "latency-tracking-info-percentiles",
        "maxclients",
        "maxmemory",
        "maxmemory-policy",
        "save",
        "slowlog-log-slower-than",
        "slowlog-max-len",
    ];
    for name in ASKED_FOR {
        assert!(sidle.contains_key(name), "{name}");
    }
    for name in ["latency-monitor-threshold", "slowlog-log-slower-than", "slowlog-max-len", "tcp-keepalive"] {
        assert_eq!(sidle[name], redis[name], "{name}");
    }
}
