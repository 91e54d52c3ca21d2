//! Steps: commands that must succeed, timed, and a summary that lists skipped ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

enum Ending {
    Passed(Duration),
    Skipped(String),
}

#[derive(Default)]
pub(crate) struct Steps {
    endings: Vec<(String, Ending)>,
}

impl Steps {
    /// Runs a command and fails if it fails; its output is passed through.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        println!("\n── {name}\n   {}", shown(command));
        let start = Instant::now();
        let status = command
            .current_dir(project_root())
            .status()
            .map_err(|error| anyhow::anyhow!("{name}: cannot start {}: {error}", shown(command)))?;
        if !status.success() {
            self.print_summary();
            anyhow::bail!("{name} failed ({status}); run it alone with: {}", shown(command));
        }
        self.endings.push((name.to_owned(), Ending::Passed(start.elapsed())));
        Ok(())
    }

    /// Records a step that this machine cannot run, and why.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("\n── {name}: skipped, {reason}");
        self.endings.push((name.to_owned(), Ending::Skipped(reason.to_owned())));
    }

    /// Prints a line for each step.
    pub(crate) fn print_summary(&self) {
        println!("\n── summary");
        for (name, ending) in &self.endings {
            match ending {
                Ending::Passed(took) => println!("   passed   {:>6.1} s  {name}", took.as_secs_f64()),
                Ending::Skipped(reason) => println!("   skipped            {name}: {reason}"),
            }
        }
    }
}

/// The workspace's root folder.
pub(crate) fn project_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Cargo's target folder.
pub(crate) fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => project_root().join(folder),
        None => project_root().join("target"),
    }
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether a command starts and succeeds; its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        value.map(|value| format!("{}='{}'", name.to_string_lossy(), value.to_string_lossy()))
    });
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words =
        std::iter::once(program).chain(command.get_args()).map(|word| word.to_string_lossy().into_owned());
    variables.chain(words).collect::<Vec<_>>().join(" ")
}
