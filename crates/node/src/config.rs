//! CONFIG GET and SET: Redis's parameters that have a meaning here or that tools read.
//!
//! Most are fixed at the start. CONFIG SET refuses changes without effect, but for a few parameters of
//! Redis's lists, whose values are remembered.

use crate::observe::Thresholds;
use sidle_collections::Limits;
use sidle_commands::glob;
use sidle_commands::parse_i64;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

#[derive(Clone, Copy, Debug)]
struct Parameter {
    name: &'static str,
    default: &'static str,
    change: Changing,
}

/// What CONFIG SET does with a parameter while the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changing {
    /// It refuses it, as Redis does.
    Never,
    /// It refuses it, as Redis does by default: a client could have files written anywhere.
    Guarded,
    /// It accepts what describes the node anyway, and changes nothing. Redis would change it.
    Held,
    /// It changes it.
    Free,
}

const fn settled(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default, change: Changing::Never }
}

const fn guarded(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default, change: Changing::Guarded }
}

const fn held(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default, change: Changing::Held }
}

const fn mutable(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default, change: Changing::Free }
}

/// In alphabetical order.
const PARAMETERS: &[Parameter] = &[
    settled("acl-pubsub-default", "resetchannels"),
    settled("aclfile", ""),
    settled("acllog-max-len", "128"),
    mutable("appendfsync", "everysec"),
    held("appendonly", "no"),
    held("bind", "127.0.0.1"),
    held("client-query-buffer-limit", "1073741824"),
    settled("cluster-enabled", "yes"),
    held("cluster-require-full-coverage", "no"),
    held("cluster-slot-stats-enabled", "yes"),
    settled("daemonize", "no"),
    settled("databases", "1"),
    guarded("dbfilename", "dump.rdb"),
    guarded("dir", ""),
    settled("enable-debug-command", "no"),
    mutable("hash-max-listpack-entries", "512"),
    mutable("hash-max-listpack-value", "64"),
    mutable("hash-max-ziplist-entries", "512"),
    mutable("hash-max-ziplist-value", "64"),
    settled("io-threads", "1"),
    mutable("latency-monitor-threshold", "0"),
    mutable("latency-tracking", "yes"),
    mutable("latency-tracking-info-percentiles", "50 99 99.9"),
    // Lists have no nodes that these could size or compress: remembered, without effect.
    mutable("list-compress-depth", "0"),
    mutable("list-max-listpack-size", "-2"),
    mutable("list-max-ziplist-size", "-2"),
    mutable("maxclients", "10000"),
    held("maxmemory", "0"),
    mutable("maxmemory-clients", "0"),
    held("maxmemory-policy", "noeviction"),
    mutable("min-replicas-to-write", "0"),
    mutable("min-slaves-to-write", "0"),
    held("port", "6379"),
    mutable("protected-mode", "yes"),
    held("proto-max-bulk-len", "536870912"),
    mutable("requirepass", ""),
    held("save", ""),
    mutable("set-max-intset-entries", "512"),
    mutable("slowlog-log-slower-than", "10000"),
    mutable("slowlog-max-len", "128"),
    held("tcp-keepalive", "0"),
    mutable("timeout", "0"),
    mutable("zset-max-listpack-entries", "128"),
    mutable("zset-max-listpack-value", "64"),
    mutable("zset-max-ziplist-entries", "128"),
    mutable("zset-max-ziplist-value", "64"),
];

/// The least limit of all clients together: with less, nobody could connect to raise it.
pub const LEAST_CLIENT_BYTES: u64 = 1 << 20;

/// Why CONFIG SET refused a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No parameter of this name.
    Unknown,
    /// Not while the node runs.
    Immutable,
    /// Not by a client.
    Protected,
}

/// The node's configuration as Redis clients see it.
#[derive(Debug)]
pub struct Config {
    values: RwLock<BTreeMap<&'static str, String>>,
    thresholds: Thresholds,
    numbers: Numbers,
    /// The most unread reply bytes of one connection; 0: no limit of its own.
    own_output_bytes: AtomicU64,
    /// How many clients the system lets the process serve.
    servable_clients: AtomicU64,
    /// Whether the durable log's copies were opened as `appendfsync` says.
    has_copies: AtomicBool,
}

