//! `sidle-lab demo --modelled`: a demonstration on machines that do not exist.

use clap::Args;
use sidle_bench::demo::{DemoError, DemoOptions};
use sidle_bench::limits::MAX_RECORDS;
use sidle_bench::load::{ClientKind, Pacing};
use sidle_bench::report::Report;
use sidle_bench::terminal::Terminal;
use sidle_cli::demo::{DemoArguments, stop_flag};
use sidle_cli::exit::{Failure, Status};
use sidle_cli::numbers::from_to;
use sidle_cli::output::OutputFile;
use sidle_model::calibrate::{self, CalibrationError};
use sidle_model::machines::{Machine, Machines, MachinesError, Share};
use sidle_model::{Costs, ModelError, Plan, Progress};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// On what machines.
#[derive(Debug, Args)]
pub(crate) struct ModelledArguments {
    /// Run on modelled machines: 'paper' (two nodes of 8 cores, 40 Gbit/s), 'four-cores' (the same with 4),
    /// 'two-cores' (a quota of 0.4 for each node), or a JSON file such as a report has under "modelled",
    /// "machines"
    #[arg(long, value_name = "NAME|FILE", value_parser = known)]
    pub(crate) modelled: Option<String>,
    /// With --modelled: what work costs. Measured here and written to the file if there is none [default:
    /// measured each time]
    #[arg(long, value_name = "FILE", requires = "modelled")]
    costs: Option<PathBuf>,
    /// With --modelled: so many of the records are in memory and stand for the others
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, requires = "modelled", value_parser = from_to::<u64>(1000, MAX_RECORDS))]
    pub(crate) sample: u64,
}

/// The report of a demonstration on modelled machines.
pub(crate) fn run(
    machines: &str,
    modelled: &ModelledArguments,
    demo: &DemoArguments,
    options: &DemoOptions,
) -> Result<Report, Failure> {
    let refused = Failure::refused;
    let terminal = Terminal::new(demo.quiet);
    terminal.say("time, processors and network are modelled; what runs on them is the real code");
    let stop = stop_flag(demo)?;
    let plan = plan(machines, modelled, options, &terminal, &stop)?;
    let line = terminal.live();
    let report = sidle_model::run(&plan, |Progress { part, at_ns, moved }| {
        line.show(part, moved, &format!("{:.1} s of the model's time", at_ns as f64 / 1e9));
        !stop.load(Relaxed)
    });
    drop(line);
    report.map_err(|error| match error {
        ModelError::Interrupted => Failure::new(Status::Detached, "interrupted"),
        ModelError::Migration(_) => Failure::new(Status::FailedInTheMiddle, error),
        ModelError::Machines(_) | ModelError::Options(_) | ModelError::Stuck(_) => refused(error),
    })
}

/// Checks that modelled machines support these options.
///
/// # Errors
/// The options that they support instead.
pub(crate) fn check(options: &DemoOptions) -> Result<(), Failure> {
    let only = |what: &str| Failure::wrong_line(format!("modelled machines have {what} only"));
    if options.pacing == Pacing::Batches {
        return Err(only("loops without batches"));
    }
    if !options.offloading {
        return Err(only("movers with threads of their own"));
    }
    if options.client != ClientKind::Sidle || options.separate_clients || options.outstanding != 1 {
        return Err(only("clients of Sidle's own that share a thread's connections, one operation each"));
    }
    if options.cpu_lists.is_some() {
        let why = "modelled machines have processors of their own each: leave --cpu-lists out";
        return Err(Failure::wrong_line(why));
    }
    Ok(())
}

fn plan(
    machines: &str,
    modelled: &ModelledArguments,
    options: &DemoOptions,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<Plan, Failure> {
    let mut machines = self::machines(machines).map_err(Failure::wrong_line)?;
    if let Some(shares) = &options.cpus {
        for (name, machine) in [
            ("source", &mut machines.source),
            ("target", &mut machines.target),
            ("clients", &mut machines.clients),
        ] {
            if let Some(&processors) = shares.0.get(name) {
                limit(machine, processors);
            }
        }
    }
    machines.check().map_err(Failure::wrong_line)?;
    Ok(Plan {
        machines,
        costs: costs(modelled.costs.as_deref(), options, terminal, stop)?,
        protocol: options.protocol.clone(),
        policy: options.policy.0,
        records: options.records,
        sample: modelled.sample,
        key_bytes: options.key_bytes,
        value_bytes: options.value_bytes,
        workload: options.workload.clone(),
        distribution: options.distribution,
        clients: options.clients,
        rate: match options.pacing {
            Pacing::Open(rate) => Some(rate),
            Pacing::Closed | Pacing::Batches => None,
        },
        tracking: options.tracking,
        before_ns: options.margin.as_nanos() as u64,
        after_ns: options.margin.as_nanos() as u64,
        seed: options.seed,
    })
}

/// A share as `--cpus` gives it to a process.
fn limit(machine: &mut Machine, processors: f64) {
    machine.quota = Some(Share::of(processors));
}

/// A name or a file of machines that can be modelled.
///
/// # Errors
/// The known names, or what is wrong with the file.
pub(crate) fn known(text: &str) -> Result<String, String> {
    machines(text)?.check().map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// The machines of a name or a file.
pub(crate) fn machines(text: &str) -> Result<Machines, String> {
    if let Some(machines) = Machines::preset(text) {
        return Ok(machines);
    }
    let json = std::fs::read(text).map_err(|_| MachinesError::Unknown(text.to_owned()).to_string())?;
    serde_json::from_slice(&json).map_err(|error| format!("{text}: {error}"))
}

fn costs(
    file: Option<&Path>,
    options: &DemoOptions,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<Costs, Failure> {
    let refused =
        |path: &Path, error: &dyn std::fmt::Display| Failure::refused(format!("{}: {error}", path.display()));
    if let Some(path) = file
        && path.exists()
    {
        let json = std::fs::read(path).map_err(|error| refused(path, &error))?;
        let another = |error| {
            format!("{error}; these are no costs of this version: name another file to measure them anew")
        };
        return serde_json::from_slice(&json).map_err(|error| refused(path, &another(error)));
    }
    // It takes minutes: that it can be saved is checked before.
    let kept = file.map(OutputFile::to_write).transpose()?;
    terminal.say("measuring what work takes on this machine");
    let costs = calibrate::costs(options, terminal, stop).map_err(|error| match error {
        CalibrationError::Load(DemoError::Interrupted) => Failure::new(Status::Detached, "interrupted"),
        other => Failure::refused(other),
    })?;
    if let Some(kept) = kept {
        let json = serde_json::to_string_pretty(&costs).expect("costs are plain data");
        kept.write(&(json + "\n"))?;
    }
    Ok(costs)
}
