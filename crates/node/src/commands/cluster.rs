//! CLUSTER and related commands: the cluster as clients of Redis Cluster see it.
//!
//! Every slot is shown with one owner, that of its first position. Migrations are never shown: clients follow
//! MOVED and ASK, and markers of moving slots only confuse their tools.

use super::slot_stats::slot_stats;
use crate::call::{Call, CommandResult, Flow};
use crate::cluster_view::{ClusterView, Health, SlotCounts};
use crate::peers::ShownLink;
use crate::table::{CommandFlags, CommandSpec};
use sidle_cluster::{NodeInfo, SlotRun};
use sidle_commands::ReplyError;
use sidle_commands::parse_i64;
use sidle_commands::reply_help;
use sidle_store::Store;
use sidle_types::{NodeId, Position, PositionRange, SLOT_COUNT, Slot};
use std::fmt::Write;

const OF_DATA: CommandFlags = CommandFlags::STALE;
const STALE: CommandFlags = CommandFlags::STALE.with(CommandFlags::WITHOUT_LEASE);
const FAST: CommandFlags = CommandFlags::FAST.with(STALE).with(CommandFlags::LOADING);
const HELP: CommandFlags = STALE.with(CommandFlags::LOADING);
const LOOKS: CommandFlags = CommandFlags::ADMIN.with(STALE);
const MANAGES: CommandFlags = LOOKS.with(CommandFlags::NO_ASYNC_LOADING);
const VARIES: &[&str] = &["nondeterministic_output"];

/// The commands of this family.
pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::container("cluster", CommandFlags::NONE, CLUSTER).docs(
        "cluster",
        "3.0.0",
        "Depends on subcommand.",
        "A container for Redis Cluster commands.",
    ),
    CommandSpec::new(
        "asking",
        1,
        CommandFlags::FAST.with(CommandFlags::CONNECTION).with(CommandFlags::WITHOUT_LEASE),
        asking,
    )
    .docs("cluster", "3.0.0", "O(1)", "Signals that a cluster client is following an -ASK redirect."),
    CommandSpec::new("readonly", 1, FAST.with(CommandFlags::CONNECTION), readonly).docs(
        "cluster",
        "3.0.0",
        "O(1)",
        "Enables read-only queries for a connection to a Redis Cluster replica node.",
    ),
    CommandSpec::new("readwrite", 1, FAST.with(CommandFlags::CONNECTION), readwrite).docs(
        "cluster",
        "3.0.0",
        "O(1)",
        "Enables read-write queries for a connection to a Redis Cluster replica node.",
    ),
];

