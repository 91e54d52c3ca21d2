//! The map of a cluster that only has slots, for clients that do not know of migrations.

use sidle_cluster::{HostPort, Incarnation, NodeInfo, Tablet, TabletMap};
use sidle_resp::{Items, Reply};
use sidle_types::{MapEpoch, NodeId, PositionRange, Slot, TabletEpoch};

/// The map from CLUSTER SLOTS; of a server without a cluster, which answers an error, a map of it alone.
/// Slots without an owner go to the node that answered: its redirect or error decides.
pub(crate) fn map_of_slots(reply: Reply<'_>, asked: &HostPort, epoch: MapEpoch) -> Result<TabletMap, String> {
    let mut owners: Vec<(PositionRange, NodeInfo)> = match reply {
        Reply::Array(runs) => runs
            .map(|run| match run {
                Reply::Array(items) => slot_run(items, asked),
                _ => None,
            })
            .collect::<Option<_>>()
            .ok_or("its answer to CLUSTER SLOTS cannot be read")?,
        Reply::Error(_) => Vec::new(),
        _ => return Err("its answer to CLUSTER SLOTS is no array".to_owned()),
    };
    owners.sort_by_key(|(range, _)| *range);
    let answered = owners.iter().map(|(_, node)| node).find(|node| node.client_addr == *asked).cloned();
    let answered = answered.unwrap_or_else(|| node_info(NodeId::from_bytes([0; 20]), asked.clone()));

    let tablet = |range, node: &NodeInfo| Tablet { range, owner: node.id, epoch: TabletEpoch(epoch.0) };
    let mut tablets = Vec::new();
    let mut rest = Some(PositionRange::ALL);
    for (range, node) in &owners {
        let Some(open) = rest else { return Err("its slots overlap".to_owned()) };
        if !open.covers(*range) {
            return Err("its slots overlap".to_owned());
        }
        let (before, after) = open.without(*range);
        // Unowned slots before the run.
        let (before, after) =
            if range.first() == open.first() { (None, before.or(after)) } else { (before, after) };
        tablets.extend(before.map(|gap| tablet(gap, &answered)));
        tablets.push(tablet(*range, node));
        rest = after;
    }
    tablets.extend(rest.map(|gap| tablet(gap, &answered)));

    let mut nodes: Vec<NodeInfo> = owners.into_iter().map(|(_, node)| node).chain([answered]).collect();
    nodes.sort_by_key(|node| node.id);
    nodes.dedup_by_key(|node| node.id);
    TabletMap::new(epoch, nodes, tablets, Vec::new()).map_err(|error| error.to_string())
}

/// `[first slot, last slot, [host, port, node id, ...], ...replicas]`.
fn slot_run(mut items: Items<'_>, asked: &HostPort) -> Option<(PositionRange, NodeInfo)> {
    let mut slot = || match items.next()? {
        Reply::Integer(number) => Slot::new(u16::try_from(number).ok()?),
        _ => None,
    };
    let range = PositionRange::of_slots(slot()?, slot()?)?;
    let Reply::Array(mut master) = items.next()? else { return None };
    // A node that does not know its own address sends null or nothing: it is where it was asked.
    let host = match master.next()? {
        Reply::Bulk(host) if !host.is_empty() => std::str::from_utf8(host).ok()?,
        Reply::Bulk(_) | Reply::Null => asked.host(),
        _ => return None,
    };
    let Reply::Integer(port) = master.next()? else { return None };
    let address = HostPort::new(host, u16::try_from(port).ok()?).ok()?;
    let id = std::str::from_utf8(master.next()?.as_bytes()?).ok()?.parse().ok()?;
    Some((range, node_info(id, address)))
}

fn node_info(id: NodeId, address: HostPort) -> NodeInfo {
    NodeInfo { id, incarnation: Incarnation(0), client_addr: address.clone(), bus_addr: address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser};
    use sidle_types::Position;

    fn owners(bytes: &str) -> Result<Vec<(u16, String)>, String> {
        let mut parser = ReplyParser::new(ReplyLimits::default());
        let ParsedReply::Complete { frame, .. } = parser.parse(bytes.as_bytes()).unwrap() else { panic!() };
        let map = map_of_slots(frame.reply, &"10.0.0.1:7000".parse().unwrap(), MapEpoch(3))?;
        let owner = |tablet: &Tablet| {
            let address = map.node(tablet.owner).unwrap().client_addr.to_string();
            (tablet.range.first().slot().number(), address)
        };
        assert_eq!(map.owner_of(Position::LAST), map.tablets().last().unwrap().owner);
        Ok(map.tablets().iter().map(owner).collect())
    }

    fn run(first: u16, last: u16, host: &str, port: u16, id: u8) -> String {
        let id = format!("{id:040}");
        format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n{host}:{port}\r\n$40\r\n{id}\r\n")
    }

    #[test]
    fn slots_become_tablets_and_gaps_go_to_who_answered() {
        let here = |slot, text: &str| (slot, text.to_owned());
        let (one, two) = ("$8\r\n10.0.0.1\r\n", "$8\r\n10.0.0.2\r\n");
        let whole = format!("*2\r\n{}{}", run(8192, 16383, two, 7002, 2), run(0, 8191, one, 7000, 1));
        assert_eq!(owners(&whole).unwrap(), [here(0, "10.0.0.1:7000"), here(8192, "10.0.0.2:7002")]);
        let gaps = format!("*2\r\n{}{}", run(10, 19, two, 7002, 2), run(30, 39, "_\r\n", 7000, 1));
        assert_eq!(
            owners(&gaps).unwrap(),
            [
                here(0, "10.0.0.1:7000"),
                here(10, "10.0.0.2:7002"),
                here(20, "10.0.0.1:7000"),
                here(30, "10.0.0.1:7000"),
                here(40, "10.0.0.1:7000"),
            ]
        );
    }

    #[test]
    fn a_server_without_a_cluster_has_everything() {
        let alone = owners("-ERR This instance has cluster support disabled\r\n").unwrap();
        assert_eq!(alone, [(0, "10.0.0.1:7000".to_owned())]);
    }

    #[test]
    fn nonsense_is_refused() {
        let one = "$8\r\n10.0.0.1\r\n";
        let overlap = format!("*2\r\n{}{}", run(0, 99, one, 7000, 1), run(50, 60, one, 7000, 1));
        for bytes in [overlap.as_str(), ":1\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:1\r\n:0\r\n"] {
            assert!(owners(bytes).is_err(), "{bytes}");
        }
    }
}
