//! `sidle-lab run`, `figures` and `report`: every protocol under every workload, many times, and the
//! papers' figures from the results.

use crate::modelled;
use clap::Args;
use sidle_bench::limits::{
    LoadSize, MAX_CLIENTS, MAX_KEY_BYTES, MAX_RECORDS, MAX_SECONDS, MAX_VALUE_BYTES, memory_budget_bytes,
};
use sidle_bench::load::Pacing;
use sidle_bench::policy::PolicyWord;
use sidle_bench::quota::LEAST_SHARE;
use sidle_bench::terminal::Terminal;
use sidle_bench::tpcc::MAX_WAREHOUSES;
use sidle_bench::words::counted;
use sidle_cli::exit::{Failure, Status};
use sidle_cli::interrupt;
use sidle_cli::load::PacingArguments;
use sidle_cli::numbers::from_to;
use sidle_cli::own_program;
use sidle_lab::{
    Cell, Database, Folder, FolderError, LAB_FILE, LabFile, LabOutcome, LabPlan, Matrix, Mix, OnModel,
    PAGE_FILE, Program, Results, Settings, Skew, SourceCpu, Variant, figures,
};
use std::path::PathBuf;

/// Where the runs go.
#[derive(Debug, Args)]
struct OutArguments {
    /// The folder: a report of each run, lab.json and report.html. What is there already is not measured
    /// again
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Remove what an earlier lab left in the folder
    #[arg(long)]
    fresh: bool,
    /// Make runs again that the machine's host disturbed: those that are left out of the figures
    #[arg(long)]
    again_if_disturbed: bool,
}

/// Flags of `sidle-lab run`.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    out: OutArguments,
    /// How to move: NAME[,OPTION=VALUE...] as `sidle migrate` takes it; `tracking=off` is an option of the
    /// clients', `offloading=off` of the nodes' [default: every protocol there is]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    protocols: Vec<Variant>,
    /// How hard a move may press on the nodes: adaptive, rate=MB/S, deadline=SECONDS or slo-p99=MICROSECONDS
    #[arg(long, value_name = "WORD", num_args = 1.., default_values = ["adaptive"])]
    policies: Vec<PolicyWord>,
    /// Mixes of reads and writes: a, b, c, or a share of writes such as 20%; or tpcc, tpcc-scattered,
    /// tpcc-new-orders, tpcc-new-orders-scattered
    #[arg(long, value_name = "MIX", num_args = 1.., default_values = ["b"])]
    workloads: Vec<Mix>,
    /// How popular the records are: zipf:THETA, uniform or latest
    #[arg(long, value_name = "NAME", num_args = 1.., default_values = ["zipf:0.99"])]
    distributions: Vec<Skew>,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", num_args = 1.., default_values_t = [100], value_parser = from_to::<usize>(1, MAX_VALUE_BYTES as u64))]
    value_bytes: Vec<usize>,
    /// The source's part of a node's processor in %, or `shared` for no quotas
    #[arg(long, value_name = "PERCENT", num_args = 1.., default_values = ["100"])]
    source_cpus: Vec<SourceCpu>,
    /// Runs of each cell
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = from_to::<u32>(1, 99))]
    repeat: u32,
    /// How many records; half of them move
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = from_to::<u64>(1000, MAX_RECORDS))]
    records: u64,
    #[command(flatten)]
    database: DatabaseArguments,
    /// How long the load lasts before the move, and again after it
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = from_to::<u64>(1, MAX_SECONDS))]
    seconds: u64,
    /// Clients
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = from_to::<u32>(1, u64::from(MAX_CLIENTS)))]
    clients: u32,
    /// Bytes of each key
    #[arg(long, value_name = "BYTES", default_value_t = 30, value_parser = from_to::<usize>(1, MAX_KEY_BYTES as u64))]
    key_bytes: usize,
    #[command(flatten)]
    pacing: PacingArguments,
    /// The processors that a node at 100 % has [default: a fifth of the machine's]
    #[arg(long, value_name = "SHARE", value_parser = node_cpu)]
    node_cpu: Option<f64>,
    /// What every draw is made from, the order of the runs included
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    model: ModelArguments,
}

