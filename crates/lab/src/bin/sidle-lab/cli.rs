//! The command line: what each subcommand takes, and what its help says.

use crate::compare::CompareArguments;
use crate::demo::{self, LabDemoArguments};
use crate::peers::PeersArguments;
use crate::runs::{FiguresArguments, ReportArguments, RunArguments};
use clap::{Parser, Subcommand};
use sidle_cli::server::ServerArguments;

const AFTER_HELP: &str = "\
Examples:
  sidle-lab figures --out papers --quick         the papers' figures, small: minutes
  sidle-lab figures --out papers                 the same at full size: hours; Ctrl-C and the same command go on
  sidle-lab run --out mine --protocols fulva rocksteady,missing=wait --workloads a b 20%
  sidle-lab run --out mine --protocols fulva --source-cpus 100 70 40 --repeat 7
  sidle-lab run --out mine --protocols fulva zephyr --policies adaptive rate=20 deadline=10 slo-p99=2000
  sidle-lab run --out large --modelled paper --records 300000000 --clients 128    machines that are not there
  sidle-lab report mine                          draws the page again
  sidle-lab compare model1 model2 --with mine    figure by figure: what lies further apart than 25 %
  sidle-lab demo --modelled paper                one run on modelled machines
  sidle-lab peers                                a request's processor time beside redis-server's

Lists stand after their flag, separated by spaces, since commas belong to a protocol's options. As root, nodes have \
processor quotas, so that they cannot borrow from each other. Nodes and runs are started from this program's own file.

Exit status:
  0    done
  1    refused, or nothing could be measured
  2    the command line is wrong
  3    runs failed; the same command tries them again
  4    a node could not be reached
  5    a wrong value was read, or an acknowledged write was lost
  130  interrupted with Ctrl-C; the same command goes on
  141  whoever read the output stopped reading";

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
    Run(Box<RunArguments>),
    /// Measure what the papers' figures need, ablations included, and draw the page
    Figures(FiguresArguments),
    /// Draw the page of a folder again
    Report(ReportArguments),
    /// Put the figures of some folders beside those of others: a model's and processes', or before and after
    /// a change
    Compare(CompareArguments),
    /// One run: a demonstration as `sidle demo`, also on modelled machines and with ablations
    #[command(after_help = demo::EXAMPLES)]
    Demo(Box<LabDemoArguments>),
    /// Compare the server processor time of a request with Redis's, in one run
    Peers(PeersArguments),
    /// Run a node as `sidle server` does, with what only experiments need
    Server(Box<ServerArguments>),
}
