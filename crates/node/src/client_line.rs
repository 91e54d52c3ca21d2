//! A connection as CLIENT LIST and ACL LOG show it.

use crate::clients::ClientRecord;
use crate::commands::commands;
use sidle_types::WallMs;
use std::fmt::Write;

/// One line in the form of CLIENT LIST. Fields without a counterpart are left out, except those that report
/// absence: databases, subscriptions.
pub(crate) fn describe(client: &ClientRecord, now: WallMs, out: &mut String) {
    let seconds_since = |then: WallMs| now.0.saturating_sub(then.0) / 1000;
    let details = client.details().clone();
    let buffers = client.buffers();
    let output = buffers.output + client.collected_bytes() + client.lines.bytes();
    // While replies wait to be sent nothing is read.
    let events = if buffers.output > 0 { "w" } else { "r" };
    let mut flags = String::new();
    let in_transaction = client.queued().is_some();
    let letters = [
        (client.is_monitor(), 'O'),
        (in_transaction, 'x'),
        (client.waiter().is_some() || client.is_held_up(), 'b'),
        (client.is_touched(), 'd'),
        (details.readonly, 'r'),
        (details.no_evict, 'e'),
        (details.no_touch, 'T'),
    ];
    for (set, letter) in letters {
        if set {
            flags.push(letter);
        }
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let user = client.user();
    let user = String::from_utf8_lossy(&user);
    let command = client.last_command().map_or("NULL", |id| commands().all()[id.0 as usize].spec.name);
    writeln!(
        out,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db=0 sub=0 psub=0 ssub=0 \
         multi={} qbuf={} qbuf-free={} argv-mem={} multi-mem={} oll={} omem={} tot-mem={} \
         events={events} cmd={command} user={user} redir=-1 resp={} lib-name={} lib-ver={}",
        client.id,
        client.address,
        client.local_address,
        client.descriptor(),
        details.name,
        seconds_since(client.connected_at),
        seconds_since(client.last_active()),
        client.queued().map_or(-1, i64::from),
        buffers.input,
        buffers.input_free,
        buffers.arguments,
        client.queued_bytes(),
        // What is pending is one buffer.
        u8::from(output > 0),
        output,
        client.memory_bytes(),
        if details.resp3 { 3 } else { 2 },
        details.library,
        details.library_version,
    )
    .expect("writing to a string cannot fail");
}
