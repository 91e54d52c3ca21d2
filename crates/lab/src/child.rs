//! One run as a child process: started, watched, stopped.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the child is checked.
const LOOK: Duration = Duration::from_millis(20);
/// How long a child may take to stop when asked to: it stops two nodes, one after the other.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How many lines of its output go into a failure's reason.
const REASON_LINES: usize = 4;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with success.
    Well,
    /// By itself, with failure: its output.
    Failed(String),
    /// It was stopped, since the lab must stop.
    Stopped,
}

/// Runs the program, its output redirected, until it ends, `stop` is raised or it takes longer than `limit`.
pub(crate) fn run(
    program: &Path,
    arguments: &[String],
    limit: Duration,
    stop: &AtomicBool,
    mut look: impl FnMut(),
) -> Ended {
    let started = Instant::now();
    let spawned = Command::new(program)
        .args(arguments)
        // Its end shows the child that the lab is gone, for any reason.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // The lab handles Ctrl-C: it asks the child to stop, once.
        .process_group(0)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Ended::Failed(format!("cannot start {}: {error}", program.display())),
    };
    let said = child.stderr.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = pipe.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        })
    });
    let (status, why) = loop {
        match child.try_wait() {
            Ok(Some(status)) => break (Some(status), None),
            Ok(None) => {}
            Err(error) => break (stop_child(&mut child), Some(error.to_string())),
        }
        if stop.load(Ordering::Relaxed) {
            stop_child(&mut child);
            return Ended::Stopped;
        }
        if started.elapsed() > limit {
            let why = format!("it had not ended after {} s and was stopped", limit.as_secs());
            break (stop_child(&mut child), Some(why));
        }
        look();
        std::thread::sleep(LOOK);
    };
    if why.is_none() && status.is_some_and(|status| status.success()) {
        return Ended::Well;
    }
    let said = said.and_then(|reader| reader.join().ok()).unwrap_or_default();
    Ended::Failed(reason(status, why, &said))
}

fn reason(status: Option<ExitStatus>, why: Option<String>, said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(REASON_LINES)..].join("; ");
    let ended = why.or_else(|| status.map(|status| status.to_string()));
    let ended = ended.unwrap_or_else(|| "it was killed".to_owned());
    if last.is_empty() { ended } else { format!("{last} ({ended})") }
}

/// Asks the child to stop, and kills it if it does not.
fn stop_child(child: &mut Child) -> Option<ExitStatus> {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        // Harmless if it has just ended: it was not waited for yet, so the number is still its own.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
    let asked = Instant::now();
    while asked.elapsed() < STOP_TIMEOUT {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(LOOK);
    }
    let _ = child.kill();
    child.wait().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration, stop: bool) -> Ended {
        let arguments = ["-c".to_owned(), script.to_owned()];
        run(Path::new("/bin/sh"), &arguments, limit, &AtomicBool::new(stop), || {})
    }

    #[test]
    fn the_end_of_a_child_is_told_with_its_last_words() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("exit 0", long, false), Ended::Well);
        let failed = shell("echo one >&2; echo two >&2; exit 3", long, false);
        assert_eq!(failed, Ended::Failed("one; two (exit status: 3)".to_owned()));
        assert!(matches!(
            run(Path::new("/nowhere"), &[], long, &AtomicBool::new(false), || {}),
            Ended::Failed(_)
        ));
    }

    #[test]
    fn a_child_is_stopped_when_the_lab_stops_or_its_time_is_over() {
        let asleep = "exec sleep 60";
        assert_eq!(shell(asleep, Duration::from_secs(60), true), Ended::Stopped);
        let Ended::Failed(why) = shell(asleep, Duration::ZERO, false) else { panic!("it was to be stopped") };
        assert!(why.contains("had not ended after 0 s"), "{why}");
    }
}
