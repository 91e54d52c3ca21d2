//! Clients that take from lists, and wait where there is nothing to take; some hang up while they wait.
//!
//! Each of them does one thing at a time. The first never waits: it pushes. In the end nothing new begins,
//! and one more of them pushes where others wait and nothing is left. Where something is left, who waits
//! must be served without that.

use super::caller::{Caller, Heard, hear_for_one};
use super::wires::Ended;
use crate::network::{Signal, StreamId};
use crate::workload::{End, History, LISTS, ListOp, ListOperation, Turn, Workload, list_operation, lists};
use crate::world::{Actor, World};
use sidle_client_core::Effect;
use sidle_resp::Value;
use sidle_testbed::Random;

/// The settings of these clients.
#[derive(Clone, Debug)]
pub struct ConsumersSetup {
    /// How many of them there are.
    pub rows: usize,
    /// The longest pause between two operations of one of them.
    pub think_us: u64,
    /// The longest that one waits, unless for ever.
    pub patience_us: u64,
    /// How many of a thousand waits end by hanging up.
    pub hangs_up_permille: u64,
    /// How many nodes there are.
    pub nodes: usize,
}

/// How often one asks before it gives up.
const TRIES: u32 = 2_000;
/// By how much a node's clock may be faster than time, with the rounding of its own: in microseconds, and in
/// millionths.
const EARLY: (u64, u64) = (1_000, 400);
/// How often the one that pushes in the end looks.
const LOOKS_US: u64 = 200_000;
/// How often they look whether a node still knows of a lost connection.
const FADES_US: u64 = 20_000;
/// Errors of what was refused for good.
const REFUSED: [&str; 8] =
    ["OOM", "MISCONF", "NOREPLICAS", "EXECABORT", "CROSSSLOT", "SIDLESPLIT", "ERR", sidle_node::UNKNOWN];

/// A request, and its record.
struct Asked {
    record: ListOperation,
    requests: Vec<Vec<String>>,
    /// How long it waits at most if it finds nothing; 0 is for ever.
    waits_us: Option<u64>,
    tries: u32,
    hangs_up_at_us: Option<u64>,
    /// When to ask again.
    again_us: Option<u64>,
}

struct Row {
    caller: Caller,
    asked: Option<Asked>,
    next_us: u64,
}

/// The clients.
pub struct Consumers {
    number: usize,
    setup: ConsumersSetup,
    random: Random,
    rows: Vec<Row>,
    /// The records of what ended with its connection, while a node may still have that.
    fading: Vec<(StreamId, usize)>,
    asked: u64,
    is_stopped: bool,
    /// How many items they took after a wait.
    pub served: u64,
    /// How many waits ended with nothing.
    pub timed_out: u64,
    /// How many waits they ended by hanging up.
    pub hung_up: u64,
}

impl Consumers {
    /// The clients, together one actor of the simulation.
    pub fn new(number: usize, setup: ConsumersSetup, random: Random) -> Consumers {
        let row =
            |_| Row { caller: Caller::new(Actor::Client(number), setup.nodes), asked: None, next_us: 0 };
        // The last one begins in the end.
        let rows = (0..=setup.rows).map(row).collect();
        let (fading, asked, is_stopped) = (Vec::new(), 0, false);
        let (served, timed_out, hung_up) = (0, 0, 0);
        Consumers { number, setup, random, rows, fading, asked, is_stopped, served, timed_out, hung_up }
    }

    /// Begins nothing from now on, except what serves those that wait.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What is under way, in words.
    pub fn under_way(&self) -> Vec<String> {
        let asked = self.rows.iter().filter_map(|row| row.asked.as_ref());
        asked.map(|asked| asked.requests[0].join(" ")).collect()
    }

    /// They have a turn.
    pub fn turn(
        &mut self,
        workload: &Workload,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        self.notice_what_is_over(world, history);
        for row in 0..self.rows.len() {
            self.turn_of(row, workload, world, history)?;
        }
        self.schedule(world);
        Ok(())
    }

