//! The processors of each node.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Lists of processors by node, as a node's `--cpu-list` takes them: `source=0,target=1` or
/// `source=0-3,8,target=4-7`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuLists(pub BTreeMap<String, String>);

/// The nodes that can have a list.
const NODES: [&str; 2] = ["source", "target"];

impl FromStr for CpuLists {
    type Err = String;

    /// The lists' contents are checked by the nodes, which know where they may run.
    fn from_str(text: &str) -> Result<CpuLists, String> {
        let mut lists = BTreeMap::<String, String>::new();
        let mut last = None;
        for part in text.split(',') {
            let (name, numbers) = match part.split_once('=') {
                Some((name, numbers)) => (Some(name), numbers),
                None => (last, part),
            };
            let name = name.ok_or_else(|| format!("'{part}' is not NODE=LIST, such as source=0"))?;
            if !NODES.contains(&name) {
                return Err(format!("'{name}' is not one of {}", NODES.join(", ")));
            }
            if part.contains('=') && lists.contains_key(name) {
                return Err(format!("{name} is given twice"));
            }
            let list = lists.entry(name.to_owned()).or_default();
            let comma = if list.is_empty() { "" } else { "," };
            *list += &format!("{comma}{numbers}");
            last = Some(name);
        }
        Ok(CpuLists(lists))
    }
}

impl fmt::Display for CpuLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, list)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{name} on {list}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_commas_of_their_own() {
        let lists: CpuLists = "source=0-3,8,target=4-7".parse().unwrap();
        assert_eq!(lists.to_string(), "source on 0-3,8, target on 4-7");
        assert_eq!(lists.0["source"], "0-3,8");
        for bad in ["", "0", "clients=0", "source=0,source=1", "=0"] {
            assert!(bad.parse::<CpuLists>().is_err(), "{bad}");
        }
    }
}
