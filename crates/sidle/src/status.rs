//! `sidle status`: nodes, tablets and migrations as tables.

use crate::cli::StatusArguments;
use crate::hints;
use crate::node_connection::NodeConnection;
use crate::via::Via;
use crate::watch::watch;
use sidle_bench::words::{bytes, clock, count, counted, percent, stored_bytes};
use sidle_cli::exit::Failure;
use sidle_cli::table::{Align, Table};
use sidle_cluster::{
    LargeCollections, MigrationStatus, NodeState, NodeStatus, StatusReport, Tablet, Takeover,
    TakeoverProgress, TakeoverStatus,
};
use sidle_types::{LogId, MigrationPolicy, NodeId, Speaks};

/// How many ended migrations are shown by default: the last ones.
const ENDED_SHOWN: usize = 5;

/// Runs `sidle status`.
pub(crate) fn run(arguments: &StatusArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        if arguments.watch {
            watch(&arguments.via, arguments.json, async |node| shown(node, arguments).await).await
        } else {
            let mut node = NodeConnection::open(&arguments.via).await?;
            print!("{}", shown(&mut node, arguments).await?);
            Ok(())
        }
    })
}

async fn shown(node: &mut NodeConnection, arguments: &StatusArguments) -> Result<String, Failure> {
    if arguments.json {
        return Ok(format!("{}\n", node.status_text().await?));
    }
    let ended_shown = if arguments.all { usize::MAX } else { ENDED_SHOWN };
    Ok(render(&node.status().await?, ended_shown, &arguments.via.via))
}

/// The status as text, with this many of the ended migrations.
fn render(report: &StatusReport, ended_shown: usize, via: &Via) -> String {
    let StatusReport { cluster, cluster_version, map_epoch, .. } = report;
    let mut text = format!("Cluster {cluster}, {cluster_version}, map epoch {}\n\n", map_epoch.0);
    text += &troubles(report);
    text += &nodes(report);
    text += &lost(report, via);
    text += &not_taken_over(report, via);
    text += "\n";
    text += &tablets(report);
    text += &takeovers(report, via);
    if !report.migrations.is_empty() {
        text += "\n";
        text += &migrations(report, ended_shown);
    }
    text
}

/// The troubles that need attention.
fn troubles(report: &StatusReport) -> String {
    let mut text = String::new();
    if let Some(trouble) = &report.record_trouble {
        text += &format!("WARNING: the cluster's record is in danger: {trouble}\n");
    }
    for node in &report.nodes {
        if let Some(trouble) = &node.trouble {
            text += &format!("WARNING: node {}: {trouble}\n", name(report, node.id));
        }
    }
    if !text.is_empty() {
        text += "\n";
    }
    text
}

fn nodes(report: &StatusReport) -> String {
    let has_copies = report.nodes.iter().any(|node| !node.log_copies.is_empty());
    let mut columns = vec![
        ("NODE", Align::Left),
        ("CLIENTS AT", Align::Left),
        ("STATE", Align::Left),
        ("INCARNATION", Align::Right),
        ("SPEAKS", Align::Left),
        ("SLOTS", Align::Right),
        ("KEYS", Align::Right),
        ("MEMORY", Align::Right),
        ("OF", Align::Right),
    ];
    if has_copies {
        columns.push(("LOG COPIES AT", Align::Left));
    }
    let mut table = Table::new(&columns);
    for node in &report.nodes {
        let copies: Vec<String> = node.log_copies.iter().map(|&id| short(id)).collect();
        let row = [
            short(node.id),
            node.client_addr.to_string(),
            state(report, node),
            node.incarnation.0.to_string(),
            spoken(node.speaks),
            node.slots.to_string(),
            reported(node, count(node.keys)),
            reported(node, stored_bytes(node.memory_used_bytes)),
            reported(node, stored_bytes(node.memory_limit_bytes)),
        ];
        let copies = if copies.is_empty() { "none".to_owned() } else { copies.join(", ") };
        table.row(row.into_iter().chain(has_copies.then_some(copies)));
    }
    table.to_string()
}

