//! `sidle server`: settings from the file and the flags, the log, and the node.

use crate::exit::{Failure, Status};
use crate::numbers::{auto_or_from_to, from_to};
use clap::Args;
use rustix::process::{Signal, getpid, kill_process};
use sidle_server::StartError;
use sidle_server::address::split_host_port;
use sidle_server::config::{
    Auto, Config, ConfigError, CpuList, DurabilityMode, EXAMPLE, Fsync, LogLevel, SECRET_VARIABLE, Size,
    TakeoverAfter,
};
use std::io;
use std::path::PathBuf;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// Overrides the log's level and filter.
const LOG_VARIABLE: &str = "SIDLE_LOG";

const MAX_PORT: u64 = u16::MAX as u64;

/// The end of `server --help`.
pub const EXAMPLES: &str = "\
Examples:
  sidle server                                    # a cluster of one node
  sidle server --port 6380 --join 127.0.0.1:6379  # an empty second node
  sidle server --print-config > sidle.toml        # every setting, described
  sidle server --config sidle.toml --port 7000    # flags win over the file

Sizes are bytes, or a number with a unit: kb, mb and gb are powers of 1024, k, m and g of 1000.

SIGINT (Ctrl-C) and SIGTERM stop the node cleanly. Without a durable log (--durability none) what it holds is lost.

Exit status: 0 stopped; 1 could not be started: nothing has changed; or other nodes took over what it had \
while it ran; 2 wrong command line or settings.";

/// Flags of `sidle server`; each overrides the setting of the same name in the file.
#[derive(Debug, Args)]
pub struct ServerArguments {
    /// Read settings from this file [default: none]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the settings with their defaults and descriptions, as a file to start from
    #[arg(long)]
    pub print_config: bool,
    /// The port for clients; 0: any free port [default: 6379]
    #[arg(long, value_name = "PORT", value_parser = from_to::<u16>(0, MAX_PORT))]
    pub port: Option<u16>,
    /// The port for other nodes; 0: any free port [default: the port for clients + 10000]
    #[arg(long, value_name = "PORT", value_parser = auto_or_from_to::<u16>(0, MAX_PORT))]
    pub bus_port: Option<Auto<u16>>,
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<String>,
    /// The host that clients and other nodes are told [default: the address listened on]
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<Auto<String>>,
    /// Where the node keeps its identity and the cluster's metadata [default: sidle-PORT]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// Join the cluster of the node with this client address [default: found a new cluster, or go on with the
    /// one that the data directory remembers]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub join: Option<String>,
    /// Keep the cluster's metadata in etcd, so that another node coordinates when one is gone:
    /// etcd://HOST:PORT/NAME (needs the feature `etcd`) [default: a file in the first node's data directory]
    #[arg(long, value_name = "URL", conflicts_with = "join")]
    pub metadata: Option<String>,
    /// The processors that the node's threads run on, such as 0-3,8 [default: all that the process may use]
    #[arg(long, value_name = "LIST")]
    pub cpu_list: Option<Auto<CpuList>>,
    /// Threads that serve clients [default: one for each core]
    #[arg(long, value_name = "NUMBER", value_parser = auto_or_from_to::<usize>(0, u64::MAX))]
    pub workers: Option<Auto<usize>>,
    /// Threads that move data [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<usize>(0, u64::MAX))]
    pub movers: Option<usize>,
    /// For experiments: move data on the threads that serve clients
    #[cfg(feature = "ablations")]
    #[arg(long)]
    pub movers_on_workers: bool,
    /// Memory for keys, values and their index, such as 4gb or 512mb [default: half of the machine's]
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<Auto<Size>>,
    /// Take that memory from the system at the start, instead of as data comes
    #[arg(long)]
    pub preallocate: bool,
    /// What survives the process: disk, a log in the data directory; replicated=R, R copies of it elsewhere
    /// too; or none [default: disk]
    #[arg(long, value_name = "MODE")]
    pub durability: Option<DurabilityMode>,
    /// When that log is synced: everysec, or always, before a write is acknowledged [default: everysec]
    #[arg(long, value_name = "WHEN")]
    pub fsync: Option<Fsync>,
    /// Let another node take this one's log over, with its keys, once it is gone for so long, such as 5s
    /// (needs replicated=R) [default: off]
    #[arg(long, value_name = "DURATION")]
    pub takeover_after: Option<TakeoverAfter>,
    /// Read a damaged log as far as it can be read, and go on with that
    #[arg(long)]
    pub salvage: bool,
    /// Ask clients for this password (visible in the list of processes: better in the file) [default: none]
    #[arg(long, visible_alias = "requirepass", value_name = "PASSWORD")]
    pub password: Option<String>,
    /// Read users and their rights from this file, which ACL SAVE writes [default: none]
    #[arg(long, visible_alias = "aclfile", value_name = "FILE")]
    pub users_file: Option<PathBuf>,
    /// Whether clients of other machines are refused while no password is set: yes or no [default: yes]
    #[arg(long, value_name = "WHETHER", value_parser = yes_or_no)]
    pub protected_mode: Option<bool>,
    /// Prove to other nodes with the secret in this file that the node belongs to the cluster [default: the
    /// one that the data directory keeps]
    #[arg(long, value_name = "FILE")]
    pub cluster_secret_file: Option<PathBuf>,
    /// Write a new cluster secret to this file, for all nodes of a cluster to be given, and leave
    #[arg(long, value_name = "FILE")]
    pub create_cluster_secret: Option<PathBuf>,
    /// Allow clients DEBUG, which tests of the protocol use
    #[arg(long)]
    pub debug_commands: bool,
    /// How many clients may be connected at once [default: 10000]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<usize>(0, u64::MAX))]
    pub max_clients: Option<usize>,
    /// How large one client's unfinished request may grow [default: 1gb]
    #[arg(long, value_name = "SIZE")]
    pub max_query_buffer: Option<Size>,
    /// How many arguments one request may have [default: 1048576]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<u32>(0, u32::MAX.into()))]
    pub max_arguments: Option<u32>,
    /// How large one argument, and so one value, may be [default: 512mb]
    #[arg(long, value_name = "SIZE")]
    pub max_value: Option<Size>,
    /// How much one client may leave unread of its replies; 0: no limit of its own [default: 1gb]
    #[arg(long, value_name = "SIZE")]
    pub max_output_buffer: Option<Size>,
    /// How much the unfinished requests and unread replies of all clients may take; 0: no limit [default:
    /// half of --max-memory, at least 64mb]
    #[arg(long, value_name = "SIZE")]
    pub max_client_memory: Option<Auto<Size>>,
    /// Close clients after so many seconds of silence; 0: never [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = from_to::<u32>(0, SECONDS_MAX))]
    pub idle_timeout: Option<u32>,
    /// Close clients that have not given the password after so many seconds; 0: never [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = from_to::<u32>(0, SECONDS_MAX))]
    pub password_timeout: Option<u32>,
    /// error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Stop when the standard input ends, as it does with the program that started the node
    #[arg(long)]
    pub stop_with_stdin: bool,
}

