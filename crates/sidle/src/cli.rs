//! The command line: each subcommand's arguments and help.

use crate::bench::{self, BenchArguments};
use crate::check_history::{self, CheckHistoryArguments};
use crate::elsewhere::ElsewhereArguments;
use crate::import::{self, ImportArguments};
use crate::node_name;
use crate::policy_arguments::PolicyArguments;
use crate::range;
use crate::via::Reach;
use clap::{Arg, Args, Parser, Subcommand};
use sidle_cli::demo::{self, DemoArguments, protocol_help, protocol_word};
use sidle_cli::exit::Failure;
use sidle_cli::numbers::from_to;
use sidle_cli::server::{self, ServerArguments};
use sidle_types::PositionRange;

const EXIT_STATUSES: &str = "\
Exit status:
  0    done
  1    refused, could not be started, or a file could not be read or written
  2    the command line, or a setting that it names, is wrong: nothing was begun
  3    a migration failed after it had begun, or a takeover waits for a node
  4    the node was not reached, or the connection broke: the effect is unknown
  5    a check found wrong answers, a lost write, or could not exclude them
  130  interrupted with Ctrl-C; a migration goes on
  141  whoever read the output stopped reading";

/// A distributed in-memory key-value store that speaks the Redis protocol and moves live data
#[derive(Debug, Parser)]
#[command(name = "sidle", version, after_help = EXIT_STATUSES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node
    #[command(after_help = server::EXAMPLES)]
    Server(Box<ServerArguments>),
    /// Move a part of the data to another node, live, and watch it go
    #[command(override_usage = MIGRATE_USAGE, after_help = MIGRATE_EXAMPLES)]
    #[command(mut_arg("via", global), mut_arg("password", global), mut_arg("timeout", global))]
    Migrate(Box<MigrateArguments>),
    /// Show the nodes, who owns what, and what is moving
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArguments),
    /// Show the hottest keys and slots of all nodes, every second
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArguments),
    /// Show what transactions have locked, and are not decided
    #[command(subcommand, after_help = TX_EXAMPLES)]
    Tx(TxCommand),
    /// Remove a node from the cluster that is down and owns nothing
    #[command(after_help = FORGET_EXAMPLES)]
    Forget(ForgetArguments),
    /// Have nodes with copies of its durable log take over what a node had that died
    #[command(after_help = TAKEOVER_EXAMPLES)]
    Takeover(TakeoverArguments),
    /// Raise the version that the nodes speak with each other, once all of them run a program that speaks it
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade(UpgradeArguments),
    /// Bring the keys of an RDB file into the running cluster
    #[command(after_help = import::EXAMPLES)]
    Import(Box<ImportArguments>),
    /// See it work: two nodes, a load, and half of the data moved under it
    #[command(after_help = demo::EXAMPLES)]
    Demo(Box<DemoArguments>),
    /// Make a load on servers that run already, check every answer, and measure
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<BenchArguments>),
    /// In the program sidle-lab
    #[command(hide = true)]
    Lab(ElsewhereArguments),
    /// A flag of `sidle migrate`
    #[command(hide = true)]
    Cancel(ElsewhereArguments),
    /// Judge whether a recorded run was linearizable
    #[command(after_help = check_history::EXAMPLES)]
    CheckHistory(CheckHistoryArguments),
}

/// A flag that may also stand behind a subcommand.
fn global(flag: Arg) -> Arg {
    flag.global(true)
}

const DEFAULT_PROTOCOL: &str = "fulva";
const MIGRATE_USAGE: &str = "\
sidle migrate --to <NODE> --slots <A-B> [OPTIONS]
       sidle migrate --to <NODE> --positions <0xA-0xB> [OPTIONS]
       sidle migrate --cancel <ID> [OPTIONS]
       sidle migrate set <ID> <--rate|--deadline|--slo-p99|--adaptive> [OPTIONS]";
const SET_USAGE: &str = "sidle migrate set <ID> <--rate|--deadline|--slo-p99|--adaptive> [OPTIONS]";
const MIGRATE_EXAMPLES: &str = "\
Examples:
  sidle migrate --to 127.0.0.1:6380 --slots 0-8191
  sidle migrate --via 10.0.0.1:6379 --to 10.0.0.2:6379 --slots 42 --detach
  sidle migrate --to 1f3c09aa --slots 0-8191
  sidle migrate --to 1f3c09aa --positions 0x10000000000000-0x17ffffffffffff
  sidle migrate --to 127.0.0.1:6380 --slots 0-8191 --slo-p99 800
  sidle migrate set 3 --rate 50
  sidle migrate --cancel 3

