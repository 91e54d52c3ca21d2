//! One cell of the matrix: the repeated measurement, its files' names, and which report
//! belongs to it.

use crate::settings::{OnModel, Settings};
use crate::variant::Variant;
use serde::{Deserialize, Serialize};
use sidle_bench::policy::PolicyWord;
use sidle_bench::report::Report;
use sidle_bench::tpcc::{Transactions, tpcc_name};
use sidle_workload::{Distribution, Workload};

/// A mix of reads and writes: a letter of YCSB's, or a share of writes in percent; or a form of TPC-C.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mix(String);

/// The letters that stand for a share of writes.
const LETTERS: [(&str, f64); 3] = [("a", 50.0), ("b", 5.0), ("c", 0.0)];

/// TPC-C: which transactions there are, whether each row has a slot of its own, and their title.
const TPCC: [(Transactions, bool, &str); 4] = [
    (Transactions::Standard, false, "TPC-C by warehouse"),
    (Transactions::Standard, true, "TPC-C with scattered rows"),
    (Transactions::NewOrder, false, "TPC-C's new orders by warehouse"),
    (Transactions::NewOrder, true, "TPC-C's new orders with scattered rows"),
];

impl Mix {
    /// Whether it is TPC-C.
    pub fn is_tpcc(&self) -> bool {
        self.tpcc().is_some()
    }

    fn tpcc(&self) -> Option<(Transactions, bool, &'static str)> {
        TPCC.into_iter()
            .find(|&(transactions, is_scattered, _)| tpcc_name(transactions, is_scattered) == self.0)
    }

    /// Its name in reports.
    fn name(&self) -> String {
        if self.is_tpcc() { self.0.clone() } else { self.workload().name().to_owned() }
    }

    /// The share of writes in percent.
    pub fn write_percent(&self) -> f64 {
        let letter = LETTERS.iter().find(|(letter, _)| *letter == self.0);
        letter.map_or_else(|| self.0.trim_end_matches('%').parse().unwrap_or(0.0), |&(_, percent)| percent)
    }

    /// The same in a load's form.
    pub fn workload(&self) -> Workload {
        self.0.parse().unwrap_or_else(|_| Workload::with_write_ratio(self.write_percent()))
    }

    /// For people: `YCSB-B (5 % writes)`.
    pub fn title(&self) -> String {
        if let Some((_, _, title)) = self.tpcc() {
            return title.to_owned();
        }
        let percent = self.write_percent();
        match LETTERS.iter().find(|(letter, _)| *letter == self.0) {
            Some((letter, _)) => format!("YCSB-{} ({percent} % writes)", letter.to_uppercase()),
            None => format!("{percent} % writes"),
        }
    }

    fn arguments(&self) -> Vec<String> {
        if let Some((transactions, is_scattered, _)) = self.tpcc() {
            let flags = [
                ("--workload", true),
                ("tpcc", true),
                ("--scattered", is_scattered),
                ("--new-orders", transactions == Transactions::NewOrder),
            ];
            return flags
                .into_iter()
                .filter(|(_, is_given)| *is_given)
                .map(|(flag, _)| flag.to_owned())
                .collect();
        }
        match LETTERS.iter().any(|(letter, _)| *letter == self.0) {
            true => vec!["--workload".to_owned(), self.0.clone()],
            false => vec!["--write-ratio".to_owned(), self.write_percent().to_string()],
        }
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let name = text.to_lowercase();
        if Mix(name.clone()).is_tpcc() {
            return Ok(Mix(name));
        }
        let name = name.strip_prefix("ycsb-").unwrap_or(&name);
        if LETTERS.iter().any(|(letter, _)| *letter == name) {
            return Ok(Mix(name.to_owned()));
        }
        let percent: Option<f64> = name.trim_end_matches('%').parse().ok();
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        let percent = percent.ok_or_else(|| {
            format!("'{text}' is not a workload: give a, b, c, a share of writes in %, or tpcc")
        })?;
        // One load has one name, so that it is one cell.
        Ok(match LETTERS.iter().find(|&&(_, known)| known == percent) {
            Some((letter, _)) => Mix((*letter).to_owned()),
            None => Mix(format!("{percent}%")),
        })
    }
}

impl TryFrom<String> for Mix {
    type Error = String;

    fn try_from(text: String) -> Result<Mix, String> {
        text.parse()
    }
}

impl From<Mix> for String {
    fn from(mix: Mix) -> String {
        mix.0
    }
}

/// The records' popularity, by its name: `zipf:0.99`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Skew(String);

impl std::str::FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Skew, String> {
        let distribution: Distribution =
            text.parse().map_err(|error: sidle_workload::ParseDistributionError| error.to_string())?;
        Ok(Skew(distribution.to_string()))
    }
}

impl TryFrom<String> for Skew {
    type Error = String;

    fn try_from(text: String) -> Result<Skew, String> {
        text.parse()
    }
}