const CLUSTER: &[CommandSpec] = &[
    CommandSpec::new("cluster|info", 2, STALE, info)
        .docs("cluster", "3.0.0", "O(1)", "Returns information about the state of a node.")
        .tips(VARIES),
    CommandSpec::new("cluster|nodes", 2, STALE, nodes)
        .docs(
            "cluster",
            "3.0.0",
            "O(N) where N is the total number of Cluster nodes",
            "Returns the cluster configuration for a node.",
        )
        .tips(VARIES),
    CommandSpec::new("cluster|slots", 2, STALE, slots)
        .docs(
            "cluster",
            "3.0.0",
            "O(N) where N is the total number of Cluster nodes",
            "Returns the mapping of cluster slots to nodes.",
        )
        .tips(VARIES)
        .deprecated("7.0.0", "`CLUSTER SHARDS`"),
    CommandSpec::new("cluster|shards", 2, STALE, shards)
        .docs(
            "cluster",
            "7.0.0",
            "O(N) where N is the total number of cluster nodes",
            "Returns the mapping of cluster slots to shards.",
        )
        .tips(VARIES),
    CommandSpec::new("cluster|myid", 2, STALE, my_id).docs(
        "cluster",
        "3.0.0",
        "O(1)",
        "Returns the ID of a node.",
    ),
    CommandSpec::new("cluster|keyslot", 3, STALE, key_slot).docs(
        "cluster",
        "3.0.0",
        "O(N) where N is the number of bytes in the key",
        "Returns the hash slot for a key.",
    ),
    CommandSpec::new("cluster|countkeysinslot", 3, OF_DATA, count_keys_in_slot).docs(
        "cluster",
        "3.0.0",
        "O(1)",
        "Returns the number of keys in a hash slot.",
    ),
    CommandSpec::new("cluster|getkeysinslot", 4, OF_DATA, keys_in_slot)
        .docs(
            "cluster",
            "3.0.0",
            "O(N) where N is the number of requested keys",
            "Returns the key names in a hash slot.",
        )
        .tips(VARIES),
    CommandSpec::new("cluster|slot-stats", -4, HELP, slot_stats)
        .docs(
            "cluster",
            "8.2.0",
            "O(N) where N is the total number of slots based on arguments. O(N*log(N)) with ORDERBY subcommand.",
            "Return an array of slot usage statistics for slots assigned to the current node.",
        )
        .tips(&["nondeterministic_output", "request_policy:all_shards"]),
    CommandSpec::new("cluster|replicas", 3, LOOKS, replicas)
        .docs(
            "cluster",
            "5.0.0",
            "O(N) where N is the number of replicas",
            "Lists the replica nodes of a master node.",
        )
        .tips(VARIES),
    CommandSpec::new("cluster|slaves", 3, LOOKS, replicas)
        .docs(
            "cluster",
            "3.0.0",
            "O(N) where N is the number of replicas",
            "Lists the replica nodes of a master node.",
        )
        .tips(VARIES)
        .deprecated("5.0.0", "`CLUSTER REPLICAS`"),
    CommandSpec::new("cluster|links", 2, STALE, links)
        .docs(
            "cluster",
            "7.0.0",
            "O(N) where N is the total number of Cluster nodes",
            "Returns a list of all TCP links to and from peer nodes.",
        )
        .tips(VARIES),
    CommandSpec::new("cluster|count-failure-reports", 3, LOOKS, failure_reports)
        .docs("cluster", "3.0.0", "O(1)", "Returns the number of active failure reports active for a node.")
        .tips(VARIES),
    CommandSpec::new("cluster|help", 2, HELP, help).docs(
        "cluster",
        "5.0.0",
        "O(1)",
        "Returns helpful text about the different subcommands.",
    ),
    managed_elsewhere("cluster|setslot", -4, "3.0.0"),
    managed_elsewhere("cluster|addslots", -3, "3.0.0"),
    managed_elsewhere("cluster|addslotsrange", -4, "7.0.0"),
    managed_elsewhere("cluster|delslots", -3, "3.0.0"),
    managed_elsewhere("cluster|delslotsrange", -4, "7.0.0"),
    managed_elsewhere("cluster|meet", -4, "3.0.0"),
    CommandSpec::new("cluster|forget", 3, MANAGES, super::sidle::cluster_forget).docs(
        "cluster",
        "3.0.0",
        "O(N) where N is the number of tablets",
        "Removes a node from the nodes table.",
    ),
    managed_elsewhere("cluster|replicate", 3, "3.0.0"),
    managed_elsewhere("cluster|failover", -2, "3.0.0"),
    CommandSpec {
        flags: LOOKS.with(CommandFlags::NOSCRIPT),
        ..managed_elsewhere("cluster|reset", -2, "3.0.0")
    },
    managed_elsewhere("cluster|flushslots", 2, "3.0.0"),
    managed_elsewhere("cluster|bumpepoch", 2, "3.0.0").tips(VARIES),
    managed_elsewhere("cluster|set-config-epoch", 3, "3.0.0"),
    managed_elsewhere("cluster|saveconfig", 2, "3.0.0"),
];

/// A command that changes slots or members in Redis, and is refused here.
const fn managed_elsewhere(name: &'static str, arity: i16, since: &'static str) -> CommandSpec {
    CommandSpec::new(name, arity, MANAGES, refuse_management).docs(
        "cluster",
        since,
        "O(1)",
        "Refused: slots and nodes are managed by the coordinator.",
    )
}

/// The coordinator manages slots and members, never a single node.
fn refuse_management(_: &mut Call<'_>) -> CommandResult {
    Err(ReplyError::text(
        "ERR Slots and nodes are managed by Sidle's coordinator: move slots with SIDLE.MIGRATE START (see \
         SIDLE.MIGRATE HELP), add a node by starting it with --join, remove one with CLUSTER FORGET",
    ))
}

