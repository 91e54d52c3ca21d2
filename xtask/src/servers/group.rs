//! A program and all that it starts, as one group that ends with its owner.

use anyhow::Context;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Runs its arguments in a process group of its own, and kills this group when they end or when the standard
/// input ends: it does so when this process ends, in whatever way.
const KEEPER: &str = "exec 3<&0; (read -r _ <&3; kill -KILL 0) & \"$@\" </dev/null 3<&-; kill -KILL 0";

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    Itself,
    /// It took too long.
    Stopped,
}

/// A running group. Dropping it kills all its processes.
pub(crate) struct Group {
    keeper: Child,
}

impl Group {
    /// Starts a program, whose output goes to a file.
    pub(crate) fn start(command: &Command, output: &Path) -> anyhow::Result<Group> {
        let output = File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(command.get_program()).args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            keeper.current_dir(folder);
        }
        // Without a terminal's name the tests print no colours; the other variables change what Sidle does.
        for variable in ["TERM", "SIDLE_LOG", "SIDLE_PASSWORD", "SIDLE_CLUSTER_SECRET"] {
            keeper.env_remove(variable);
        }
        keeper.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let program = command.get_program().to_string_lossy();
        Ok(Group { keeper: keeper.spawn().with_context(|| format!("cannot start {program}"))? })
    }

    /// Waits until the program has ended, or stops it.
    pub(crate) fn wait(&mut self, limit: Duration) -> anyhow::Result<Ended> {
        let started = Instant::now();
        while !self.has_ended()? {
            if started.elapsed() >= limit {
                self.stop();
                return Ok(Ended::Stopped);
            }
            std::thread::sleep(LOOK);
        }
        Ok(Ended::Itself)
    }

    /// Whether the program has ended.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.keeper.try_wait()?.is_some())
    }

    fn stop(&mut self) {
        // The end of its input has the keeper kill the group, itself with it.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, output: &Path) -> Group {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Group::start(&command, output).expect("a shell starts")
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().join("output");
        let is_alive = || {
            let text = std::fs::read_to_string(&output).expect("it was created");
            let process = text.trim().to_owned();
            assert!(!process.is_empty());
            crate::step::succeeds(Command::new("sh").args(["-c", &format!("kill -0 {process}")]))
        };
        let dies = || {
            let started = Instant::now();
            while is_alive() {
                assert!(started.elapsed() < Duration::from_secs(30), "it is still there");
                std::thread::sleep(LOOK);
            }
        };
        // It leaves a process behind.
        let mut group = shell("sleep 600 & echo $!", &output);
        assert_eq!(group.wait(Duration::from_secs(60)).expect("it is a child"), Ended::Itself);
        dies();
        // It does not end.
        let mut group = shell("sleep 600 & echo $!; wait", &output);
        assert_eq!(group.wait(Duration::from_millis(500)).expect("it is a child"), Ended::Stopped);
        dies();
        // It is given up.
        let group = shell("sleep 600 & echo $!; wait", &output);
        let started = Instant::now();
        while std::fs::read_to_string(&output).expect("it was created").is_empty() {
            assert!(started.elapsed() < Duration::from_secs(30), "it says nothing");
            std::thread::sleep(LOOK);
        }
        assert!(is_alive());
        drop(group);
        dies();
    }
}
