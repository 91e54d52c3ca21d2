//! Requests the move and follows it, like the demonstration: one request at a time, on its own connection. A
//! worker and its node's control thread answer it among their other work. Each request waits for the end for
//! a while; a move is over when an answer reports that.

use crate::costs::Costs;
use crate::event::{Arrival, Turn};
use crate::processors::{Pause, ThreadId};
use sidle_bench::control::{await_end, started_migration};
use sidle_bench::load::LOAD_TICK;
use sidle_cluster::MigrationStatus;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, RequestWriter, Value};
use sidle_types::MigrationId;

/// The stage of the move.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// No request was sent.
    Idle,
    /// The move was requested.
    Starting,
    /// It waits for the end, and receives progress now and then.
    Following(MigrationId),
    /// The move is over, or did not start: why.
    Over(Result<(), String>),
}

/// The requesting thread.
pub(crate) struct Operator {
    pub(crate) id: ThreadId,
    worker: ThreadId,
    /// The worker's number for its connection.
    number: usize,
    stage: Stage,
    /// The next request.
    next: Option<Vec<u8>>,
    unread: Vec<u8>,
    parser: ReplyParser,
}

impl Operator {
    /// Connected to this worker, under this number.
    pub(crate) fn new(id: ThreadId, worker: ThreadId, number: usize) -> Operator {
        let parser = ReplyParser::new(ReplyLimits::default());
        Operator { id, worker, number, stage: Stage::Idle, next: None, unread: Vec::new(), parser }
    }

    /// Requests a move with these words.
    pub(crate) fn start(&mut self, words: &[&str]) {
        self.stage = Stage::Starting;
        self.next = Some(request(words));
    }

    /// Whether an answer has reported the outcome.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    /// The outcome, once an answer has reported it.
    pub(crate) fn outcome(&self) -> Option<Result<(), String>> {
        match &self.stage {
            Stage::Over(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }

    /// Bytes of an answer arrived.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Takes an answer, and sends the next request.
    pub(crate) fn turn(&mut self, costs: &Costs, pause: Pause) -> Turn {
        let mut turn = Turn { cost_ns: costs.of_pause(pause), ..Turn::default() };
        if !self.unread.is_empty() {
            turn.cost_ns += costs.read_ns;
            self.take();
        }
        if let Some(bytes) = self.next.take() {
            turn.cost_ns += costs.write_ns;
            let length = bytes.len();
            turn.send(self.worker, Arrival::Requests { connection: self.number, bytes }, length);
        }
        turn
    }

    /// Takes an answer once it is complete.
    fn take(&mut self) {
        let parsed = self.parser.parse(&self.unread).expect("workers answer in the protocol");
        let ParsedReply::Complete { frame, consumed } = parsed else { return };
        let answer = frame.reply.to_value();
        self.unread.drain(..consumed);
        self.stage = match (&self.stage, answer) {
            (_, Value::Error(why)) => Stage::Over(Err(why)),
            (Stage::Starting, answer) => match started_migration(&answer) {
                Some(id) => Stage::Following(id),
                None => Stage::Over(Err(format!("SIDLE.MIGRATE START answered {answer:?}"))),
            },
            (&Stage::Following(id), answer) => followed(id, &answer),
            (stage, _) => stage.clone(),
        };
        if let Stage::Following(id) = self.stage {
            self.next = Some(request(&await_end(id, LOAD_TICK)));
        }
    }
}

/// A request on the wire.
fn request(words: &[impl AsRef<str>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_ref().as_bytes()).collect();
    RequestWriter::new(&mut bytes).request(&words);
    bytes
}

fn text(answer: &Value) -> Option<&str> {
    std::str::from_utf8(answer.as_bytes()?).ok()
}

/// The stage of a migration according to a status.
fn followed(id: MigrationId, answer: &Value) -> Stage {
    let migration = text(answer).and_then(|text| serde_json::from_str::<MigrationStatus>(text).ok());
    let Some(migration) = migration else {
        return Stage::Over(Err(format!("SIDLE.MIGRATE WAIT answered {answer:?}")));
    };
    match migration.state.as_str() {
        "done" => Stage::Over(Ok(())),
        state @ ("failed" | "cancelled") => {
            Stage::Over(Err(format!("{state}: {}", migration.why.unwrap_or_default())))
        }
        _ => Stage::Following(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Output;
    use crate::processors::Pause;

    const COSTS: Costs = Costs {
        poll_ns: 0,
        sleep_ns: 0,
        wake_ns: 0,
        core_sleep_ns: 0,
        wake_core_ns: 0,
        core_latency_ns: 0,
        read_ns: 300,
        write_ns: 5_000,
        copy_ns_per_kib: 0,
        get_ns: 0,
        set_ns: 0,
        shared_ns: 0,
        ask_get_ns: 0,
        ask_set_ns: 0,
        pack_ns_per_kib: 0,
        pick_ns_per_kib: 0,
        replay_ns_per_kib: 0,
        message_ns: 0,
        control_ns: 0,
        commit_ns: 0,
        bulk_resume_ns: 0,
        release_ns: 0,
        noise_thousandths: 0,
    };

    /// An operator that has sent its first request.
    fn operator() -> Operator {
        let mut operator = Operator::new(9, 3, 4);
        operator.start(&["SIDLE.MIGRATE", "START"]);
        assert_eq!(sent(&operator.turn(&COSTS, Pause::default())), ["*2 $13 SIDLE.MIGRATE $5 START "]);
        operator
    }

    /// The bytes sent to the worker, each on one line.
    fn sent(turn: &Turn) -> Vec<String> {
        let line = |output: &Output| match output {
            Output::Send { to: 3, arrival: Arrival::Requests { connection: 4, bytes }, .. } => {
                Some(String::from_utf8_lossy(bytes).replace("\r\n", " "))
            }
            _ => None,
        };
        turn.outputs.iter().filter_map(line).collect()
    }

    #[test]
    fn operator_waits_for_the_end_as_soon_as_it_has_a_number() {
        let mut operator = operator();
        operator.receive(b":7\r\n");
        let turn = operator.turn(&COSTS, Pause::default());
        let asked = vec!["*4 $13 SIDLE.MIGRATE $4 WAIT $1 7 $2 25 ".to_owned()];
        assert_eq!((sent(&turn), turn.cost_ns), (asked, 5_300));
        assert!(!operator.is_over());
        assert_eq!(operator.turn(&COSTS, Pause::default()).cost_ns, 0, "one question at a time");
    }

    #[test]
    fn operator_reports_why_there_is_no_move() {
        for (answer, why) in
            [(b"-ERR no such node\r\n".as_slice(), "ERR no such node"), (b"+soon\r\n", "answered")]
        {
            let mut operator = operator();
            operator.receive(&answer[..3]);
            operator.turn(&COSTS, Pause::default());
            assert!(!operator.is_over(), "the answer is incomplete");
            operator.receive(&answer[3..]);
            operator.turn(&COSTS, Pause::default());
            let outcome = operator.outcome().expect("it was answered").expect_err("there is no move");
            assert!(outcome.contains(why), "{outcome}");
        }
    }

    #[test]
    fn operator_does_not_wait_for_an_unknown_move() {
        let mut operator = operator();
        operator.receive(b":7\r\n");
        operator.turn(&COSTS, Pause::default());
        operator.receive(b"$-1\r\n");
        operator.turn(&COSTS, Pause::default());
        let outcome = operator.outcome().expect("it was answered").expect_err("there is no move");
        assert!(outcome.contains("SIDLE.MIGRATE WAIT answered"), "{outcome}");
    }
}
