//! The list of connected clients: for CLIENT LIST and INFO, and to end connections from elsewhere.
//!
//! A worker touches only its own connections' records. The list's lock is taken when a client connects,
//! leaves or requests the list, and when connections are to end.
//!
//! Ending a connection only marks its record ([`Ending`]). The connection's worker checks the mark before it
//! serves, and is woken when [`endings`](Clients::endings) has grown.

use crate::session::Session;
use crate::tally::Tally;
use crate::waiters::WaiterId;
use sidle_access::DEFAULT_USER;
use sidle_commands::CommandId;
use sidle_resp::RequestParser;
use sidle_store::Observer;
use sidle_types::{Position, WallMs};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a connection without requests and replies takes.
const BARE_BYTES: u64 =
    (size_of::<Session>() + size_of::<ClientRecord>() + size_of::<RequestParser>()) as u64;

/// In place of the id of a connection that is no client's.
const UNLISTED: u64 = 0;

/// What others may see of a connection.
#[derive(Debug)]
pub struct ClientRecord {
    /// Never given twice by a node; 0 for what is no client.
    pub id: u64,
    /// The client's address.
    pub address: String,
    /// The node's address that it connected to.
    pub local_address: String,
    /// When it connected.
    pub connected_at: WallMs,
    descriptor: AtomicI32,
    last_active_ms: AtomicU64,
    last_command: AtomicU16,
    buffers: [AtomicU64; 4],
    /// Other nodes' replies so far to a command that waits for more.
    pub(crate) collected: Arc<Tally>,
    /// Lines of MONITOR that it has yet to be sent.
    pub(crate) lines: Arc<Tally>,
    is_monitor: AtomicBool,
    /// A pause holds its command up.
    is_held_up: AtomicBool,
    /// The commands queued since MULTI: one more than their number, 0 without MULTI; and their memory.
    queued: AtomicU32,
    queued_bytes: Tally,
    /// What commands that go on take beside their requests.
    progress: Tally,
    /// A watched key has changed.
    is_touched: AtomicBool,
    /// The command that waits, if one does; and how CLIENT UNBLOCK ended it.
    waiter: AtomicU64,
    unblock: AtomicU8,
    ending: AtomicU8,
    is_guest: AtomicBool,
    is_leaving: AtomicBool,
    details: Mutex<ClientDetails>,
}

/// What a connection holds in memory between two turns of its worker, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Of requests that were received and have not run.
    pub input: u64,
    /// Allocated for more of them.
    pub input_free: u64,
    /// For the places of an unfinished request's arguments.
    pub arguments: u64,
    /// Allocated for replies that the client has not received.
    pub output: u64,
}

impl Buffers {
    /// The sum.
    pub fn total(self) -> u64 {
        self.input + self.input_free + self.arguments + self.output
    }
}

/// How CLIENT UNBLOCK ends a command that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Unblock {
    /// As if its time were over.
    AsIfOver = 1,
    /// With an error.
    WithError,
}

/// Why the node ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// CLIENT KILL.
    Killed = 1,
    /// All connections together held too much, and this one most.
    Evicted,
    /// It had a place for operators that another one needs.
    Displaced,
    /// It owed something (a password, a first request, its own close) and its time is over.
    Overdue,
    /// It was silent for as long as `timeout` allows. The only ending that can be taken back.
    Idle,
}

impl Ending {
    const ALL: [Ending; 5] =
        [Ending::Killed, Ending::Evicted, Ending::Displaced, Ending::Overdue, Ending::Idle];
}

/// What a client reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientDetails {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
    /// Whether it speaks RESP3.
    pub resp3: bool,
    /// READONLY.
    pub readonly: bool,
    /// Its user; empty: the default one.
    pub user: Vec<u8>,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
}

impl ClientRecord {
    fn new(
        id: u64,
        address: String,
        local_address: String,
        now: WallMs,
        sum: &Arc<AtomicU64>,
    ) -> ClientRecord {
        ClientRecord {
            id,
            address,
            local_address,
            connected_at: now,
            descriptor: AtomicI32::new(-1),
            last_active_ms: AtomicU64::new(now.0),
            last_command: AtomicU16::new(u16::MAX),
            buffers: Default::default(),
            collected: Arc::new(Tally::in_sum(sum)),
            lines: Arc::new(Tally::in_sum(sum)),
            is_monitor: AtomicBool::new(false),
            is_held_up: AtomicBool::new(false),
            queued: AtomicU32::new(0),
            queued_bytes: Tally::in_sum(sum),
            progress: Tally::in_sum(sum),
            is_touched: AtomicBool::new(false),
            waiter: AtomicU64::new(0),
            unblock: AtomicU8::new(0),
            ending: AtomicU8::new(0),
            is_guest: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            details: Mutex::default(),
        }
    }