fn asking(call: &mut Call<'_>) -> CommandResult {
    call.session.asking = true;
    call.reply.ok();
    Ok(Flow::Done)
}

fn readonly(call: &mut Call<'_>) -> CommandResult {
    call.session.readonly = true;
    call.session.client.details().readonly = true;
    call.reply.ok();
    Ok(Flow::Done)
}

fn readwrite(call: &mut Call<'_>) -> CommandResult {
    call.session.readonly = false;
    call.session.client.details().readonly = false;
    call.reply.ok();
    Ok(Flow::Done)
}

fn view<'c>(call: &Call<'c>) -> ClusterView<'c> {
    ClusterView::new(call.ranges, &call.shared.unreachable)
}

/// The node that runs the coordinator: its id and client address, empty while unknown; and where its record
/// is.
pub(super) fn coordinator_fields(call: &Call<'_>) -> [(&'static str, String); 3] {
    let node = call.shared.unreachable.coordinator();
    let address = node.and_then(|node| call.ranges.map().node(node)).map(|node| node.client_addr.to_string());
    let id = node.map(|node| node.to_string());
    let record = if call.shared.unreachable.others_may_coordinate() { "etcd" } else { "file" };
    [
        ("sidle_coordinator_id", id.unwrap_or_default()),
        ("sidle_coordinator", address.unwrap_or_default()),
        ("sidle_metadata", record.to_owned()),
    ]
}

/// The state is `fail` while some slot is not known to be served, as in a Redis Cluster that requires full
/// coverage. That is for monitoring: the other nodes keep serving.
fn info(call: &mut Call<'_>) -> CommandResult {
    let view = view(call);
    let SlotCounts { assigned, failed, suspected } = view.slot_counts();
    let served = assigned - failed - suspected;
    let is_ok = served == u64::from(SLOT_COUNT);
    let [sent, received] = call.shared.peers.messages();
    // Its address has a colon, at which clients would split the line once more.
    let [(coordinator, id), ..] = coordinator_fields(call);
    let text = format!(
        "cluster_state:{}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{served}\r\n\
         cluster_slots_pfail:{suspected}\r\ncluster_slots_fail:{failed}\r\ncluster_known_nodes:{}\r\ncluster_size:{}\r\n\
         cluster_current_epoch:{}\r\ncluster_my_epoch:{}\r\ncluster_stats_messages_sent:{sent}\r\n\
         cluster_stats_messages_received:{received}\r\n{coordinator}:{id}\r\n",
        if is_ok { "ok" } else { "fail" },
        view.nodes().len(),
        view.owners(),
        view.epoch(),
        view.config_epoch(call.ranges.node()),
    );
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(Flow::Done)
}

