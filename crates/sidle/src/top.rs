//! `sidle top`: the hottest keys and slots of all nodes.

use crate::cli::TopArguments;
use crate::node_connection::NodeConnection;
use crate::via::{Reach, Via};
use crate::watch::watch;
use serde::Serialize;
use sidle_bench::words::{count, counted, percent};
use sidle_cli::exit::Failure;
use sidle_cli::table::{Align, Table};
use sidle_cluster::{NodeState, NodeStatus, StatusReport};
use sidle_heat::{ClusterHeat, HeatReport};
use sidle_types::{NodeId, Position, Slot};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// The columns for a key and for a node's address: with the others, a row has at most 80.
const KEY_COLUMNS: usize = 28;
const NODE_COLUMNS: usize = 21;

/// Runs `sidle top`.
pub(crate) fn run(arguments: &TopArguments) -> Result<(), Failure> {
    sidle_cli::runtime()?.block_on(async {
        let mut nodes = Nodes { reach: arguments.via.clone(), connections: BTreeMap::new() };
        if arguments.once {
            let mut first = NodeConnection::open(&arguments.via).await?;
            print!("{}", shown(&mut first, &mut nodes, arguments).await?);
            return Ok(());
        }
        watch(&arguments.via, arguments.json, async |first| shown(first, &mut nodes, arguments).await).await
    })
}

async fn shown(
    first: &mut NodeConnection,
    nodes: &mut Nodes,
    arguments: &TopArguments,
) -> Result<String, Failure> {
    let status = first.status().await?;
    let answers = nodes.heat(&status, arguments.seconds).await;
    let top = Top::new(&status, answers, arguments.count as usize);
    Ok(match arguments.json {
        true => format!("{}\n", serde_json::to_string(&top).expect("plain data")),
        false => top.render(),
    })
}

/// A connection to each node, kept from one picture to the next.
struct Nodes {
    /// How to reach the first one; the password is the cluster's.
    reach: Reach,
    connections: BTreeMap<NodeId, NodeConnection>,
}

impl Nodes {
    /// What each node answers; all are asked at once.
    async fn heat(&mut self, status: &StatusReport, seconds: u64) -> BTreeMap<NodeId, Answer> {
        let mut asked = JoinSet::new();
        let mut answers = BTreeMap::new();
        for node in &status.nodes {
            let kept = self.connections.remove(&node.id);
            if node.state != NodeState::Up {
                answers.insert(node.id, Err(format!("it is not up ({})", node.state)));
                continue;
            }
            let via = Via { via: node.client_addr.to_string(), ..self.reach.via.clone() };
            let (id, reach) = (node.id, Reach { via, ..self.reach });
            asked.spawn(async move { (id, ask(kept, &reach, seconds).await) });
        }
        while let Some(answered) = asked.join_next().await {
            let (id, answer) = answered.expect("it does not panic, and nobody stops it");
            let answer = answer.map(|(connection, heat)| {
                self.connections.insert(id, connection);
                heat
            });
            answers.insert(id, answer.map_err(|failure| failure.message));
        }
        answers
    }
}

/// A node's heat, or why there is none.
type Answer = Result<HeatReport, String>;

async fn ask(
    kept: Option<NodeConnection>,
    reach: &Reach,
    seconds: u64,
) -> Result<(NodeConnection, HeatReport), Failure> {
    let mut node = match kept {
        Some(node) => node,
        None => NodeConnection::open(reach).await?,
    };
    node.begin_anew();
    let heat = node.heat(seconds).await?;
    Ok((node, heat))
}

/// What is shown, and printed as JSON.
#[derive(Debug, Serialize)]
struct Top {
    window_us: u64,
    operations_per_second: u64,
    writes_per_second: u64,
    nodes: Vec<TopNode>,
    keys: Vec<TopKey>,
    slots: Vec<TopSlot>,
}

#[derive(Debug, Serialize)]
struct TopNode {
    id: NodeId,
    client_addr: String,
    operations_per_second: u64,
    share: f64,
    trouble: Option<String>,
}

#[derive(Debug, Serialize)]
struct TopKey {
    key: String,
    is_cut: bool,
    position: Position,
    slot: Slot,
    node: NodeId,
    operations_per_second: u64,
    writes_per_second: u64,
    share: f64,
    share_at_most: f64,
}

#[derive(Debug, Serialize)]
struct TopSlot {
    slot: Slot,
    node: NodeId,
    operations_per_second: u64,
    share: f64,
}

