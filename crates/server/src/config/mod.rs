//! A node's settings: the file `sidle.toml`, its defaults, and what the flags of `sidle server` override.
//!
//! [`EXAMPLE`] is the documented default file. It is the one place where settings are described; tests hold
//! it and [`Config::default`] together.

mod cpu_list;
mod file;
mod size;
mod takeover_after;

pub use cpu_list::{CpuList, ParseCpuListError};
pub use file::ConfigError;
pub use size::{Auto, ParseSizeError, Size};
pub use takeover_after::{ParseTakeoverAfterError, TakeoverAfter};

use serde::Deserialize;
use sidle_handshake::ClusterSecret;
use sidle_node::MAX_MOVERS;
use std::path::{Path, PathBuf};

/// The default settings as a commented file, printed by `sidle server --print-config`.
pub const EXAMPLE: &str = include_str!("../../../../sidle.toml.example");

/// How far the bus port lies above the client port unless it is set, as in Redis Cluster.
pub const BUS_PORT_OFFSET: u16 = 10_000;

/// The largest value that a record can hold, as in Redis.
pub const MAX_VALUE_BYTES: u64 = 512 << 20;

/// The environment variable that may hold the cluster's secret.
pub const SECRET_VARIABLE: &str = "SIDLE_CLUSTER_SECRET";

/// The most threads that serve clients; far above what any machine can use.
pub const MAX_THREADS: usize = 512;

/// All settings of a node. [`EXAMPLE`] describes each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The node itself.
    pub node: NodeConfig,
    /// Addresses and ports.
    pub network: NetworkConfig,
    /// Memory.
    pub memory: MemoryConfig,
    /// What survives the process.
    pub durability: DurabilityConfig,
    /// Who may connect.
    pub security: SecurityConfig,
    /// What one client may use.
    pub limits: LimitsConfig,
    /// The log.
    pub log: LogConfig,
}

/// `[node]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// The data directory.
    pub dir: Auto<PathBuf>,
    /// A client address of the cluster to join; empty: none.
    pub join: String,
    /// Where the cluster's metadata is, if not in a file: `etcd://HOST:PORT/NAME`. Empty: in a file.
    pub metadata: String,
    /// The processors that the node's threads run on.
    pub cpu_list: Auto<CpuList>,
    /// Threads that serve clients.
    pub workers: Auto<usize>,
    /// Threads that move data.
    pub movers: usize,
    /// Whether the workers' threads do their work instead. For experiments only; no file sets it.
    #[cfg(feature = "ablations")]
    #[serde(skip)]
    pub movers_on_workers: bool,
}

impl NodeConfig {
    /// Whether the workers' threads do the movers' work.
    pub(crate) fn has_movers_on_workers(&self) -> bool {
        #[cfg(feature = "ablations")]
        let is_asked_for = self.movers_on_workers;
        #[cfg(not(feature = "ablations"))]
        let is_asked_for = false;
        is_asked_for
    }
}

impl Default for NodeConfig {
    fn default() -> NodeConfig {
        NodeConfig {
            dir: Auto::Auto,
            join: String::new(),
            metadata: String::new(),
            cpu_list: Auto::Auto,
            workers: Auto::Auto,
            movers: 1,
            #[cfg(feature = "ablations")]
            movers_on_workers: false,
        }
    }
}

/// `[network]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkConfig {
    /// The address to listen on.
    pub bind: String,
    /// The port for clients; 0: any free one.
    pub port: u16,
    /// The port for nodes; 0: any free one.
    pub bus_port: Auto<u16>,
    /// The host announced to others.
    pub advertise: Auto<String>,
    /// Connections waiting to be accepted, per worker.
    pub backlog: u32,
}

impl Default for NetworkConfig {
    fn default() -> NetworkConfig {
        NetworkConfig {
            bind: "127.0.0.1".to_owned(),
            port: 6379,
            bus_port: Auto::Auto,
            advertise: Auto::Auto,
            backlog: 511,
        }
    }
}

/// `[memory]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryConfig {
    /// The most memory for keys, values and their index.
    pub max_memory: Auto<Size>,
    /// Whether it is taken from the system at startup.
    pub preallocate: bool,
}

/// `[security]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityConfig {
    /// The clients' password; empty: none.
    pub password: String,
    /// The file of users; empty: none.
    pub users_file: PathBuf,
    /// Whether clients of other machines are refused while anyone is the default user.
    pub protected_mode: bool,
    /// The file with the cluster's secret; empty: none.
    pub cluster_secret_file: PathBuf,
    /// Whether clients may use DEBUG.
    pub debug_commands: bool,
    /// The cluster's secret, from [`SECRET_VARIABLE`]; never in the file of settings.
    #[serde(skip)]
    pub cluster_secret: Option<ClusterSecret>,
}

