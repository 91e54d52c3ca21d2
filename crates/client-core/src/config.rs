//! What a client may be told, and every bound it keeps.

use sidle_cluster::HostPort;

/// Whether the client knows of migrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Awareness {
    /// `CLIENT CAPA sidle`: tablet maps, progress, double reads.
    #[default]
    Sidle,
    /// As an unmodified cluster client: `CLUSTER SLOTS`, MOVED and ASK. Works with any server that speaks
    /// RESP3, in a cluster or alone.
    Plain,
}

/// The settings of a [`Core`](crate::Core).
#[derive(Clone, Debug)]
pub struct Config {
    /// The nodes to ask for a map first; at least one.
    pub seeds: Vec<HostPort>,
    /// Whether the client knows of migrations.
    pub awareness: Awareness,
    /// The user's name and password, if the nodes want one.
    pub credentials: Option<(String, String)>,
    /// After this long an operation without an answer fails; what became of it is unknown.
    pub operation_timeout_us: u64,
    /// The most operations under way at once.
    pub max_outstanding: usize,
    /// The most connections to each node, 1 to [`Config::MAX_CONNECTIONS_PER_NODE`]. With several, as many
    /// operations are answered side by side; all share what the client knows of the cluster and of running
    /// migrations. Operations that are under way at the same time may then overtake each other, those on one
    /// key too.
    pub connections_per_node: usize,
    /// Whether reads of a moving range ask the target alone where MCR or SPH say that it knows; otherwise
    /// every one of them asks both nodes. For measuring what tracking is worth.
    pub tracking: bool,
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
        }
    }
}

/// How often one operation is sent anew after an answer that says it had no effect.
pub(crate) const MAX_TRIES: u8 = 64;
/// How many of those follow at once; later ones wait.
pub(crate) const IMMEDIATE_TRIES: u8 = 4;
/// The first wait before an operation is sent anew; it doubles with each further try.
pub(crate) const RETRY_DELAY_US: u64 = 500;
/// The longest wait before an operation is sent anew.
pub(crate) const MAX_RETRY_DELAY_US: u64 = 50_000;
/// The first wait before a lost connection is made anew; it doubles with each failure.
pub(crate) const RECONNECT_DELAY_US: u64 = 2_000;
/// The longest wait before a lost connection is made anew.
pub(crate) const MAX_RECONNECT_DELAY_US: u64 = 500_000;
/// A connection that is not ready after this long is given up.
pub(crate) const CONNECT_TIMEOUT_US: u64 = 2_000_000;
/// While no node is ready, the next one is tried after this long.
pub(crate) const CONNECT_STAGGER_US: u64 = 20_000;
/// In clusters of up to so many nodes a client that knows of migrations makes all its connections to all of
/// them at once, in larger ones to each when it is needed.
pub(crate) const CONNECTED_AHEAD: usize = 32;
/// Among how many connections to a node the one that owes the fewest answers is looked for.
pub(crate) const FEWEST_AMONG: usize = 64;
/// Among how many connections that are written to the requests of a double read look for one to their node.
pub(crate) const WRITTEN_AMONG: usize = 16;
/// How many requests leave together before one of a double read takes another connection.
pub(crate) const WRITTEN_TOGETHER: usize = 32;
/// Maps are asked for no more often than this, whatever the redirects.
pub(crate) const REFRESH_INTERVAL_US: u64 = 1_000;
/// A map that has not come after this long is asked for elsewhere.
pub(crate) const REFRESH_TIMEOUT_US: u64 = 500_000;
/// The most nodes that a client talks to; redirects to further ones are not followed.
pub(crate) const MAX_NODES: usize = 4096;
/// An operation's buffer that grew beyond this is given back when the operation ends.
pub(crate) const KEPT_REQUEST_BYTES: usize = 16 << 10;
/// The most bytes that all SPH tables of a client take together.
pub(crate) const SPH_BYTES: usize = 4 << 20;

/// The wait before try `number` (from 1): doubling from `first_us`, at most `longest_us`.
pub(crate) fn backoff_us(number: u32, first_us: u64, longest_us: u64) -> u64 {
    first_us.saturating_mul(1 << number.saturating_sub(1).min(20)).min(longest_us)
}
