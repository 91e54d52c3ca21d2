//! A serving thread: its connections, and its reactions to probes.

use crate::costs::Costs;
use crate::event::{Arrival, ControlMail, Output, Turn};
use crate::processors::{Pause, ThreadId};
use crate::stopwatch::Stopwatch;
use sidle_client_core::ConnectionId;
use sidle_node::{ControlInput, ControlReply, NodeShared, Now, Session, Sleep, Then, Ticket, Worker};
use sidle_resp::{Limits, RequestParser};
use sidle_types::MapEpoch;
use std::collections::VecDeque;

/// An entry of the thread's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// The number of a connection with requests to run.
    Connection(usize),
    /// The worker's own turn: range tables, movers' messages, probes.
    Own,
}

struct Connection {
    session: Session,
    parser: RequestParser,
    /// Input read and not run.
    input: Vec<u8>,
    /// Input arrived and not read.
    unread: Vec<u8>,
    parked: Option<Ticket>,
    /// The control thread's reply, to be sent.
    answer: Option<ControlReply>,
    is_queued: bool,
    client: ThreadId,
    /// The client's number for it, if it has several.
    name: Option<ConnectionId>,
}

/// A serving thread.
pub(crate) struct WorkerThread {
    pub(crate) id: ThreadId,
    pub(crate) worker: Worker,
    sleep: Sleep,
    movers: Vec<ThreadId>,
    connections: Vec<Connection>,
    tasks: VecDeque<Task>,
    is_own_queued: bool,
    /// Whether the control thread waits for it to take a new range table.
    is_table_awaited: bool,
    /// The last map that connections were notified of, by any task.
    notified_map: MapEpoch,
    /// Tasks that the last poll of the connections found ready.
    polled: usize,
    probed_at_us: Option<u64>,
    lag_us: u64,
    /// Requests that it served, and those of them on a core that others used as well.
    pub(crate) served: u64,
    pub(crate) served_shared: u64,
}

impl WorkerThread {
    pub(crate) fn new(id: ThreadId, worker: Worker, movers: Vec<ThreadId>) -> WorkerThread {
        WorkerThread {
            id,
            sleep: worker.sleep(),
            worker,
            movers,
            connections: Vec::new(),
            tasks: VecDeque::new(),
            is_own_queued: false,
            is_table_awaited: false,
            notified_map: MapEpoch::default(),
            polled: 0,
            probed_at_us: None,
            lag_us: 0,
            served: 0,
            served_shared: 0,
        }
    }

    /// The worker must take its own turn.
    pub(crate) fn notify(&mut self) {
        if !std::mem::replace(&mut self.is_own_queued, true) {
            self.tasks.push_back(Task::Own);
        }
    }

    /// The worker must take a new range table in its own turn, unless it has one already, and notify.
    pub(crate) fn await_table(&mut self) {
        self.is_table_awaited = true;
        self.notify();
    }

    /// How far the worker is behind schedule, by its last or pending probe. Starts the next one.
    pub(crate) fn probe_lag_us(&mut self, now_us: u64) -> u64 {
        match self.probed_at_us {
            None => {
                self.probed_at_us = Some(now_us);
                self.notify();
                self.lag_us
            }
            Some(since_us) => self.lag_us.max(now_us.saturating_sub(since_us)),
        }
    }

    /// A client connects; returns the connection's number.
    pub(crate) fn accept(
        &mut self,
        shared: &std::sync::Arc<NodeShared>,
        now: Now,
        client: ThreadId,
        name: Option<ConnectionId>,
    ) -> usize {
        let registration = shared.clients.register("modelled".into(), "modelled".into(), now.wall);
        self.connections.push(Connection {
            session: Session::new(registration, true),
            parser: RequestParser::new(Limits::default()),
            input: Vec::new(),
            unread: Vec::new(),
            parked: None,
            answer: None,
            is_queued: false,
            client,
            name,
        });
        self.connections.len() - 1
    }

    /// Bytes arrived over a connection.
    pub(crate) fn receive(&mut self, number: usize, bytes: &[u8]) {
        let connection = &mut self.connections[number];
        connection.unread.extend_from_slice(bytes);
        if connection.parked.is_none() {
            self.queue(number);
        }
    }

    /// The control thread has replied to a connection's request.
    pub(crate) fn answered(&mut self, number: usize, reply: ControlReply) {
        self.connections[number].answer = Some(reply);
        self.queue(number);
    }

    fn queue(&mut self, number: usize) {
        if !std::mem::replace(&mut self.connections[number].is_queued, true) {
            self.tasks.push_back(Task::Connection(number));
        }
    }