/// Parameters as numbers, for hot paths. Derived from the texts at every change.
#[derive(Debug, Default)]
struct Numbers {
    longest_value_bytes: AtomicU64,
    most_clients: AtomicU64,
    client_bytes: AtomicU64,
    output_bytes: AtomicU64,
    query_buffer_bytes: AtomicU64,
    held_bytes: AtomicU64,
    idle_seconds: AtomicU64,
    hash_entries: AtomicU64,
    hash_value_bytes: AtomicU64,
    intset_entries: AtomicU64,
    zset_entries: AtomicU64,
    zset_value_bytes: AtomicU64,
    packed_bytes: AtomicU64,
    chunk_bytes: AtomicU64,
    syncs_always: AtomicBool,
    least_copies: AtomicU64,
}

/// The bound of a reply when neither connections nor all clients have a limit, and the node's data has less.
const LEAST_REPLY_BYTES: u64 = 64 << 20;

/// The longest value that a node keeps, in any configuration: Redis's default.
const LONGEST_VALUE_BYTES: u64 = sidle_store::MAX_VALUE_BYTES as u64;

impl Default for Config {
    fn default() -> Config {
        let values = PARAMETERS.iter().map(|parameter| (parameter.name, parameter.default.to_owned()));
        let values: BTreeMap<_, _> = values.collect();
        let numbers = Numbers::default();
        let limits = Limits::default();
        numbers.packed_bytes.store(limits.packed_bytes as u64, Relaxed);
        numbers.chunk_bytes.store(limits.chunk_bytes as u64, Relaxed);
        numbers.derive(&values, 0);
        Config {
            values: RwLock::new(values),
            numbers,
            thresholds: Thresholds::default(),
            own_output_bytes: AtomicU64::new(0),
            servable_clients: AtomicU64::new(u64::MAX),
            has_copies: AtomicBool::new(false),
        }
    }
}

impl Config {
    /// The parameter's value; empty when there is no such parameter.
    pub fn value(&self, name: &str) -> String {
        self.values().get(name).map_or_else(String::new, |value| self.enforced(name, value))
    }

    /// The enforced value. A request's limit is set once, but bounded by the limits of all clients and of the
    /// node's data, which CONFIG SET may change.
    fn enforced(&self, name: &str, value: &str) -> String {
        match name {
            "client-query-buffer-limit" => self.query_buffer_bytes().to_string(),
            "proto-max-bulk-len" => self.argument_bytes().to_string(),
            _ => value.to_owned(),
        }
    }

    /// How long one whole request may be.
    pub fn query_buffer_bytes(&self) -> u64 {
        self.numbers.query_buffer_bytes.load(Relaxed)
    }

    /// How long one argument within the value limit may be: what the node can hold.
    pub fn held_bytes(&self) -> u64 {
        self.numbers.held_bytes.load(Relaxed)
    }

    /// How long one argument may be.
    fn argument_bytes(&self) -> u64 {
        self.longest_value_bytes().min(self.held_bytes())
    }

    /// Whether clients of other machines are refused while anyone is the default user.
    pub fn is_protected(&self) -> bool {
        self.value("protected-mode") == "yes"
    }

    /// The password that clients must give; `None`: no password.
    pub fn password(&self) -> Option<String> {
        Some(self.value("requirepass")).filter(|password| !password.is_empty())
    }

    /// How long a value may become.
    #[inline]
    pub fn longest_value_bytes(&self) -> u64 {
        self.numbers.longest_value_bytes.load(Relaxed)
    }

    /// Up to which size collections are reported as small.
    pub fn collection_limits(&self) -> Limits {
        Limits {
            hash_entries: self.numbers.hash_entries.load(Relaxed),
            hash_value_bytes: self.numbers.hash_value_bytes.load(Relaxed),
            intset_entries: self.numbers.intset_entries.load(Relaxed),
            zset_entries: self.numbers.zset_entries.load(Relaxed),
            zset_value_bytes: self.numbers.zset_value_bytes.load(Relaxed),
            packed_bytes: self.numbers.packed_bytes.load(Relaxed) as usize,
            chunk_bytes: self.numbers.chunk_bytes.load(Relaxed) as usize,
        }
    }