    fn turn_of(
        &mut self,
        number: usize,
        workload: &Workload,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let row = &mut self.rows[number];
        let is_due = |at_us: Option<u64>| at_us.is_some_and(|at_us| at_us <= world.now_us);
        match &row.asked {
            Some(asked) if is_due(asked.hangs_up_at_us) => {
                world.tell(|| format!("client {} hangs up and waits no longer", self.number));
                self.hung_up += 1;
                let stream = row.caller.stream();
                row.caller.hang_up(world);
                self.lose(number, stream, world, history)
            }
            Some(asked) if is_due(asked.again_us) => {
                self.ask(number, world);
                Ok(())
            }
            Some(_) => Ok(()),
            None if row.next_us <= world.now_us => {
                let turn = Turn { client: self.number as u64, serial: self.asked, now_us: world.now_us };
                let is_last = number == self.setup.rows;
                let asked = match (is_last, self.is_stopped) {
                    (false, false) => Some(self.draw(number, workload, turn)),
                    (true, true) => self.look_where_one_waits(turn),
                    _ => None,
                };
                let Some(asked) = asked else {
                    // Nobody waits, and somebody may still begin to.
                    if is_last && self.is_stopped {
                        self.rows[number].next_us = world.now_us + LOOKS_US;
                    }
                    return Ok(());
                };
                self.asked += 1;
                self.rows[number].asked = Some(asked);
                self.ask(number, world);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The next operation of one of them. The first of them pushes, so that not all wait.
    fn draw(&mut self, row: usize, workload: &Workload, turn: Turn) -> Asked {
        let random = &mut self.random;
        let (set, list) = (random.below(workload.list_sets), random.index(LISTS));
        let (from, to) = (End::draw(random), End::draw(random));
        let op = match random.below(12) {
            0..=7 if row > 0 => return self.draw_a_wait(set, list, turn),
            8 | 9 => ListOp::Through(list, to, lists::item(turn)),
            10 => ListOp::Move([list, random.index(LISTS)], [from, to]),
            11 => ListOp::Look(list),
            _ => ListOp::Push(list, to, lists::item(turn)),
        };
        asked(ListOperation::begun(turn.client, set, op, turn.now_us))
    }

    fn draw_a_wait(&mut self, set: u64, list: usize, turn: Turn) -> Asked {
        let random = &mut self.random;
        let (from, to) = (End::draw(random), End::draw(random));
        let waits_ms = if random.one_in(3) { 0 } else { random.magnitude(1, self.setup.patience_us / 1000) };
        let seconds = format!("{}.{:03}", waits_ms / 1000, waits_ms % 1000);
        let several = if random.one_in(2) { vec![list] } else { vec![list, (list + 1) % LISTS] };
        let (keys, first) =
            (several.iter().map(|&list| list_operation::key(set, list)), list_operation::key(set, list));
        let word = str::to_owned;
        let (op, words): (ListOp, Vec<String>) = match random.below(4) {
            0 => {
                let other = random.index(LISTS);
                let words = [word("BLMOVE"), first, list_operation::key(set, other)].into_iter();
                let words = words.chain([from, to].map(|end| word(end.word()))).chain([seconds]);
                (ListOp::Move([list, other], [from, to]), words.collect())
            }
            1 => {
                let words = [word("BLMPOP"), seconds, several.len().to_string()].into_iter().chain(keys);
                let words = words.chain([word(from.word())]).collect();
                (ListOp::Pop(several, from), words)
            }
            _ => {
                let name = if from == End::Left { "BLPOP" } else { "BRPOP" };
                let words = [word(name)].into_iter().chain(keys).chain([seconds]).collect();
                (ListOp::Pop(several, from), words)
            }
        };
        let hangs_up = random.permille(self.setup.hangs_up_permille);
        let after_us = random.magnitude(1, self.setup.patience_us);
        Asked {
            requests: vec![words],
            waits_us: Some(waits_ms * 1000),
            hangs_up_at_us: hangs_up.then_some(turn.now_us + after_us),
            ..asked(ListOperation::begun(turn.client, set, op, turn.now_us))
        }
    }

    /// In the end: a look at a list that one of them waits for. If it is empty, a push follows.
    fn look_where_one_waits(&mut self, turn: Turn) -> Option<Asked> {
        let mut waiting = self.rows.iter().filter_map(|row| row.asked.as_ref());
        let record = &waiting.rfind(|asked| asked.waits_us.is_some())?.record;
        let list = match &record.op {
            ListOp::Pop(lists, _) => lists[0],
            ListOp::Move([from, _], _) => *from,
            _ => return None,
        };
        Some(asked(ListOperation::begun(turn.client, record.set, ListOp::Look(list), turn.now_us)))
    }

    fn ask(&mut self, row: usize, world: &mut World) {
        let Row { caller, asked: Some(asked), .. } = &mut self.rows[row] else { return };
        asked.again_us = None;
        asked.tries += 1;
        asked.record.call_us = world.now_us;
        world.tell(|| format!("client {} asks {}", self.number, asked.requests[0].join(" ")));
        caller.ask(&asked.requests, world);
    }

    /// Something arrived.
    pub fn hear(
        &mut self,
        stream: StreamId,
        signal: Signal,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let callers = self.rows.iter_mut().map(|row| &mut row.caller);
        let heard = hear_for_one(callers, (stream, signal), &mut self.random, world)?;
        let Some((number, heard)) = heard else { return Ok(()) };
        match heard {
            Heard::Nothing => {}
            Heard::Gone => self.lose(number, Some(stream), world, history)?,
            Heard::Answers(answers) => self.take(number, answers, world, history)?,
        }
        self.schedule(world);
        Ok(())
    }

    /// Its answer is lost with its connection.
    fn lose(
        &mut self,
        number: usize,
        stream: Option<StreamId>,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let before = history.lists.len();
        self.end(number, Ended::Failed(Effect::Unknown), world, history)?;
        let is_recorded = history.lists.len() > before;
        self.fading.extend(stream.filter(|_| is_recorded).map(|stream| (stream, before)));
        Ok(())
    }

    /// What a node knows of no more is over.
    fn notice_what_is_over(&mut self, world: &World, history: &mut History) {
        let is_over = |&mut (stream, _): &mut (StreamId, usize)| world.network.port(stream).is_none();
        for (_, record) in self.fading.extract_if(.., is_over) {
            history.lists[record].over_us = Some(world.now_us);
        }
    }

    fn take(
        &mut self,
        number: usize,
        mut answers: Vec<Value>,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let Row { caller, asked: Some(asked), .. } = &mut self.rows[number] else { return Ok(()) };
        // Of a transaction, its commands may be refused, and then EXEC is.
        let is_done = matches!(answers.last(), Some(Value::Array(_)));
        for answer in answers.iter().filter(|_| !is_done) {
            let Value::Error(error) = answer else { continue };
            if let Some(wait_us) = caller.follow(error, &mut self.random, world) {
                if asked.tries >= TRIES {
                    return self.end(number, Ended::Failed(Effect::None), world, history);
                }
                asked.again_us = Some(world.now_us + wait_us);
                return Ok(());
            }
            let code = error.split(' ').next().unwrap_or_default();
            if !REFUSED.contains(&code) {
                return Err(format!("{:?} was answered {error}", asked.requests));
            }
        }
        let answer = answers.pop().unwrap_or(Value::Null);
        self.judge_the_wait(number, &answer, world)?;
        self.end(number, Ended::Reply(answer), world, history)
    }

    /// A wait that ended with nothing was as long as it was to be; then its second half counts.
    fn judge_the_wait(&mut self, number: usize, answer: &Value, world: &World) -> Result<(), String> {
        let Some(asked) = &mut self.rows[number].asked else { return Ok(()) };
        let Some(waits_us) = asked.waits_us else { return Ok(()) };
        if *answer != Value::Null {
            self.served += 1;
            return Ok(());
        }
        let waited_us = world.now_us - asked.record.call_us;
        let least_us = waits_us - (waits_us * EARLY.1 / 1_000_000).min(waits_us);
        if waits_us == 0 || waited_us + EARLY.0 < least_us {
            return Err(format!("{:?} was over after {waited_us} us", asked.requests));
        }
        self.timed_out += 1;
        asked.record.call_us += waits_us / 2;
        Ok(())
    }

    fn end(
        &mut self,
        number: usize,
        ended: Ended,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let row = &mut self.rows[number];
        let Some(asked) = row.asked.take() else { return Ok(()) };
        world.tell(|| format!("client {} has {:?}: {ended:?}", self.number, asked.requests[0]));
        world.story.note(world.now_us << 8 ^ u64::from(matches!(ended, Ended::Reply(_))));
        let is_last = number == self.setup.rows;
        let pause_us = if is_last { LOOKS_US } else { self.random.below(self.setup.think_us + 1) };
        row.next_us = world.now_us + 1 + pause_us;
        if let (true, ListOp::Look(list), Ended::Reply(Value::Array(items))) =
            (is_last, &asked.record.op, &ended)
            && items.is_empty()
        {
            let turn = Turn { client: self.number as u64, serial: self.asked, now_us: world.now_us };
            self.asked += 1;
            let op = ListOp::Push(*list, End::Right, lists::item(turn));
            let push = ListOperation::begun(turn.client, asked.record.set, op, turn.now_us);
            row.asked = Some(self::asked(push));
            self.ask(number, world);
        }
        let is_push = matches!(asked.record.op, ListOp::Push(..));
        if is_last && is_push && matches!(ended, Ended::Reply(Value::Error(_))) {
            // A cluster of an earlier version takes no lists, and one without memory nothing.
            let waiting = self.rows.iter_mut().filter_map(|row| row.asked.as_mut());
            waiting.for_each(|asked| asked.hangs_up_at_us = Some(world.now_us + 1));
        }
        history.end_lists(asked.record, ended, world.now_us)
    }

    fn schedule(&self, world: &mut World) {
        let due = |(number, row): (usize, &Row)| match &row.asked {
            Some(asked) => asked.again_us.into_iter().chain(asked.hangs_up_at_us).min(),
            None if (number == self.setup.rows) == self.is_stopped && !self.is_over() => {
                Some(row.next_us.max(world.now_us + 1))
            }
            None => None,
        };
        let looks_us = (!self.fading.is_empty() && !self.is_over()).then_some(world.now_us + FADES_US);
        if let Some(at_us) = self.rows.iter().enumerate().filter_map(due).chain(looks_us).min() {
            world.turn_at(Actor::Client(self.number), at_us);
        }
    }

    /// Nothing is under way, and nothing will be.
    fn is_over(&self) -> bool {
        self.is_stopped && self.rows.iter().all(|row| row.asked.is_none())
    }
}

/// The request of what does not wait.
fn asked(record: ListOperation) -> Asked {
    let first = list_operation::words(&record);
    let requests = match &record.op {
        ListOp::Through(_, end, _) => {
            let name = if *end == End::Left { "LPOP" } else { "RPOP" };
            let pop = vec![name.to_owned(), first[1].clone()];
            vec![vec!["MULTI".to_owned()], first, pop, vec!["EXEC".to_owned()]]
        }
        _ => vec![first],
    };
    Asked { record, requests, waits_us: None, tries: 0, hangs_up_at_us: None, again_us: None }
}
