//! A command's load, and its report.

use crate::exit::Failure;
use crate::numbers::from_to;
use clap::{Args, ValueEnum};
use sidle_bench::limits::{LoadSize, MAX_CLIENTS, MAX_KEY_BYTES, MAX_THREADS, MAX_VALUE_BYTES};
use sidle_bench::load::{ClientKind, Pacing};
use sidle_workload::{Distribution, Workload};
use std::str::FromStr;

/// When the next operation is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Loop {
    /// When an answer has come: peak throughput
    Closed,
    /// At a fixed rate, whatever the answers: latency
    Open,
}

/// Which client carries the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Client {
    /// Sidle's own, which follows migrations
    Sidle,
    /// As an unmodified cluster client: MOVED and ASK
    Plain,
}

/// What clients do.
#[derive(Clone, Debug, PartialEq)]
pub enum Business {
    /// They read and write records.
    Records(Workload),
    /// They transfer money between accounts.
    Bank,
    /// They are TPC-C's terminals.
    Tpcc,
}

impl Business {
    /// Whether what they do are transactions.
    pub fn is_of_transactions(&self) -> bool {
        matches!(self, Business::Bank | Business::Tpcc)
    }
}

impl FromStr for Business {
    type Err = String;

    fn from_str(text: &str) -> Result<Business, String> {
        let refused =
            |_| format!("'{text}' is not a workload: give a (50 % writes), b (5 %), c (none), bank or tpcc");
        match text {
            "bank" => Ok(Business::Bank),
            "tpcc" => Ok(Business::Tpcc),
            _ => text.parse().map(Business::Records).map_err(refused),
        }
    }
}

/// How fast operations are sent.
#[derive(Debug, Args)]
pub struct PacingArguments {
    /// When the next operation is sent [default: closed; with --rate, open]
    #[arg(long = "loop", value_name = "KIND", value_enum)]
    kind: Option<Loop>,
    /// Operations per second, in an open loop
    #[arg(long, value_name = "NUMBER", required_if_eq("kind", "open"), value_parser = rate)]
    rate: Option<f64>,
}

impl PacingArguments {
    /// When operations are sent.
    ///
    /// # Errors
    /// A rate for a loop that has none.
    pub fn pacing(&self) -> Result<Pacing, Failure> {
        match (self.kind, self.rate) {
            (Some(Loop::Closed), Some(_)) => Err(Failure::wrong_line(
                "a closed loop sends as fast as answers come: leave out --rate, or --loop closed",
            )),
            (_, Some(rate)) => Ok(Pacing::Open(rate)),
            (_, None) => Ok(Pacing::Closed),
        }
    }
}

/// The load.
#[derive(Debug, Args)]
pub struct LoadArguments {
    /// YCSB's workload: a (50 % writes), b (5 %) or c (none). Of `sidle demo` also bank: transfers between
    /// accounts; and tpcc
    #[arg(long, value_name = "NAME", default_value = "b")]
    workload: Business,
    /// A share of writes in per cent, instead of a workload's
    #[arg(long, value_name = "PERCENT", conflicts_with = "workload", value_parser = percent)]
    write_ratio: Option<f64>,
    /// How popular the records are: zipf:THETA, uniform or latest [default: zipf:0.99; of accounts, uniform]
    #[arg(long, value_name = "NAME")]
    distribution: Option<Distribution>,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = from_to::<usize>(1, MAX_VALUE_BYTES as u64))]
    pub value_bytes: usize,
    /// Bytes of each key
    #[arg(long, value_name = "BYTES", default_value_t = 30, value_parser = from_to::<usize>(1, MAX_KEY_BYTES as u64))]
    pub key_bytes: usize,
    #[command(flatten)]
    pacing: PacingArguments,
    /// Which client carries the load
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Client::Sidle)]
    client: Client,
    /// Clients. Those of a thread are one application: they share as many connections to each node, and what
    /// they learn
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = from_to::<u32>(1, u64::from(MAX_CLIENTS)))]
    pub clients: u32,
    /// Operations that a client has under way at most: so many times the clients in all, on the connections
    /// that owe the fewest answers
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = from_to::<u32>(1, u64::from(MAX_CLIENTS)))]
    pub outstanding: u32,
    /// Each client has connections of its own and learns for itself what has moved
    #[arg(long)]
    pub separate_clients: bool,
    /// Threads that drive the clients [default: one for each core]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<u32>(1, u64::from(MAX_THREADS)))]
    threads: Option<u32>,
    /// What every draw is made from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