The node that owns the range gives it up. The target is named as `sidle status` shows it: by its \
address, or by the first digits of its id. All of the range must have one owner. Ctrl-C stops the \
display, not the migration; `sidle status` shows it. A migration can be cancelled until the target \
takes over; after that, move back. One by `handoff` turns back while it runs. How hard it may press \
on the two nodes can be changed while it runs: `sidle migrate set`.

Exit status: 0 done (or, detached, begun); 1 refused, cancelled, or turned back; 2 wrong command line; 3 failed in the middle; \
4 node not reached, or the effect is unknown; 130 interrupted, the migration goes on.";

const SET_EXAMPLES: &str = "\
Examples:
  sidle migrate set 3 --rate 50
  sidle migrate set 3 --adaptive

Exit status: 0 done; 1 refused; 2 wrong command line; 4 node not reached, or the effect is unknown.";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["slots", "positions", "cancel"]))]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct MigrateArguments {
    #[command(subcommand)]
    pub(crate) command: Option<MigrateCommand>,
    #[command(flatten)]
    pub(crate) via: Reach,
    /// The node that takes the range: its client address, its id, or the first digits of that
    #[arg(long, value_name = "NODE", value_parser = node_name::name)]
    #[arg(required_unless_present = "cancel", conflicts_with = "cancel")]
    pub(crate) to: Option<String>,
    /// The slots to move
    #[arg(long, value_name = "A-B", value_parser = range::slots)]
    pub(crate) slots: Option<PositionRange>,
    /// The positions to move, finer than slots. In a slot that it splits, commands over several keys are
    /// refused when these lie on both nodes, but for those that docs/operations.md lists
    #[arg(long, value_name = "0xA-0xB", value_parser = range::positions)]
    pub(crate) positions: Option<PositionRange>,
    /// Cancel this migration instead. One by `handoff` that runs turns back: a new migration, with a number
    /// of its own, returns what it gave
    #[arg(long, value_name = "ID", value_parser = migration_id)]
    pub(crate) cancel: Option<u64>,
    #[arg(long, help = protocol_help(), value_name = "NAME[,OPTION=VALUE..]", default_value = DEFAULT_PROTOCOL)]
    #[arg(value_parser = protocol_word, conflicts_with = "cancel")]
    pub(crate) protocol: String,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Begin it and leave
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) detach: bool,
}

fn migration_id(text: &str) -> Result<u64, &'static str> {
    let id = text.parse().ok().filter(|&id| id > 0);
    id.ok_or("give a migration's number, as `sidle status` shows it")
}

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Change how hard a migration may press on its nodes
    #[command(override_usage = SET_USAGE, after_help = SET_EXAMPLES)]
    Set(SetArguments),
    /// A flag of `sidle migrate`
    #[command(hide = true)]
    Cancel(ElsewhereArguments),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("how").required(true).args(["rate", "deadline", "slo_p99", "adaptive"]))]
pub(crate) struct SetArguments {
    /// The migration
    #[arg(value_name = "ID", value_parser = migration_id)]
    pub(crate) id: u64,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    /// Move as fast as clients leave room for, as without a policy
    #[arg(long)]
    pub(crate) adaptive: bool,
}

impl MigrateArguments {
    /// Checks that a subcommand stands alone, but for flags to reach the cluster, which may stand before it.
    ///
    /// # Errors
    /// The order to write them in.
    pub(crate) fn ensure_no_range(&self) -> Result<(), Failure> {
        let MigrateArguments {
            command: _,
            via: _,
            to,
            slots,
            positions,
            cancel,
            protocol,
            policy,
            json,
            detach,
        } = self;
        let is_alone = slots.is_none()
            && positions.is_none()
            && protocol == DEFAULT_PROTOCOL
            && to.is_none()
            && cancel.is_none()
            && policy.policy().is_none()
            && !json
            && !detach;
        match is_alone {
            true => Ok(()),
            false => Err(Failure::wrong_line(
                "what is changed stands behind the subcommand, as in `sidle migrate set 3 --rate 50`; only --via, --password \
                 and --timeout may stand before it",
            )),
        }
    }

    /// The range to move, unless this is a cancellation.
    pub(crate) fn range(&self) -> Option<PositionRange> {
        self.slots.or(self.positions)
    }
}

