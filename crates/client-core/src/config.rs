//! A client's settings, and all of its bounds.

use sidle_cluster::HostPort;

/// Whether the client knows of migrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Awareness {
    /// `CLIENT CAPA sidle`: tablet maps, progress, double reads.
    #[default]
    Sidle,
    /// Like an unmodified cluster client: `CLUSTER SLOTS`, MOVED and ASK. Works with any server with RESP3,
    /// in a cluster or alone.
    Plain,
}

/// The settings of a [`Core`](crate::Core).
#[derive(Clone, Debug)]
pub struct Config {
    /// The nodes to request a map from first; at least one.
    pub seeds: Vec<HostPort>,
    /// Whether the client knows of migrations.
    pub awareness: Awareness,
    /// The user's name and password, if the nodes require one.
    pub credentials: Option<(String, String)>,
    /// After this time an operation without an answer fails; its effect is unknown.
    pub operation_timeout_us: u64,
    /// The most concurrent operations.
    pub max_outstanding: usize,
    /// The most connections to each node, 1 to [`Config::MAX_CONNECTIONS_PER_NODE`]. Each can answer an
    /// operation at the same time; all share the knowledge of the cluster and of running migrations.
    /// Concurrent operations may then overtake each other, even on one key.
    pub connections_per_node: usize,
    /// Whether reads of a moving range ask the target alone where MCR or SPH show that it knows. Otherwise
    /// each asks both nodes. For measuring the benefit of tracking.
    pub tracking: bool,
    /// Whether it has the targets of ranges that are given bit by bit push what was given, over one
    /// connection to each node.
    pub digests: bool,
}

impl Config {
    /// The default of `operation_timeout_us`.
    pub const OPERATION_TIMEOUT_US: u64 = 2_000_000;
    /// The default of `max_outstanding`.
    pub const MAX_OUTSTANDING: usize = 65_536;
    /// The default of `connections_per_node`.
    pub const CONNECTIONS_PER_NODE: usize = 1;
    /// The bound of `connections_per_node`.
    pub const MAX_CONNECTIONS_PER_NODE: usize = 1024;

    /// The default settings with these seeds.
    pub fn new(seeds: Vec<HostPort>) -> Config {
        Config {
            seeds,
            awareness: Awareness::Sidle,
            credentials: None,
            operation_timeout_us: Config::OPERATION_TIMEOUT_US,
            max_outstanding: Config::MAX_OUTSTANDING,
            connections_per_node: Config::CONNECTIONS_PER_NODE,
            tracking: true,
            digests: true,
        }
    }
}

/// How often one operation is retried after an answer without effect.
pub(crate) const MAX_TRIES: u8 = 64;
/// How many of those are immediate; later ones wait.
pub(crate) const IMMEDIATE_TRIES: u8 = 4;
/// The first wait before an operation is retried; it doubles with each further try.
pub(crate) const RETRY_DELAY_US: u64 = 500;
/// The longest wait before an operation is retried.
pub(crate) const MAX_RETRY_DELAY_US: u64 = 50_000;
/// The first wait before a lost connection is reopened; it doubles with each failure.
pub(crate) const RECONNECT_DELAY_US: u64 = 2_000;
/// The longest wait before a lost connection is reopened.
pub(crate) const MAX_RECONNECT_DELAY_US: u64 = 500_000;
/// A connection that is not ready after this time is given up.
pub(crate) const CONNECT_TIMEOUT_US: u64 = 2_000_000;
/// While no node is ready, the next one is tried after this time.
pub(crate) const CONNECT_STAGGER_US: u64 = 20_000;
/// In clusters of up to so many nodes a client that knows of migrations opens all its connections at once, in
/// larger ones on demand.
pub(crate) const CONNECTED_AHEAD: usize = 32;
/// The candidates among a node's connections for the one with the fewest outstanding answers.
pub(crate) const FEWEST_AMONG: usize = 64;
/// The candidates among written connections for a double read's request to their node.
pub(crate) const WRITTEN_AMONG: usize = 16;
/// How many requests leave together before one of a double read takes another connection.
pub(crate) const WRITTEN_TOGETHER: usize = 32;
/// The least time between two requests for a map, for any number of redirects.
pub(crate) const REFRESH_INTERVAL_US: u64 = 1_000;
/// A map that has not arrived after this time is requested elsewhere.
pub(crate) const REFRESH_TIMEOUT_US: u64 = 500_000;
/// The most nodes of a client; redirects to further ones are not followed.
pub(crate) const MAX_NODES: usize = 4096;
/// An operation's buffer that grew beyond this is freed when the operation ends.
pub(crate) const KEPT_REQUEST_BYTES: usize = 16 << 10;
/// The most bytes that all SPH tables of a client take together.
pub(crate) const SPH_BYTES: usize = 4 << 20;
/// The same for the tables of what targets have pushed.
pub(crate) const FINGERPRINTS_BYTES: usize = 1 << 20;

/// The wait before try `number` (from 1): doubling from `first_us`, at most `longest_us`.
pub(crate) fn backoff_us(number: u32, first_us: u64, longest_us: u64) -> u64 {
    first_us.saturating_mul(1 << number.saturating_sub(1).min(20)).min(longest_us)
}