fn percent(text: &str) -> Result<f64, String> {
    let share: f64 = text.trim_end_matches('%').parse().map_err(|_| "give a number such as 20".to_owned())?;
    if (0.0..=100.0).contains(&share) { Ok(share) } else { Err("give 0 to 100".to_owned()) }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "give a number such as 20000".to_owned())?;
    if (1.0..=1e9).contains(&rate) { Ok(rate) } else { Err("give 1 to 1000000000".to_owned()) }
}

impl LoadArguments {
    /// The mix of reads and writes.
    ///
    /// # Errors
    /// The bank and TPC-C, which have none.
    pub fn workload(&self) -> Result<Workload, Failure> {
        match (self.write_ratio, &self.workload) {
            (Some(percent), _) => Ok(Workload::with_write_ratio(percent)),
            (None, Business::Records(workload)) => Ok(workload.clone()),
            (None, Business::Bank | Business::Tpcc) => Err(Failure::wrong_line(
                "transactions are a demonstration: `sidle demo --workload bank`, or tpcc",
            )),
        }
    }

    /// What clients do.
    pub fn business(&self) -> &Business {
        &self.workload
    }

    /// Whether it was said how popular the records are.
    pub fn has_distribution(&self) -> bool {
        self.distribution.is_some()
    }

    /// How popular the records are, or the accounts.
    pub fn distribution(&self) -> Distribution {
        let usual =
            if self.workload.is_of_transactions() { Distribution::Uniform } else { Distribution::Zipf(0.99) };
        self.distribution.unwrap_or(usual)
    }

    /// When operations are sent.
    ///
    /// # Errors
    /// A rate for a loop that has none.
    pub fn pacing(&self) -> Result<Pacing, Failure> {
        self.pacing.pacing()
    }

    /// Which client carries the load.
    pub fn client(&self) -> ClientKind {
        match self.client {
            Client::Sidle => ClientKind::Sidle,
            Client::Plain => ClientKind::Plain,
        }
    }

    /// The load's size, with this many records.
    pub fn size(&self, records: u64) -> LoadSize {
        let underway = u64::from(self.clients) * u64::from(self.outstanding);
        LoadSize { records, key_bytes: self.key_bytes, value_bytes: self.value_bytes, underway }
    }

    /// Threads that drive the clients: enough that the nodes limit the load.
    pub fn threads(&self) -> u32 {
        self.threads.unwrap_or_else(sidle_bench::machine::cores).clamp(1, self.clients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        pacing: PacingArguments,
    }

    #[test]
    fn a_rate_makes_the_loop_open_and_never_goes_unheeded() {
        let pacing = |flags: &str| {
            let line = ["program"].into_iter().chain(flags.split_whitespace());
            let parsed = Line::try_parse_from(line).map_err(|error| error.to_string())?;
            parsed.pacing.pacing().map_err(|failure| failure.message)
        };
        for flags in ["", "--loop closed"] {
            assert_eq!(pacing(flags), Ok(Pacing::Closed), "{flags}");
        }
        for flags in ["--rate 500", "--loop open --rate 500"] {
            assert_eq!(pacing(flags), Ok(Pacing::Open(500.0)), "{flags}");
        }
        assert!(pacing("--loop closed --rate 500").unwrap_err().contains("leave out --rate"));
        assert!(pacing("--loop open").unwrap_err().contains("--rate"));
    }
}
