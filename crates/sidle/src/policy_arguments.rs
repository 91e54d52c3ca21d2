//! How a range is moved, and how hard that may press on the nodes, as flags.

use clap::Args;
use sidle_bench::policy::PolicyWord;
use sidle_types::MigrationPolicy;

/// One of the policies, or none.
#[derive(Debug, Args)]
#[group(id = "policy", multiple = false)]
pub(crate) struct PolicyArguments {
    /// Move no faster than this
    #[arg(long, value_name = "MB/S", value_parser = rate)]
    rate: Option<MigrationPolicy>,
    /// Move just fast enough to end so soon, whatever clients feel of it
    #[arg(long, value_name = "SECONDS", value_parser = deadline)]
    deadline: Option<MigrationPolicy>,
    /// Move as fast as lets 99 of 100 requests wait no longer than this for a worker
    #[arg(long, value_name = "MICROSECONDS", value_parser = slo_p99)]
    slo_p99: Option<MigrationPolicy>,
}

impl PolicyArguments {
    /// The requested policy, if any.
    pub(crate) fn policy(&self) -> Option<MigrationPolicy> {
        self.rate.or(self.deadline).or(self.slo_p99)
    }
}

fn rate(text: &str) -> Result<MigrationPolicy, String> {
    of_kind("rate", text)
}

fn deadline(text: &str) -> Result<MigrationPolicy, String> {
    of_kind("deadline", text)
}

fn slo_p99(text: &str) -> Result<MigrationPolicy, String> {
    of_kind("slo-p99", text)
}

/// A flag's value, parsed like the text behind its name in a policy's word.
fn of_kind(kind: &str, number: &str) -> Result<MigrationPolicy, String> {
    format!("{kind}={number}").parse().map(|PolicyWord(policy)| policy)
}