/// The longest silence that can be set, as in Redis.
const SECONDS_MAX: u64 = i32::MAX as u64;

/// Runs `sidle server`.
///
/// # Errors
/// The setting, directory or socket that does not work.
pub fn run(arguments: ServerArguments) -> Result<(), Failure> {
    if arguments.print_config {
        print!("{EXAMPLE}");
        return Ok(());
    }
    if let Some(path) = &arguments.create_cluster_secret {
        sidle_server::create_cluster_secret(path).map_err(Failure::refused)?;
        println!("{} holds a new cluster secret: copy it to every node of the cluster", path.display());
        return Ok(());
    }
    if arguments.stop_with_stdin {
        stop_with_stdin().map_err(Failure::refused)?;
    }
    let config_file = arguments.config.clone();
    let config = settings(arguments)?;
    let failure = |error: StartError| {
        let status = if error.is_of_settings() { Status::WrongLine } else { Status::Refused };
        Failure::new(status, format!("{error:#}"))
    };
    sidle_server::keep_to_processors(&config).map_err(failure)?;
    let _log = start_log(&config);
    sidle_server::run(&config, config_file.as_deref()).map_err(failure)
}

/// From here on the end of the standard input stops the node as SIGTERM does.
fn stop_with_stdin() -> io::Result<()> {
    let wait = || {
        // An error counts as an end.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = kill_process(getpid(), Signal::TERM);
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(wait).map(|_| ())
}

/// The file's settings, if there is a file, overridden by the flags.
///
/// # Errors
/// The setting that does not work, and values that do.
pub fn settings(arguments: ServerArguments) -> Result<Config, Failure> {
    merged(arguments).map_err(Failure::wrong_line)
}

fn merged(arguments: ServerArguments) -> Result<Config, ConfigError> {
    let file = arguments.config.clone();
    let mut config = match &file {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    fn set<T>(setting: &mut T, flag: Option<T>) {
        if let Some(value) = flag {
            *setting = value;
        }
    }
    set(&mut config.node.dir, arguments.dir.map(Auto::Value));
    set(&mut config.node.join, arguments.join);
    set(&mut config.node.metadata, arguments.metadata);
    set(&mut config.node.cpu_list, arguments.cpu_list);
    set(&mut config.node.workers, arguments.workers);
    set(&mut config.node.movers, arguments.movers);
    #[cfg(feature = "ablations")]
    set(&mut config.node.movers_on_workers, arguments.movers_on_workers.then_some(true));
    set(&mut config.network.bind, arguments.bind);
    set(&mut config.network.port, arguments.port);
    set(&mut config.network.bus_port, arguments.bus_port);
    set(&mut config.network.advertise, arguments.advertise);
    set(&mut config.memory.max_memory, arguments.max_memory);
    set(&mut config.memory.preallocate, arguments.preallocate.then_some(true));
    let needs_a_log = [("fsync", arguments.fsync.is_some()), ("salvage", arguments.salvage)];
    set(&mut config.durability.mode, arguments.durability);
    set(&mut config.durability.fsync, arguments.fsync);
    set(&mut config.durability.takeover_after, arguments.takeover_after);
    set(&mut config.durability.salvages, arguments.salvage.then_some(true));
    set(&mut config.security.password, arguments.password);
    set(&mut config.security.users_file, arguments.users_file);
    set(&mut config.security.protected_mode, arguments.protected_mode);
    set(&mut config.security.cluster_secret_file, arguments.cluster_secret_file);
    set(&mut config.security.debug_commands, arguments.debug_commands.then_some(true));
    if let Some(text) = std::env::var_os(SECRET_VARIABLE) {
        config.set_cluster_secret(&text.to_string_lossy())?;
    }
    set(&mut config.limits.max_clients, arguments.max_clients);
    set(&mut config.limits.query_buffer, arguments.max_query_buffer);
    set(&mut config.limits.arguments, arguments.max_arguments);
    set(&mut config.limits.value, arguments.max_value);
    set(&mut config.limits.output_buffer, arguments.max_output_buffer);
    set(&mut config.limits.client_memory, arguments.max_client_memory);
    set(&mut config.limits.idle_timeout, arguments.idle_timeout);
    set(&mut config.limits.password_timeout, arguments.password_timeout);
    set(&mut config.log.level, arguments.log_level);
    if config.durability.mode == DurabilityMode::None
        && let Some((setting, _)) = needs_a_log.into_iter().find(|(_, is_given)| *is_given)
    {
        let why = "there is no durable log: give --durability disk (`[durability] mode`) too".to_owned();
        return Err(ConfigError::Invalid { setting, why });
    }
    config.validate_over(file.as_deref())?;
    Ok(config)
}

/// The most lines of the log that wait for whoever reads it; more are left out.
const LOG_LINES: usize = 8_192;

/// Starts the log; what still waits is written when the result is dropped.
///
/// A thread of its own writes it. No thread that serves may wait for a slow disk, a terminal that is held or
/// a pipe that nobody reads.
fn start_log(config: &Config) -> WorkerGuard {
    let filter =
        EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new(config.log.level.name()));
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(LOG_LINES).finish(std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false)
        .with_ansi(colours)
        .init();
    guard
}

/// Takes yes or no.
fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("give yes or no".to_owned()),
    }
}