/// TPC-C's database.
#[derive(Debug, Args)]
struct DatabaseArguments {
    /// How many warehouses TPC-C has
    #[arg(long, value_name = "NUMBER", default_value_t = Database::DEFAULT.warehouses, value_parser = from_to::<u32>(1, u64::from(MAX_WAREHOUSES)))]
    warehouses: u32,
    /// How many of the customers and items that TPC-C asks for
    #[arg(long, value_name = "PERCENT", default_value_t = Database::DEFAULT.scale_percent, value_parser = from_to::<u32>(1, 100))]
    scale: u32,
}

impl DatabaseArguments {
    const fn database(&self) -> Database {
        Database { warehouses: self.warehouses, scale_percent: self.scale }
    }
}

/// On modelled machines.
#[derive(Debug, Args)]
struct ModelArguments {
    /// Run on modelled machines instead of this one: a name or a file as `sidle-lab demo --modelled` takes it
    #[arg(long, value_name = "NAME|FILE", value_parser = modelled::known)]
    modelled: Option<String>,
    /// With --modelled: so many of the records are in memory and stand for the others
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, requires = "modelled", value_parser = from_to::<u64>(1000, MAX_RECORDS))]
    sample: u64,
}

impl ModelArguments {
    /// Checks a real load, or, for modelled machines, the part of it that is in memory.
    fn check(&self, size: LoadSize, budget_bytes: u64) -> Result<(), Failure> {
        let checked = match self.modelled {
            Some(_) => size.check_modelled(self.sample, budget_bytes),
            None => size.check_with_nodes(budget_bytes),
        };
        checked.map_err(Failure::wrong_line)
    }

    fn on_model(&self) -> Option<OnModel> {
        let machines = self.modelled.clone()?;
        Some(OnModel { machines, sample: self.sample })
    }

    /// The processors that a node at 100 % has.
    fn node_cpu(&self) -> Result<f64, Failure> {
        match &self.modelled {
            None => Ok(Settings::default_node_cpu()),
            Some(machines) => {
                Ok(modelled::machines(machines).map_err(Failure::wrong_line)?.target.processors())
            }
        }
    }
}

/// Flags of `sidle-lab figures`.
#[derive(Debug, Args)]
pub(crate) struct FiguresArguments {
    #[command(flatten)]
    out: OutArguments,
    #[command(flatten)]
    model: ModelArguments,
    /// Fewer records, fewer repeats, shorter margins, and the essential cells only
    #[arg(long)]
    quick: bool,
    /// Only Fulva's figure 9, TPC-C, which is not among the quick ones otherwise
    #[arg(long)]
    tpcc: bool,
    #[command(flatten)]
    database: DatabaseArguments,
    /// Runs of each cell [default: 5, with --quick 3]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<u32>(1, 99))]
    repeat: Option<u32>,
    /// What every draw is made from, the order of the runs included
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

/// Flags of `sidle-lab report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The folder of a lab
    folder: PathBuf,
}

fn node_cpu(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.1..=1024.0).contains(share))
        .ok_or_else(|| "give at least 0.1 of a processor".to_owned())
}

impl RunArguments {
    /// The size of a cell's load.
    fn size(&self, value_bytes: usize) -> LoadSize {
        let underway = u64::from(self.clients);
        LoadSize { records: self.records, key_bytes: self.key_bytes, value_bytes, underway }
    }
}