impl Default for SecurityConfig {
    fn default() -> SecurityConfig {
        SecurityConfig {
            password: String::new(),
            users_file: PathBuf::new(),
            protected_mode: true,
            cluster_secret_file: PathBuf::new(),
            debug_commands: false,
            cluster_secret: None,
        }
    }
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Connected clients over all workers.
    pub max_clients: usize,
    /// One client's unfinished request.
    pub query_buffer: Size,
    /// Arguments in one request.
    pub arguments: u32,
    /// One argument.
    pub value: Size,
    /// One client's unread replies; 0: no limit of its own.
    pub output_buffer: Size,
    /// All clients' unfinished requests and unread replies; 0: no limit.
    pub client_memory: Auto<Size>,
    /// Seconds of silence after which a client is closed; 0: never.
    pub idle_timeout: u32,
    /// Seconds within which a client has to give the password; 0: no limit.
    pub password_timeout: u32,
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            max_clients: 10_000,
            query_buffer: Size(1 << 30),
            arguments: 1 << 20,
            value: Size(MAX_VALUE_BYTES),
            output_buffer: Size(1 << 30),
            client_memory: Auto::Auto,
            idle_timeout: 0,
            password_timeout: 30,
        }
    }
}

/// The least `durability.file`: a file is much longer than what is written at once.
pub const MIN_LOG_FILE_BYTES: u64 = 1 << 20;
/// The least `durability.clean_percent`: at 100 nothing could ever be removed.
pub const MIN_CLEAN_PERCENT: u64 = 120;

/// `[durability]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DurabilityConfig {
    /// Where acknowledged writes are kept.
    pub mode: DurabilityMode,
    /// When they are synced.
    pub fsync: Fsync,
    /// With fewer copies of the log at other nodes no writes are taken.
    pub least_copies: u64,
    /// For how long the node is gone before its log is taken over.
    pub takeover_after: TakeoverAfter,
    /// The log is kept in files of this size.
    pub file: Size,
    /// The log is cleaned above this size,
    pub clean_above: Size,
    /// and above so many percent of what is live.
    pub clean_percent: u64,
    /// Whether a damaged log is read as far as it can be. No file sets it.
    #[serde(skip)]
    pub salvages: bool,
}

impl Default for DurabilityConfig {
    fn default() -> DurabilityConfig {
        DurabilityConfig {
            mode: DurabilityMode::default(),
            fsync: Fsync::default(),
            least_copies: 0,
            takeover_after: TakeoverAfter(None),
            file: Size(64 << 20),
            clean_above: Size(256 << 20),
            clean_percent: 200,
            salvages: false,
        }
    }
}

impl DurabilityConfig {
    /// The setting that is wrong, and why.
    fn validate(&self) -> Result<(), (&'static str, String)> {
        if self.file.0 < MIN_LOG_FILE_BYTES {
            return Err(("file", format!("give at least {}", Size(MIN_LOG_FILE_BYTES))));
        }
        if self.clean_percent < MIN_CLEAN_PERCENT {
            return Err(("clean_percent", format!("give at least {MIN_CLEAN_PERCENT}")));
        }
        if self.takeover_after.0.is_some() && self.mode.copies() == 0 {
            let why = "without copies of the log nobody can take it over: give --durability replicated=R \
                       (`[durability] mode`) too";
            return Err(("takeover_after", why.to_owned()));
        }
        Ok(())
    }
}

/// Where acknowledged writes are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum DurabilityMode {
    /// In memory only.
    None,
    /// In a log in the data directory.
    #[default]
    Disk,
    /// And in so many copies of it at other nodes.
    Replicated(usize),
}

/// How many copies of a log there are to be, if no number is given.
const USUAL_COPIES: usize = 2;

/// The most copies of a log.
pub const MOST_COPIES: usize = 8;

impl DurabilityMode {
    /// How many copies of the log there are to be at other nodes.
    pub const fn copies(self) -> usize {
        match self {
            DurabilityMode::Replicated(copies) => copies,
            DurabilityMode::None | DurabilityMode::Disk => 0,
        }
    }
}

impl TryFrom<String> for DurabilityMode {
    type Error = String;

    fn try_from(text: String) -> Result<DurabilityMode, String> {
        text.parse()
    }
}

