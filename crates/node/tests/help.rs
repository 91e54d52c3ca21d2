//! HELP of every command with subcommands: it names them all, and no others.

use sidle_node::testing::SoloNode;
use sidle_resp::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Left out on purpose: what is refused since the coordinator does it, and an old name.
const LEFT_OUT: &[&str] = &[
    "cluster|addslots",
    "cluster|addslotsrange",
    "cluster|bumpepoch",
    "cluster|delslots",
    "cluster|delslotsrange",
    "cluster|failover",
    "cluster|flushslots",
    "cluster|meet",
    "cluster|replicate",
    "cluster|reset",
    "cluster|saveconfig",
    "cluster|set-config-epoch",
    "cluster|setslot",
    "cluster|slaves",
];

fn texts(reply: Value) -> Vec<String> {
    let Value::Array(lines) = reply else { panic!("no lines: {reply:?}") };
    let text = |line| match line {
        Value::Simple(text) => text,
        Value::Bulk(text) => String::from_utf8(text).expect("a text"),
        other => panic!("no text: {other:?}"),
    };
    lines.into_iter().map(text).collect()
}

#[test]
fn help_names_every_subcommand_and_no_other() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let mut subcommands: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in texts(node.ask(&mut client, "COMMAND LIST")) {
        // SIDLE.HELP is for all of Sidle's own.
        if let Some((parent, child)) = name.split_once('|')
            && !parent.starts_with("sidle")
            && !LEFT_OUT.contains(&name.as_str())
        {
            subcommands.entry(parent.to_owned()).or_default().insert(child.to_uppercase());
        }
    }
    assert!(subcommands.len() > 10, "{subcommands:?}");
    for (parent, expected) in subcommands {
        let lines = texts(node.ask(&mut client, &format!("{parent} HELP")));
        assert!(lines.iter().all(|line| line.len() <= 100), "{parent}: {lines:?}");
        let headings = lines[1..].iter().filter(|line| !line.starts_with([' ', '(']));
        let named: BTreeSet<String> =
            headings.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect();
        assert_eq!(named, expected, "{parent}");
    }
}