impl From<Skew> for String {
    fn from(skew: Skew) -> String {
        skew.0
    }
}

impl std::fmt::Display for Skew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The source's processor share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SourceCpu {
    /// This percentage of a node's whole share ([`Settings::node_cpu`]); the target has all of its own.
    Percent(u32),
    /// No quotas: nodes and clients share the machine.
    Shared,
}

impl std::fmt::Display for SourceCpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SourceCpu::Percent(percent) => write!(f, "{percent}"),
            SourceCpu::Shared => f.write_str("shared"),
        }
    }
}

impl std::str::FromStr for SourceCpu {
    type Err = String;

    fn from_str(text: &str) -> Result<SourceCpu, String> {
        if text == "shared" {
            return Ok(SourceCpu::Shared);
        }
        let percent: Option<u32> = text.trim_end_matches('%').parse().ok();
        let percent = percent.filter(|percent| (1..=100).contains(percent));
        percent.map(SourceCpu::Percent).ok_or_else(|| format!("'{text}' is neither 1 to 100 % nor 'shared'"))
    }
}

impl TryFrom<String> for SourceCpu {
    type Error = String;

    fn try_from(text: String) -> Result<SourceCpu, String> {
        text.parse()
    }
}

impl From<SourceCpu> for String {
    fn from(cpu: SourceCpu) -> String {
        cpu.to_string()
    }
}

/// The prefix of files with the costs of modelled work.
const COSTS: &str = "costs_";

/// The file with the costs of work, for keys and values of these sizes.
pub(crate) fn costs_file(key_bytes: usize, value_bytes: usize) -> String {
    format!("{COSTS}{key_bytes}B_{value_bytes}B.json")
}

/// Whether a file has that name.
pub(crate) fn is_costs_file(name: &str) -> bool {
    name.starts_with(COSTS) && name.ends_with(".json")
}

/// A cell except for what moves the data: cells of one scene can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// The mix of reads and writes.
    pub workload: Mix,
    /// How popular the records are.
    pub distribution: Skew,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// The source's processor share.
    pub source_cpu: SourceCpu,
}

impl Scene {
    /// For people.
    pub fn title(&self) -> String {
        self.words().into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The same without one of its four parts, numbered in the order of the fields.
    pub fn title_without(&self, part: usize) -> String {
        let words = self.words().into_iter().enumerate().filter(|&(index, _)| index != part);
        words.filter_map(|(_, words)| words).collect::<Vec<_>>().join(", ")
    }

    fn words(&self) -> [Option<String>; 4] {
        let cpu = match self.source_cpu {
            SourceCpu::Percent(100) => None,
            SourceCpu::Percent(percent) => Some(format!("source at {percent} % of a node's processor")),
            SourceCpu::Shared => Some("one shared machine".to_owned()),
        };
        let of_records = !self.workload.is_tpcc();
        let skew = self.distribution.to_string().replacen("zipf:", "Zipf ", 1);
        let values = format!("values of {} bytes", self.value_bytes);
        let [skew, values] = [skew, values].map(|words| of_records.then_some(words));
        [Some(self.workload.title()), skew, values, cpu]
    }

    /// The same scene under its one name: TPC-C draws keys by its own rules, and has values of all sizes.
    pub fn normal(self) -> Scene {
        if !self.workload.is_tpcc() {
            return self;
        }
        Scene { distribution: Skew(Distribution::Uniform.to_string()), value_bytes: 0, ..self }
    }
}

/// One cell of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// What moves the data.
    pub variant: Variant,
    /// The bound on the move's load on the nodes.
    pub policy: PolicyWord,
    /// The scene.
    pub scene: Scene,
}

impl Cell {
    /// Whether the protocol is unchanged, the policy included.
    pub fn is_plain(&self) -> bool {
        self.variant.is_plain() && self.is_adaptive()
    }

    /// Whether it has a migration's default policy.
    pub fn is_adaptive(&self) -> bool {
        self.policy == PolicyWord::default()
    }

    /// What moves the data, for people: `fulva`, `fulva, rate=50`.
    pub fn name(&self) -> String {
        match self.is_adaptive() {
            true => self.variant.to_string(),
            false => format!("{}, {}", self.variant, self.policy),
        }
    }

    /// The name of its files: letters, digits and `+-=._` only, and no two cells alike.
    pub fn slug(&self) -> String {
        let Scene { workload, distribution, value_bytes, source_cpu } = &self.scene;
        let cpu = match source_cpu {
            SourceCpu::Percent(percent) => format!("cpu{percent}"),
            SourceCpu::Shared => "shared".to_owned(),
        };
        let workload = workload.0.replace('%', "pct");
        let (variant, skew) =
            (self.variant.to_string().replace(',', "+"), distribution.0.replacen(':', "-", 1));
        let policy = if self.is_adaptive() { String::new() } else { format!("_{}", self.policy) };
        if self.scene.workload.is_tpcc() {
            return format!("{variant}{policy}_{workload}_{cpu}");
        }
        format!("{variant}{policy}_{workload}_{skew}_{value_bytes}B_{cpu}")
    }

