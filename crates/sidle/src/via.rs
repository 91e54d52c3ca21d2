//! How a command reaches the cluster, as flags.

use clap::Args;
use sidle_cli::numbers::from_to;
use sidle_cli::server::host_port;

/// The default node for commands.
pub(crate) const DEFAULT_VIA: &str = "127.0.0.1:6379";
/// The environment variable that may hold the cluster's password.
pub(crate) const PASSWORD_VARIABLE: &str = "SIDLE_PASSWORD";

/// How to reach the cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct Via {
    /// Any node of the cluster
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_VIA, value_parser = host_port)]
    pub(crate) via: String,
    /// The cluster's password, if it has one
    #[arg(long, env = PASSWORD_VARIABLE, hide_env_values = true, value_name = "PASSWORD")]
    pub(crate) password: Option<String>,
}

/// How to reach the cluster, and for how long to wait.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reach {
    #[command(flatten)]
    pub(crate) via: Via,
    /// How long the cluster may take to answer, from the command's start on
    #[arg(long, value_name = "SECONDS", default_value = "5")]
    #[arg(value_parser = from_to::<u64>(1, 3600))]
    pub(crate) timeout: u64,
}