impl RunArguments {
    /// Checks the runs against `budget_bytes` of memory, so that a lab of hours does not fail
    /// in its middle.
    ///
    /// # Errors
    /// What does not fit, and the largest that does.
    pub(crate) fn check(&self, budget_bytes: u64) -> Result<(), Failure> {
        let is_open = matches!(self.pacing.pacing()?, Pacing::Open(_));
        if is_open && self.workloads.iter().any(Mix::is_tpcc) {
            return Err(Failure::wrong_line("with tpcc among the workloads leave out --rate"));
        }
        let mut sizes = self.value_bytes.iter().map(|&value_bytes| self.size(value_bytes));
        sizes.try_for_each(|size| self.model.check(size, budget_bytes))
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            records: self.records,
            seconds: self.seconds,
            clients: self.clients,
            rate: match self.pacing.pacing()? {
                Pacing::Open(rate) => Some(rate),
                _ => None,
            },
            key_bytes: self.key_bytes,
            seed: self.seed,
            node_cpu: match self.node_cpu {
                Some(share) => share,
                None => self.model.node_cpu()?,
            },
            database: self.database.database(),
            modelled: self.model.on_model(),
        })
    }
}

impl FiguresArguments {
    /// As [`RunArguments::check`].
    ///
    /// # Errors
    /// What does not fit, and the largest that does.
    pub(crate) fn check(&self, budget_bytes: u64) -> Result<(), Failure> {
        let (_, Settings { records, key_bytes, clients, .. }) = figures::settings(self.quick, self.seed);
        let value_bytes = figures::cells(self.quick).iter().map(|cell| cell.scene.value_bytes).max();
        let size =
            LoadSize { records, key_bytes, value_bytes: value_bytes.unwrap_or(0), underway: clients.into() };
        self.model.check(size, budget_bytes)
    }
}

/// Runs `sidle-lab run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    arguments.check(memory_budget_bytes())?;
    let all = || Variant::protocols();
    let matrix = Matrix {
        variants: if arguments.protocols.is_empty() { all() } else { arguments.protocols.clone() },
        policies: arguments.policies.clone(),
        workloads: arguments.workloads.clone(),
        distributions: arguments.distributions.clone(),
        value_bytes: arguments.value_bytes.clone(),
        source_cpus: arguments.source_cpus.clone(),
    };
    measure(&arguments.out, matrix.cells(), arguments.repeat, arguments.settings()?)
}

/// Runs `sidle-lab figures`.
pub(crate) fn figures(arguments: &FiguresArguments) -> Result<(), Failure> {
    arguments.check(memory_budget_bytes())?;
    let (repeat, settings) = figures::settings(arguments.quick, arguments.seed);
    let (node_cpu, modelled) = (arguments.model.node_cpu()?, arguments.model.on_model());
    let settings = Settings { node_cpu, database: arguments.database.database(), modelled, ..settings };
    let repeat = arguments.repeat.unwrap_or(repeat);
    let cells = if arguments.tpcc { figures::tpcc() } else { figures::cells(arguments.quick) };
    measure(&arguments.out, cells, repeat, settings)
}

/// Runs `sidle-lab report`.
pub(crate) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let folder = Folder::to_read(&arguments.folder);
    let results = draw(&folder)?;
    for (name, why) in &results.odd {
        eprintln!("{name} is left out: {why}");
    }
    print_drawn(&folder, &results);
    Ok(())
}