const STATUS_EXAMPLES: &str = "\
Examples:
  sidle status
  sidle status --via 10.0.0.1:6379 --watch
  sidle status --json | jq .nodes

KEYS counts by `handoff` also what a node still has to give: one with SLOTS 0 may show some. \
DONE is the share of keys that have arrived, MOVED what was sent, repeats included. LEFT follows bytes: those of \
the range that have yet to arrive, at the present RATE; once more was sent than the range had, it follows DONE. \
MEMORY and OF are in units of 1024 bytes (MiB), as limits are set; MOVED and RATE in units of 1000 (MB), as \
--rate is. What the JSON's fields mean: docs/operations.md, \"The status as JSON\".

Exit status: 0 shown; 1 refused; 2 wrong command line; 4 node not reached.";

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) via: Reach,
    /// Show it again and again until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Show every migration that the cluster remembers, not only those that ended last
    #[arg(long)]
    pub(crate) all: bool,
    /// Print everything as the node's own JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const TOP_EXAMPLES: &str = "\
Examples:
  sidle top
  sidle top --via 10.0.0.1:6379 --once --seconds 60
  sidle top --once --json | jq '.keys[0]'

All figures are estimates from samples; a quiet node samples every request. The node is the one that served most \
of the requests for the key or slot. SHARE is of all accesses to keys in the cluster: a command with several keys \
counts for each. A node that cannot be reached is named, and left out. What the JSON's fields mean: \
docs/operations.md, \"Hot keys and slots\".

Exit status: 0 shown, or ended with Ctrl-C; 1 refused; 2 wrong command line; 4 node not reached.";

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) via: Reach,
    /// Show it once and leave
    #[arg(long)]
    pub(crate) once: bool,
    /// How many of the last seconds to look at
    #[arg(long, value_name = "SECONDS", default_value = "5")]
    #[arg(value_parser = from_to::<u64>(1, 60))]
    pub(crate) seconds: u64,
    /// How many keys, and how many slots, to show
    #[arg(long, value_name = "COUNT", default_value = "10")]
    #[arg(value_parser = from_to::<u64>(1, 64))]
    pub(crate) count: u64,
    /// Print one JSON object each time
    #[arg(long)]
    pub(crate) json: bool,
}

const TX_EXAMPLES: &str = "\
Examples:
  sidle tx list

Exit status: 0 shown; 1 refused; 2 wrong command line; 4 node not reached.";

const TX_LIST_EXAMPLES: &str = "\
Examples:
  sidle tx list
  sidle tx list --via 10.0.0.1:6379 --json

A key is locked from its vote for a transaction over several nodes until that is decided: for milliseconds, or \
for about a second if its client is gone. Then the nodes decide. If a key stays locked for longer, a node is \
down that has another key of the transaction: start it, or have it taken over.

Exit status: 0 shown; 1 refused; 2 wrong command line; 4 node not reached.";

#[derive(Debug, Subcommand)]
pub(crate) enum TxCommand {
    /// Show the keys of all nodes that transactions have locked
    #[command(after_help = TX_LIST_EXAMPLES)]
    List(TxListArguments),
    /// Have a transaction decided now, as the nodes do themselves when its client is gone
    #[command(after_help = TX_RESOLVE_EXAMPLES)]
    Resolve(TxResolveArguments),
}

const TX_RESOLVE_EXAMPLES: &str = "\
Examples:
  sidle tx list
  sidle tx resolve 5d41402abc4b2a76b9719d911017c592

The transaction is named by its id, or by the first digits of that, as `sidle tx list` shows them. All of its keys \
are asked. One that has not voted refuses from then on; if all have voted, it is committed. So a transaction whose \
client is still at work may be aborted, and that client tries again.

Nothing is decided for a key whose node does not answer: it is named, with its node. Start that node, or have it \
taken over. Where its data is given up (`sidle takeover NODE --accept-loss`), the new owner of the key answers.

Exit status: 0 decided, and all of its keys know it; 1 refused, or no such transaction; 2 wrong command line; 4 node \
not reached, of the transaction's keys too.";

#[derive(Debug, Args)]
pub(crate) struct TxResolveArguments {
    /// The transaction: its id, or the first digits of that, at least 4
    #[arg(value_name = "ID", value_parser = transaction_id)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) via: Reach,
}