/// A figure that a node reports of itself: nothing in place of one that is not known, or not true any more.
fn reported(node: &NodeStatus, figure: String) -> String {
    let has_reported = node.state == NodeState::Up || node.memory_limit_bytes > 0;
    if has_reported { figure } else { "-".to_owned() }
}

/// How many tablets a node owns of which to say what can be done, since it is down.
fn lost_tablets(report: &StatusReport, node: &NodeStatus) -> usize {
    let is_new_owner = report.takeovers.iter().any(|takeover| takeover.of.owner == node.id);
    match node.state {
        NodeState::Failed if !is_new_owner => {
            report.tablets.iter().filter(|tablet| tablet.owner == node.id).count()
        }
        _ => 0,
    }
}

/// What to do about nodes that are down and own something.
fn lost(report: &StatusReport, via: &Via) -> String {
    let one = |node: &NodeStatus| {
        let tablets = Some(lost_tablets(report, node)).filter(|&tablets| tablets > 0)?;
        let otherwise = match &node.takeover_refused {
            _ if node.log_copies.is_empty() => "; no other node has a copy of its log".to_owned(),
            Some(why) => format!(". Nobody can take over what it had: {why}"),
            None => format!(
                ", or have those with copies of its log take over what it had: `sidle takeover {}`",
                argument(report, node.id)
            ),
        };
        let (who, owns) = (name(report, node.id), counted(tablets, "tablet"));
        let line =
            format!("{who} is down and owns {owns}: start it again with its data directory{otherwise}");
        Some(hints::reaching(&line, via) + "\n")
    };
    let lines: String = report.nodes.iter().filter_map(one).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Why nodes are not taken over by themselves that should be.
fn not_taken_over(report: &StatusReport, via: &Via) -> String {
    let one = |node: &NodeStatus| {
        let is_told = lost_tablets(report, node) > 0 && node.not_taken_over == node.takeover_refused;
        let why = node.not_taken_over.as_ref().filter(|_| !is_told)?;
        let line = format!("{} cannot be taken over by itself yet: {why}", name(report, node.id));
        Some(hints::reaching(&line, via) + "\n")
    };
    let lines: String = report.nodes.iter().filter_map(one).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Whether the node is up; if not, how long it has been silent; and whether it runs the
/// coordinator.
fn state(report: &StatusReport, node: &NodeStatus) -> String {
    let mut text = node.state.to_string();
    if node.state != NodeState::Up {
        text +=
            &node.silent_us.map_or(", not heard of".to_owned(), |us| format!(", silent for {}", clock(us)));
    }
    if node.id == report.coordinator {
        text += ", coordinator";
    }
    text
}

/// The versions in a few characters.
fn spoken(speaks: Option<Speaks>) -> String {
    match speaks {
        None => "?".to_owned(),
        Some(Speaks { lowest, highest }) if lowest == highest => lowest.0.to_string(),
        Some(Speaks { lowest, highest }) => format!("{} to {}", lowest.0, highest.0),
    }
}

fn tablets(report: &StatusReport) -> String {
    let mut table = Table::new(&[("TABLET", Align::Left), ("OWNER", Align::Left), ("EPOCH", Align::Right)]);
    for Tablet { range, owner, epoch } in &report.tablets {
        table.row([range.to_string(), name(report, *owner), epoch.0.to_string()]);
    }
    table.to_string()
}

/// How far that is.
fn how_far(progress: TakeoverProgress) -> String {
    let TakeoverProgress {
        fetched_bytes, fetch_bytes, read_bytes, copy_bytes, put_bytes, found_bytes, ..
    } = progress;
    let of = |done: u64, all: u64| format!("{} of {}", bytes(done.min(all) as f64), bytes(all as f64));
    match found_bytes {
        0 if copy_bytes == 0 && progress.fetched_from.is_some() => match fetch_bytes {
            0 => "; that node has yet to answer".to_owned(),
            _ => format!("; {} of the copy are fetched", of(fetched_bytes, fetch_bytes)),
        },
        0 => format!("; {} of the copy are read", of(read_bytes, copy_bytes)),
        _ => format!("; {} of what it found are put in", of(put_bytes, found_bytes)),
    }
}

/// How far this node has read a copy of that log, if it is at that.
fn progress_of(report: &StatusReport, node: NodeId, log: LogId) -> Option<TakeoverProgress> {
    let progress = report.nodes.iter().find(|shown| shown.id == node)?.taking_over?;
    (progress.log == Some(log)).then_some(progress)
}

/// What is being read of dead nodes, or is to be.
fn takeovers(report: &StatusReport, via: &Via) -> String {
    let line = |TakeoverStatus { of, trouble }: &TakeoverStatus| {
        let Takeover { range, owner, dead, .. } = of;
        let (new, from) = (name(report, *owner), name(report, dead.from));
        let node = report.nodes.iter().find(|node| node.id == *owner);
        let is_up = node.is_some_and(|node| node.state == NodeState::Up);
        let progress = progress_of(report, *owner, dead.log).filter(|_| is_up);
        let has_copy = dead.backups.iter().any(|backup| backup.node == *owner);
        let copy = match progress.map(|progress| progress.fetched_from) {
            Some(Some(at)) => {
                format!("from a copy of the log of {from}, which it fetches from {}", name(report, at))
            }
            _ if has_copy => format!("from its copy of the log of {from}"),
            _ => format!("from a copy of the log of {from}, which it fetches"),
        };
        if is_up {
            let how = match trouble {
                Some(why) => format!("requests get CLUSTERDOWN, and it tries again, since {why}"),
                None if progress.is_some_and(|progress| progress.is_past_failure) => {
                    "requests get CLUSTERDOWN until it has it".to_owned()
                }
                None => "requests wait".to_owned(),
            };
            let how = how + &progress.map_or_else(String::new, how_far);
            return format!("{new} is taking {range} over, {copy}: {how}\n");
        }
        let helps = match node.and_then(|node| node.takeover_refused.as_ref()) {
            Some(why) => format!("start it. Nobody else can do that: {why}"),
            None => format!("start it, or `sidle takeover {}`", argument(report, *owner)),
        };
        let line = format!("{new} is to take {range} over, {copy}, and is down: {helps}");
        hints::reaching(&line, via) + "\n"
    };
    report.takeovers.iter().map(line).collect()
}

fn migrations(report: &StatusReport, ended_shown: usize) -> String {
    let mut table = Table::new(&[
        ("MIGRATION", Align::Right),
        ("RANGE", Align::Left),
        ("FROM", Align::Left),
        ("TO", Align::Left),
        ("HOW", Align::Left),
        ("STATE", Align::Left),
        ("DONE", Align::Right),
        ("MOVED", Align::Right),
        ("RATE", Align::Right),
        ("LEFT", Align::Right),
    ]);
    let (shown, hidden) = without_long_ended(&report.migrations, ended_shown);
    for migration in &shown {
        let runs = migration.state == "running" || crate::migrate::is_copied(migration);
        table.row([
            migration.id.to_string(),
            migration.range_text.clone(),
            name(report, migration.source),
            name(report, migration.target),
            manner(migration),
            migration.stalled.as_ref().map_or(migration.state.clone(), |_| "stalled".to_owned()),
            percent(migration.fraction),
            bytes(migration.bytes_moved as f64),
            if runs { format!("{}/s", bytes(migration.bytes_per_second as f64)) } else { "-".to_owned() },
            migration.remaining_us.filter(|_| runs).map_or("-".to_owned(), clock),
        ]);
    }
    let mut text = table.to_string();
    if hidden > 0 {
        text += &format!(
            "Not shown: {} that ended earlier. --all shows all that the cluster remembers.\n",
            counted(hidden, "migration")
        );
    }
    for migration in &shown {
        if let Some(why) = &migration.stalled {
            let progress = migration.source_log.and_then(|log| progress_of(report, migration.target, log));
            let how = progress.map_or_else(String::new, how_far);
            text += &format!("Migration {} is stalled: {why}{how}\n", migration.id);
        }
        if let Some(why) = &migration.gave_all {
            text += &format!("Migration {} gave all that was left at once: {why}\n", migration.id);
        }
        if let Some(moved) = large_collections(migration.collections) {
            text += &format!("Migration {} {moved}\n", migration.id);
        }
        if let Some(turn) = &migration.turn {
            text += &format!("Migration {} {turn}\n", migration.id);
        }
        if let Some(why) = &migration.why {
            text += &format!("Migration {} failed: {why}\n", migration.id);
        }
    }
    text
}

/// What was moved of large collections: only what there was.
fn large_collections(moved: LargeCollections) -> Option<String> {
    let LargeCollections { arrived, ahead, patch_bytes } = moved;
    let mut parts = Vec::new();
    if arrived > 0 {
        parts.push(format!("moved {} chunk by chunk", counted(arrived, "large collection")));
    }
    if ahead > 0 {
        parts.push(format!("copied {} before the range changed its owner", count(ahead)));
    }
    if patch_bytes > 0 {
        parts.push(format!(
            "sent {} of what changed in them since they were copied",
            bytes(patch_bytes as f64)
        ));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// All migrations but the ended ones before the last `ended_shown`, and the number of those left out.
fn without_long_ended(all: &[MigrationStatus], ended_shown: usize) -> (Vec<&MigrationStatus>, usize) {
    let is_over = |migration: &MigrationStatus| crate::migrate::is_over(&migration.state);
    let hidden = all.iter().filter(|migration| is_over(migration)).count().saturating_sub(ended_shown);
    let mut skipped = 0;
    let is_shown = |migration: &&MigrationStatus| {
        let is_hidden = is_over(migration) && skipped < hidden;
        skipped += usize::from(is_hidden);
        !is_hidden
    };
    (all.iter().filter(is_shown).collect(), hidden)
}

/// The protocol, and the policy if one was set.
fn manner(migration: &MigrationStatus) -> String {
    match migration.policy {
        MigrationPolicy::Adaptive => migration.protocol.clone(),
        policy => format!("{}, {policy}", migration.protocol),
    }
}

/// A node by its client address, and by its id if that adds something: several members have been at the
/// address, or it is no longer a member.
pub(crate) fn name(report: &StatusReport, id: NodeId) -> String {
    let Some(node) = report.nodes.iter().find(|node| node.id == id) else { return short(id) };
    match is_alone(report, node) {
        true => node.client_addr.to_string(),
        false => format!("{} ({})", node.client_addr, short(id)),
    }
}

/// A node as command lines name it.
pub(crate) fn argument(report: &StatusReport, id: NodeId) -> String {
    let node = report.nodes.iter().find(|node| node.id == id && is_alone(report, node));
    node.map_or_else(|| short(id), |node| node.client_addr.to_string())
}

/// Whether no other member has been at its address.
fn is_alone(report: &StatusReport, node: &NodeStatus) -> bool {
    !report.nodes.iter().any(|other| other.id != node.id && other.client_addr == node.client_addr)
}

fn short(id: NodeId) -> String {
    id.to_string()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_are_told_apart_and_their_standing_is_shown() {
        let node = |digit: &str, address: &str, state: &str, silent_us: Option<u64>| {
            json!({
                "id": digit.repeat(40), "incarnation": 7, "client_addr": address, "bus_addr": "127.0.0.1:9",
                "state": state, "silent_us": silent_us, "map_epoch": 1, "keys": 0, "memory_used_bytes": 0,
                "memory_limit_bytes": 0, "slots": 0, "speaks": { "lowest": 3, "highest": 4 }
            })
        };
        let report: StatusReport = serde_json::from_value(json!({
            "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1,
            "nodes": [
                node("a", "127.0.0.1:1", "up", Some(0)),
                node("b", "127.0.0.1:2", "fail?", Some(12_300_000)),
                node("c", "127.0.0.1:2", "up", Some(0)),
                node("d", "127.0.0.1:3", "fail?", None),
            ],
            "tablets": [], "migrations": []
        }))
        .expect("a report");
        let shown = nodes(&report);
        let states: Vec<String> = report.nodes.iter().map(|node| state(&report, node)).collect();
        assert_eq!(states, ["up, coordinator", "fail?, silent for 12.3 s", "up", "fail?, not heard of"]);
        assert!(shown.contains("INCARNATION") && shown.lines().count() == 5, "{shown}");
        assert!(shown.contains("SPEAKS") && shown.contains("3 to 4"), "{shown}");
        let names: Vec<String> = report.nodes.iter().map(|node| name(&report, node.id)).collect();
        let expected = ["127.0.0.1:1", "127.0.0.1:2 (bbbbbbbb)", "127.0.0.1:2 (cccccccc)", "127.0.0.1:3"];
        assert_eq!(names, expected);
    }

    fn via() -> Via {
        Via { via: "127.0.0.1:6379".to_owned(), password: None }
    }

    /// Node `a` is up; `b` has these, and is in this state.
    fn with_node(state: &str, limit: u64, owns: bool, takes_over: bool) -> String {
        let node = |digit: &str, port: u16, state: &str, limit: u64| {
            json!({
                "id": digit.repeat(40), "incarnation": 1, "client_addr": format!("h:{port}"),
                "bus_addr": "h:9", "state": state, "silent_us": 0, "map_epoch": 1, "keys": 0,
                "memory_used_bytes": 0, "memory_limit_bytes": limit, "slots": 0,
                "log_copies": ["a".repeat(40)]
            })
        };
        let range = ["0x0000000000000000", "0x0003ffffffffffff"];
        let tablet = json!({ "range": range, "owner": "b".repeat(40), "epoch": 1 });
        let takeover = json!({
            "range": range, "owner": "b".repeat(40), "epoch": 1, "from": "c".repeat(40), "log": "7".repeat(32),
            "log_epoch": 2, "backups": []
        });
        let report = json!({
            "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1,
            "nodes": [node("a", 1, "up", 1 << 20), node("b", 2, state, limit)],
            "tablets": if owns { vec![tablet] } else { vec![] }, "migrations": [],
            "takeovers": if takes_over { vec![takeover] } else { vec![] }
        });
        render(&serde_json::from_value(report).expect("a report"), 0, &via())
    }

    #[test]
    fn why_a_node_is_not_taken_over_by_itself_is_shown() {
        let node = |why: Option<&str>| {
            json!({
                "id": "b".repeat(40), "incarnation": 1, "client_addr": "h:2", "bus_addr": "h:9", "state": "fail",
                "silent_us": 9_000_000, "map_epoch": 1, "keys": 0, "memory_used_bytes": 0,
                "memory_limit_bytes": 0, "slots": 0, "not_taken_over": why
            })
        };
        let shown = |why| {
            let report = json!({
                "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1, "nodes": [node(why)],
                "tablets": [], "migrations": []
            });
            render(&serde_json::from_value(report).expect("a report"), 0, &via())
        };
        assert!(
            shown(Some("nobody can read its log"))
                .contains("\nh:2 cannot be taken over by itself yet: nobody can read its log\n")
        );
        assert!(!shown(None).contains("taken over"));
    }

    /// Node `b` owns something and is down; whether that can be taken over is said once, and what does not
    /// help not at all.
    #[test]
    fn what_to_do_about_a_dead_node_does_not_contradict_itself() {
        let why = "node h:2 takes part in migration 2. Nobody else can go on with that: have one more join";
        let shown = |refused: Option<&str>, not_by_itself: Option<&str>| {
            let node = json!({
                "id": "b".repeat(40), "incarnation": 1, "client_addr": "h:2", "bus_addr": "h:9", "state": "fail",
                "silent_us": 9_000_000, "map_epoch": 1, "keys": 0, "memory_used_bytes": 0,
                "memory_limit_bytes": 0, "slots": 0, "log_copies": ["a".repeat(40)],
                "not_taken_over": not_by_itself, "takeover_refused": refused
            });
            let tablet = json!({
                "range": ["0x0000000000000000", "0x0003ffffffffffff"], "owner": "b".repeat(40), "epoch": 1
            });
            let report = json!({
                "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1, "nodes": [node],
                "tablets": [tablet], "migrations": []
            });
            render(&serde_json::from_value(report).expect("a report"), 0, &via())
        };
        for not_by_itself in [None, Some(why)] {
            let shown = shown(Some(why), not_by_itself);
            let told =
                format!("start it again with its data directory. Nobody can take over what it had: {why}\n");
            assert!(shown.contains(&told), "{shown}");
            assert!(!shown.contains("sidle takeover") && shown.matches(why).count() == 1, "{shown}");
        }
        assert!(shown(None, None).contains("`sidle takeover h:2`"));
    }

    /// What node `b` takes over of node `c`, which has its copy at these nodes.
    fn takes_over(copy_at: &str, progress: serde_json::Value, trouble: Option<&str>) -> String {
        let node = |digit: &str, port: u16, progress: serde_json::Value| {
            json!({
                "id": digit.repeat(40), "incarnation": 1, "client_addr": format!("h:{port}"), "bus_addr": "h:9",
                "state": "up", "silent_us": 0, "map_epoch": 1, "keys": 0, "memory_used_bytes": 0,
                "memory_limit_bytes": 1 << 20, "slots": 0, "taking_over": progress
            })
        };
        let takeover = json!({
            "range": ["0x0000000000000000", "0x0003ffffffffffff"], "owner": "b".repeat(40), "epoch": 1,
            "from": "c".repeat(40), "log": "7".repeat(32), "log_epoch": 2,
            "backups": [{ "node": copy_at.repeat(40), "incarnation": 1 }], "trouble": trouble
        });
        let report = json!({
            "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1, "tablets": [],
            "nodes": [node("a", 1, json!(null)), node("b", 2, progress)], "migrations": [],
            "takeovers": [takeover]
        });
        let shown = render(&serde_json::from_value(report).expect("a report"), 0, &via());
        shown.lines().find(|line| line.contains("is taking")).expect("it is shown").to_owned()
    }

    #[test]
    fn what_is_fetched_is_shown_with_how_much_of_how_much_and_from_whom() {
        let at = |log: &str, fetched: u64, all: u64, read: u64, is_past: bool| {
            json!({
                "log": log.repeat(32), "fetched_from": "a".repeat(40), "fetched_bytes": fetched,
                "fetch_bytes": all, "read_bytes": read, "copy_bytes": 2 * read, "put_bytes": 0, "found_bytes": 0,
                "is_past_failure": is_past
            })
        };
        let is_taking = "h:2 is taking slot 0 over, from";
        for (copy_at, progress, trouble, told) in [
            ("b", json!(null), None, "its copy of the log of cccccccc: requests wait"),
            ("a", json!(null), None, "a copy of the log of cccccccc, which it fetches: requests wait"),
            (
                "a",
                at("8", 1, 2, 0, false),
                None,
                "a copy of the log of cccccccc, which it fetches: requests wait",
            ),
            (
                "a",
                at("7", 0, 0, 0, false),
                None,
                "a copy of the log of cccccccc, which it fetches from h:1: requests wait; that node has yet to answer",
            ),
            (
                "a",
                at("7", 1_000_000, 4_000_000, 0, false),
                Some("there is no room"),
                "a copy of the log of cccccccc, which it fetches from h:1: requests get CLUSTERDOWN, and it tries \
                 again, since there is no room; 1.00 MB of 4.00 MB of the copy are fetched",
            ),
            (
                "a",
                at("7", 2_000_000, 4_000_000, 0, true),
                None,
                "a copy of the log of cccccccc, which it fetches from h:1: requests get CLUSTERDOWN until it has it; \
                 2.00 MB of 4.00 MB of the copy are fetched",
            ),
            (
                "a",
                at("7", 4_000_000, 4_000_000, 1_000_000, false),
                None,
                "a copy of the log of cccccccc, which it fetches from h:1: requests wait; 1.00 MB of 2.00 MB of the copy \
                 are read",
            ),
        ] {
            assert_eq!(takes_over(copy_at, progress, trouble), format!("{is_taking} {told}"));
        }
    }

    #[test]
    fn what_a_dead_node_owns_comes_with_what_to_do() {
        let told = "h:2 is down and owns 1 tablet: start it again with its data directory, or have those with copies of \
                    its log take over what it had: `sidle takeover h:2`\n";
        assert!(with_node("fail", 1 << 20, true, false).contains(told));
        for (state, owns) in [("up", true), ("fail?", true), ("fail", false)] {
            assert!(!with_node(state, 1 << 20, owns, false).contains("is down"), "{state}");
        }
    }

    #[test]
    fn a_new_owner_that_is_down_takes_nothing_over() {
        let shown = with_node("up", 1 << 20, true, true);
        assert!(shown.contains(
            "h:2 is taking slot 0 over, from a copy of the log of cccccccc, which it fetches: requests"
        ));
        let shown = with_node("fail", 1 << 20, true, true);
        assert!(
            shown.contains("cccccccc, which it fetches, and is down: start it, or `sidle takeover h:2`\n"),
            "{shown}"
        );
        assert_eq!(shown.matches("is down").count(), 1, "{shown}");
    }

    #[test]
    fn a_member_of_which_nothing_is_known_shows_no_figures() {
        let figures = |shown: String| {
            let row = shown.lines().find(|line| line.contains("h:2")).expect("its row").to_owned();
            row.split_whitespace().filter(|word| *word == "-").count()
        };
        assert_eq!(figures(with_node("fail", 0, false, false)), 3);
        assert_eq!(figures(with_node("fail", 1 << 20, true, false)), 0, "what it reported last");
    }

    #[test]
    fn of_large_collections_only_what_happened_is_told() {
        let told = |arrived, ahead, patch_bytes| {
            large_collections(LargeCollections { arrived, ahead, patch_bytes }).unwrap_or_default()
        };
        assert_eq!(told(0, 0, 0), "");
        assert_eq!(told(1, 0, 0), "moved 1 large collection chunk by chunk");
        let handoff = "moved 3 large collections chunk by chunk, sent 117 B of what changed in them since they were copied";
        assert_eq!(told(3, 0, 117), handoff);
        let copied = "copied 2 before the range changed its owner";
        assert_eq!(told(0, 2, 0), copied, "of a migration that has just begun to run");
        assert_eq!(told(2, 2, 0), format!("moved 2 large collections chunk by chunk, {copied}"));
    }

    #[test]
    fn migrations_that_are_left_out_are_counted_and_can_be_asked_for() {
        let migration = |id: u64, state: &str, why: Option<&str>| {
            json!({
                "id": id, "protocol": "fulva", "policy": "adaptive", "range": ["0x0", "0x1"],
                "range_text": "slot 0", "source": "a".repeat(40), "target": "b".repeat(40), "epoch": 1,
                "state": state, "why": why, "activated": true, "fraction": 1.0, "records": 1, "bytes": 1,
                "records_moved": 1, "bytes_moved": 1, "elapsed_us": 1, "bytes_per_second": 0,
                "remaining_us": null, "changes_left": 0, "stalled": null, "gave_all": null, "partitions": []
            })
        };
        let mut list = vec![migration(1, "failed", Some("the disk")), migration(2, "running", None)];
        list.extend((3..9).map(|id| migration(id, "done", None)));
        let list: Vec<MigrationStatus> = serde_json::from_value(json!(list)).expect("migrations");
        let report = |list: &[MigrationStatus]| StatusReport {
            migrations: list.to_vec(),
            ..serde_json::from_value(json!({
                "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1, "nodes": [],
                "tablets": [], "migrations": []
            }))
            .expect("a report")
        };
        let render = |report: &StatusReport, ended_shown| render(report, ended_shown, &via());
        let text = render(&report(&list), ENDED_SHOWN);
        assert!(text.contains("Not shown: 2 migrations that ended earlier. --all shows"), "{text}");
        assert!(!text.contains("the disk"), "what is not shown is not explained: {text}");
        assert_eq!(text.lines().filter(|line| line.contains("slot 0")).count(), 6);
        let all = render(&report(&list), usize::MAX);
        assert!(!all.contains("Not shown") && all.contains("Migration 1 failed: the disk"), "{all}");
        assert_eq!(all.lines().filter(|line| line.contains("slot 0")).count(), 8);
        assert!(render(&report(&list[1..]), ENDED_SHOWN).contains("Not shown: 1 migration that"));
        assert!(!render(&report(&list[1..7]), ENDED_SHOWN).contains("Not shown"));
    }
}
