//! `sidle migrate`: begins a migration, shows its progress, and reports how it ended.

use crate::cli::{MigrateArguments, MigrateCommand, SetArguments};
use crate::elsewhere;
use crate::hints;
use crate::node_connection::NodeConnection;
use crate::node_name;
use crate::range;
use serde_json::json;
use sidle_bench::control::started_migration;
use sidle_bench::terminal::{Line, Terminal};
use sidle_bench::words::{bytes, clock, count, counted, percent};
use sidle_cli::exit::{Failure, Status};
use sidle_cli::interrupt;
use sidle_cluster::MigrationStatus;
use sidle_node::read_protocol;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often the progress is requested.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often the coordinator is checked for an answer while a migration is being started.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How long the node may be unreachable before the display gives up. The migration does not.
const UNREACHABLE_PATIENCE: Duration = Duration::from_secs(15);

/// Runs `sidle migrate`.
pub(crate) fn run(arguments: &MigrateArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        match &arguments.command {
            None => {}
            Some(MigrateCommand::Set(set)) => return set_policy(set, arguments).await,
            Some(MigrateCommand::Cancel(words)) => return elsewhere::refuse_cancel("migrate cancel", words),
        }
        let mut node = NodeConnection::open(&arguments.via).await?;
        match arguments.cancel {
            Some(id) => cancel(&mut node, id, arguments.json).await,
            None => migrate(node, arguments).await,
        }
    })
}

async fn cancel(node: &mut NodeConnection, id: u64, json: bool) -> Result<(), Failure> {
    let reply = node.request(&["SIDLE.MIGRATE", "CANCEL", &id.to_string()]).await?;
    match started_migration(&reply) {
        Some(back) => {
            // The reply is the same long afterwards. It is done, whether the status is answered or not.
            let known = node.status().await.map(|report| report.migrations).unwrap_or_default();
            let (state, told) = turned(id, back.0, &known);
            match json {
                true => println!("{}", json!({ "id": id, "state": state, "by": back.0 })),
                false => println!("{told}"),
            }
        }
        None if json => println!("{}", json!({ "id": id, "state": "cancelled" })),
        None => println!("Migration {id} is cancelled; nothing has moved."),
    }
    Ok(())
}

/// How far a migration that was told to turn back has come, by the status: as a word and as a sentence.
fn turned(id: u64, back: u64, known: &[MigrationStatus]) -> (&'static str, String) {
    let find = |id| known.iter().find(|migration| migration.id.0 == id);
    if find(id).is_none_or(|migration| migration.state != "cancelled") {
        let told = format!(
            "Migration {id} turns back: once nothing is in transit, migration {back} returns what it gave, unless all \
             was given by then: it then ends as done, and there is no migration {back}. `sidle status` shows which."
        );
        return ("turning back", told);
    }
    let then = match find(back).map(|migration| migration.state.as_str()) {
        Some("done") => format!("migration {back} has returned what it gave"),
        Some("cancelled") => format!("migration {back}, its way back, was cancelled too"),
        Some("failed") => format!("migration {back}, its way back, failed: `sidle status` shows why"),
        _ => format!("migration {back} returns what it gave. `sidle status` shows it"),
    };
    ("turned back", format!("Migration {id} is over, cancelled; {then}."))
}

async fn set_policy(set: &SetArguments, arguments: &MigrateArguments) -> Result<(), Failure> {
    arguments.ensure_no_range()?;
    let policy = set.policy.policy().unwrap_or_default();
    let mut node = NodeConnection::open(&arguments.via).await?;
    let id = set.id.to_string();
    let words = policy.words();
    let mut request = vec!["SIDLE.MIGRATE", "SET", &id];
    request.extend(words.iter().map(String::as_str));
    node.request(&request).await?;
    println!("Migration {id}: {policy}.");
    Ok(())
}

async fn migrate(mut node: NodeConnection, arguments: &MigrateArguments) -> Result<(), Failure> {
    // Before the migration becomes visible: a signal is lost while its handler is being installed.
    let mut interrupt = interrupt::interrupts()?;
    let id = tokio::select! {
        id = start(&mut node, arguments) => id?,
        _ = interrupt.recv() => {
            let what = "interrupted before the node answered. `sidle status` shows whether the migration has begun";
            return Err(Failure::new(Status::Detached, what));
        }
    };
    if arguments.detach {
        if arguments.json {
            println!("{}", json!({ "id": id, "state": "begun" }));
        } else {
            println!("{}.", hints::reaching(&accepted(id, &arguments.protocol), &arguments.via.via));
        }
        return Ok(());
    }
    // Nothing without a terminal, or with JSON output.
    let display = Terminal::new(arguments.json).live();
    let ended = tokio::select! {
        ended = follow(node, arguments, id, &display) => ended,
        _ = interrupt.recv() => Err(Failure::new(
            Status::Detached,
            format!("migration {id} goes on without this display. `sidle status --watch` shows it"),
        )),
    }?;
    drop(display);
    report(&ended, arguments.json)
}

