//! The command line: each subcommand's arguments and help.

use crate::compare::CompareArguments;
use crate::demo::{self, LabDemoArguments};
use crate::peers::{self, PeersArguments};
use crate::runs::{FiguresArguments, ReportArguments, RunArguments};
use crate::table::{self, TableArguments};
use clap::{Parser, Subcommand};
use sidle_cli::server::{self, ServerArguments};

const AFTER_HELP: &str = "\
Examples:
  sidle-lab figures --out papers --quick       # the papers' figures: minutes
  sidle-lab figures --out papers               # at full size: hours
  sidle-lab run --out mine --protocols fulva zephyr --workloads a b 20%
  sidle-lab run --out mine --protocols fulva rocksteady,missing=wait
  sidle-lab run --out mine --protocols fulva --source-cpus 100 70 --repeat 7
  sidle-lab run --out mine --policies adaptive rate=20 deadline=10 slo-p99=2000
  # machines that are not there
  sidle-lab run --out large --modelled paper --records 300000000 --clients 128
  sidle-lab report mine                        # draws the page again
  sidle-lab compare model1 model2 --with mine  # what lies over 25 % apart
  sidle-lab table                              # hand-off beside its rivals
  sidle-lab demo --modelled paper              # one run on modelled machines
  sidle-lab peers                              # beside redis-server

Ctrl-C ends `run` and `figures`, and the same command goes on.

Lists stand after their flag, separated by spaces, since commas belong to a protocol's options. As root, nodes have \
processor quotas, so that they cannot borrow from each other. Nodes and runs are started from this program's own file.

Exit status:
  0    done
  1    refused, or nothing could be measured
  2    the command line is wrong: nothing was begun
  3    runs failed; the same command tries them again
  4    a node could not be reached
  5    a wrong value was read, or an acknowledged write was lost
  130  interrupted with Ctrl-C; the same command goes on
  141  whoever read the output stopped reading";

const MEASURED: &str = "\
Exit status: 0 done; 1 refused, or nothing could be measured; 2 wrong command line; 3 runs failed, and the same command \
tries them again; 5 a wrong value was read, or an acknowledged write was lost; 130 interrupted: the same command goes on.";

const READ: &str = "\
Exit status: 0 done; 1 a folder cannot be read, or the page not be written; 2 wrong command line.";

/// Measures migration protocols beside each other, under the same loads, and draws what the papers draw
#[derive(Debug, Parser)]
#[command(name = "sidle-lab", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure every combination of what is listed, and draw the page
    #[command(after_help = MEASURED)]
    Run(Box<RunArguments>),
    /// Measure what the papers' figures need, ablations included, and draw the page
    #[command(after_help = MEASURED)]
    Figures(FiguresArguments),
    /// Draw the page of a folder again
    #[command(after_help = READ)]
    Report(ReportArguments),
    /// Put the figures of some folders beside those of others: a model's and processes', or before and after
    /// a change
    #[command(after_help = READ)]
    Compare(CompareArguments),
    /// The protocols beside each other under many loads on modelled machines, as Markdown
    #[command(after_help = table::EXAMPLES)]
    Table(TableArguments),
    /// One run: a demonstration as `sidle demo`, also on modelled machines and with ablations
    #[command(after_help = demo::EXAMPLES)]
    Demo(Box<LabDemoArguments>),
    /// Compare the server processor time of a request with Redis's, in one run
    #[command(after_help = peers::EXAMPLES)]
    Peers(PeersArguments),
    /// Run a node as `sidle server` does, with what only experiments need
    #[command(after_help = server::EXAMPLES)]
    Server(Box<ServerArguments>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use sidle_cli::exit::assert_exit_statuses;

    #[test]
    fn every_command_lists_its_exit_statuses() {
        Cli::command().debug_assert();
        assert_exit_statuses(&Cli::command());
    }

    #[test]
    fn every_command_that_is_named_exists() {
        sidle_cli::named::assert_named_commands_exist(&Cli::command());
    }

    #[test]
    fn help_is_readable() {
        sidle_cli::named::assert_help_is_readable(&Cli::command());
    }

    #[test]
    fn names_that_do_not_exist_are_refused_with_those_that_do() {
        for (line, told) in [
            ("demo --protocol teleport", "the protocols are fulva"),
            ("demo --policy fast", "give adaptive, rate=MB/S"),
            ("demo --modelled moon", "'moon'"),
            ("run --out o --modelled moon --node-cpu 0.4", "'moon'"),
            ("run --out o --protocols teleport", "the protocols are fulva"),
        ] {
            let words = ["sidle-lab"].into_iter().chain(line.split(' '));
            let refused = Cli::try_parse_from(words).expect_err(line).to_string();
            assert!(refused.contains(told), "{line}: {refused}");
        }
    }
}