/// When a durable log is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Each second: a crash of the machine may lose the last one.
    #[default]
    EverySec,
    /// Before a write is acknowledged.
    Always,
}

impl std::str::FromStr for DurabilityMode {
    type Err = String;

    fn from_str(text: &str) -> Result<DurabilityMode, String> {
        match text {
            "none" => Ok(DurabilityMode::None),
            "disk" => Ok(DurabilityMode::Disk),
            "replicated" => Ok(DurabilityMode::Replicated(USUAL_COPIES)),
            _ => {
                let copies = text.strip_prefix("replicated=").and_then(|copies| copies.parse().ok());
                let copies = copies.filter(|copies| (1..=MOST_COPIES).contains(copies));
                copies.map(DurabilityMode::Replicated).ok_or_else(|| {
                    format!("'{text}' is no kind of durability: give none, disk, or replicated=R, R from 1 to {MOST_COPIES}")
                })
            }
        }
    }
}

impl std::str::FromStr for Fsync {
    type Err = String;

    fn from_str(text: &str) -> Result<Fsync, String> {
        match text {
            "everysec" => Ok(Fsync::EverySec),
            "always" => Ok(Fsync::Always),
            _ => Err(format!("'{text}' is no time to sync: give everysec or always")),
        }
    }
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// The least severe level written.
    pub level: LogLevel,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { level: LogLevel::Info }
    }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What went wrong.
    Error,
    /// What may go wrong.
    Warn,
    /// What the node does, in few lines.
    Info,
    /// What connections and migrations do.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The level's name.
    pub const fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