    /// Notes the process's descriptor of its socket.
    pub fn note_descriptor(&self, descriptor: i32) {
        self.descriptor.store(descriptor, Relaxed);
    }

    /// The descriptor of its socket; -1: none.
    pub(crate) fn descriptor(&self) -> i32 {
        self.descriptor.load(Relaxed)
    }

    /// Notes that the client sent a command, known or unknown.
    #[inline]
    pub fn touch(&self, now: WallMs, command: Option<CommandId>) {
        self.last_active_ms.store(now.0, Relaxed);
        self.last_command.store(command.map_or(u16::MAX, |id| id.0), Relaxed);
    }

    /// Notes that the client sent or received something.
    #[inline]
    pub fn seen(&self, now: WallMs) {
        self.last_active_ms.store(now.0, Relaxed);
    }

    /// When the client was last active.
    pub fn last_active(&self) -> WallMs {
        WallMs(self.last_active_ms.load(Relaxed))
    }

    /// The last command that it sent.
    pub fn last_command(&self) -> Option<CommandId> {
        match self.last_command.load(Relaxed) {
            u16::MAX => None,
            id => Some(CommandId(id)),
        }
    }

    /// Notes the command that waits.
    pub(crate) fn note_waiter(&self, waiter: Option<WaiterId>) {
        self.unblock.store(0, Release);
        self.waiter.store(waiter.map_or(0, WaiterId::bits), Release);
    }

    /// The command that waits.
    pub(crate) fn waiter(&self) -> Option<WaiterId> {
        WaiterId::from_bits(self.waiter.load(Acquire))
    }

    /// CLIENT UNBLOCK: its command is to end.
    pub(crate) fn unblock(&self, how: Unblock) {
        self.unblock.store(how as u8, Release);
    }

    /// How CLIENT UNBLOCK ended its command, if it did; taken.
    pub(crate) fn take_unblock(&self) -> Option<Unblock> {
        match self.unblock.swap(0, AcqRel) {
            0 => None,
            how if how == Unblock::AsIfOver as u8 => Some(Unblock::AsIfOver),
            _ => Some(Unblock::WithError),
        }
    }

    /// Its user's name.
    pub(crate) fn user(&self) -> Vec<u8> {
        let user = self.details().user.clone();
        if user.is_empty() { DEFAULT_USER.to_vec() } else { user }
    }

    /// What it holds in memory beyond itself.
    pub fn buffers(&self) -> Buffers {
        let [input, input_free, arguments, output] =
            [0, 1, 2, 3].map(|index: usize| self.buffers[index].load(Relaxed));
        Buffers { input, input_free, arguments, output }
    }

    /// Bytes of other nodes' replies so far to a command of it that waits for more.
    pub fn collected_bytes(&self) -> u64 {
        self.collected.bytes()
    }

    /// Notes how many commands it queued since MULTI, and the memory of these and of what it watches.
    pub(crate) fn note_queued(&self, queued: Option<usize>, bytes: usize) {
        self.queued.store(queued.map_or(0, |commands| commands as u32 + 1), Relaxed);
        self.queued_bytes.set(bytes as u64);
    }

    /// Notes that the progress of a command that goes on takes so many bytes now, and how many it took.
    pub(crate) fn note_progress(&self, bytes: u64, before: u64) {
        self.progress.set(self.progress.bytes() + bytes - before);
    }

    /// It watches nothing any more.
    pub(crate) fn forget_watched(&self) {
        self.is_touched.store(false, Relaxed);
    }

    /// Whether a watched key has changed. Who has locked the key's slot knows for certain.
    pub(crate) fn is_touched(&self) -> bool {
        self.is_touched.load(Relaxed)
    }

    /// How many commands it queued since MULTI; none without MULTI.
    pub(crate) fn queued(&self) -> Option<u32> {
        self.queued.load(Relaxed).checked_sub(1)
    }