impl Top {
    /// Of what the nodes answered, with so many keys and slots.
    fn new(status: &StatusReport, answers: BTreeMap<NodeId, Answer>, rows: usize) -> Top {
        let reports: Vec<HeatReport> = answers.values().flatten().cloned().collect();
        let heat = ClusterHeat::new(&reports);
        let total = heat.keys.total();
        let rate = |operations: u64| (operations as f64 * 1e6 / heat.window_us.max(1) as f64).round() as u64;
        let share = |operations: u64| operations as f64 / total.operations.max(1) as f64;
        let node = |node: &NodeStatus| {
            let answer = answers.get(&node.id);
            let operations = answer.and_then(|answer| answer.as_ref().ok()).map_or(0, |heat| heat.operations);
            TopNode {
                id: node.id,
                client_addr: node.client_addr.to_string(),
                operations_per_second: rate(operations),
                share: share(operations),
                trouble: answer.and_then(|answer| answer.as_ref().err()).cloned(),
            }
        };
        let keys = heat.keys.hottest().iter().take(rows).map(|hot| TopKey {
            key: hot.key.key.clone(),
            is_cut: hot.key.is_cut,
            position: hot.position,
            slot: hot.position.slot(),
            node: hot.key.node,
            operations_per_second: rate(hot.at_least()),
            writes_per_second: rate(hot.usage.writes),
            share: share(hot.at_least()),
            share_at_most: share(hot.count),
        });
        let slots = heat.slots.iter().take(rows).map(|&(slot, operations, node)| TopSlot {
            slot,
            node,
            operations_per_second: rate(operations),
            share: share(operations),
        });
        Top {
            window_us: heat.window_us,
            operations_per_second: rate(total.operations),
            writes_per_second: rate(total.writes),
            nodes: status.nodes.iter().map(node).collect(),
            keys: keys.collect(),
            slots: slots.collect(),
        }
    }

    fn render(&self) -> String {
        let seconds = (self.window_us as f64 / 1e6).round() as u64;
        let mut text = match seconds {
            0 => "Nothing was counted yet: the nodes started less than two seconds ago.\n".to_owned(),
            seconds => format!(
                "Accesses to keys in the last {}: {}/s, writes {}/s\n",
                counted(seconds, "second"),
                count(self.operations_per_second),
                count(self.writes_per_second),
            ),
        };
        for node in &self.nodes {
            if let Some(trouble) = &node.trouble {
                text += &format!("WARNING: node {} is left out: {trouble}\n", node.client_addr);
            }
        }
        format!("{text}\n{}\n{}\n{}", self.keys_table(), self.slots_table(), self.nodes_table())
    }

    fn keys_table(&self) -> Table {
        let mut table = Table::new(&[
            ("KEY", Align::Left),
            ("SLOT", Align::Right),
            ("NODE", Align::Left),
            ("SHARE", Align::Right),
            ("OP/S", Align::Right),
        ]);
        for key in &self.keys {
            table.row([
                cut(&key.key, key.is_cut, KEY_COLUMNS),
                key.slot.number().to_string(),
                self.name(key.node),
                percent(key.share),
                count(key.operations_per_second),
            ]);
        }
        table
    }

    fn slots_table(&self) -> Table {
        let mut table = Table::new(&[
            ("SLOT", Align::Right),
            ("NODE", Align::Left),
            ("SHARE", Align::Right),
            ("OP/S", Align::Right),
        ]);
        for slot in &self.slots {
            table.row([
                slot.slot.number().to_string(),
                self.name(slot.node),
                percent(slot.share),
                count(slot.operations_per_second),
            ]);
        }
        table
    }

    fn nodes_table(&self) -> Table {
        let mut table = Table::new(&[("NODE", Align::Left), ("SHARE", Align::Right), ("OP/S", Align::Right)]);
        for node in self.nodes.iter().filter(|node| node.trouble.is_none()) {
            table.row([
                cut(&node.client_addr, false, NODE_COLUMNS),
                percent(node.share),
                count(node.operations_per_second),
            ]);
        }
        table
    }

    /// A node's address.
    fn name(&self, id: NodeId) -> String {
        let node = self.nodes.iter().find(|node| node.id == id);
        node.map_or_else(
            || id.to_string()[..8].to_owned(),
            |node| cut(&node.client_addr, false, NODE_COLUMNS),
        )
    }
}

/// A text in so many columns; if it goes on, two dots say so.
fn cut(text: &str, goes_on: bool, columns: usize) -> String {
    match goes_on || text.chars().count() > columns {
        true => format!("{}..", text.chars().take(columns - 2).collect::<String>()),
        false => text.to_owned(),
    }
}