impl std::str::FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<LogLevel, String> {
        use LogLevel::{Debug, Error, Info, Trace, Warn};
        [Error, Warn, Info, Debug, Trace]
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| format!("'{text}' is not a log level: give error, warn, info, debug or trace"))
    }
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
        file::parse(&text, &path.display().to_string())
    }

    /// Reads and checks settings from text; `origin` is what errors call it.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        file::parse(text, origin)
    }

    /// Takes the cluster's secret from the text of [`SECRET_VARIABLE`].
    pub fn set_cluster_secret(&mut self, text: &str) -> Result<(), ConfigError> {
        let secret = ClusterSecret::parse(text.as_bytes()).map_err(|error| ConfigError::Invalid {
            setting: SECRET_VARIABLE,
            why: format!(
                "{error}. Give it the text of a file that `sidle server --create-cluster-secret FILE` makes"
            ),
        })?;
        self.security.cluster_secret = Some(secret);
        Ok(())
    }

    /// Checks what the types do not enforce. Call it once flags are applied.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |setting: &'static str, why: String| Err(ConfigError::Invalid { setting, why });
        if let Auto::Value(0) = self.node.workers {
            return wrong("workers", "at least one thread must serve clients".to_owned());
        }
        if let Auto::Value(workers) = self.node.workers
            && workers > MAX_THREADS
        {
            return wrong("workers", format!("{workers} threads are too many: at most {MAX_THREADS}"));
        }
        if !(1..=usize::from(MAX_MOVERS)).contains(&self.node.movers) {
            return wrong("movers", format!("give a number from 1 to {MAX_MOVERS}"));
        }
        if self.network.bind.parse::<std::net::IpAddr>().is_err() {
            return wrong("bind", format!("'{}' is not an IP address", self.network.bind));
        }
        if self.network.bus_port == Auto::Auto && self.network.port.checked_add(BUS_PORT_OFFSET).is_none() {
            let port = self.network.port;
            return wrong(
                "bus_port",
                format!("port {port} + {BUS_PORT_OFFSET} is no port: set bus_port (--bus-port)"),
            );
        }
        if self.network.port != 0 && self.network.bus_port == Auto::Value(self.network.port) {
            let port = self.network.port;
            return wrong(
                "bus_port",
                format!("port {port} is for clients (--port): nodes need one of their own (--bus-port)"),
            );
        }
        self.durability.validate().or_else(|(setting, why)| wrong(setting, why))?;
        if self.limits.max_clients == 0 {
            return wrong("max_clients", "at least one client must be let in".to_owned());
        }
        if !(MIN_VALUE_BYTES..=MAX_VALUE_BYTES).contains(&self.limits.value.0) {
            let (least, most) = (Size(MIN_VALUE_BYTES), Size(MAX_VALUE_BYTES));
            return wrong("value", format!("give a size from {least} to {most}"));
        }
        // An operator who reaches neither could not find out what is wrong.
        let client_memory = self.limits.client_memory.unwrap_or_else(|| Size(0)).0;
        for (setting, bytes, least) in [
            ("client_memory", client_memory, sidle_node::LEAST_CLIENT_BYTES),
            ("output_buffer", self.limits.output_buffer.0, MIN_OUTPUT_BUFFER_BYTES),
        ] {
            if (1..least).contains(&bytes) {
                return wrong(setting, format!("give at least {}, or 0 for no limit", Size(least)));
            }
        }
        if self.limits.query_buffer.0 < MIN_QUERY_BUFFER_BYTES {
            return wrong("query_buffer", format!("give at least {}", Size(MIN_QUERY_BUFFER_BYTES)));
        }
        if self.limits.idle_timeout > MAX_IDLE_TIMEOUT {
            return wrong("idle_timeout", format!("give at most {MAX_IDLE_TIMEOUT} seconds"));
        }
        if self.limits.arguments == 0 {
            return wrong("arguments", "a request has at least one argument".to_owned());
        }
        let is_address = |text: &str| matches!(crate::address::split_host_port(text), Some((_, 1..)));
        if !self.node.join.is_empty() && !is_address(&self.node.join) {
            return wrong("join", format!("'{}' is not HOST:PORT, such as 10.0.0.1:6379", self.node.join));
        }
        if let Err(why) = crate::election::check(&self.node.metadata) {
            return wrong("metadata", why);
        }
        if !self.node.metadata.is_empty() && !self.node.join.is_empty() {
            return wrong("metadata", "it names the cluster already: leave `join` out".to_owned());
        }
        Ok(())
    }

    /// As [`Config::validate`]; if the file behind these settings is wrong in the same way by
    /// itself, the error names its line.
    pub fn validate_over(&self, file: Option<&Path>) -> Result<(), ConfigError> {
        let Err(error) = self.validate() else { return Ok(()) };
        let Some(path) = file else { return Err(error) };
        let alone = Config::load(path)?.validate().err();
        let ConfigError::Invalid { setting, why } = &error else { return Err(error) };
        if alone.is_none_or(|alone| alone.to_string() != error.to_string()) {
            return Err(error);
        }
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let Some(line) = file::line_of_setting(&text, setting) else { return Err(error) };
        let what = format!("setting '{setting}': {why}");
        Err(ConfigError::Malformed { origin: path.display().to_string(), line, what })
    }

    /// The data directory to use.
    pub fn data_dir(&self) -> PathBuf {
        // Several nodes started from one folder, as in first tries, must not collide.
        self.node.dir.clone().unwrap_or_else(|| format!("sidle-{}", self.network.port).into())
    }

    /// How many workers to start.
    pub fn worker_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.node.workers.unwrap_or_else(cores).min(MAX_THREADS)
    }

    /// The bound of all clients' buffers together, on a node with this much memory for its data; 0: no limit.
    pub fn client_memory_bytes(&self, memory_bytes: u64) -> u64 {
        self.limits.client_memory.unwrap_or_else(|| Size((memory_bytes / 2).max(LEAST_CLIENT_MEMORY_BYTES))).0
    }

    /// The bus port to bind; 0: any free one.
    pub fn bus_port(&self) -> u16 {
        let above = || match self.network.port {
            0 => 0,
            port => port + BUS_PORT_OFFSET,
        };
        self.network.bus_port.unwrap_or_else(above)
    }
}

/// The least `limits.output_buffer`: INFO and CLIENT LIST of some clients fit.
pub const MIN_OUTPUT_BUFFER_BYTES: u64 = 64 << 10;

/// The least `limits.value`: arguments of administrative commands fit.
pub const MIN_VALUE_BYTES: u64 = 1 << 10;

/// The least `limits.query_buffer`: Redis's own lower bound.
pub const MIN_QUERY_BUFFER_BYTES: u64 = 1 << 20;

/// The least bound of clients' buffers, unless a setting overrides it.
pub const LEAST_CLIENT_MEMORY_BYTES: u64 = 64 << 20;

