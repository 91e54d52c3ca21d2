//! The external programs for tests: redis-server 7 as the reference, redis-cli, redis-benchmark,
//! redis_exporter if it is installed, and redis-py in a virtual environment under the target folder.

use crate::step::{Steps, succeeds, target_folder};
use std::path::PathBuf;
use std::process::Command;

/// redis_exporter's name in Debian. Its package brings a service, so it is not installed automatically.
const EXPORTER: &str = "prometheus-redis-exporter";

/// Environment variables for the process tests; a test whose program is missing prints that it was skipped.
pub(crate) struct Clients {
    variables: Vec<(&'static str, PathBuf)>,
}

impl Clients {
    /// Finds the programs, and installs missing ones where this machine allows it.
    pub(crate) fn set_up(steps: &mut Steps) -> Clients {
        let mut variables = Vec::new();
        let wanted = ["redis-server", "redis-cli", "redis-benchmark"];
        if wanted.iter().any(|program| find(program).is_none()) && !install(&["redis-server", "redis-tools"])
        {
            println!("   the redis packages could not be installed here");
        }
        let names = ["SIDLE_TEST_REDIS_SERVER", "SIDLE_TEST_REDIS_CLI", "SIDLE_TEST_REDIS_BENCHMARK"];
        for (program, name) in wanted.iter().zip(names) {
            match find(program) {
                Some(path) => variables.push((name, path)),
                None => steps.skip(
                    &format!("tests with {program}"),
                    "it is not installed (Debian: apt-get install redis-server redis-tools)",
                ),
            }
        }
        match find(EXPORTER) {
            Some(path) => variables.push(("SIDLE_TEST_REDIS_EXPORTER", path)),
            None => steps.skip(
                "tests with redis_exporter",
                &format!("it is not installed (Debian: apt-get install {EXPORTER})"),
            ),
        }
        match redis_py() {
            Ok(python) => variables.push(("SIDLE_TEST_PYTHON", python)),
            Err(reason) => steps.skip("tests with redis-py", &reason),
        }
        Clients { variables }
    }

    /// Passes the programs' paths to the tests that a command runs.
    pub(crate) fn pass_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.envs(self.variables.iter().map(|(name, path)| (name, path)))
    }
}

fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// etcd, found or installed where this machine allows it.
pub(crate) fn etcd() -> Option<PathBuf> {
    let find = || find("etcd");
    find().or_else(|| install(&["etcd-server"]).then(find).flatten())
}

/// Installs Debian's packages if run as root on a Debian; their services are not started.
fn install(packages: &[&str]) -> bool {
    if find("apt-get").is_none() || !succeeds(Command::new("sh").args(["-c", "test \"$(id -u)\" = 0"])) {
        return false;
    }
    println!("\n── installing {} to test against", packages.join(" and "));
    let apt = |arguments: &[&str]| {
        succeeds(
            Command::new("apt-get")
                .args(["-q", "-y", "-o", "DPkg::Lock::Timeout=120"])
                .args(arguments)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .env("RUNLEVEL", "1"),
        )
    };
    let install = [&["install", "--no-install-recommends"], packages].concat();
    apt(&install) || (apt(&["update"]) && apt(&install))
}

/// A Python with redis-py; created on the first run, under the target folder.
fn redis_py() -> Result<PathBuf, String> {
    let folder = target_folder().join("clients").join("python");
    let python = folder.join("bin").join("python");
    let has_redis = |python: &PathBuf| succeeds(Command::new(python).args(["-c", "import redis.cluster"]));
    if has_redis(&python) {
        return Ok(python);
    }
    println!("\n── installing redis-py to test with");
    let Some(system) = find("python3") else { return Err("there is no python3".to_owned()) };
    if !succeeds(Command::new(system).args(["-m", "venv"]).arg(&folder)) {
        return Err("python3 -m venv failed (Debian: apt-get install python3-venv)".to_owned());
    }
    succeeds(Command::new(&python).args(["-m", "pip", "install", "--quiet", "redis>=5,<9"]));
    if has_redis(&python) { Ok(python) } else { Err("pip could not install redis".to_owned()) }
}