/// What can be done about a migration that begins.
fn accepted(id: u64, protocol: &str) -> String {
    let cancels = match read_protocol(protocol).is_ok_and(|outline| outline.gives_by_cuts) {
        true => "turns it back until all is given",
        false => "gives it up as long as it does not run",
    };
    format!("Migration {id} is accepted. `sidle status` shows it; `sidle migrate --cancel {id}` {cancels}")
}

/// Ends when the coordinator has not answered within the command line's timeout.
async fn silence(arguments: &MigrateArguments) {
    let asked = async || NodeConnection::open(&arguments.via).await?.status().await;
    loop {
        sleep(WATCH_INTERVAL).await;
        if let Err(failure) = asked().await
            && failure.status == Status::Unreachable
        {
            return;
        }
    }
}

/// Requests the migration and returns its number.
async fn start(node: &mut NodeConnection, arguments: &MigrateArguments) -> Result<u64, Failure> {
    let range = arguments.range().expect("the command line was checked: a range or --cancel");
    let to = arguments.to.as_deref().expect("the command line was checked: --to comes with a range");
    // Asked in any case: a node that does not answer this will not answer the request.
    let to = node_name::resolve(&node.status().await?, to)?;
    let [unit, range] = range::words(range);
    let policy = arguments.policy.policy().unwrap_or_default().words();
    let mut words = vec!["SIDLE.MIGRATE", "START", &unit, &range, "TO", &to, "PROTOCOL", &arguments.protocol];
    words.extend(policy.iter().map(String::as_str));
    let reply = node.watched_request(&words, silence(arguments)).await?;
    let id = started_migration(&reply);
    id.map(|id| id.0).ok_or_else(|| node.broken(format!("it answered {reply:?} to SIDLE.MIGRATE START")))
}

