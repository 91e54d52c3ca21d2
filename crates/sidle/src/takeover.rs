//! `sidle takeover`: has nodes with copies of its durable log take over what a node had that died.

use crate::cli::TakeoverArguments;
use crate::hints;
use crate::node_connection::NodeConnection;
use crate::node_name;
use crate::status::{argument, name};
use sidle_bench::words::{clock, counted};
use sidle_cli::exit::{Failure, Status};
use sidle_cluster::{NodeState, StatusReport, TakeoverStatus};
use sidle_resp::Value;
use sidle_types::NodeId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often it looks how far that has come.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After how long without a change it says where the reason may be found.
const LONG: Duration = Duration::from_secs(30);

/// Runs `sidle takeover`.
pub(crate) fn run(arguments: &TakeoverArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let mut node = NodeConnection::open(&arguments.via).await?;
        let before = node.status().await?;
        let asked = node_name::resolve(&before, &arguments.node)?;
        let began = Instant::now();
        let mut request = vec!["SIDLE.TAKEOVER", &asked];
        request.extend(arguments.accept_loss.then_some("ACCEPT-LOSS"));
        if node.request(&request).await? == Value::Integer(0) {
            println!("Of node {} nothing is left to be taken over.", arguments.node);
            return Ok(());
        }
        println!("Taking over what node {} had, from copies of its durable log.", arguments.node);
        let patience = Duration::from_secs(arguments.via.timeout);
        let mut wait = Wait::new(&before, &asked, &arguments.node, patience, began);
        loop {
            node.begin_anew();
            let report = node.status().await?;
            match wait.look(&report, Instant::now())? {
                Look::Over => {
                    let took = clock(began.elapsed().as_micros() as u64);
                    println!("Node {} is taken over, in {took}.", arguments.node);
                    if let Some(goes_on) = wait.goes_on(&report) {
                        println!("{}", hints::reaching(&goes_on, &arguments.via.via));
                    }
                    return Ok(());
                }
                Look::News(news) => println!("{news}"),
                Look::Nothing => {}
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
}

/// What a look at the status shows.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Everything is read.
    Over,
    /// What is worth a line.
    News(String),
    Nothing,
}

/// The wait for new owners.
struct Wait<'a> {
    /// The dead node, as the command line names it.
    dead: &'a str,
    id: Option<NodeId>,
    patience: Duration,
    /// For whom it waits, as told last, and since when.
    told: String,
    since: Instant,
    /// Whether it was told that this is long.
    is_long_told: bool,
}

