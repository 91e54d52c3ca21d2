//! `sidle-lab peers`: what a request costs a server's processor, Sidle's and Redis's, in one run.

use clap::Args;
use sidle_bench::limits::{
    LoadSize, MAX_CLIENTS, MAX_KEY_BYTES, MAX_RECORDS, MAX_VALUE_BYTES, memory_budget_bytes,
};
use sidle_bench::terminal::Terminal;
use sidle_cli::exit::Failure;
use sidle_cli::interrupt;
use sidle_cli::numbers::from_to;
use sidle_cli::own_program;
use sidle_lab::peers::{self, PeerOptions};
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `sidle-lab peers`.
#[derive(Debug, Args)]
pub(crate) struct PeersArguments {
    /// The Redis server
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/bin/redis-server")]
    redis: PathBuf,
    /// How many records
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = from_to::<u64>(1, MAX_RECORDS))]
    records: u64,
    /// Bytes of each key
    #[arg(long, value_name = "BYTES", default_value_t = 30, value_parser = from_to::<usize>(1, MAX_KEY_BYTES as u64))]
    key_bytes: usize,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = from_to::<usize>(1, MAX_VALUE_BYTES as u64))]
    value_bytes: usize,
    /// How long one turn of one server lasts
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500, value_parser = from_to::<u64>(50, 3_600_000))]
    slice_ms: u64,
    /// Turns of each server for each command and depth
    #[arg(long, value_name = "NUMBER", default_value_t = 7, value_parser = from_to::<u32>(1, 1000))]
    rounds: u32,
    /// Requests per batch; 1: unpipelined
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,16", value_parser = from_to::<u32>(1, u64::from(MAX_CLIENTS)))]
    depths: Vec<u32>,
    /// Connections to each server
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = from_to::<u32>(1, u64::from(MAX_CLIENTS)))]
    clients: u32,
    /// What every draw is made from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write the comparison here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl PeersArguments {
    /// Checks what this program itself needs, and the two servers beside it.
    pub(crate) fn check(&self, budget_bytes: u64) -> Result<(), String> {
        let deepest = self.depths.iter().max().copied().unwrap_or(1);
        let size = LoadSize {
            records: self.records,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            underway: u64::from(self.clients) * u64::from(deepest),
        };
        size.check(budget_bytes)?;
        let record_bytes = (self.key_bytes + self.value_bytes + 128) as u64;
        let fit = budget_bytes / 4 / record_bytes;
        if self.records > fit {
            let records = self.records;
            return Err(format!(
                "{records} records are too many: at most {fit} fit into both servers' memory"
            ));
        }
        Ok(())
    }
}

/// Runs `sidle-lab peers`.
pub(crate) fn run(arguments: &PeersArguments) -> Result<(), Failure> {
    arguments.check(memory_budget_bytes()).map_err(Failure::refused)?;
    let options = PeerOptions {
        program: own_program()?,
        redis: arguments.redis.clone(),
        records: arguments.records,
        key_bytes: arguments.key_bytes,
        value_bytes: arguments.value_bytes,
        slice: Duration::from_millis(arguments.slice_ms),
        rounds: arguments.rounds,
        depths: arguments.depths.clone(),
        clients: arguments.clients,
        seed: arguments.seed,
    };
    let stop = interrupt::flag()?;
    let report = peers::run(&options, &Terminal::new(false), &stop).map_err(Failure::refused)?;
    let text = serde_json::to_string_pretty(&report).expect("a comparison is plain data") + "\n";
    match &arguments.json {
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::refused(format!("{}: {error}", path.display()))),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}