/// The longest `limits.idle_timeout`: Redis's own bound.
pub const MAX_IDLE_TIMEOUT: u32 = i32::MAX as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_file_parses_to_the_defaults() {
        let config = Config::parse(EXAMPLE, "sidle.toml.example").unwrap();
        assert_eq!(config, Config::default());
        config.validate().unwrap();
    }

    #[test]
    fn example_file_lists_every_setting() {
        let table: toml::Table = EXAMPLE.parse().unwrap();
        let listed: Vec<String> = table
            .iter()
            .flat_map(|(section, keys)| {
                keys.as_table().unwrap().keys().map(move |key| format!("{section}.{key}"))
            })
            .collect();
        for known in file::KNOWN {
            for key in known.keys() {
                let name = format!("{}.{key}", known.section);
                assert!(listed.contains(&name), "{name} is not in sidle.toml.example");
            }
        }
        let known: usize = file::KNOWN.iter().map(|known| known.settings.len()).sum();
        assert_eq!(listed.len(), known);
    }

    #[test]
    fn validate_names_the_setting() {
        let refused = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert!(refused(|c| c.node.workers = Auto::Value(0)).contains("workers"));
        assert!(refused(|c| c.node.movers = 0).contains("movers"));
        assert!(refused(|c| c.node.movers = 65).contains("1 to 64"));
        assert!(refused(|c| c.network.bind = "localhost".into()).contains("bind"));
        assert!(refused(|c| c.network.port = 60_000).contains("bus_port"));
        assert!(refused(|c| c.network.bus_port = Auto::Value(6379)).contains("bus_port"));
        assert!(
            refused(|c| c.durability.takeover_after = TakeoverAfter(Some(1_000))).contains("replicated=R")
        );
        assert!(refused(|c| c.limits.value = Size(1 << 40)).contains("value"));
        assert!(refused(|c| c.limits.value = Size(1)).contains("value"));
        assert!(refused(|c| c.limits.client_memory = Auto::Value(Size(1))).contains("client_memory"));
        assert!(refused(|c| c.limits.output_buffer = Size(1)).contains("output_buffer"));
        assert!(refused(|c| c.node.join = "host".into()).contains("HOST:PORT"));
    }

    #[test]
    fn a_file_that_cannot_work_by_itself_is_named_with_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sidle.toml");
        std::fs::write(&path, "[node]\n\nworkers = 0\n").unwrap();
        let mut config = Config::load(&path).unwrap();
        let refused = config.validate_over(Some(&path)).unwrap_err().to_string();
        assert!(
            refused
                .ends_with("sidle.toml, line 3: setting 'workers': at least one thread must serve clients")
        );
        // A wrong flag is not the file's fault.
        config.node.workers = Auto::Value(9999);
        let refused = config.validate_over(Some(&path)).unwrap_err().to_string();
        assert!(refused.starts_with("setting 'workers': "), "{refused}");
        config.node.workers = Auto::Value(1);
        config.validate_over(Some(&path)).unwrap();
    }

    #[test]
    fn secret_of_the_environment_is_parsed_and_never_printed() {
        let secret = ClusterSecret::from_random(std::array::from_fn(|index| index as u8)).to_text();
        let mut config = Config::default();
        config.set_cluster_secret(&secret).unwrap();
        let digits = secret.trim_end().rsplit(' ').next().unwrap();
        assert!(!format!("{config:?}").contains(&digits[..16]), "{config:?}");
        let refused = config.set_cluster_secret(&secret[..70]).unwrap_err().to_string();
        assert!(refused.contains("SIDLE_CLUSTER_SECRET") && refused.contains("too short"), "{refused}");
        assert!(!refused.contains(&digits[..16]), "{refused}");
        let in_file = format!("[security]\ncluster_secret = \"{}\"\n", secret.trim_end());
        let refused = Config::parse(&in_file, "t").unwrap_err().to_string();
        assert!(refused.contains("cluster_secret_file") && !refused.contains(digits), "{refused}");
    }

    #[test]
    fn data_dir_follows_the_client_port() {
        let mut config = Config::default();
        assert_eq!(config.data_dir(), Path::new("sidle-6379"));
        config.node.dir = Auto::Value("elsewhere".into());
        assert_eq!(config.data_dir(), Path::new("elsewhere"));
    }

    #[test]
    fn client_memory_follows_the_memory_for_data() {
        let mut config = Config::default();
        assert_eq!(config.client_memory_bytes(8 << 30), 4 << 30);
        assert_eq!(config.client_memory_bytes(16 << 20), LEAST_CLIENT_MEMORY_BYTES);
        config.limits.client_memory = Auto::Value(Size(0));
        assert_eq!(config.client_memory_bytes(8 << 30), 0);
    }

    #[test]
    fn bus_port_follows_the_client_port() {
        let mut config = Config::default();
        assert_eq!(config.bus_port(), 16379);
        config.network.port = 0;
        assert_eq!(config.bus_port(), 0);
        config.network.bus_port = Auto::Value(7000);
        assert_eq!(config.bus_port(), 7000);
    }
}