fn measure(out: &OutArguments, cells: Vec<Cell>, repeat: u32, settings: Settings) -> Result<(), Failure> {
    let terminal = Terminal::new(false);
    let is_modelled = settings.modelled.is_some();
    let (cells, left_out): (Vec<Cell>, Vec<Cell>) = cells
        .into_iter()
        .partition(|cell| !cell.scene.workload.is_tpcc() || !is_modelled && cell.variant.tracking());
    if !left_out.is_empty() {
        terminal.say("TPC-C is left out on modelled machines, and with tracking=off, which it does not know");
    }
    let (cells, left_out): (Vec<Cell>, Vec<Cell>) =
        cells.into_iter().partition(|cell| !is_modelled || cell.variant.offloading());
    if !left_out.is_empty() {
        terminal.say("modelled movers have threads of their own: offloading=off is left out");
    }
    let wants_quotas = !is_modelled && cells.iter().any(|cell| cell.scene.source_cpu != SourceCpu::Shared);
    let program = own_program()?;
    let this = Program::at(&program).map_err(Failure::refused)?;
    let mut lab = LabFile::new(this, settings, repeat, cells);
    if let Some(why) = lab.machine.no_quotas.clone().filter(|_| wants_quotas) {
        let (cells, left_out) = sidle_lab::without_quotas(std::mem::take(&mut lab.cells));
        lab.cells = cells;
        let less = if left_out > 0 {
            format!("; {left_out} cells with less processor at the source are left out")
        } else {
            String::new()
        };
        terminal.say(&format!("no processor quotas ({why}): this measures one shared machine{less}"));
    }
    let shares = lab.cells.iter().filter_map(|cell| cell.cpus(&lab.settings)).flatten();
    if let Some((_, share)) = shares.into_iter().find(|&(_, share)| share < LEAST_SHARE) {
        let why = format!(
            "a share of {share} of a processor cannot be given: at least {LEAST_SHARE}; raise --node-cpu"
        );
        return Err(Failure::wrong_line(why));
    }
    if lab.cells.is_empty() {
        return Err(Failure::refused("no cell is left to measure"));
    }
    let folder = Folder::to_run_in(&out.out).map_err(Failure::refused)?;
    let stop = interrupt::flag()?;
    let again_if_disturbed = out.again_if_disturbed;
    let plan = LabPlan { program, lab, fresh: out.fresh, again_if_disturbed };
    match sidle_lab::run(&plan, &folder, &terminal, &stop) {
        Ok(outcome) => {
            if outcome.made + outcome.found > 0 {
                print_drawn(&folder, &draw(&folder)?);
            }
            verdict(&outcome, out)
        }
        Err(error) => {
            let may_have_begun = matches!(error, FolderError::Rebuilt { .. } | FolderError::Io { .. });
            if may_have_begun && let Ok(results) = draw(&folder) {
                print_drawn(&folder, &results);
            }
            Err(Failure::refused(error))
        }
    }
}

fn draw(folder: &Folder) -> Result<Results, Failure> {
    let refused = |error: FolderError| Failure::refused(error);
    let results = Results::read(folder).map_err(refused)?;
    folder.write(PAGE_FILE, &sidle_lab::page(&results)).map_err(refused)?;
    Ok(results)
}

fn print_drawn(folder: &Folder, results: &Results) {
    let shown = |name: &str| folder.file(name).display().to_string();
    println!("{}, in {}", results.extent(), shown(LAB_FILE));
    if results.left_out() > 0 {
        println!(
            "{} of them are left out of the figures: the machine's host disturbed them (--again-if-disturbed makes them again)",
            results.left_out()
        );
    }
    println!("{}", shown(PAGE_FILE));
}

/// The final message, and the exit status.
fn verdict(outcome: &LabOutcome, out: &OutArguments) -> Result<(), Failure> {
    let folder = out.out.display();
    let mut summary = format!("{} made, {} found", counted(outcome.made, "run"), outcome.found);
    if !outcome.failed.is_empty() {
        summary += &format!(", {} failed", outcome.failed.len());
    }
    if !outcome.in_the_way.is_empty() {
        summary +=
            &format!(", {} not made since a file of their name is in the way", outcome.in_the_way.len());
    }
    if outcome.left > 0 {
        // Without --fresh: that would remove the present runs.
        let message = format!(
            "interrupted: {summary}, {} left. The same command, without --fresh, goes on in {folder}",
            outcome.left
        );
        return Err(Failure::new(Status::Detached, message));
    }
    if outcome.failed.is_empty() && outcome.in_the_way.is_empty() && outcome.wrong == 0 {
        println!("{summary}");
        return Ok(());
    }
    for failed in &outcome.failed {
        eprintln!("failed: {}, run {}: {}", failed.cell.title(), failed.repeat, failed.reason);
    }
    for (name, why) in &outcome.in_the_way {
        eprintln!("in the way: {name}: {why}");
    }
    if outcome.wrong > 0 {
        let message =
            format!("{summary}; {} of them with wrong answers or lost writes: see the page", outcome.wrong);
        return Err(Failure::new(Status::WrongAnswers, message));
    }
    Err(Failure::new(Status::FailedInTheMiddle, format!("{summary}; the same command tries them again")))
}