    /// For people, on one line.
    pub fn title(&self) -> String {
        format!("{}: {}", self.name(), self.scene.title())
    }

    /// Shares of a processor of the nodes, if they have quotas.
    pub fn cpus(&self, settings: &Settings) -> Option<[(&'static str, f64); 2]> {
        match self.scene.source_cpu {
            SourceCpu::Percent(percent) => {
                let share = settings.node_cpu * f64::from(percent) / 100.0;
                Some([("source", round(share)), ("target", round(settings.node_cpu))])
            }
            SourceCpu::Shared => None,
        }
    }

    /// The command line, without the program, of run number `repeat` (from 1).
    pub fn arguments(&self, settings: &Settings, repeat: u32, json: &std::path::Path) -> Vec<String> {
        let mut arguments: Vec<String> = ["demo", "--quiet", "--stop-with-stdin"].map(str::to_owned).into();
        let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        option("--protocol", self.variant.protocol().to_owned());
        option("--policy", self.policy.to_string());
        if self.scene.workload.is_tpcc() {
            option("--warehouses", settings.database.warehouses.to_string());
            option("--scale", settings.database.scale_percent.to_string());
        } else {
            option("--distribution", self.scene.distribution.0.clone());
            option("--value-bytes", self.scene.value_bytes.to_string());
            option("--key-bytes", settings.key_bytes.to_string());
            option("--records", settings.records.to_string());
        }
        option("--seconds", settings.seconds.to_string());
        option("--clients", settings.clients.to_string());
        match settings.rate {
            Some(rate) => {
                option("--loop", "open".to_owned());
                option("--rate", rate.to_string());
            }
            None => option("--loop", "closed".to_owned()),
        }
        option("--seed", settings.seed_of(repeat).to_string());
        if let Some(cpus) = self.cpus(settings) {
            let shares: Vec<String> = cpus.iter().map(|(name, share)| format!("{name}={share}")).collect();
            option("--cpus", shares.join(","));
        }
        option("--json", json.display().to_string());
        if let Some(OnModel { machines, sample }) = &settings.modelled {
            option("--modelled", machines.clone());
            option("--sample", sample.to_string());
            // Measured by the first run that needs it: all others use the same.
            let costs = costs_file(settings.key_bytes, self.scene.value_bytes);
            option("--costs", json.with_file_name(costs).display().to_string());
        }
        arguments.extend(self.scene.workload.arguments());
        for (is_off, flag) in [
            (!self.variant.tracking(), "--without-tracking"),
            (!self.variant.offloading(), "--without-offloading"),
        ] {
            if is_off {
                arguments.push(flag.to_owned());
            }
        }
        arguments
    }

    /// Whether a report is one of run number `repeat` of this cell, or which part differs.
    pub fn check(&self, settings: &Settings, repeat: u32, report: &Report) -> Result<(), String> {
        let Scene { workload, distribution, value_bytes, .. } = &self.scene;
        let rate = report.load.rate;
        let is_tpcc = workload.is_tpcc();
        // The machine's memory may hold fewer than requested.
        let records_fit = match is_tpcc {
            true => report.records == settings.database.rows(),
            false => report.records <= settings.records,
        };
        let key_bytes = if is_tpcc { 0 } else { settings.key_bytes as u64 };
        let limits = report.machine.cpu_limits.as_ref();
        let cpus_fit = match (self.cpus(settings), limits) {
            (None, None) => true,
            (Some(cpus), Some(limits)) => {
                cpus.len() == limits.len()
                    && cpus.iter().all(|&(name, share)| limits.get(name).is_some_and(|&is| is == share))
            }
            _ => false,
        };
        for (fits, what) in [
            (report.protocol.as_deref() == Some(self.variant.protocol()), "its protocol"),
            (report.policy == Some(self.policy), "its policy"),
            (report.load.tracking == self.variant.tracking(), "whether its clients track the migration"),
            (report.movers_on_workers != self.variant.offloading(), "which threads its nodes moved data on"),
            (report.workload == workload.name(), "its workload"),
            (report.load.distribution == distribution.0, "its distribution"),
            (report.value_bytes == *value_bytes as u64, "the size of its values"),
            (report.load.key_bytes == key_bytes, "the size of its keys"),
            (records_fit, "its number of records"),
            (report.load.clients == settings.clients, "its number of clients"),
            (rate == settings.rate, "its loop"),
            (report.seed == settings.seed_of(repeat), "its seed"),
            (cpus_fit, "its processor quotas"),
            (report.modelled.is_some() == settings.modelled.is_some(), "whether its machines are modelled"),
            (report.migration.is_some() && !report.timeline.is_empty(), "that nothing moved"),
        ] {
            if !fits {
                return Err(format!("another run's report, by {what}"));
            }
        }
        Ok(())
    }
}

/// A share in the form of the command line and the report.
fn round(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}