/// Takes the address of a node.
///
/// # Errors
/// The form of an address.
pub fn host_port(text: &str) -> Result<String, String> {
    match split_host_port(text) {
        Some((_, 1..)) => Ok(text.to_owned()),
        _ => Err("give HOST:PORT, such as 127.0.0.1:6379".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        _arguments: ServerArguments,
    }

    /// A flag's help.
    fn help(flag: &str) -> String {
        let command = Line::command();
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(flag));
        let argument = argument.unwrap_or_else(|| panic!("there is no --{flag}"));
        argument.get_help().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn the_help_has_the_defaults_that_the_settings_have() {
        let Config { node, network, limits, log, .. } = Config::default();
        for (flag, default) in [
            ("port", network.port.to_string()),
            ("bind", network.bind),
            ("movers", node.movers.to_string()),
            ("max-clients", limits.max_clients.to_string()),
            ("max-query-buffer", limits.query_buffer.to_string()),
            ("max-arguments", limits.arguments.to_string()),
            ("max-value", limits.value.to_string()),
            ("max-output-buffer", limits.output_buffer.to_string()),
            ("idle-timeout", limits.idle_timeout.to_string()),
            ("password-timeout", limits.password_timeout.to_string()),
            ("log-level", log.level.name().to_owned()),
        ] {
            assert!(help(flag).ends_with(&format!(" [default: {default}]")), "--{flag}: {}", help(flag));
        }
    }

    #[test]
    fn every_flag_with_a_value_has_its_default_in_the_help() {
        // It is an order, and no setting.
        const ORDERS: [&str; 1] = ["create-cluster-secret"];
        for argument in Line::command().get_arguments() {
            let flag = argument.get_long().expect("a server has flags only");
            let needs_one = argument.get_action().takes_values() && !ORDERS.contains(&flag);
            assert!(!needs_one || help(flag).contains("[default: "), "--{flag}: {}", help(flag));
        }
    }
}