    /// Sets above which size a collection is kept in chunks, and how long these become.
    pub fn set_collection_sizes(&self, packed_bytes: u64, chunk_bytes: u64) {
        self.numbers.packed_bytes.store(packed_bytes, Relaxed);
        self.numbers.chunk_bytes.store(chunk_bytes, Relaxed);
    }

    /// How many clients may be connected.
    pub fn most_clients(&self) -> u64 {
        self.numbers.most_clients.load(Relaxed)
    }

    /// Sets how many clients the system lets the process serve: CONFIG SET maxclients refuses more.
    pub fn set_servable_clients(&self, most: u64) {
        self.servable_clients.store(most, Relaxed);
    }

    /// What the buffers of all connections may take together; `None`: no limit.
    pub fn client_bytes(&self) -> Option<u64> {
        Some(self.numbers.client_bytes.load(Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// The most unread reply bytes of one connection, and so the longest reply. Always bounded: without its
    /// own limit by that of all connections, and without that by the node's memory.
    #[inline]
    pub fn output_bytes(&self) -> u64 {
        self.numbers.output_bytes.load(Relaxed)
    }

    /// Sets the most unread reply bytes of one connection; 0: no limit of its own.
    pub fn set_own_output_bytes(&self, bytes: u64) {
        self.own_output_bytes.store(bytes, Relaxed);
        self.numbers.derive(&self.values(), bytes);
    }

    /// The durable log's copies sync as the log does: that is not to change any more.
    pub fn fix_syncs(&self) {
        self.has_copies.store(true, Relaxed);
    }

    /// Whether the durable log is synced before a write is acknowledged.
    pub fn syncs_always(&self) -> bool {
        self.numbers.syncs_always.load(Ordering::Acquire)
    }

    /// With fewer copies of the durable log at other nodes no writes are taken.
    #[inline]
    pub fn least_copies(&self) -> u64 {
        self.numbers.least_copies.load(Relaxed)
    }

    /// Seconds of silence before a connection is closed; `None`: never.
    pub fn idle_seconds(&self) -> Option<u64> {
        Some(self.numbers.idle_seconds.load(Relaxed)).filter(|&seconds| seconds > 0)
    }

    /// The durations from which commands are noted.
    #[inline]
    pub(crate) fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// All parameters whose names match the glob, by name.
    pub fn matching(&self, pattern: &[u8]) -> Vec<(&'static str, String)> {
        let matches = |(name, value): (&&'static str, &String)| {
            let is_match = glob::matches_ignore_case(pattern, name.as_bytes());
            is_match.then(|| (*name, self.enforced(name, value)))
        };
        self.values().iter().filter_map(matches).collect()
    }

    /// The parameter's proper name.
    pub fn name_of(name: &[u8]) -> Option<&'static str> {
        parameter(name).map(|parameter| parameter.name)
    }

    /// The proper name of a parameter that CONFIG SET accepts, and what it does with it.
    ///
    /// # Errors
    /// The parameter does not exist, or is fixed.
    pub fn changeable(name: &[u8]) -> Result<(&'static str, Changing), ConfigError> {
        match parameter(name) {
            None => Err(ConfigError::Unknown),
            Some(Parameter { change: Changing::Never, .. }) => Err(ConfigError::Immutable),
            Some(Parameter { change: Changing::Guarded, .. }) => Err(ConfigError::Protected),
            Some(parameter) => Ok((parameter.name, parameter.change)),
        }
    }

    /// Why a parameter that is held refuses this value.
    fn held_objection(&self, name: &str, value: &[u8]) -> Option<String> {
        let own = self.value(name);
        let bytes = || std::str::from_utf8(value).ok().and_then(|text| memory_or_percent(text, 0));
        match name {
            "maxmemory" | "client-query-buffer-limit" | "proto-max-bulk-len" => match bytes() {
                Some(bytes) if !value.ends_with(b"%") => {
                    let enforced = own.parse().unwrap_or(0);
                    // A longer request is bounded as before, which CONFIG GET shows.
                    let is_so = bytes == enforced || bytes > enforced && name != "maxmemory";
                    (!is_so).then(|| fixed(&own))
                }
                _ => Some("argument must be a memory value".to_owned()),
            },
            _ => (!own.as_bytes().eq_ignore_ascii_case(value)).then(|| fixed(&own)),
        }
    }

    /// Why a changeable parameter refuses this value, in Redis's words.
    pub fn objection(&self, name: &str, value: &[u8]) -> Option<String> {
        if parameter(name.as_bytes()).is_some_and(|parameter| parameter.change == Changing::Held) {
            return self.held_objection(name, value);
        }
        match name {
            "maxclients" => {
                let servable = self.servable_clients.load(Relaxed);
                match integer_objection(value, 1, 0xFFFF_FFFF) {
                    None if parse_i64(value).is_some_and(|clients| clients as u64 > servable) => {
                        Some(format!(
                            "The operating system is not able to handle the specified number of clients, \
                         try with {servable}"
                        ))
                    }
                    objection => objection,
                }
            }
            "requirepass" if value.is_empty() && self.is_protected() && self.is_reached_from_outside() => Some(
                "other machines can reach this node, which does not run without a password: set another one, or \
                 start it with --bind 127.0.0.1"
                    .to_owned(),
            ),
            "appendfsync" if self.has_copies.load(Relaxed) => {
                let own = self.value(name);
                let is_so = own.as_bytes().eq_ignore_ascii_case(value);
                let why = "the log has copies at other nodes, which sync as it does";
                (!is_so).then(|| format!("it is {own}, and set at the start (--fsync): {why}"))
            }
            "appendfsync" => sync_objection(value),
            "protected-mode" => yes_or_no_objection(value),
            "timeout" | "list-compress-depth" | "min-replicas-to-write" | "min-slaves-to-write" => integer_objection(value, 0, 0x7FFF_FFFF),
            "list-max-listpack-size" | "list-max-ziplist-size" => {
                integer_objection(value, -0x8000_0000, 0x7FFF_FFFF)
            }
            name if other_name(name).is_some() && name.ends_with("value") => {
                let bytes = std::str::from_utf8(value).ok().and_then(|text| memory_or_percent(text, 0));
                let is_memory = bytes.is_some() && !value.ends_with(b"%");
                (!is_memory).then(|| "argument must be a memory value".to_owned())
            }
            "set-max-intset-entries" => integer_objection(value, 0, i64::MAX),
            name if other_name(name).is_some() => integer_objection(value, 0, i64::MAX),
            "maxmemory-clients" => self.client_memory_objection(value),
            _ => Thresholds::objection(name, value).map(str::to_owned),
        }
    }

    /// Whether it listens at an address of other machines. An invalid address is not this machine's.
    fn is_reached_from_outside(&self) -> bool {
        let bind = self.value("bind").parse::<IpAddr>();
        bind.is_ok_and(|address| !address.to_canonical().is_loopback())
    }

    fn client_memory_objection(&self, value: &[u8]) -> Option<String> {
        let memory_bytes = self.value("maxmemory").parse().unwrap_or(0);
        let bytes = std::str::from_utf8(value).ok().and_then(|text| memory_or_percent(text, memory_bytes));
        // A percentage of an absent limit is no limit.
        let is_none = bytes == Some(0) && (value.iter().all(|byte| *byte == b'0') || memory_bytes == 0);
        match bytes {
            None => Some("argument must be a memory or percent value".to_owned()),
            Some(bytes) if bytes < LEAST_CLIENT_BYTES && !is_none => Some(format!(
                "argument must come to at least {LEAST_CLIENT_BYTES} bytes, since with less no client could \
                 stay connected, or be 0 for no limit"
            )),
            Some(_) => None,
        }
    }

    /// Sets several parameters at once; at the start also the fixed ones.
    ///
    /// # Panics
    /// On an unknown name.
    pub fn apply(&self, changes: Vec<(&'static str, String)>) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in changes {
            self.thresholds.apply(name, &value);
            // Bytes are shown as a number, as in Redis, however they were given; a percentage stays one.
            let is_memory =
                name == "maxmemory-clients" && !value.ends_with('%') || other_name(name).is_some();
            let shown = match is_memory {
                true => memory_or_percent(&value, 0).map_or(value, |bytes| bytes.to_string()),
                false if matches!(name, "appendfsync" | "protected-mode") => value.to_ascii_lowercase(),
                false => value,
            };
            if let Some(other) = other_name(name) {
                values.insert(other, shown.clone());
            }
            assert!(values.insert(name, shown).is_some(), "no parameter is named {name}");
        }
        self.numbers.derive(&values, self.own_output_bytes.load(Relaxed));
    }

    fn values(&self) -> RwLockReadGuard<'_, BTreeMap<&'static str, String>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Numbers {
    fn derive(&self, values: &BTreeMap<&'static str, String>, own_output_bytes: u64) {
        let number = |name: &str| values.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        let value_bytes = number("proto-max-bulk-len").min(LONGEST_VALUE_BYTES);
        self.longest_value_bytes.store(value_bytes, Relaxed);
        self.most_clients.store(number("maxclients"), Relaxed);
        self.least_copies.store(number("min-replicas-to-write"), Relaxed);
        self.idle_seconds.store(number("timeout"), Relaxed);
        self.hash_entries.store(number("hash-max-listpack-entries"), Relaxed);
        self.zset_entries.store(number("zset-max-listpack-entries"), Relaxed);
        self.zset_value_bytes.store(number("zset-max-listpack-value"), Relaxed);
        self.intset_entries.store(number("set-max-intset-entries"), Relaxed);
        self.hash_value_bytes.store(number("hash-max-listpack-value"), Relaxed);
        self.syncs_always.store(values["appendfsync"] == "always", Ordering::Release);
        let memory_bytes = number("maxmemory");
        let client_bytes = memory_or_percent(&values["maxmemory-clients"], memory_bytes).unwrap_or(0);
        self.client_bytes.store(client_bytes, Relaxed);
        let all = if client_bytes == 0 { memory_bytes.max(LEAST_REPLY_BYTES) } else { client_bytes };
        let own = if own_output_bytes == 0 { u64::MAX } else { own_output_bytes };
        self.output_bytes.store(own.min(all), Relaxed);
        let or_unbounded = |bytes: u64| if bytes == 0 { u64::MAX } else { bytes };
        let clients = or_unbounded(client_bytes);
        // Arguments are ranges of 32-bit numbers.
        let query_bytes = number("client-query-buffer-limit").min(u64::from(u32::MAX));
        self.query_buffer_bytes.store(query_bytes.min(clients), Relaxed);
        self.held_bytes.store(or_unbounded(memory_bytes).min(clients), Relaxed);
    }
}

fn yes_or_no_objection(value: &[u8]) -> Option<String> {
    let is_word = [&b"yes"[..], b"no"].iter().any(|word| value.eq_ignore_ascii_case(word));
    (!is_word).then(|| "argument must be 'yes' or 'no'".to_owned())
}

/// Why the durable log is not synced so.
fn sync_objection(value: &[u8]) -> Option<String> {
    match value.to_ascii_lowercase().as_slice() {
        b"always" | b"everysec" => None,
        b"no" => Some("a durable log is synced each second at least: give everysec or always".to_owned()),
        _ => Some("argument(s) must be one of the following: everysec, always, no".to_owned()),
    }
}

/// The two names of a parameter that has two.
const BOTH_NAMES: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "hash-max-ziplist-entries"),
    ("hash-max-listpack-value", "hash-max-ziplist-value"),
    ("zset-max-listpack-entries", "zset-max-ziplist-entries"),
    ("zset-max-listpack-value", "zset-max-ziplist-value"),
    ("list-max-listpack-size", "list-max-ziplist-size"),
    ("min-replicas-to-write", "min-slaves-to-write"),
];

/// The other name of a parameter that has two.
fn other_name(name: &str) -> Option<&'static str> {
    BOTH_NAMES.iter().find_map(|(new, old)| match name {
        _ if name == *new => Some(*old),
        _ if name == *old => Some(*new),
        _ => None,
    })
}