fn transaction_id(text: &str) -> Result<String, String> {
    let is_one = (4..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one
        .then(|| text.to_lowercase())
        .ok_or_else(|| "give 4 to 32 hex digits, as `sidle tx list` shows them".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct TxListArguments {
    #[command(flatten)]
    pub(crate) via: Reach,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

const FORGET_EXAMPLES: &str = "\
Examples:
  sidle forget 127.0.0.1:6381
  sidle forget 1f3c09aa --via 10.0.0.1:6379

The node is named by its address, or by the first digits of its id, as `sidle status` shows them. \
Move what the node owns to others first, and stop it. Should it come back with its data directory, it \
joins again, as an empty member.

Exit status: 0 forgotten; 1 refused; 2 wrong command line; 4 node not reached, or the effect is unknown.";

#[derive(Debug, Args)]
pub(crate) struct ForgetArguments {
    /// The node: its client address, its id, or the first digits of that
    #[arg(value_name = "NODE", value_parser = node_name::name)]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) via: Reach,
}

const TAKEOVER_EXAMPLES: &str = "\
Examples:
  sidle takeover 127.0.0.1:6381
  sidle takeover 1f3c09aa --via 10.0.0.1:6379

The node is named by its address, or by the first digits of its id, as `sidle status` shows them. Its process \
must have ended, or its machine must be off: one that only stands still could show stale values until it \
hears of the takeover. No acknowledged write is lost either way, unless --accept-loss is given. Nodes have copies of each other's logs with \
`sidle server --durability replicated=2`. Should the node come back, it sets its log aside, and joins again as \
an empty member.

It tells for which nodes it waits. When nothing has changed for --timeout and one of them is down, it ends; the \
takeover goes on once that node is started.

Exit status: 0 taken over; 1 refused; 2 wrong command line; 3 a node is down that was to read it; 4 node not \
reached, or the effect is unknown.";

#[derive(Debug, Args)]
pub(crate) struct TakeoverArguments {
    /// The dead node: its client address, its id, or the first digits of that
    #[arg(value_name = "NODE", value_parser = node_name::name)]
    pub(crate) node: String,
    /// Also from copies at nodes that have restarted since: what was written in the last second may be lost
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) via: Reach,
}

const UPGRADE_EXAMPLES: &str = "\
Examples:
  sidle upgrade
  sidle upgrade --via 10.0.0.1:6379

Restart the nodes with the new program first, one after the other; until then they speak the version before \
with each other. `sidle status` shows the cluster's version, and what each node speaks. A version is never \
lowered: a program that does not speak it can take part no more.

Exit status: 0 raised, or nothing to be done; 1 refused, some nodes do not speak it yet; 2 wrong command line; \
4 node not reached, or the effect is unknown.";

#[derive(Debug, Args)]
pub(crate) struct UpgradeArguments {
    #[command(flatten)]
    pub(crate) via: Reach,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use sidle_cli::exit::assert_exit_statuses;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn migrate_needs_one_range_and_a_target() {
        let parses = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        assert!(parses("sidle migrate --to a:1 --slots 0-5"));
        assert!(parses("sidle migrate --to a:1 --positions 0x0-0x5"));
        assert!(parses("sidle migrate --cancel 3"));
        assert!(!parses("sidle migrate --slots 0-5"));
        assert!(!parses("sidle migrate --to a:1"));
        assert!(!parses("sidle migrate --to a:1 --slots 0-5 --positions 0x0-0x5"));
        assert!(!parses("sidle migrate --to a:1 --cancel 3"));
        assert!(!parses("sidle migrate --to a:1 --slots 5-0"));
    }

    #[test]
    fn how_to_reach_the_cluster_may_stand_before_a_subcommand_and_behind_it() {
        for line in [
            "sidle migrate --via a:1 --timeout 9 set 3 --rate 50",
            "sidle migrate set 3 --rate 50 --via a:1 --timeout 9",
            "sidle migrate --via a:1 set 3 --timeout 9 --rate 50",
        ] {
            let parsed = Cli::try_parse_from(line.split(' ')).expect(line).command;
            let Command::Migrate(arguments) = parsed else { panic!("{line}") };
            assert_eq!((arguments.via.via.via.as_str(), arguments.via.timeout), ("a:1", 9), "{line}");
            assert!(arguments.ensure_no_range().is_ok(), "{line}");
        }
    }

    #[test]
    fn every_command_lists_its_exit_statuses() {
        assert_exit_statuses(&Cli::command());
    }
}