impl<'a> Wait<'a> {
    /// `before`: the members when the node's name was resolved to `asked`.
    fn new(before: &StatusReport, asked: &str, dead: &'a str, patience: Duration, now: Instant) -> Wait<'a> {
        let node = before.nodes.iter().find(|node| {
            node.id.to_string().eq_ignore_ascii_case(asked)
                || [&node.client_addr, &node.bus_addr].iter().any(|address| address.to_string() == asked)
        });
        let id = node.map(|node| node.id);
        Wait { dead, id, patience, told: String::new(), since: now, is_long_told: false }
    }

    /// # Errors
    /// Nothing has changed for as long as the command may wait, and a new owner is down.
    fn look(&mut self, report: &StatusReport, now: Instant) -> Result<Look, Failure> {
        let is_it = |shown: &&TakeoverStatus| self.id.is_some_and(|id| shown.of.is_of_node(id));
        let mut owners: BTreeMap<NodeId, Left<'_>> = BTreeMap::new();
        for TakeoverStatus { of, trouble } in report.takeovers.iter().filter(is_it) {
            let left = owners.entry(of.owner).or_default();
            left.ranges += 1;
            left.trouble = left.trouble.or(trouble.as_deref());
        }
        if owners.is_empty() {
            return Ok(Look::Over);
        }
        let told = waits_for(report, &owners);
        if told != self.told {
            (self.told, self.since, self.is_long_told) = (told.clone(), now, false);
            return Ok(Look::News(told));
        }
        let unchanged = now.duration_since(self.since);
        let down: Vec<NodeId> = owners.keys().copied().filter(|&owner| !is_up(report, owner)).collect();
        if !down.is_empty() {
            return match unchanged < self.patience {
                true => Ok(Look::Nothing),
                false => Err(Failure::new(Status::FailedInTheMiddle, self.given_up(report, &down))),
            };
        }
        if unchanged < LONG || std::mem::replace(&mut self.is_long_told, true) {
            return Ok(Look::Nothing);
        }
        let names: Vec<String> = owners.keys().map(|&owner| name(report, owner)).collect();
        Ok(Look::News(format!(
            "Nothing has changed for {} s. Should there be no room for it, or the copy be damaged, the log of {} \
             says so. Waiting on; Ctrl-C ends only this display.",
            LONG.as_secs(),
            names.join(", and of ")
        )))
    }

    fn given_up(&self, report: &StatusReport, down: &[NodeId]) -> String {
        let names: Vec<String> = down.iter().map(|&owner| name(report, owner)).collect();
        let (are, them) = if down.len() == 1 { ("is", "it") } else { ("are", "them") };
        let refusal = |owner: NodeId| {
            let node = report.nodes.iter().find(|node| node.id == owner)?;
            node.takeover_refused.as_deref()
        };
        let command = |owner: &NodeId| format!("`sidle takeover {}`", argument(report, *owner));
        let (refused, offered): (Vec<NodeId>, Vec<NodeId>) =
            down.iter().partition(|owner| refusal(**owner).is_some());
        let commands: Vec<String> = offered.iter().map(command).collect();
        let offer = match commands.is_empty() {
            true => String::new(),
            false => format!("; or have others do it that have copies: {}", commands.join(", ")),
        };
        let reasons = refused.iter().filter_map(|owner| {
            Some(format!(". {} would be refused: {}", command(owner), refusal(*owner)?.trim_end_matches('.')))
        });
        format!(
            "what node {} had is not taken over yet: {} {are} down. Start {them}, and it goes on by itself{offer}{}. \
             This command, given again, waits on",
            self.dead,
            names.join(" and "),
            reasons.collect::<String>()
        )
    }

    /// The migrations from the node that go on without it.
    fn goes_on(&self, report: &StatusReport) -> Option<String> {
        let runs = report.migrations.iter().find(|migration| {
            Some(migration.source) == self.id && !crate::migrate::is_over(&migration.state)
        })?;
        Some(format!(
            "Migration {} goes on without it, from a copy of its log: `sidle status` shows it.",
            runs.id
        ))
    }
}

/// What a new owner is still to read.
#[derive(Default)]
struct Left<'r> {
    ranges: u64,
    /// Why it could not when it tried last.
    trouble: Option<&'r str>,
}

/// Who has how much to read.
fn waits_for(report: &StatusReport, owners: &BTreeMap<NodeId, Left<'_>>) -> String {
    let one = |(&owner, left): (&NodeId, &Left<'_>)| {
        let how = match left.trouble {
            _ if !is_up(report, owner) => " and is down".to_owned(),
            Some(why) => format!(" and cannot for now, since {why}"),
            None => String::new(),
        };
        format!("{} has {} to read{how}", name(report, owner), counted(left.ranges, "range"))
    };
    let all: Vec<String> = owners.iter().map(one).collect();
    format!("Waiting: {}.", all.join("; "))
}

