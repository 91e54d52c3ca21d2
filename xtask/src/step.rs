//! Steps: commands that must succeed, timed, and a summary that lists skipped ones.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

enum Ending {
    Passed(Duration),
    Skipped(String),
}

/// One of the steps of a task: it runs a command, or says why this machine cannot.
pub(crate) type Step = Box<dyn FnOnce(&mut Steps) -> anyhow::Result<()>>;

/// A step that runs a command.
pub(crate) fn step(name: impl Into<String>, mut command: Command) -> Step {
    let name = name.into();
    Box::new(move |steps| steps.run(&name, &mut command))
}

/// A step that this machine cannot take, and why.
pub(crate) fn skipped(name: impl Into<String>, reason: impl Into<String>) -> Step {
    let (name, reason) = (name.into(), reason.into());
    Box::new(move |steps| {
        steps.skip(&name, &reason);
        Ok(())
    })
}

/// Where no terminal shows cargo's own progress, it is said this often that a step goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// The steps taken so far.
#[derive(Default)]
pub(crate) struct Steps {
    /// The number of the present one, from 1 on.
    number: usize,
    /// How many there are.
    of: usize,
    endings: Vec<(String, Ending)>,
}

impl Steps {
    /// Takes all in their order, up to the first that fails, and prints what became of them.
    pub(crate) fn take_all(plan: Vec<Step>) -> anyhow::Result<()> {
        let mut steps = Steps { of: plan.len(), ..Steps::default() };
        let mut plan = plan.into_iter();
        let taken = plan.try_for_each(|step| {
            steps.number += 1;
            step(&mut steps)
        });
        steps.print_summary();
        taken
    }

    /// `step 3 of 12: lints`.
    fn heading(&self, name: &str) -> String {
        format!("step {} of {}: {name}", self.number, self.of)
    }

    /// Runs a command and fails if it fails; its output is passed through.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        let heading = self.heading(name);
        println!("\n── {heading}\n   {}", shown(command));
        let start = Instant::now();
        let status = with_signs_of_life(&heading, || command.current_dir(project_root()).status())
            .map_err(|error| anyhow::anyhow!("{heading}: cannot start {}: {error}", shown(command)))?;
        if !status.success() {
            anyhow::bail!("{heading} failed ({status}); run it alone with: {}", shown(command));
        }
        self.endings.push((name.to_owned(), Ending::Passed(start.elapsed())));
        Ok(())
    }

    /// Records a step that this machine cannot run, and why.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("\n── {}: skipped, {reason}", self.heading(name));
        self.endings.push((name.to_owned(), Ending::Skipped(reason.to_owned())));
    }

    /// Prints a line for each step.
    fn print_summary(&self) {
        println!("\n── summary");
        for (name, ending) in &self.endings {
            match ending {
                Ending::Passed(took) => println!("   passed   {:>6.1} s  {name}", took.as_secs_f64()),
                Ending::Skipped(reason) => println!("   skipped            {name}: {reason}"),
            }
        }
    }
}

/// Does something that takes its time, and says so now and then where nobody else does.
fn with_signs_of_life<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if std::io::stderr().is_terminal() {
        return work();
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        // Dropped when the work is done, which ends the thread.
        let (working, over) = channel::<()>();
        scope.spawn(move || {
            while over.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("   {what}: {} s so far", start.elapsed().as_secs());
            }
        });
        let done = work();
        drop(working);
        done
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_and_the_first_that_fails_ends_them() {
        let failed = Steps::take_all(vec![
            step("first", Command::new("true")),
            skipped("second", "it is not there"),
            step("third", Command::new("false")),
            Box::new(|_| panic!("it is taken")),
        ]);
        let failed = failed.expect_err("the third fails").to_string();
        assert!(failed.starts_with("step 3 of 4: third failed ("), "{failed}");
        assert!(failed.ends_with("run it alone with: false"), "{failed}");
    }
}