/// Why a text is not an integer between two others.
fn integer_objection(value: &[u8], least: i64, most: i64) -> Option<String> {
    match parse_i64(value) {
        None => Some("argument couldn't be parsed into an integer".to_owned()),
        Some(number) if (least..=most).contains(&number) => None,
        Some(_) => Some(format!("argument must be between {least} and {most} inclusive")),
    }
}

/// Why a held parameter refuses another value.
fn fixed(own: &str) -> String {
    format!("it is fixed when the node starts, and is '{own}'")
}

/// A number of bytes as Redis reads it (`100mb`; `k` is 1000, `kb` 1024), or a percentage of `whole`.
fn memory_or_percent(text: &str, whole: u64) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        "%" => return (number <= 100).then(|| (u128::from(whole) * u128::from(number) / 100) as u64),
        _ => return None,
    };
    number.checked_mul(factor)
}

fn parameter(name: &[u8]) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted() {
        assert!(PARAMETERS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn changeable_refuses_what_is_settled() {
        assert_eq!(Config::changeable(b"nothing"), Err(ConfigError::Unknown));
        assert_eq!(Config::changeable(b"databases"), Err(ConfigError::Immutable));
        assert_eq!(Config::changeable(b"RequirePass"), Ok(("requirepass", Changing::Free)));
        assert_eq!(Config::changeable(b"save"), Ok(("save", Changing::Held)));
    }

    #[test]
    fn what_is_held_accepts_what_is_so() {
        let config = Config::default();
        config.apply(vec![("maxmemory", (64u64 << 20).to_string())]);
        let objection = |name, value: &[u8]| config.objection(name, value).unwrap_or_default();
        for (name, value) in [
            ("save", &b""[..]),
            ("appendonly", b"No"),
            ("maxmemory", b"64mb"),
            ("maxmemory-policy", b"noeviction"),
            ("proto-max-bulk-len", b"10gb"),
            ("client-query-buffer-limit", b"1073741824"),
        ] {
            assert_eq!(objection(name, value), "", "{name}");
        }
        for (name, value) in [
            ("save", &b"100 1"[..]),
            ("appendonly", b"yes"),
            ("maxmemory", b"65mb"),
            ("maxmemory-policy", b"allkeys-lru"),
            ("proto-max-bulk-len", b"1mb"),
        ] {
            assert!(
                objection(name, value).starts_with("it is fixed when the node starts, and is '"),
                "{name}"
            );
        }
        assert!(objection("maxmemory", b"5%").contains("memory value"));
        assert!(objection("proto-max-bulk-len", b"x").contains("memory value"));
    }

    #[test]
    fn objection_to_what_is_no_number() {
        let config = Config::default();
        let objection = |name, value: &[u8]| config.objection(name, value).unwrap_or_default();
        assert_eq!(objection("maxclients", b"100"), "");
        assert!(objection("maxclients", b"many").contains("integer"));
        assert!(objection("maxclients", b"0").contains("between 1 and 4294967295"));
        assert_eq!(objection("timeout", b"0"), "");
        assert!(objection("timeout", b"-1").contains("between 0 and 2147483647"));
        assert_eq!(objection("maxmemory-clients", b"5%"), "");
        assert!(objection("maxmemory-clients", b"1").contains("at least 1048576"));
        assert_eq!(objection("maxmemory-clients", b"0"), "");
        assert_eq!(objection("maxmemory-clients", b"1mb"), "");
        config.apply(vec![("maxmemory", (16u64 << 20).to_string())]);
        assert!(objection("maxmemory-clients", b"5%").contains("at least 1048576"));
        assert!(objection("maxmemory-clients", b"0%").contains("at least 1048576"));
        assert_eq!(objection("maxmemory-clients", b"10%"), "");
        assert!(objection("maxmemory-clients", b"101%").contains("memory or percent"));
        assert!(objection("maxmemory-clients", b"\xff").contains("memory or percent"));
        assert_eq!(objection("hash-max-listpack-value", b"1kb"), "");
        assert!(objection("hash-max-ziplist-value", b"5%").contains("memory value"));
        assert!(objection("hash-max-listpack-entries", b"1kb").contains("integer"));
        assert_eq!(objection("requirepass", b"many"), "");
        config.set_servable_clients(50);
        assert!(objection("maxclients", b"100").ends_with("try with 50"));
        assert_eq!(objection("maxclients", b"50"), "");
    }

    #[test]
    fn a_limit_of_small_collections_has_two_names() {
        let config = Config::default();
        config.apply(vec![
            ("hash-max-ziplist-entries", "7".into()),
            ("hash-max-listpack-value", "1kb".into()),
            ("list-max-ziplist-size", "-3".into()),
        ]);
        assert_eq!(config.value("list-max-listpack-size"), "-3");
        assert_eq!(config.value("hash-max-listpack-entries"), "7");
        assert_eq!(config.value("hash-max-ziplist-value"), "1024");
        assert_eq!(
            config.collection_limits(),
            Limits { hash_entries: 7, hash_value_bytes: 1024, ..Limits::default() }
        );
    }

    #[test]
    fn a_node_that_others_reach_keeps_a_password() {
        let config = Config::default();
        for (bind, may_go) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("10.0.0.1", false),
        ] {
            config.apply(vec![("bind", bind.into())]);
            let objection = config.objection("requirepass", b"");
            assert_eq!(objection.is_none(), may_go, "{bind}: {objection:?}");
            assert!(
                objection
                    .is_none_or(|why| why.contains("other machines") && why.contains("--bind 127.0.0.1"))
            );
            assert_eq!(config.objection("requirepass", b"another"), None);
        }
    }

    #[test]
    fn output_is_never_without_bound() {
        let config = Config::default();
        assert_eq!((config.output_bytes(), config.client_bytes()), (LEAST_REPLY_BYTES, None));
        config.apply(vec![("maxmemory", (1u64 << 30).to_string())]);
        assert_eq!(config.output_bytes(), 1 << 30);
        config.apply(vec![("maxmemory-clients", "10%".into())]);
        assert_eq!((config.output_bytes(), config.client_bytes()), ((1 << 30) / 10, Some((1 << 30) / 10)));
        config.apply(vec![("maxmemory-clients", "2kb".into())]);
        assert_eq!((config.output_bytes(), config.value("maxmemory-clients")), (2048, "2048".into()));
        config.set_own_output_bytes(1000);
        assert_eq!(config.output_bytes(), 1000);
    }

    #[test]
    fn what_a_request_may_take_is_shown_as_it_is_enforced() {
        let config = Config::default();
        let shown = |config: &Config| {
            let names = ["client-query-buffer-limit", "proto-max-bulk-len"];
            let [query, bulk] = names.map(|name| {
                let found = config.matching(name.as_bytes());
                assert_eq!(found, [(name, config.value(name))]);
                found[0].1.clone()
            });
            (query, bulk)
        };
        let pair = |query: u64, bulk: u64| (query.to_string(), bulk.to_string());
        assert_eq!(shown(&config), pair(1 << 30, 512 << 20));
        config.apply(vec![("maxmemory", (64u64 << 20).to_string())]);
        assert_eq!(shown(&config), pair(1 << 30, 64 << 20));
        config.apply(vec![("maxmemory-clients", "50%".into())]);
        assert_eq!(shown(&config), pair(32 << 20, 32 << 20));
        config
            .apply(vec![("proto-max-bulk-len", "2048".into()), ("client-query-buffer-limit", "4096".into())]);
        assert_eq!(shown(&config), pair(4096, 2048));
        config.apply(vec![("client-query-buffer-limit", (1u64 << 40).to_string())]);
        config.apply(vec![("maxmemory-clients", "0".into())]);
        assert_eq!(shown(&config), pair(u64::from(u32::MAX), 2048));
    }

    #[test]
    fn memory_or_percent_reads_redis_s_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("100b", Some(100)),
            ("2k", Some(2000)),
            ("2KB", Some(2048)),
            ("3mb", Some(3 << 20)),
            ("1g", Some(1_000_000_000)),
            ("5%", Some(50)),
            ("", None),
            ("mb", None),
            ("-1", None),
            ("1x", None),
            ("99999999999gb", None),
        ] {
            assert_eq!(memory_or_percent(text, 1000), bytes, "{text}");
        }
    }

    #[test]
    fn apply_changes_what_is_shown() {
        let config = Config::default();
        config.apply(vec![("timeout", "7".into()), ("requirepass", "secret".into())]);
        assert_eq!(config.matching(b"timeo*"), [("timeout", "7".to_owned())]);
        assert_eq!(config.password().as_deref(), Some("secret"));
        config.apply(vec![("proto-max-bulk-len", "2097152".into())]);
        assert_eq!(config.longest_value_bytes(), 2 << 20);
    }
}
