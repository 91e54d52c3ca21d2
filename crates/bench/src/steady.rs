//! `sidle bench`: a load on running servers.

use crate::control::{Control, ControlError};
use crate::failures::{ABSENT, explained};
use crate::figures::explain_absent;
use crate::load::{ClientKind, HistoryFile, Plan, Totals, World, load_records, run_workload};
use crate::outcome::{Setting, add_totals, report};
use crate::report::Report;
use crate::terminal::Terminal;
use crate::words::{count, counted};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Why a load could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SteadyError {
    /// It was interrupted before anything was measured.
    #[error("interrupted: {} of {} are loaded", count(*.written), counted(*.records, "record"))]
    Interrupted {
        /// The present ones.
        written: u64,
        /// The required ones.
        records: u64,
    },
    /// The file for the operations cannot be written.
    #[error("{0}")]
    History(String),
    /// The server is unreachable, or refuses.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// It lacks what Sidle's own client needs.
    #[error(
        "what answers at {0} is not a Sidle node. With --client plain the load is that of an unmodified client, for \
         any Redis server: its records are overwritten"
    )]
    Foreign(String),
    /// The records could not be loaded.
    #[error("{0}")]
    Load(String),
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The parts of a run to make.
#[derive(Clone, Debug)]
pub struct SteadyOptions {
    /// The load.
    pub plan: Plan,
    /// Whether the records are written first.
    pub load: bool,
    /// How long the workload lasts; zero leaves it out.
    pub duration: Duration,
    /// Where the operations are recorded, loading included.
    pub history: Option<PathBuf>,
}

/// A load's results.
#[derive(Debug)]
pub struct Steady {
    /// Its report.
    pub report: Report,
    /// Whether it was interrupted: the report covers the time until then.
    pub is_interrupted: bool,
    /// Whether all of the requested history was written; else why not.
    pub history: Result<(), String>,
}

/// Makes the load and returns its report.
pub fn run(options: &SteadyOptions, terminal: &Terminal, stop: &AtomicBool) -> Result<Steady, SteadyError> {
    let plan = &options.plan;
    if options.history.is_some() {
        assert!(options.load, "a history's keys start absent: the same run loads them");
        assert!(plan.keys.is_text(), "a history's keys are text");
    }
    check_server(plan)?;
    let history = options.history.as_deref().map(HistoryFile::create).transpose();
    let world = World::new(plan.clone(), stop, history.map_err(SteadyError::History)?);

    let mut loading = Totals::default();
    if options.load {
        loading = load_records(&world, terminal.progress("loading", plan.records))?;
        let (written, records) = (loading.writes, plan.records);
        if world.is_stopping() {
            return Err(SteadyError::Interrupted { written, records });
        }
        if written < records {
            return Err(SteadyError::Load(not_loaded(&loading, records)));
        }
    }
    let mut report = if options.duration.is_zero() {
        report(plan, &Default::default(), Setting::default())
    } else {
        let line = terminal.live();
        let duration_ns = options.duration.as_nanos() as u64;
        let measured = run_workload(&world, None, |tick, _| {
            line.show(plan.workload.name(), tick.elapsed_ns as f64 / duration_ns as f64, &tick.to_string());
            if tick.elapsed_ns >= duration_ns { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        drop(line);
        for sample in &measured.totals.samples {
            terminal.say(&format!("wrong value: {sample}"));
        }
        for trouble in &measured.totals.troubles {
            terminal.say(&format!("trouble: {trouble}"));
        }
        let mut report = report(plan, &measured, Setting::default());
        if measured.totals.absent > 0 {
            report.errors.insert(ABSENT.to_owned(), measured.totals.absent);
        }
        if let Some(why) = nothing_measured(&measured.totals) {
            report.say_unmeasured("throughput", &why);
        }
        report
    };
    add_totals(&mut report, &loading);
    report.cpu_seconds.clients = crate::machine::own_cpu_seconds();
    explain_absent(&mut report);
    let is_interrupted = world.is_stopping();
    let history = world.history.map_or(Ok(()), HistoryFile::finish);
    Ok(Steady { report, is_interrupted, history })
}

/// Reports a wrong address, password or client for a server immediately.
fn check_server(plan: &Plan) -> Result<(), SteadyError> {
    let address = plan.seeds[0].to_string();
    let mut control = Control::connect(&address, plan.password.as_deref())?;
    let question = match plan.client {
        ClientKind::Sidle => "SIDLE.MAP",
        ClientKind::Plain => "PING",
    };
    match control.call(&[question]) {
        Err(ControlError::Refused { text, .. }) if text.contains("unknown command 'SIDLE.") => {
            Err(SteadyError::Foreign(address))
        }
        answered => Ok(answered.map(|_| ())?),
    }
}

/// Why not all records were written.
pub(crate) fn not_loaded(loading: &Totals, records: u64) -> String {
    let (written, records) = (count(loading.writes), counted(records, "record"));
    explained(&format!("only {written} of {records} could be loaded"), &loading.errors, &loading.troubles)
}

fn nothing_measured(totals: &Totals) -> Option<String> {
    (totals.reads + totals.writes == 0)
        .then(|| explained("no operation succeeded", &totals.errors, &totals.troubles))
}
