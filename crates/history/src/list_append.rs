//! Strict serializability of transactions that append to lists and read them.
//!
//! Every append has a token of its own, so a read of a list shows which appends came before it, and in what
//! order. From that, and from who returned before whom was called, follows what must have come before what
//! (Adya, "Weak consistency", section 4; Kingsbury and Alvaro, "Elle", section 4). A circle of that is a
//! violation: no order of the transactions explains it.
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | the append of a token | the append of the next token of that list |
//! | wr | the append of a token | a read whose list ends with it |
//! | rw | a read of a list | the append of the first token that it lacks |
//! | real time | who returned | who was called after that |

use crate::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It took place, and returned at this time.
    Committed(u64),
    /// It did not take place.
    Aborted,
    /// Nobody knows.
    Unknown,
}

/// What a transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the key and the token, or the tokens, that it names")]
pub enum Step {
    /// Appends a token, which nobody else appends anywhere.
    Append { key: u64, token: u64 },
    /// Reads a list.
    Read { key: u64, tokens: Vec<u64> },
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// When it was called.
    pub call: u64,
    /// What became of it.
    pub fate: Fate,
    /// What it does, in order.
    pub steps: Vec<Step>,
}

/// Why there is no order of the transactions. They are named by their place in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "readers, writers, lists and tokens: the sentence of each names them")]
pub enum Violation {
    /// A read shows a token that nobody appended.
    Unwritten { reader: usize, key: u64, token: u64 },
    /// A read shows what a transaction appended that did not take place.
    AbortedRead { reader: usize, writer: usize, key: u64, token: u64 },
    /// Two reads of a list show different tokens at the same place.
    TwoOrders { readers: [usize; 2], key: u64 },
    /// A read shows a token twice, which was appended once.
    Twice { reader: usize, key: u64, token: u64 },
    /// A read shows some, but not all of what a transaction appended to a list.
    HalfRead { reader: usize, writer: usize, key: u64 },
    /// A read does not show what its own transaction appended before.
    OwnAppendMissing { reader: usize, key: u64 },
    /// Each must have come before the next, and the last before the first.
    Circle(Vec<Link>),
}

/// That a transaction must have come before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The earlier transaction.
    pub from: usize,
    /// The later one.
    pub to: usize,
    /// Why.
    pub why: Why,
}

/// Why a transaction must have come before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the list and the token")]
pub enum Why {
    /// The later one's token of this list follows the earlier one's.
    Appended { key: u64, token: u64 },
    /// The later one read what the earlier one appended.
    Read { key: u64, token: u64 },
    /// The earlier one did not read what the later one appended.
    NotRead { key: u64, token: u64 },
    /// The earlier one returned before the later one was called.
    Returned,
}

