//! A request's cost on a server's processor, Sidle's and Redis's, in one run.
//!
//! The machine is shared and noisy, so only ratios within one run are meaningful. The two servers take turns
//! in short slices, for each command and depth. Each server's processor time is its own account, not the
//! wall clock. Both run one serving thread, and get the same requests from the same clients, in whole batches
//! of the depth.

use serde::{Deserialize, Serialize};
use sidle_bench::load::{ClientKind, Pacing, Plan, World, load_records, run_workload};
use sidle_bench::node_process::{NodeProcess, free_port};
use sidle_bench::run_folder::RunFolder;
use sidle_bench::terminal::Terminal;
use sidle_workload::{Distribution, KeyFormat, ValueFormat, Workload};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The options of the comparison.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// The program whose `server` is measured.
    pub program: PathBuf,
    /// The Redis server, if there is one.
    pub redis: PathBuf,
    /// Records in each server.
    pub records: u64,
    /// Bytes of each key.
    pub key_bytes: usize,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// How long one slice lasts.
    pub slice: Duration,
    /// Slices for each server, command and depth.
    pub rounds: u32,
    /// Requests per batch.
    pub depths: Vec<u32>,
    /// Connections to each server.
    pub clients: u32,
    /// The seed of every draw.
    pub seed: u64,
}

/// The comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerReport {
    /// Processors.
    pub cores: u32,
    /// The version that Redis reports; `null` if there is none on this machine.
    pub redis_version: Option<String>,
    /// Records in each server.
    pub records: u64,
    /// Bytes of each key.
    pub key_bytes: u64,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// Connections to each server.
    pub clients: u32,
    /// One row for each command and depth.
    pub rows: Vec<PeerRow>,
}

/// One command at one depth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerRow {
    /// GET or SET.
    pub command: String,
    /// Requests per batch; 1: unpipelined.
    pub depth: u32,
    /// Processor time of Sidle's server for one request, in microseconds: the median slice.
    pub sidle_us: Option<f64>,
    /// The same of Redis's.
    pub redis_us: Option<f64>,
    /// Sidle's time divided by Redis's: below 1, Sidle needs less.
    pub sidle_to_redis: Option<f64>,
    /// The number of measured requests.
    pub requests: u64,
}

struct Peer<'a> {
    node: NodeProcess,
    world: World<'a>,
}

/// Compares, or measures Sidle alone if there is no Redis.
pub fn run(options: &PeerOptions, terminal: &Terminal, stop: &AtomicBool) -> Result<PeerReport, String> {
    let folder =
        RunFolder::within(&std::env::temp_dir(), "sidle-peers-").map_err(|error| error.to_string())?;
    let sidle = start_sidle(options, folder.path())?;
    let redis = if options.redis.exists() {
        Some(start_redis(options, folder.path())?)
    } else {
        terminal.say(&format!("skipped: there is no {}; Sidle is measured alone", options.redis.display()));
        None
    };
    let redis_version = redis.as_ref().and_then(|node| {
        let mut control = sidle_bench::control::Control::connect(&node.address(), None).ok()?;
        control.info("server").ok()?.remove("redis_version")
    });
    let mut peers = vec![peer(options, sidle, stop)?];
    if let Some(redis) = redis {
        peers.push(peer(options, redis, stop)?);
    }
    for peer in &peers {
        let loaded = load_records(&peer.world, |_| {}).map_err(|error| error.to_string())?;
        if loaded.writes < options.records && !peer.world.is_stopping() {
            return Err(format!(
                "the records could not be loaded: {:?} {:?}",
                loaded.errors, loaded.troubles
            ));
        }
    }
    let mut report = PeerReport {
        cores: sidle_bench::machine::cores(),
        redis_version,
        records: options.records,
        key_bytes: options.key_bytes as u64,
        value_bytes: options.value_bytes as u64,
        clients: options.clients,
        rows: Vec::new(),
    };
    let commands = [("GET", 0.0), ("SET", 100.0)];
    let line = terminal.live();
    let all = commands.len() * options.depths.len();
    for (command, write_percent) in commands {
        for &depth in &options.depths {
            line.show_run(report.rows.len(), all, &format!("{command} at depth {depth}"));
            report.rows.push(compare(options, &mut peers, command, write_percent, depth)?);
        }
    }
    drop(line);
    Ok(report)
}

fn start_sidle(options: &PeerOptions, folder: &Path) -> Result<NodeProcess, String> {
    let port = free_port().map_err(|error| error.to_string())?;
    let bus = free_port().map_err(|error| error.to_string())?;
    let home = folder.join("sidle");
    std::fs::create_dir(&home).map_err(|error| error.to_string())?;
    let arguments = [
        "server",
        "--port",
        &port.to_string(),
        "--bus-port",
        &bus.to_string(),
        "--workers",
        "1",
        "--stop-with-stdin",
        "--log-level",
        "warn",
        // As redis-server beside it, which writes no files.
        "--durability",
        "none",
        "--dir",
        &home.display().to_string(),
    ];
    let arguments = arguments.map(ToOwned::to_owned);
    NodeProcess::start("sidle server", &options.program, &arguments, port, &folder.join("sidle.log"))
}