    /// Runs one task.
    pub(crate) fn turn(
        &mut self,
        now: Now,
        costs: &Costs,
        pause: Pause,
        watch: &mut Stopwatch,
        turn: &mut Turn,
    ) {
        self.sleep.end();
        turn.cost_ns += costs.of_pause(pause);
        if self.polled == 0 {
            self.polled = self.tasks.len();
            turn.cost_ns += costs.poll_ns;
        }
        self.polled = self.polled.saturating_sub(1);
        match self.tasks.pop_front() {
            Some(Task::Own) => self.own_turn(now, costs, turn),
            Some(Task::Connection(number)) => self.serve(number, now, costs, pause, watch, turn),
            None => {}
        }
        self.worker.hand_over_heat(now.mono);
        while let Some(mover) = self.worker.poll_notify() {
            turn.outputs.push(Output::Wake(self.movers[usize::from(mover.0)]));
        }
        while let Some(ticket) = self.worker.poll_woken() {
            let woken = self.connections.iter().position(|connection| connection.parked == Some(ticket));
            if let Some(number) = woken {
                self.connections[number].parked = None;
                self.queue(number);
            }
        }
        turn.has_more = !self.tasks.is_empty();
        if !turn.has_more && self.sleep.begin() {
            turn.outputs.extend(self.movers.iter().copied().map(Output::Wake));
        }
    }

    fn own_turn(&mut self, now: Now, costs: &Costs, turn: &mut Turn) {
        self.is_own_queued = false;
        turn.cost_ns += costs.message_ns;
        self.worker.turn();
        if let Some(since_us) = self.probed_at_us.take() {
            self.lag_us = now.mono.0.saturating_sub(since_us);
        }
        if std::mem::take(&mut self.is_table_awaited) {
            turn.outputs.push(Output::Notify(ControlMail::Input(ControlInput::Timer)));
        }
        let map = self.worker.ranges().map().epoch();
        let is_new = std::mem::replace(&mut self.notified_map, map) != map;
        if !self.worker.collect_digests() && !is_new {
            return;
        }
        for connection in &mut self.connections {
            let mut out = Vec::new();
            let has_map = is_new && self.worker.write_pushes(&mut connection.session, &mut out);
            if self.worker.write_digests(&mut connection.session, &mut out) | has_map {
                turn.cost_ns += costs.write_ns;
                answer(connection, out, turn);
            }
        }
    }

    fn serve(
        &mut self,
        number: usize,
        now: Now,
        costs: &Costs,
        pause: Pause,
        watch: &mut Stopwatch,
        turn: &mut Turn,
    ) {
        let connection = &mut self.connections[number];
        connection.is_queued = false;
        if let Some(reply) = connection.answer.take() {
            let mut out = Vec::new();
            self.worker.answer(&mut connection.session, &reply, &mut out);
            turn.cost_ns += costs.write_ns;
            answer(connection, out, turn);
        }
        if !connection.unread.is_empty() {
            turn.cost_ns += costs.read_ns;
            connection.input.append(&mut connection.unread);
        }
        let commands = Commands::of(&connection.input);
        turn.cost_ns += commands.gets * costs.get_ns + commands.sets * costs.set_ns;
        self.served += commands.gets + commands.sets;
        if pause.is_shared {
            turn.cost_ns += (commands.gets + commands.sets) * costs.shared_ns;
            self.served_shared += commands.gets + commands.sets;
        }
        let mut out = Vec::new();
        let begun_ns = watch.begin();
        let served = self.worker.serve(
            now,
            &mut connection.session,
            &mut connection.parser,
            &connection.input,
            &mut out,
        );
        let took_ns = watch.end(begun_ns);
        match commands {
            Commands { gets: 1, sets: 0 } => watch.get.add(took_ns, out.len() as u64),
            Commands { gets: 0, sets: 1 } => watch.set.add(took_ns, out.len() as u64),
            _ => {}
        }
        connection.input.drain(..served.consumed);
        if !out.is_empty() {
            turn.cost_ns += costs.write_ns;
            answer(connection, out, turn);
        }
        match served.then {
            Then::Read { .. } => {}
            Then::Again => self.queue(number),
            Then::Parked(ticket) => connection.parked = Some(ticket),
            Then::Control(request) => {
                let question = ControlMail::Question { worker: self.id, connection: number, request };
                turn.outputs.push(Output::Notify(question));
            }
            Then::Close(_) | Then::Shutdown => unreachable!("modelled clients read, write and follow maps"),
        }
    }
}

fn answer(connection: &Connection, bytes: Vec<u8>, turn: &mut Turn) {
    let length = bytes.len();
    let arrival = match connection.name {
        Some(connection) => Arrival::Replies { connection, bytes },
        None => Arrival::Answer(bytes),
    };
    turn.send(connection.client, arrival, length);
}

/// The requests in a connection's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Commands {
    gets: u64,
    sets: u64,
}

impl Commands {
    /// Counts requests: those of three words (SET, key, value) as writes, the others (GET, also of the frozen
    /// source, and the few greetings) as reads. No modelled value contains a line that looks like a request.
    fn of(input: &[u8]) -> Commands {
        let mut commands = Commands::default();
        let mut is_line_start = true;
        for (index, &byte) in input.iter().enumerate() {
            if is_line_start && byte == b'*' {
                match input.get(index + 1) {
                    Some(b'3') => commands.sets += 1,
                    _ => commands.gets += 1,
                }
            }
            is_line_start = byte == b'\n';
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind() {
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n";
        let both = [get.as_slice(), set, get].concat();
        assert_eq!(Commands::of(&both[..both.len() - 1]).gets, 2);
        assert_eq!(Commands::of(get), Commands { gets: 1, sets: 0 });
        assert_eq!(Commands::of(b""), Commands::default());
    }
}
