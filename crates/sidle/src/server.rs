//! `sidle server`: settings from the file and the flags, the log, and the node.

use crate::cli::ServerArguments;
use crate::exit::Failure;
use rustix::process::{Signal, getpid, kill_process};
use sidle_server::config::{Auto, Config, EXAMPLE, SECRET_VARIABLE};
use std::io;
use tracing_subscriber::EnvFilter;

/// Overrides the log's level and filter.
const LOG_VARIABLE: &str = "SIDLE_LOG";

/// Runs `sidle server`.
pub(crate) fn run(arguments: ServerArguments) -> Result<(), Failure> {
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
    let config = settings(arguments).map_err(Failure::refused)?;
    start_log(&config);
    sidle_server::run(&config, config_file.as_deref()).map_err(|error| Failure::refused(format!("{error:#}")))
}

/// From here on the end of the standard input stops the node as SIGTERM does.
fn stop_with_stdin() -> io::Result<()> {
    let wait = || {
        // An error is an end as well.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = kill_process(getpid(), Signal::TERM);
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(wait).map(|_| ())
}

/// The settings of the file, where there is one, with the flags on top.
pub(crate) fn settings(arguments: ServerArguments) -> Result<Config, sidle_server::config::ConfigError> {
    let mut config = match &arguments.config {
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
    set(&mut config.node.cpu_list, arguments.cpu_list);
    set(&mut config.node.workers, arguments.workers);
    set(&mut config.node.movers, arguments.movers);
    set(&mut config.node.movers_on_workers, arguments.movers_on_workers.then_some(true));
    set(&mut config.network.bind, arguments.bind);
    set(&mut config.network.port, arguments.port);
    set(&mut config.network.bus_port, arguments.bus_port);
    set(&mut config.network.advertise, arguments.advertise);
    set(&mut config.memory.max_memory, arguments.max_memory);
    set(&mut config.memory.preallocate, arguments.preallocate.then_some(true));
    set(&mut config.security.password, arguments.password);
    set(&mut config.security.cluster_secret_file, arguments.cluster_secret_file);
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
    config.validate()?;
    Ok(config)
}

fn start_log(config: &Config) {
    let filter =
        EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new(config.log.level.name()));
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(colours)
        .init();
}