fn nodes(call: &mut Call<'_>) -> CommandResult {
    let view = view(call);
    let mut text = String::new();
    let links = shown_links(call);
    for node in view.nodes() {
        append_node(&mut text, &view, node, call.ranges.node(), &links);
        for run in view.slots_of(node.id) {
            let written = match run.first == run.last {
                true => write!(text, " {}", run.first),
                false => write!(text, " {}-{}", run.first, run.last),
            };
            written.expect("writing to a string cannot fail");
        }
        text.push('\n');
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(Flow::Done)
}

/// The conversations with other nodes.
fn shown_links(call: &Call<'_>) -> Vec<ShownLink> {
    call.shared.peers.shown(call.shared.unreachable.coordinator())
}

/// One line of CLUSTER NODES without the slots. There is no gossip, so no ping is ever pending. The last pong
/// is the last message of a node that this one has a link with.
fn append_node(
    text: &mut String,
    view: &ClusterView<'_>,
    node: &NodeInfo,
    this: NodeId,
    links: &[ShownLink],
) {
    let health = view.health(node.id);
    let flags = match health {
        _ if node.id == this => "myself,master",
        Health::Well => "master",
        Health::Suspected => "master,fail?",
        Health::Failed => "master,fail",
    };
    let link = if health == Health::Well { "connected" } else { "disconnected" };
    let epoch = view.config_epoch(node.id);
    let (address, bus_port) = (node.client_addr.unbracketed(), node.bus_addr.port());
    let received_at = links.iter().filter(|link| link.node == node.id).map(|link| link.received_at.0);
    let pong = received_at.max().unwrap_or(0);
    write!(text, "{} {address}@{bus_port} {flags} - 0 {pong} {epoch} {link}", node.id)
        .expect("writing to a string cannot fail");
}

fn slots(call: &mut Call<'_>) -> CommandResult {
    let view = view(call);
    let map = call.ranges.map();
    call.reply.array(view.runs().len());
    for &SlotRun { first, last, owner } in view.runs() {
        let node = map.node(owner).expect("every owner is a member");
        call.reply.array(3);
        call.reply.integer(i64::from(first.number()));
        call.reply.integer(i64::from(last.number()));
        call.reply.array(4);
        call.reply.bulk(node.client_addr.host().as_bytes());
        call.reply.integer(i64::from(node.client_addr.port()));
        call.reply.bulk(owner.to_string().as_bytes());
        call.reply.map(0);
    }
    Ok(Flow::Done)
}

fn shards(call: &mut Call<'_>) -> CommandResult {
    let view = view(call);
    let reply = &mut call.reply;
    reply.array(view.nodes().len());
    for node in view.nodes() {
        let runs = view.slots_of(node.id);
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(runs.len() * 2);
        for run in runs {
            reply.integer(i64::from(run.first.number()));
            reply.integer(i64::from(run.last.number()));
        }
        reply.bulk(b"nodes");
        reply.array(1);
        reply.map(7);
        let host = node.client_addr.host().as_bytes();
        reply.bulk(b"id");
        reply.bulk(node.id.to_string().as_bytes());
        reply.bulk(b"port");
        reply.integer(i64::from(node.client_addr.port()));
        reply.bulk(b"ip");
        reply.bulk(host);
        reply.bulk(b"endpoint");
        reply.bulk(host);
        reply.bulk(b"role");
        reply.bulk(b"master");
        reply.bulk(b"replication-offset");
        reply.integer(0);
        reply.bulk(b"health");
        reply.bulk(if view.health(node.id) == Health::Well { b"online" } else { b"fail" });
    }
    Ok(Flow::Done)
}

fn my_id(call: &mut Call<'_>) -> CommandResult {
    call.reply.bulk(call.ranges.node().to_string().as_bytes());
    Ok(Flow::Done)
}

fn key_slot(call: &mut Call<'_>) -> CommandResult {
    call.reply.integer(i64::from(Slot::of_key(call.args[2]).number()));
    Ok(Flow::Done)
}

fn slot_argument(argument: &[u8], error: &'static str) -> Result<Slot, ReplyError> {
    let number = parse_i64(argument).ok_or(ReplyError::NotAnInteger)?;
    u16::try_from(number).ok().and_then(Slot::new).ok_or(ReplyError::text(error))
}

fn count_keys_in_slot(call: &mut Call<'_>) -> CommandResult {
    let slot = slot_argument(call.args[2], "ERR Invalid slot")?;
    if let Some(wait) = call.await_arrival(whole(slot))? {
        return Ok(wait);
    }
    let count = if is_all_owned(call, slot) {
        call.store.shown_in_slot(slot)
    } else {
        let mut count = 0;
        visit_owned(call, slot, usize::MAX, &mut |_| count += 1);
        count
    };
    call.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(Flow::Done)
}

fn keys_in_slot(call: &mut Call<'_>) -> CommandResult {
    const ERROR: &str = "ERR Invalid slot or number of keys";
    let slot = slot_argument(call.args[2], ERROR)?;
    let most = parse_i64(call.args[3]).ok_or(ReplyError::NotAnInteger)?;
    let most = usize::try_from(most).map_err(|_| ReplyError::text(ERROR))?;
    if let Some(wait) = call.await_arrival(whole(slot))? {
        return Ok(wait);
    }
    let mut found = Vec::new();
    let mut keys = call.reply.aside(&mut found);
    let mut count = 0;
    visit_owned(call, slot, most, &mut |key| {
        if count < most {
            keys.bulk(key);
            count += 1;
        }
    });
    call.reply.array(count);
    call.reply.append(keys);
    Ok(Flow::Done)
}

fn whole(slot: Slot) -> PositionRange {
    PositionRange::of_slots(slot, slot).expect("one slot")
}

fn is_all_owned(call: &Call<'_>, slot: Slot) -> bool {
    call.ranges.owned().any(|range| range.covers(whole(slot)))
}

/// Visits about `most` of the keys of a slot that this node owns, in the order of their positions.
fn visit_owned(call: &Call<'_>, slot: Slot, most: usize, each: &mut dyn FnMut(&[u8])) {
    let (ranges, store, now): (_, &Store, _) = (call.ranges, call.store, call.now);
    let (first, last) = (Position::first_of(slot), Position::last_of(slot));
    let mut left = most;
    for range in ranges.owned() {
        let (mut from, last) = (range.first().max(first), range.last().min(last));
        while from <= last && left > 0 {
            let next = store.visit(from, last, left, &mut |record| {
                if !record.is_expired(now) && record.kind().is_shown() {
                    left = left.saturating_sub(1);
                    each(record.key());
                }
            });
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
    }
}

fn replicas(call: &mut Call<'_>) -> CommandResult {
    known_node(call)?;
    call.reply.array(0);
    Ok(Flow::Done)
}

/// The coordinator alone reports failures.
fn failure_reports(call: &mut Call<'_>) -> CommandResult {
    let node = known_node(call)?;
    call.reply.integer(i64::from(view(call).health(node) != Health::Well));
    Ok(Flow::Done)
}

fn known_node(call: &Call<'_>) -> Result<NodeId, ReplyError> {
    let name = String::from_utf8_lossy(call.args[2]);
    let node = name.parse().ok().filter(|&node| call.ranges.map().node(node).is_some());
    node.ok_or_else(|| ReplyError::owned(format!("ERR Unknown node {name}")))
}

fn links(call: &mut Call<'_>) -> CommandResult {
    let links = shown_links(call);
    let reply = &mut call.reply;
    reply.array(links.len());
    for link in links {
        reply.map(5);
        reply.bulk(b"direction");
        reply.bulk(if link.is_outgoing { b"to" } else { b"from" });
        reply.bulk(b"node");
        reply.bulk(link.node.to_string().as_bytes());
        reply.bulk(b"create-time");
        reply.integer(link.opened_at.0 as i64);
        reply.bulk(b"events");
        reply.bulk(if link.waiting_bytes > 0 { b"rw" } else { b"r" });
        reply.bulk(b"send-buffer-used");
        reply.integer(link.waiting_bytes as i64);
    }
    Ok(Flow::Done)
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "CLUSTER",
        &[
            "COUNT-FAILURE-REPORTS <node-id>",
            "    Return whether the coordinator misses a node: 1 or 0.",
            "COUNTKEYSINSLOT <slot>",
            "    Return the number of keys in <slot>.",
            "FORGET <node-id>",
            "    Remove a node from the cluster that is down and owns nothing.",
            "GETKEYSINSLOT <slot> <count>",
            "    Return key names stored by current node in a slot.",
            "INFO",
            "    Return information about the cluster.",
            "KEYSLOT <key>",
            "    Return the hash slot for <key>.",
            "LINKS",
            "    Return the connections between this node and others.",
            "MYID",
            "    Return the node id.",
            "NODES",
            "    Return cluster configuration seen by node. Output format:",
            "    <id> <ip:port@bus-port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
            "REPLICAS <node-id>",
            "    Return the replicas of a node: there are none.",
            "SHARDS",
            "    Return information about slot range mappings and the nodes associated with them.",
            "SLOT-STATS SLOTSRANGE <first> <last>",
            "    Return keys, memory, processor time and bytes of the slots of a range.",
            "SLOT-STATS ORDERBY <metric> [LIMIT <count>] [ASC|DESC]",
            "    Return the same, of the slots with the most (or the least) of a metric first.",
            "SLOTS",
            "    Return information about slots range mappings. Each range is made of:",
            "    start, end, master and replicas IP addresses, ports and ids",
        ],
    );
    Ok(Flow::Done)
}
