//! A stranger's possible messages: every kind of frame, and every control message in its worst form.

use serde_json::{Value as Json, json};
use sidle_types::{MigrationId, NodeId, Position, PositionRange, ProtocolVersion, TabletEpoch, Version};
use sidle_wire::{
    Activate, ChangedPull, Forward, Hello, Kind, Lane, Message, Pull, Refusal, RefusalCode, SampPull, Scope,
    begin_frame, end_frame,
};

/// A control frame around JSON.
pub(crate) fn control(message: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    Message::write_control(message.to_string().as_bytes(), &mut out).expect("within the limit of a frame");
    out
}

/// Messages of the coordinator's protocol, of every kind and in every form that harms a trusting receiver.
/// `victim`: a member's id. `cluster`: the cluster's.
pub(crate) fn control_messages(victim: &str, cluster: &str, huge: &str) -> Vec<Json> {
    let to_coordinator = |from: &str, incarnation: u64, body: Json| {
        let message = json!({"from": from, "incarnation": incarnation, "body": body});
        json!({"to_coordinator": message})
    };
    let stranger = "ab".repeat(20);
    let join = |port: u16| {
        let (client, bus) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + 1));
        json!({"join": {"client_addr": client, "bus_addr": bus, "cluster": cluster}})
    };
    let everything = json!(["0x0000000000000000", "0xffffffffffffffff"]);
    let start = json!({"start_migration": {
        "range": everything, "target": {"id": stranger}, "protocol": "fulva", "policy": "adaptive"
    }});
    let request = |request: Json| json!({"request": {"number": 1, "oldest_open": 1, "request": request}});
    let mut messages: Vec<Json> = vec![
        to_coordinator(&stranger, 1, join(1)),
        // In a member's name, as a later start of it, and as the last start possible.
        to_coordinator(victim, 1_000, join(3)),
        to_coordinator(victim, u64::MAX, join(5)),
    ];
    let progress = json!({
        "activated": true, "records_moved": 1, "bytes_moved": 1, "next": [null], "changes": 0, "changes_left": 0,
        "stalled": huge
    });
    for body in [
        json!({"heartbeat": {"map_epoch": u64::MAX, "load": {"keys": 0, "memory_used_bytes": 0,
            "memory_limit_bytes": 0}, "holds": [1, 2, 3]}}),
        json!({"surveyed": {"migration": 1, "survey": {"records": 0, "bytes": 0, "partitions": []}}}),
        json!({"prepared": {"migration": 1}}),
        json!({"prepare_refused": {"migration": 1, "why": {"other": {"why": huge}}}}),
        json!({"prepare_refused": {"migration": 1, "why": {"source_unreachable": {"error": huge}}}}),
        json!({"progress": {"migration": 1, "progress": progress}}),
        json!({"finished": {"migration": 1, "progress": progress}}),
        json!({"broken": {"migration": 1, "why": huge}}),
        request(start),
        request(json!({"set_policy": {"migration": 1, "policy": {"rate": {"bytes_per_s": 1}}}})),
        request(json!({"cancel": {"migration": 1}})),
        request(json!("status")),
        request(json!({"await_end": {"migration": 1, "patience_us": u64::MAX}})),
    ] {
        messages.push(to_coordinator(victim, 1, body.clone()));
        messages.push(to_coordinator(&stranger, 1, body));
    }
    let map = json!({"epoch": u64::MAX, "nodes": [{"id": stranger, "incarnation": 1,
        "client_addr": "127.0.0.1:1", "bus_addr": "127.0.0.1:2"}],
        "tablets": [{"range": everything, "owner": stranger, "epoch": u64::MAX}], "migrations": []});
    for body in [
        json!({"welcome": {"cluster": cluster, "map": map}}),
        json!({"join_refused": {"why": huge}}),
        json!("join_again"),
        json!("superseded"),
        json!({"heard": {"map_epoch": u64::MAX}}),
        json!({"map_update": {"map": map}}),
        json!({"survey": {"migration": 1, "range": everything, "partitions": u64::MAX}}),
        json!({"prepare": {"record": {}}}),
        json!({"track": {"record": {}}}),
        json!({"over": {"migration": 1, "record": null, "map_epoch": u64::MAX}}),
        json!({"reply": {"number": 1, "reply": {"cancelled": {"migration": 1}}}}),
    ] {
        messages.push(json!({"to_node": {"to": victim, "incarnation": 1, "body": body}}));
    }
    messages.push(json!({"coordinator_at": "127.0.0.1:2"}));
    messages
}

/// A frame of each kind, valid except for its sender, then some invalid ones.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let scope = Scope { migration: MigrationId(1), epoch: TabletEpoch(1), version: ProtocolVersion::CURRENT };
    let everything = PositionRange::new(Position(0), Position(u64::MAX)).expect("in order");
    let mut frames = Vec::new();
    let mut add = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        frames.push(out);
    };
    for lane in Lane::ALL {
        add(&|out| Hello { scope, node: NodeId::from_bytes([1; 20]), lane }.write(out));
    }
    for is_resp3 in [false, true] {
        add(&|out| {
            Forward { node: NodeId::from_bytes([1; 20]), is_resp3 }.write(scope.version, out);
            // A command that would run if the frame were trusted.
            out.extend_from_slice(b"*1\r\n$8\r\nFLUSHALL\r\n");
        });
    }
    add(&|out| scope.write_hello_ack(out));
    add(&|out| scope.write_activated(out));
    add(&|out| Activate::write(scope, Version(u64::MAX), u64::MAX >> 1, &[], &[], out).expect("it is short"));
    add(&|out| Refusal::write(scope, RefusalCode::Done, "no", out));
    add(&|out| {
        Pull { scope, partition: 0, sequence: 1, range: everything, max_bytes: u32::MAX, piece: None }
            .write(out)
    });
    add(&|out| SampPull::write(scope, 1, &[Position(7)], out));
    add(&|out| ChangedPull { scope, sequence: 1, max_bytes: u32::MAX, piece: None }.write(out));
    add(&|out| Message::write_ping(scope.version, 1, out));
    add(&|out| Message::write_pong(scope.version, 1, out));
    for kind in Kind::ALL {
        add(&|out| {
            let start = begin_frame(out, kind.version(scope.version), kind);
            out.extend_from_slice(&[1; 100]);
            end_frame(out, start).expect("within the limit");
        });
        // A header that announces a gigabyte.
        add(&|out| {
            let start = begin_frame(out, kind.version(scope.version), kind);
            end_frame(out, start).expect("within the limit");
            out[..4].copy_from_slice(&(1_u32 << 30).to_le_bytes());
        });
    }
    frames
}