fn start_redis(options: &PeerOptions, folder: &Path) -> Result<NodeProcess, String> {
    let port = free_port().map_err(|error| error.to_string())?;
    let home = folder.display().to_string();
    let arguments = ["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--dir", &home]
        .map(ToOwned::to_owned);
    let arguments = ending_with_stdin(&options.redis, &arguments);
    NodeProcess::start("redis-server", Path::new("sh"), &arguments, port, &folder.join("redis.log"))
}

/// The script of `sh` for a program that, unlike a server with `--stop-with-stdin`, does not end with its
/// standard input: the program, in the shell's own process, and beside it a process that ends it then. So it
/// ends with this process, in every case.
const ENDING_WITH_STDIN: &str = r#"exec 3<&0
(cat <&3 >/dev/null; kill $$) 2>/dev/null &
exec "$@" </dev/null 3<&-"#;

fn ending_with_stdin(program: &Path, arguments: &[String]) -> Vec<String> {
    let before = ["-c", ENDING_WITH_STDIN, "sh", &program.display().to_string()].map(ToOwned::to_owned);
    before.into_iter().chain(arguments.iter().cloned()).collect()
}

fn peer<'a>(options: &PeerOptions, node: NodeProcess, stop: &'a AtomicBool) -> Result<Peer<'a>, String> {
    let plan = Plan {
        seeds: vec![node.address().parse().map_err(|error| format!("{error}"))?],
        password: None,
        client: ClientKind::Plain,
        records: options.records,
        keys: KeyFormat::new(options.key_bytes, options.records).map_err(|error| error.to_string())?,
        values: ValueFormat::new(options.value_bytes).map_err(|error| error.to_string())?,
        workload: Workload::with_write_ratio(0.0),
        distribution: Distribution::Uniform,
        clients: options.clients,
        outstanding: 1,
        separate_clients: true,
        tracking: true,
        threads: 1,
        pacing: Pacing::Batches,
        seed: options.seed,
        moving: None,
    };
    Ok(Peer { node, world: World::new(plan, stop, None) })
}

fn compare(
    options: &PeerOptions,
    peers: &mut [Peer<'_>],
    command: &str,
    write_percent: f64,
    depth: u32,
) -> Result<PeerRow, String> {
    let mut slices: Vec<Vec<f64>> = vec![Vec::new(); peers.len()];
    let mut requests = 0;
    for round in 0..options.rounds {
        for turn in 0..peers.len() {
            // Each goes first every other round.
            let which = (turn + round as usize) % peers.len();
            let peer = &mut peers[which];
            peer.world.plan.workload = Workload::with_write_ratio(write_percent);
            peer.world.plan.outstanding = depth;
            let (cost_us, count) = slice(options, peer)?;
            slices[which].push(cost_us);
            requests += count;
        }
    }
    let medians: Vec<f64> = slices.into_iter().map(median).collect();
    let (sidle_us, redis_us) = (medians.first().copied(), medians.get(1).copied());
    Ok(PeerRow {
        command: command.to_owned(),
        depth,
        sidle_us,
        redis_us,
        sidle_to_redis: sidle_us.zip(redis_us).map(|(sidle, redis)| sidle / redis),
        requests,
    })
}

/// The server's processor microseconds per request, and how many requests there were.
fn slice(options: &PeerOptions, peer: &mut Peer<'_>) -> Result<(f64, u64), String> {
    let warm_up_ns = options.slice.as_nanos() as u64 / 5;
    let end_ns = warm_up_ns + options.slice.as_nanos() as u64;
    let pid = peer.node.pid();
    let (mut first, mut last) = (None, None);
    let measured = run_workload(&peer.world, None, |tick, _| {
        let now = (sidle_bench::machine::cpu_seconds(pid), tick.operations);
        if first.is_none() && tick.elapsed_ns >= warm_up_ns {
            first = Some(now);
        }
        if tick.elapsed_ns < end_ns {
            return ControlFlow::Continue(());
        }
        last = Some(now);
        ControlFlow::Break(())
    })
    .map_err(|error| error.to_string())?;
    if peer.world.is_stopping() {
        return Err("interrupted".to_owned());
    }
    if measured.totals.wrong_values() > 0 || !measured.totals.errors.is_empty() {
        return Err(format!("wrong answers: {:?} {:?}", measured.totals.wrong, measured.totals.errors));
    }
    let used = || {
        let ((cpu_before, before), (cpu_after, after)) = (first?, last?);
        let requests = after - before;
        (requests > 0).then_some(((cpu_after? - cpu_before?) * 1e6 / requests as f64, requests))
    };
    used().ok_or_else(|| "the server's processor time could not be measured".to_owned())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// When killed, the comparison once left its `redis-server` running.
    #[test]
    fn a_server_ends_with_the_input_that_it_was_given() {
        let arguments = ending_with_stdin(Path::new("sleep"), &["60".to_owned()]);
        let started = std::time::Instant::now();
        let mut child = Command::new("sh").args(arguments).stdin(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(child.try_wait().unwrap().is_none(), "it runs while its input is open");
        drop(child.stdin.take());
        let ended = child.wait().unwrap();
        assert!(!ended.success() && started.elapsed().as_secs() < 30, "{ended}");
    }
}