fn is_up(report: &StatusReport, id: NodeId) -> bool {
    report.nodes.iter().any(|node| node.id == id && node.state == NodeState::Up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Node `d` is dead; of its ranges these are left, each with its owner.
    fn report(left: &[&str], is_down: &[&str]) -> StatusReport {
        let node = |digit: &str| {
            json!({
                "id": digit.repeat(40), "incarnation": 1, "client_addr": format!("{digit}:1"),
                "bus_addr": format!("{digit}:2"), "silent_us": 0, "map_epoch": 1, "keys": 0, "slots": 0,
                "state": if is_down.contains(&digit) { "fail" } else { "up" },
                "memory_used_bytes": 0, "memory_limit_bytes": 0
            })
        };
        let takeover = |(index, owner): (usize, &&str)| {
            json!({
                "range": [format!("0x{index}000000000000000"), format!("0x{index}fffffffffffffff")],
                "owner": owner.repeat(40), "epoch": 2, "from": "d".repeat(40), "log": "7".repeat(32),
                "log_epoch": 2, "backups": []
            })
        };
        serde_json::from_value(json!({
            "cluster": "7".repeat(32), "coordinator": "a".repeat(40), "map_epoch": 1, "tablets": [],
            "nodes": (["a", "b", "d"].map(node)), "migrations": [],
            "takeovers": left.iter().enumerate().map(takeover).collect::<Vec<_>>()
        }))
        .expect("a report")
    }

    const PATIENCE: Duration = Duration::from_secs(5);

    #[test]
    fn it_is_told_for_whom_it_waits_whenever_that_changes() {
        let now = Instant::now();
        let mut wait = Wait::new(&report(&[], &["d"]), "d:1", "d:1", PATIENCE, now);
        let mut look = |left: &[&str], down: &[&str]| wait.look(&report(left, down), now).expect("it waits");
        let news = |text: &str| Look::News(text.to_owned());
        let both = news("Waiting: a:1 has 1 range to read; b:1 has 2 ranges to read.");
        assert_eq!(look(&["a", "b", "b"], &["d"]), both);
        assert_eq!(look(&["a", "b", "b"], &["d"]), Look::Nothing);
        assert_eq!(look(&["b"], &["d"]), news("Waiting: b:1 has 1 range to read."));
        assert_eq!(look(&["b"], &["b", "d"]), news("Waiting: b:1 has 1 range to read and is down."));
        assert_eq!(look(&[], &["b", "d"]), Look::Over);
    }

    #[test]
    fn a_new_owner_that_is_down_ends_the_wait_and_one_that_is_up_does_not() {
        let began = Instant::now();
        let mut wait = Wait::new(&report(&[], &["d"]), &"d".repeat(40), "d:1", PATIENCE, began);
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut look = |down: &[&str], seconds| wait.look(&report(&["b"], down), at(seconds));
        assert!(matches!(look(&["d"], 0), Ok(Look::News(_))));
        assert!(matches!(look(&["d"], 29), Ok(Look::Nothing)), "it is read");
        let long = look(&["d"], 30).expect("it waits");
        assert!(matches!(&long, Look::News(text) if text.contains("the log of b:1")), "{long:?}");
        assert!(matches!(look(&["d"], 90), Ok(Look::Nothing)), "told once");
        assert!(matches!(look(&["b", "d"], 90), Ok(Look::News(_))));
        assert!(matches!(look(&["b", "d"], 94), Ok(Look::Nothing)));
        let failure = look(&["b", "d"], 95).expect_err("nobody reads it");
        assert_eq!(failure.status, Status::FailedInTheMiddle);
        let told = "what node d:1 had is not taken over yet: b:1 is down. Start it, and it goes on by itself; or \
                    have others do it that have copies: `sidle takeover b:1`";
        assert!(failure.message.starts_with(told), "{}", failure.message);
    }

    /// What would be refused is not advised: the refusal says what helps.
    #[test]
    fn where_others_cannot_read_it_either_the_reason_is_told() {
        let began = Instant::now();
        let mut left = report(&["a", "b"], &["a", "b", "d"]);
        left.nodes[1].takeover_refused =
            Some("no copy counts. If b:1 is gone for good: `--accept-loss`".into());
        let mut wait = Wait::new(&left, "d:1", "d:1", PATIENCE, began);
        assert!(matches!(wait.look(&left, began), Ok(Look::News(_))));
        let failure = wait.look(&left, began + PATIENCE).expect_err("nobody reads it");
        let told = "a:1 and b:1 are down. Start them, and it goes on by itself; or have others do it that have copies: \
                    `sidle takeover a:1`. `sidle takeover b:1` would be refused: no copy counts. If b:1 is gone for \
                    good: `--accept-loss`. This command, given again, waits on";
        assert!(failure.message.ends_with(told), "{}", failure.message);
    }

    #[test]
    fn what_a_new_owner_had_not_read_is_waited_for_with_what_it_had() {
        let now = Instant::now();
        // Nothing that was seen before is needed: the command may be a repeated one.
        let mut left = report(&["a", "a"], &["b", "d"]);
        left.takeovers[0].of.unread_by.push(left.nodes[1].id);
        let mut wait = Wait::new(&left, "b:1", "b:1", PATIENCE, now);
        let look = wait.look(&left, now).expect("it waits");
        assert_eq!(look, Look::News("Waiting: a:1 has 1 range to read.".to_owned()));
        assert_eq!(wait.look(&report(&[], &["b", "d"]), now).expect("it waits"), Look::Over);
    }
}