impl Violation {
    /// The transactions that it names, each once.
    pub fn transactions(&self) -> Vec<usize> {
        let mut named = match self {
            Violation::Unwritten { reader, .. }
            | Violation::Twice { reader, .. }
            | Violation::OwnAppendMissing { reader, .. } => vec![*reader],
            Violation::AbortedRead { reader, writer, .. } | Violation::HalfRead { reader, writer, .. } => {
                vec![*reader, *writer]
            }
            Violation::TwoOrders { readers, .. } => readers.to_vec(),
            Violation::Circle(links) => links.iter().flat_map(|link| [link.from, link.to]).collect(),
        };
        named.sort_unstable();
        named.dedup();
        named
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Unwritten { reader, key, token } => {
                write!(f, "T{reader} read token {token} of list {key}, which nobody appended")
            }
            Violation::AbortedRead { reader, writer, key, token } => {
                write!(f, "T{reader} read token {token} of list {key}, but T{writer} did not take place")
            }
            Violation::TwoOrders { readers: [one, other], key } => {
                write!(f, "T{one} and T{other} read different tokens at one place of list {key}")
            }
            Violation::Twice { reader, key, token } => {
                write!(f, "T{reader} read token {token} of list {key} twice")
            }
            Violation::HalfRead { reader, writer, key } => {
                write!(f, "T{reader} read a part of what T{writer} appended to list {key}")
            }
            Violation::OwnAppendMissing { reader, key } => {
                write!(f, "T{reader} did not read what it had appended to list {key} itself")
            }
            Violation::Circle(links) => {
                for (number, Link { from, to, why }) in links.iter().enumerate() {
                    let line = if number == 0 { "" } else { "; " };
                    write!(f, "{line}T{from} came before T{to}: ")?;
                    match why {
                        Why::Appended { key, token } => {
                            write!(f, "T{to} appended {token} to list {key} next")?
                        }
                        Why::Read { key, token } => write!(f, "T{to} read {token} of list {key}")?,
                        Why::NotRead { key, token } => {
                            write!(f, "T{from} did not read {token} of list {key}")?
                        }
                        Why::Returned => write!(f, "T{from} had returned before")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// What is known of one list.
#[derive(Default)]
struct List {
    /// The longest that was read: its tokens in order.
    tokens: Vec<u64>,
    /// Who read that.
    reader: usize,
}

struct Judge<'h> {
    history: &'h [Transaction],
    /// Who appended a token, and to which list.
    writers: BTreeMap<u64, (usize, u64)>,
    lists: BTreeMap<u64, List>,
    links: BTreeMap<(usize, usize), Why>,
    graph: Graph,
}

/// Whether some order of the transactions explains what they read, in which each that returned before another
/// one was called comes before it.
pub fn check(history: &[Transaction]) -> Result<(), Violation> {
    let mut judge = Judge {
        history,
        writers: BTreeMap::new(),
        lists: BTreeMap::new(),
        links: BTreeMap::new(),
        graph: Graph::default(),
    };
    history.iter().for_each(|_| _ = judge.graph.add_node());
    judge.note_writers();
    judge.order_lists()?;
    let took_place = judge.took_place();
    judge.link_lists(&took_place);
    judge.link_times(&took_place);
    judge.verdict()
}

impl Judge<'_> {
    fn note_writers(&mut self) {
        for (number, transaction) in self.history.iter().enumerate() {
            for step in &transaction.steps {
                if let &Step::Append { key, token } = step {
                    let other = self.writers.insert(token, (number, key));
                    assert!(other.is_none(), "token {token} is appended twice");
                }
            }
        }
    }

    /// The order of each list's tokens, of which each read shows a beginning.
    fn order_lists(&mut self) -> Result<(), Violation> {
        for (reader, transaction) in self.history.iter().enumerate() {
            if transaction.fate != Fate::Aborted {
                self.order_lists_of(reader, transaction)?;
            }
        }
        Ok(())
    }

    fn order_lists_of(&mut self, reader: usize, transaction: &Transaction) -> Result<(), Violation> {
        let mut own: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for step in &transaction.steps {
            match step {
                &Step::Append { key, token } => own.entry(key).or_default().push(token),
                Step::Read { key, tokens } => {
                    let own = own.get(key).map_or(&[][..], Vec::as_slice);
                    if !tokens.ends_with(own) {
                        return Err(Violation::OwnAppendMissing { reader, key: *key });
                    }
                    self.note_read(reader, *key, tokens, own.len())?;
                }
            }
        }
        Ok(())
    }

    /// A read, whose last `own` tokens are of its own transaction.
    fn note_read(&mut self, reader: usize, key: u64, tokens: &[u64], own: usize) -> Result<(), Violation> {
        for &token in tokens {
            match self.writers.get(&token) {
                Some(&(writer, to)) if to == key => {
                    if self.history[writer].fate == Fate::Aborted {
                        return Err(Violation::AbortedRead { reader, writer, key, token });
                    }
                }
                _ => return Err(Violation::Unwritten { reader, key, token }),
            }
        }
        let mut seen = BTreeSet::new();
        if let Some(&token) = tokens.iter().find(|&&token| !seen.insert(token)) {
            return Err(Violation::Twice { reader, key, token });
        }
        let others = &tokens[..tokens.len() - own];
        if let Some(&last) = others.last() {
            let writer = self.writers[&last].0;
            let all = self.history[writer].steps.iter().filter_map(|step| match step {
                &Step::Append { key: to, token } if to == key => Some(token),
                _ => None,
            });
            if !all.into_iter().all(|token| others.contains(&token)) {
                return Err(Violation::HalfRead { reader, writer, key });
            }
        }
        let list = self.lists.entry(key).or_default();
        let (shorter, longer) = if tokens.len() > list.tokens.len() {
            (list.tokens.as_slice(), tokens)
        } else {
            (tokens, list.tokens.as_slice())
        };
        if !longer.starts_with(shorter) {
            return Err(Violation::TwoOrders { readers: [list.reader, reader], key });
        }
        if tokens.len() > list.tokens.len() {
            *list = List { tokens: tokens.to_vec(), reader };
        }
        Ok(())
    }

    /// Who took place: of those that nobody knows of, the ones that somebody read.
    fn took_place(&self) -> Vec<bool> {
        let mut took_place: Vec<bool> =
            self.history.iter().map(|transaction| matches!(transaction.fate, Fate::Committed(_))).collect();
        for list in self.lists.values() {
            list.tokens.iter().for_each(|token| took_place[self.writers[token].0] = true);
        }
        took_place
    }

    fn link(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.graph.add_edge(from, to);
            self.links.entry((from, to)).or_insert(why);
        }
    }

    fn link_lists(&mut self, took_place: &[bool]) {
        let mut next: BTreeMap<(u64, usize), u64> = BTreeMap::new();
        let mut links = Vec::new();
        for (&key, list) in &self.lists {
            for (place, &token) in list.tokens.iter().enumerate() {
                next.insert((key, place), token);
                if place > 0 {
                    let before = self.writers[&list.tokens[place - 1]].0;
                    links.push((before, self.writers[&token].0, Why::Appended { key, token }));
                }
            }
        }
        let read: BTreeSet<u64> = self.lists.values().flat_map(|list| &list.tokens).copied().collect();
        // What took place and nobody read comes behind all that was read of its list.
        let mut unread: BTreeMap<u64, Vec<(usize, u64)>> = BTreeMap::new();
        for (&token, &(writer, key)) in &self.writers {
            if took_place[writer] && !read.contains(&token) {
                unread.entry(key).or_default().push((writer, token));
            }
        }
        for (reader, transaction) in self.history.iter().enumerate() {
            for step in &transaction.steps {
                let Step::Read { key, tokens } = step else { continue };
                if !took_place[reader] {
                    continue;
                }
                let key = *key;
                if let Some(&token) = tokens.last() {
                    links.push((self.writers[&token].0, reader, Why::Read { key, token }));
                }
                let missing = next.get(&(key, tokens.len())).map(|&token| (self.writers[&token].0, token));
                let unread = unread.get(&key).map_or(&[][..], Vec::as_slice);
                for (writer, token) in missing.into_iter().chain(unread.iter().copied()) {
                    links.push((reader, writer, Why::NotRead { key, token }));
                }
            }
        }
        links.into_iter().for_each(|(from, to, why)| self.link(from, to, why));
    }

    /// One node for each return, each behind the one before: so the number of edges stays small.
    fn link_times(&mut self, took_place: &[bool]) {
        let mut returns: Vec<(u64, usize)> = self
            .history
            .iter()
            .enumerate()
            .filter_map(|(number, transaction)| match transaction.fate {
                Fate::Committed(at) => Some((at, number)),
                Fate::Aborted | Fate::Unknown => None,
            })
            .collect();
        returns.sort_unstable();
        let first = self.graph.add_node();
        for &(_, transaction) in &returns {
            let node = self.graph.add_node();
            self.graph.add_edge(node - 1, node);
            self.graph.add_edge(transaction, node);
        }
        for (number, transaction) in self.history.iter().enumerate() {
            if took_place[number] {
                let before = returns.partition_point(|&(at, _)| at < transaction.call);
                self.graph.add_edge(first + before, number);
            }
        }
    }

    fn verdict(&self) -> Result<(), Violation> {
        let Some(circle) = self.graph.circle(self.history.len()) else { return Ok(()) };
        let circle: Vec<usize> = circle.into_iter().filter(|&node| node < self.history.len()).collect();
        let links = (0..circle.len()).map(|place| {
            let (from, to) = (circle[place], circle[(place + 1) % circle.len()]);
            let why = self.links.get(&(from, to)).copied().unwrap_or(Why::Returned);
            Link { from, to, why }
        });
        Err(Violation::Circle(links.collect()))
    }
}
