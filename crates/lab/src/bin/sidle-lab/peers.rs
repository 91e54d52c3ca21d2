//! `sidle-lab peers`: a request's processor cost on Sidle's server and on Redis's, in one run.

use clap::Args;
use sidle_bench::limits::{
    LoadSize, MAX_CLIENTS, MAX_KEY_BYTES, MAX_RECORDS, MAX_VALUE_BYTES, memory_budget_bytes,
};
use sidle_bench::terminal::Terminal;
use sidle_bench::words::{count, counted};
use sidle_cli::exit::{Failure, Status};
use sidle_cli::interrupt;
use sidle_cli::numbers::from_to;
use sidle_cli::output::OutputFile;
use sidle_cli::own_program;
use sidle_cli::table::{Align, Table};
use sidle_lab::peers::{self, PeerOptions, PeerReport};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sidle-lab peers
  sidle-lab peers --depths 1,16,64 --rounds 15 --json peers.json

Where there is no Redis server, Sidle is measured alone.

Exit status: 0 done; 1 refused, or nothing could be measured; 2 wrong command line; 130 interrupted.";

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
    /// Write the comparison here as well, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl PeersArguments {
    /// Checks the needs of this program and of the two servers.
    pub(crate) fn check(&self, budget_bytes: u64) -> Result<(), Failure> {
        let deepest = self.depths.iter().max().copied().unwrap_or(1);
        let size = LoadSize {
            records: self.records,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            underway: u64::from(self.clients) * u64::from(deepest),
        };
        size.check(budget_bytes).map_err(Failure::wrong_line)?;
        let record_bytes = (self.key_bytes + self.value_bytes + 128) as u64;
        let fit = budget_bytes / 4 / record_bytes;
        if self.records > fit {
            let records = self.records;
            return Err(Failure::wrong_line(format!(
                "{records} records are too many: at most {fit} fit into both servers' memory"
            )));
        }
        Ok(())
    }
}

/// Runs `sidle-lab peers`.
pub(crate) fn run(arguments: &PeersArguments) -> Result<(), Failure> {
    arguments.check(memory_budget_bytes())?;
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
    let json = arguments.json.as_deref().map(OutputFile::to_write).transpose()?;
    let stop = interrupt::flag()?;
    let report = peers::run(&options, &Terminal::new(false), &stop).map_err(|error| {
        let status = if stop.load(Relaxed) { Status::Detached } else { Status::Refused };
        Failure::new(status, error)
    })?;
    print!("{}", table(&report));
    let Some(json) = json else { return Ok(()) };
    let text = serde_json::to_string_pretty(&report).expect("a comparison is plain data");
    json.write(&(text + "\n"))
}

/// The comparison for people.
fn table(report: &PeerReport) -> String {
    let redis = report.redis_version.as_ref().map_or("no Redis".to_owned(), |is| format!("Redis {is}"));
    let mut text = format!(
        "Server processor time of a request, of Sidle and of {redis}: {} of {} + {} bytes, {}, {}\n\n",
        counted(report.records, "record"),
        report.key_bytes,
        report.value_bytes,
        counted(report.clients, "connection"),
        counted(report.cores, "processor"),
    );
    let right = |heading| (heading, Align::Right);
    let mut table = Table::new(&[
        ("COMMAND", Align::Left),
        right("DEPTH"),
        right("SIDLE"),
        right("REDIS"),
        right("SIDLE / REDIS"),
        right("REQUESTS"),
    ]);
    let figure = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}{unit}"))
    };
    for row in &report.rows {
        table.row([
            row.command.clone(),
            row.depth.to_string(),
            figure(row.sidle_us, " us"),
            figure(row.redis_us, " us"),
            figure(row.sidle_to_redis, ""),
            count(row.requests),
        ]);
    }
    text += &table.to_string();
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_lab::peers::PeerRow;

    #[test]
    fn the_table_has_sidles_share_of_rediss_time() {
        let row = PeerRow {
            command: "GET".into(),
            depth: 16,
            sidle_us: Some(1.0),
            redis_us: Some(2.0),
            sidle_to_redis: Some(0.5),
            requests: 123_456,
        };
        let alone = PeerRow { redis_us: None, sidle_to_redis: None, ..row.clone() };
        let report = PeerReport { cores: 1, clients: 16, rows: vec![row, alone], ..PeerReport::default() };
        let text = table(&report);
        assert!(text.starts_with("Server processor time of a request, of Sidle and of no Redis: 0 records"));
        let lines: Vec<Vec<&str>> =
            text.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["GET", "16", "1.00", "us", "2.00", "us", "0.50", "123,456"]);
        assert_eq!(lines[1], ["GET", "16", "1.00", "us", "-", "-", "123,456"]);
    }
}