/// What is printed as JSON of a node with this heat.
#[cfg(test)]
pub(crate) fn documented(status: &StatusReport, heat: HeatReport) -> serde_json::Value {
    let answers = BTreeMap::from([(heat.node, Ok(heat))]);
    serde_json::to_value(Top::new(status, answers, 10)).expect("plain data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(addresses: &[&str]) -> StatusReport {
        let node = |(number, address): (usize, &&str)| {
            json!({
                "id": number.to_string().repeat(40), "incarnation": 1, "client_addr": address,
                "bus_addr": "127.0.0.1:9", "state": "up", "silent_us": 0, "map_epoch": 1, "keys": 0,
                "memory_used_bytes": 0, "memory_limit_bytes": 0, "slots": 0
            })
        };
        serde_json::from_value(json!({
            "cluster": "7".repeat(32), "coordinator": "1".repeat(40), "map_epoch": 1,
            "nodes": addresses.iter().enumerate().map(node).collect::<Vec<_>>(), "tablets": [], "migrations": []
        }))
        .expect("a report")
    }

    /// A node's heat: its keys, at these positions, with their accesses.
    fn heat(number: usize, operations: u64, keys: &[(&str, u64, u64)]) -> HeatReport {
        let slots: Vec<_> = keys
            .iter()
            .map(|&(_, slot, operations)| json!({ "slot": slot, "operations": operations }))
            .collect();
        let key = |&(key, slot, operations): &(&str, u64, u64)| {
            json!({
                "key": key, "is_cut": false, "position": format!("{:#x}", slot << 50), "slot": slot,
                "operations": operations, "operations_at_most": operations, "writes": operations / 2,
                "bytes_in": 0, "bytes_out": 0, "cpu_us": 0
            })
        };
        serde_json::from_value(json!({
            "node": number.to_string().repeat(40), "window_us": 5_000_000, "operations": operations,
            "writes": operations / 2, "bytes_in": 0, "bytes_out": 0, "cpu_us": 0, "unlisted_at_most": 10,
            "keys": keys.iter().map(key).collect::<Vec<_>>(), "slots": slots
        }))
        .expect("a report")
    }

    #[test]
    fn nodes_are_merged_and_those_left_out_are_named() {
        let status = status(&["127.0.0.1:6379", "127.0.0.1:6380", "127.0.0.1:6381"]);
        let ids: Vec<NodeId> = status.nodes.iter().map(|node| node.id).collect();
        let answers = BTreeMap::from([
            (ids[0], Ok(heat(0, 60_000, &[("a", 1, 30_000), ("c", 3, 100)]))),
            (ids[1], Ok(heat(1, 40_000, &[("b", 2, 20_000), ("a", 1, 2_000)]))),
            (ids[2], Err("no answer in 5 seconds".to_owned())),
        ]);
        let top = Top::new(&status, answers, 2);
        assert_eq!((top.operations_per_second, top.writes_per_second), (20_000, 10_000));
        let shown: Vec<_> =
            top.keys.iter().map(|key| (key.key.as_str(), key.node, key.operations_per_second)).collect();
        assert_eq!(shown, [("a", ids[0], 6_400), ("b", ids[1], 4_000)]);
        assert_eq!((top.keys[0].share, top.keys[1].share, top.keys[1].share_at_most), (0.32, 0.2, 0.2001));
        assert_eq!(top.slots.iter().map(|slot| slot.slot.number()).collect::<Vec<_>>(), [1, 2]);
        let expected = "\
Accesses to keys in the last 5 seconds: 20,000/s, writes 10,000/s
WARNING: node 127.0.0.1:6381 is left out: no answer in 5 seconds

KEY  SLOT  NODE             SHARE   OP/S
a       1  127.0.0.1:6379  32.0 %  6,400
b       2  127.0.0.1:6380  20.0 %  4,000

SLOT  NODE             SHARE   OP/S
   1  127.0.0.1:6379  32.0 %  6,400
   2  127.0.0.1:6380  20.0 %  4,000

NODE             SHARE    OP/S
127.0.0.1:6379  60.0 %  12,000
127.0.0.1:6380  40.0 %   8,000
";
        assert_eq!(top.render(), expected);
    }

    #[test]
    fn rows_fit_into_80_columns() {
        let status = status(&["a-host-with-a-very-long-name.example.com:63790"]);
        let key = "k".repeat(64);
        let answers =
            BTreeMap::from([(status.nodes[0].id, Ok(heat(0, 500_000_000, &[(&key, 16_383, 499_999_995)])))]);
        let text = Top::new(&status, answers, 10).render();
        assert!(text.contains("kkk.. ") && text.contains("99,999,999"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn a_cluster_that_has_counted_nothing_says_so() {
        let status = status(&["127.0.0.1:6379"]);
        let nothing = HeatReport { window_us: 0, ..heat(0, 0, &[]) };
        let text = Top::new(&status, BTreeMap::from([(status.nodes[0].id, Ok(nothing))]), 10).render();
        assert!(text.starts_with("Nothing was counted yet"), "{text}");
    }
}