/// Follows the migration to its end. Survives the loss of the connection for a while.
async fn follow(
    mut node: NodeConnection,
    arguments: &MigrateArguments,
    id: u64,
    display: &Line,
) -> Result<MigrationStatus, Failure> {
    let mut answered_at = Instant::now();
    let mut shown = (String::new(), 0.0);
    loop {
        node.begin_anew();
        match node.status().await {
            Ok(report) => {
                answered_at = Instant::now();
                let found = report.migrations.into_iter().find(|migration| migration.id.0 == id);
                let migration = found.ok_or_else(|| {
                    Failure::new(Status::FailedInTheMiddle, format!("migration {id} is not known any more"))
                })?;
                if is_over(&migration.state) {
                    return Ok(migration);
                }
                shown = (migration.range_text.clone(), migration.fraction);
                display.show(&shown.0, shown.1, &progress_line(&migration));
            }
            Err(failure) if answered_at.elapsed() < UNREACHABLE_PATIENCE => {
                display.show(&shown.0, shown.1, &failure.message);
                if let Ok(again) = NodeConnection::open(&arguments.via).await {
                    node = again;
                }
            }
            Err(failure) => return Err(failure),
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Whether a migration in this state has ended.
pub(crate) fn is_over(state: &str) -> bool {
    matches!(state, "done" | "cancelled" | "failed")
}

/// Whether the range is copied before the migration runs.
pub(crate) fn is_copied(migration: &MigrationStatus) -> bool {
    migration.state == "preparing" && !migration.partitions.is_empty()
}

/// Reports how the migration ended, and fails unless it is done.
fn report(migration: &MigrationStatus, json: bool) -> Result<(), Failure> {
    if json {
        println!("{}", serde_json::to_string(migration).expect("a status is plain data"));
    }
    let MigrationStatus { id, range_text, .. } = migration;
    match migration.state.as_str() {
        "done" if json => Ok(()),
        "done" => {
            println!("{}", done(migration));
            Ok(())
        }
        "cancelled" => {
            let what = migration.turn.as_deref().unwrap_or("nothing has moved");
            Err(Failure::refused(format!("migration {id} was cancelled; {what}")))
        }
        _ => {
            let why = migration.why.as_deref().unwrap_or("no reason was given");
            // The target owns the range only from `running` on; an earlier failure has changed nothing.
            let status = if migration.epoch.0 == 0 { Status::Refused } else { Status::FailedInTheMiddle };
            Err(Failure::new(status, format!("migration {id} of {range_text} failed: {why}")))
        }
    }
}

/// How large the range was, by the source's count, and what it took to move it. What has arrived is no count
/// of keys: a record that changes behind its copy arrives again.
fn done(migration: &MigrationStatus) -> String {
    format!(
        "Migration {} is done: {}, {} when it was counted; {} sent{}.",
        migration.id,
        migration.range_text,
        counted(migration.records, "key"),
        bytes(migration.bytes_moved as f64),
        time_taken(migration),
    )
}

/// How long it took, and its mean rate, if that is known.
fn time_taken(migration: &MigrationStatus) -> String {
    match migration.elapsed_us {
        0 => "; its coordinator restarted meanwhile, so how long it took is not known".to_owned(),
        us => format!(" in {} ({}/s)", clock(us), bytes(migration.bytes_moved as f64 * 1e6 / us as f64)),
    }
}

/// The text behind the bar: how much, how fast, how long still.
fn progress_line(migration: &MigrationStatus) -> String {
    if let Some(why) = &migration.stalled {
        return format!("stalled: {why}");
    }
    if migration.state != "running" && !is_copied(migration) {
        return migration.state.clone();
    }
    if migration.fraction >= 1.0 && is_copied(migration) {
        return format!("copied; changes since that are left: {}", count(migration.changes_left));
    }
    let left = migration.remaining_us.map_or(String::new(), |us| format!(", {} left", clock(us)));
    format!(
        "{}, {} of {}, {}/s{left}",
        percent(migration.fraction),
        bytes(migration.bytes_moved as f64),
        bytes(migration.bytes.max(migration.bytes_moved) as f64),
        bytes(migration.bytes_per_second as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cancel_does_is_told_for_the_protocol() {
        for (protocol, cancels) in [
            ("fulva", "gives it up as long as it does not run"),
            ("source-driven,few=1", "gives it up as long as it does not run"),
            ("handoff", "turns it back until all is given"),
            ("handoff,hot-first=off", "turns it back until all is given"),
        ] {
            let told = accepted(7, protocol);
            assert!(told.ends_with(&format!("; `sidle migrate --cancel 7` {cancels}")), "{told}");
        }
    }

    fn migration(id: u64, state: &str) -> MigrationStatus {
        serde_json::from_value(json!({
            "id": id, "protocol": "source-driven", "policy": "adaptive", "range": ["0x0", "0x1"],
            "range_text": "slot 0", "source": "a".repeat(40), "target": "b".repeat(40), "epoch": 1,
            "state": state, "why": null, "activated": true, "fraction": 1.0, "records": 20_000,
            "bytes": 1_000_000, "records_moved": 20_008, "bytes_moved": 2_000_000, "elapsed_us": 1_000_000,
            "bytes_per_second": 0, "remaining_us": null, "changes_left": 0, "stalled": null,
            "gave_all": null, "partitions": []
        }))
        .expect("a migration")
    }

    #[test]
    fn a_cancel_that_is_repeated_tells_what_became_of_the_way_back() {
        let told = |of: &[(u64, &str)]| {
            let known: Vec<MigrationStatus> = of.iter().map(|&(id, state)| migration(id, state)).collect();
            turned(59, 60, &known)
        };
        for of in [&[][..], &[(59, "running")], &[(59, "done")], &[(60, "done")]] {
            let (state, told) = told(of);
            assert!(state == "turning back" && told.starts_with("Migration 59 turns back: once"), "{told}");
        }
        for (way_back, then) in [
            ("running", "migration 60 returns what it gave. `sidle status` shows it."),
            ("done", "migration 60 has returned what it gave."),
            ("cancelled", "migration 60, its way back, was cancelled too."),
            ("failed", "migration 60, its way back, failed: `sidle status` shows why."),
        ] {
            let told = told(&[(59, "cancelled"), (60, way_back)]);
            assert_eq!(told, ("turned back", format!("Migration 59 is over, cancelled; {then}")));
        }
    }

    #[test]
    fn keys_are_those_of_the_range_and_not_what_was_sent() {
        let told = "Migration 3 is done: slot 0, 20,000 keys when it was counted; 2.00 MB sent in 1.0 s (2.00 MB/s).";
        assert_eq!(done(&migration(3, "done")), told);
    }
}