    /// What these take in memory.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.bytes()
    }

    /// Notes whether it is shown every command of the node.
    pub(crate) fn note_monitor(&self, is_monitor: bool) {
        self.is_monitor.store(is_monitor, Relaxed);
    }

    /// Whether it is shown every command of the node.
    pub(crate) fn is_monitor(&self) -> bool {
        self.is_monitor.load(Relaxed)
    }

    /// Notes whether a pause holds its command up.
    pub(crate) fn note_held_up(&self, is_held_up: bool) {
        self.is_held_up.store(is_held_up, Relaxed);
    }

    /// Whether a pause holds its command up.
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_held_up.load(Relaxed)
    }

    /// Bytes of requests and replies that it holds, and of its commands' progress.
    pub fn held_bytes(&self) -> u64 {
        let replies = self.buffers().total() + self.collected_bytes() + self.lines.bytes();
        replies + self.queued_bytes() + self.progress.bytes()
    }

    /// What it takes in memory, itself included.
    pub fn memory_bytes(&self) -> u64 {
        BARE_BYTES + (self.address.len() + self.local_address.len()) as u64 + self.held_bytes()
    }

    /// Why the connection is to end, if it is. Its worker checks this before it serves it.
    #[inline]
    pub fn ending(&self) -> Option<Ending> {
        match self.ending.load(Ordering::Acquire) {
            0 => None,
            ending => Some(Ending::ALL[usize::from(ending) - 1]),
        }
    }

    /// Takes back the ending for silence: the client waits for the node's own answer.
    pub fn spare(&self) {
        let idle = Ending::Idle as u8;
        // Another reason stays.
        let _ = self.ending.compare_exchange(idle, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether it is a client's.
    fn is_listed(&self) -> bool {
        self.id != UNLISTED
    }

    /// Notes that it has a place for operators.
    pub fn make_guest(&self) {
        self.is_guest.store(true, Relaxed);
    }

    /// Notes that the node has sent its last reply and waits for the client to close.
    pub fn note_leaving(&self) {
        self.is_leaving.store(true, Relaxed);
    }

    /// A guest's rank for making room for another one; lowest first; `None`: it keeps its place. A refused
    /// guest has lost nothing, and programs that are served send at once.
    fn displaced_in_turn(&self, now: WallMs) -> Option<u8> {
        let is_silent = self.last_active().0 <= now.0.saturating_sub(GUEST_SILENCE_MS);
        match self.is_leaving.load(Relaxed) {
            true => Some(0),
            false if self.last_command().is_none() => Some(1),
            false => is_silent.then_some(2),
        }
    }

    /// Whether it counts as connected: it may be silent, but it is not about to close.
    fn is_staying(&self) -> bool {
        self.ending().is_none_or(|ending| ending == Ending::Idle)
    }

    /// What the client reported about itself; hold it for a moment only.
    pub fn details(&self) -> MutexGuard<'_, ClientDetails> {
        // A panic cannot leave the details half-written: every change is one assignment.
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All watched keys count alike.
impl Observer for ClientRecord {
    fn touched(&self, _: Position) {
        self.is_touched.store(true, Relaxed);
    }
}

/// All connections of a node.
#[derive(Debug, Default)]
pub struct Clients {
    next_id: AtomicU64,
    /// How many connections were marked to end.
    endings: AtomicU64,
    /// How many of those marked to save memory are still open.
    evicting: AtomicU64,
    /// The memory of all of them.
    memory_bytes: Arc<AtomicU64>,
    recent_max: RecentMax,
    /// What happened to clients so far.
    pub totals: ClientTotals,
    connected: Mutex<BTreeMap<u64, Arc<ClientRecord>>>,
}

/// The most that one connection held in this window, and in the one before.
#[derive(Debug, Default)]
struct RecentMax {
    input: [AtomicU64; 2],
    output: [AtomicU64; 2],
}

impl RecentMax {
    fn note(&self, now: Buffers) {
        self.input[0].fetch_max(now.input + now.input_free, Relaxed);
        self.output[0].fetch_max(now.output, Relaxed);
    }

    fn begin_window(&self) {
        for [this, before] in [&self.input, &self.output] {
            before.store(this.swap(0, Relaxed), Relaxed);
        }
    }
}

/// What happened to clients since the start, or since CONFIG RESETSTAT. Each event is rare.
#[derive(Debug, Default)]
pub struct ClientTotals {
    /// Refused: all places were taken, or the system had no descriptor left.
    pub rejected: AtomicU64,
    /// Closed because all connections together held too much.
    pub evicted: AtomicU64,
    /// Closed because a reply or its unread output passed its limit.
    pub output_limit: AtomicU64,
    /// Closed because an unfinished request passed its limit.
    pub query_limit: AtomicU64,
}

impl ClientTotals {
    /// Counts one more.
    pub fn count(total: &AtomicU64) {
        total.fetch_add(1, Relaxed);
    }

    /// Starts again from 0.
    pub fn reset(&self) {
        [&self.rejected, &self.evicted, &self.output_limit, &self.query_limit]
            .iter()
            .for_each(|total| total.store(0, Relaxed));
    }
}

/// A served guest makes room for another one after this much silence.
const GUEST_SILENCE_MS: u64 = 1_000;

impl Clients {
    /// Enters a connection, until the registration is dropped.
    pub fn register(self: &Arc<Self>, address: String, local_address: String, now: WallMs) -> Registration {
        let id = self.next_id.fetch_add(1, Relaxed) + 1;
        let record = Arc::new(ClientRecord::new(id, address, local_address, now, &self.memory_bytes));
        self.memory_bytes.fetch_add(record.memory_bytes(), Relaxed);
        self.connected().insert(record.id, Arc::clone(&record));
        Registration { record, clients: Arc::clone(self) }
    }

    /// A connection of another node of the cluster, which is no client: in no list, and not counted. Its
    /// memory does not count as the clients', so no client is closed for it.
    pub fn unlisted(self: &Arc<Self>, address: String, now: WallMs) -> Registration {
        let record = Arc::new(ClientRecord::new(UNLISTED, address, String::new(), now, &Arc::default()));
        Registration { record, clients: Arc::clone(self) }
    }

    /// The connection with this id.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<ClientRecord>> {
        self.connected().get(&id).cloned()
    }

    /// Every connection that stays, by id.
    pub fn list(&self) -> Vec<Arc<ClientRecord>> {
        self.connected().values().filter(|client| client.is_staying()).cloned().collect()
    }

    /// The number of connections that stay.
    pub fn len(&self) -> usize {
        self.connected().values().filter(|client| client.is_staying()).count()
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of connections since the start.
    pub fn total(&self) -> u64 {
        self.next_id.load(Relaxed)
    }

    /// What all connections take in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Relaxed)
    }

    /// The recent maximum that one connection held between two of its turns: of requests, and of replies.
    pub fn recent_max_bytes(&self) -> [u64; 2] {
        [&self.recent_max.input, &self.recent_max.output]
            .map(|windows| windows.iter().map(|window| window.load(Relaxed)).max().unwrap_or(0))
    }

    /// Begins a new window for [`recent_max_bytes`](Self::recent_max_bytes), and drops the last but one.
    pub fn begin_window(&self) {
        self.recent_max.begin_window();
    }

    /// How many connections were marked to end. When it grows there is one to close.
    #[inline]
    pub fn endings(&self) -> u64 {
        self.endings.load(Ordering::Acquire)
    }

    /// Marks a connection to end; whether it was not marked before.
    pub fn end(&self, client: &ClientRecord, why: Ending) -> bool {
        let is_idle = |before: u8| before == Ending::Idle as u8 && why != Ending::Idle;
        let mark = |before: u8| (before == 0 || is_idle(before)).then_some(why as u8);
        let is_first = client.ending.fetch_update(Ordering::AcqRel, Ordering::Acquire, mark).is_ok();
        if is_first {
            self.evicting.fetch_add((why == Ending::Evicted).into(), Ordering::AcqRel);
            self.endings.fetch_add(1, Ordering::AcqRel);
        }
        is_first
    }

    /// Whether connections marked to end to save memory still hold it. Requests that need more of it wait
    /// meanwhile: replies made at the same time would exceed the limit many times.
    #[inline]
    pub fn is_making_room(&self) -> bool {
        self.evicting.load(Relaxed) != 0
    }

    /// Marks the largest connections to end until the others hold at most `most_bytes`, and returns them.
    /// Connections with CLIENT NO-EVICT stay.
    pub fn evict(&self, most_bytes: u64) -> Vec<Arc<ClientRecord>> {
        let mut clients: Vec<(u64, Arc<ClientRecord>)> =
            self.list().into_iter().map(|client| (client.memory_bytes(), client)).collect();
        let mut sum: u64 = clients.iter().map(|(bytes, _)| bytes).sum();
        clients.retain(|(_, client)| !client.details().no_evict);
        clients.sort_unstable_by_key(|(bytes, client)| (*bytes, client.id));
        let mut evicted = Vec::new();
        while sum > most_bytes
            && let Some((bytes, client)) = clients.pop()
        {
            sum -= bytes;
            if self.end(&client, Ending::Evicted) {
                ClientTotals::count(&self.totals.evicted);
                evicted.push(client);
            }
        }
        evicted
    }

    /// Marks a guest to end; whether there was one. First go refused ones that have yet to close, then those
    /// without a request, then those silent for long enough. Of each kind the longest silent goes.
    pub fn displace_guest(&self, now: WallMs) -> bool {
        let guests = self.list().into_iter().filter(|client| client.is_guest.load(Relaxed));
        let in_turn = guests.filter_map(|guest| Some((guest.displaced_in_turn(now)?, guest)));
        let first = in_turn.min_by_key(|(turn, guest)| (*turn, guest.last_active()));
        first.is_some_and(|(_, guest)| self.end(&guest, Ending::Displaced))
    }

    fn connected(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientRecord>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the list; leaves it on drop.
#[derive(Debug)]
pub struct Registration {
    record: Arc<ClientRecord>,
    clients: Arc<Clients>,
}

impl std::ops::Deref for Registration {
    type Target = ClientRecord;

    fn deref(&self) -> &ClientRecord {
        &self.record
    }
}

impl Registration {
    /// The connection's record, to be kept by others.
    pub fn record(&self) -> Arc<ClientRecord> {
        Arc::clone(&self.record)
    }

    /// Marks the connection to end.
    pub(crate) fn end(&self, why: Ending) {
        self.clients.end(&self.record, why);
    }

    /// Notes what the connection holds in memory now; only its worker may.
    pub fn hold(&self, now: Buffers) {
        let before = self.record.buffers().total();
        let parts = [now.input, now.input_free, now.arguments, now.output];
        self.record.buffers.iter().zip(parts).for_each(|(buffer, bytes)| buffer.store(bytes, Relaxed));
        if self.is_listed() {
            self.clients.recent_max.note(now);
            // Wraps where it shrinks; the sum does not.
            self.clients.memory_bytes.fetch_add(now.total().wrapping_sub(before), Relaxed);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.is_listed() {
            self.clients.memory_bytes.fetch_sub(self.record.memory_bytes(), Relaxed);
            let is_evicted = self.record.ending() == Some(Ending::Evicted);
            self.clients.evicting.fetch_sub(is_evicted.into(), Relaxed);
            self.clients.connected().remove(&self.record.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_lists_until_dropped() {
        let clients = Arc::new(Clients::default());
        let first = clients.register("a:1".into(), "b:2".into(), WallMs(5));
        let second = clients.register("a:3".into(), "b:2".into(), WallMs(6));
        assert_eq!(clients.list().iter().map(|client| client.id).collect::<Vec<_>>(), [1, 2]);
        drop(first);
        assert_eq!(clients.len(), 1);
        assert_eq!(clients.total(), 2);
        drop(second);
        assert!(clients.is_empty());
        let third = clients.register("a:4".into(), "b:2".into(), WallMs(7));
        let before = clients.memory_bytes();
        let node = clients.unlisted("node:1".into(), WallMs(8));
        node.hold(Buffers { input: 7, ..Buffers::default() });
        assert_eq!(clients.memory_bytes(), before, "what a node holds is no client's");
        drop(node);
        assert_eq!(clients.memory_bytes(), before);
        assert_eq!(
            (clients.len(), clients.total()),
            (1, 3),
            "nodes are no clients, and remove none from the list"
        );
        drop(third);
        assert_eq!(clients.memory_bytes(), 0);
    }

    fn holding(clients: &Arc<Clients>, output: u64) -> Registration {
        let client = clients.register("a:1".into(), "b:2".into(), WallMs(5));
        client.hold(Buffers { output, ..Buffers::default() });
        client
    }

    #[test]
    fn memory_is_the_sum_of_what_each_holds() {
        let clients = Arc::new(Clients::default());
        let (one, two) = (holding(&clients, 1000), holding(&clients, 500));
        assert_eq!(clients.memory_bytes(), one.memory_bytes() + two.memory_bytes());
        one.hold(Buffers { input: 7, input_free: 3, arguments: 2, output: 0 });
        assert_eq!(one.buffers().total(), 12);
        one.collected.set(4000);
        two.collected.set(8000);
        two.collected.set(70);
        for (bytes, before) in [(100, 0), (30, 100), (5, 0)] {
            one.note_progress(bytes, before);
        }
        assert_eq!((one.held_bytes(), two.held_bytes()), (4047, 570));
        assert_eq!(clients.memory_bytes(), one.memory_bytes() + two.memory_bytes());
    }

    #[test]
    fn evict_ends_the_largest_first_and_never_those_with_no_evict() {
        let clients = Arc::new(Clients::default());
        let held = [3_000_000, 9_000_000, 5_000_000, 8_000_000].map(|bytes| holding(&clients, bytes));
        held[1].details().no_evict = true;
        assert_eq!(clients.evict(30_000_000).len(), 0);
        assert!(!clients.is_making_room());
        let evicted: Vec<u64> = clients.evict(13_000_000).iter().map(|client| client.id).collect();
        assert_eq!(evicted, [held[3].id, held[2].id]);
        assert_eq!(held[3].ending(), Some(Ending::Evicted));
        assert!(clients.is_making_room());
        assert_eq!((clients.endings(), clients.len()), (2, 2));
        assert_eq!(clients.evict(13_000_000).len(), 0, "they were marked already");
        assert_eq!(clients.evict(1).len(), 1, "one is left that may be evicted");
        assert_eq!(held[1].ending(), None);
        drop(held);
        assert!(!clients.is_making_room(), "all have ended");
    }

    #[test]
    fn the_recent_maximum_is_kept_for_two_windows() {
        let clients = Arc::new(Clients::default());
        let client = holding(&clients, 1000);
        client.hold(Buffers { input: 7, input_free: 3, ..Buffers::default() });
        client.hold(Buffers::default());
        assert_eq!(clients.recent_max_bytes(), [10, 1000]);
        clients.begin_window();
        client.hold(Buffers { input: 12, ..Buffers::default() });
        assert_eq!(clients.recent_max_bytes(), [12, 1000]);
        clients.begin_window();
        assert_eq!(clients.recent_max_bytes(), [12, 0]);
        clients.begin_window();
        assert_eq!(clients.recent_max_bytes(), [0, 0]);
    }

    #[test]
    fn only_silence_is_forgiven() {
        let clients = Arc::new(Clients::default());
        let client = holding(&clients, 0);
        assert!(clients.end(&client, Ending::Idle));
        assert_eq!(clients.list().len(), 1, "it may yet stay");
        client.spare();
        assert_eq!(client.ending(), None);
        assert!(clients.end(&client, Ending::Idle) && clients.end(&client, Ending::Killed));
        client.spare();
        assert_eq!(client.ending(), Some(Ending::Killed));
        assert!(!clients.end(&client, Ending::Evicted) && clients.list().is_empty());
    }

    #[test]
    fn displace_begins_with_the_refused_and_the_undecided() {
        let clients = Arc::new(Clients::default());
        let [served, undecided, first, second] = [1_000, 9_900, 9_950, 9_960].map(|ms| {
            let client = holding(&clients, 0);
            client.seen(WallMs(ms));
            client.make_guest();
            client
        });
        served.touch(WallMs(1_000), Some(CommandId(0)));
        first.note_leaving();
        second.note_leaving();
        for next in [&first, &second, &undecided, &served] {
            assert_eq!(next.ending(), None);
            assert!(clients.displace_guest(WallMs(10_000)));
            assert_eq!(next.ending(), Some(Ending::Displaced));
        }
        assert!(!clients.displace_guest(WallMs(10_000)), "nobody is left");
    }

    #[test]
    fn displace_takes_the_guest_that_was_silent_longest() {
        let clients = Arc::new(Clients::default());
        let [ordinary, early, late] = [1_000, 2_000, 9_500].map(|ms| {
            let client = holding(&clients, 0);
            client.touch(WallMs(ms), Some(CommandId(0)));
            client
        });
        early.make_guest();
        late.make_guest();
        assert!(clients.displace_guest(WallMs(10_000)));
        assert!(!clients.displace_guest(WallMs(10_000)), "the other one sent just now");
        assert_eq!(
            [&ordinary, &early, &late].map(|client| client.ending()),
            [None, Some(Ending::Displaced), None]
        );
    }
}
