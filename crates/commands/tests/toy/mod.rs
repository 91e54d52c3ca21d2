//! A small executor of commands, over maps in memory.

#![allow(dead_code, unreachable_pub)] // each program of tests uses a part

pub mod lines;
pub mod ordered_lines;

use bumpalo::Bump;
use sidle_collections::{Hash, Limits, List, Set, SortedSet};
use sidle_commands::{
    Blocking, Call, CommandTable, Content, Executor, Keyspace, OutOfMemory, Overlay, Progress, Reply, Run,
    Underlay, Value, Values,
};
use sidle_outline::{Chunk, Chunks, Large, Order, Outline, Place};
use sidle_types::{HashedKey, ValueKind, WallMs};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use typed_arena::Arena;

pub const NOW: WallMs = WallMs(1_000_000);
pub const LONGEST_VALUE_BYTES: u64 = 1 << 24;

/// Keys and their values.
pub type Map<'g> = BTreeMap<Vec<u8>, Value<'g>>;

/// The executor of these tests.
#[derive(Clone, Copy, Debug)]
pub enum Toy {}

impl Executor for Toy {
    type Keyspace<'g> = Space<'g>;
    type Reply<'g> = Words;
    type OwnCall<'g> = ();
    type OwnResult = ();
}

/// A reply, one word after the other.
#[derive(Debug, Default)]
pub struct Words(pub Vec<String>);

impl Reply for Words {
    fn simple(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }

    fn integer(&mut self, number: i64) {
        self.0.push(number.to_string());
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.0.push(format!("'{}'", bytes.escape_ascii()));
    }

    fn bulk_parts(&mut self, parts: &[&[u8]]) {
        self.bulk(&parts.concat());
    }

    fn null(&mut self) {
        self.0.push("null".to_owned());
    }

    fn array(&mut self, elements: usize) {
        self.0.push(format!("{elements}:"));
    }

    fn map(&mut self, pairs: usize) {
        self.0.push(format!("{pairs}%"));
    }

    fn double(&mut self, number: f64) {
        self.0.push(format!("{number:?}"));
    }

    fn null_array(&mut self) {
        self.0.push("no array".to_owned());
    }

    fn set(&mut self, elements: usize) {
        self.0.push(format!("{elements}~"));
    }

    fn pairs(&mut self, pairs: usize) {
        self.0.push(format!("{pairs}="));
    }

    fn pair(&mut self) {}

    fn is_cut(&self) -> bool {
        false
    }
}

/// The key space that a command is given.
pub enum Space<'g> {
    Plain(Plain<'g>),
    Overlay(&'g RefCell<Overlay<'g, Below<'g>>>),
}

/// A map that changes at once.
pub struct Plain<'g> {
    pub map: &'g RefCell<Map<'g>>,
    pub log: &'g Log<'g>,
    pub limits: Limits,
    /// Comes before the next random bits.
    pub random: &'g Cell<u64>,
    pub keys: &'g [HashedKey<'g>],
}

/// Published chunks, by their addresses.
pub struct Log<'g> {
    arena: &'g Bump,
    outlines: &'g Arena<Outline>,
    chunks: RefCell<Vec<&'g [u8]>>,
    reads: Cell<usize>,
    /// The addresses of those that were read since this was asked last.
    read: RefCell<BTreeSet<u64>>,
    /// What a command that goes on has built aside.
    aside: Cell<Option<(ValueKind, Large<'g>)>>,
    /// Whether there is no memory for that.
    pub is_out_of_memory: Cell<bool>,
}

impl Chunks for Log<'_> {
    fn bytes_at(&self, address: u64) -> &[u8] {
        self.reads.set(self.reads.get() + 1);
        self.read.borrow_mut().insert(address);
        self.chunks.borrow()[address as usize]
    }
}

impl<'g> Log<'g> {
    /// An empty one.
    pub fn new(arena: &'g Bump, outlines: &'g Arena<Outline>) -> Log<'g> {
        Log {
            arena,
            outlines,
            chunks: RefCell::default(),
            reads: Cell::new(0),
            read: RefCell::default(),
            aside: Cell::new(None),
            is_out_of_memory: Cell::new(false),
        }
    }

    /// How many different chunks were read since this was asked last.
    pub fn different_reads(&self) -> usize {
        self.read.take().len()
    }

    /// How many chunks were ever published.
    pub fn published(&self) -> usize {
        self.chunks.borrow().len()
    }

    /// How many chunks were read since this was asked last.
    pub fn reads(&self) -> usize {
        self.reads.take()
    }

    /// Publishes what became of a key's value.
    fn publish(&'g self, outline: &Outline, old: Option<Value<'g>>) -> Large<'g> {
        let old = old.and_then(|old| match old.content {
            Content::Large(large) => Some(large.outline()),
            Content::Whole(_) => None,
        });
        assert_follows(outline, old);
        let mut published = Outline::new(outline.encoding());
        for order in Order::ALL {
            for chunk in outline.sequence(order).iter_from(0) {
                let place = match &chunk.place {
                    Place::InLog(address) => Place::InLog(*address),
                    Place::New(bytes) => {
                        let mut chunks = self.chunks.borrow_mut();
                        chunks.push(self.arena.alloc_slice_copy(bytes));
                        Place::InLog(chunks.len() as u64 - 1)
                    }
                };
                published.put(order, Chunk { place, ..chunk.clone() });
            }
        }
        Large::new(self.outlines.alloc(published), self)
    }
}

fn addresses<'c>(chunks: impl Iterator<Item = &'c Chunk>) -> BTreeSet<u64> {
    let address = |chunk: &Chunk| if let Place::InLog(address) = chunk.place { Some(address) } else { None };
    chunks.filter_map(address).collect()
}

/// A state of a published collection has all its chunks, or names them as replaced.
fn assert_follows(outline: &Outline, old: Option<&Outline>) {
    let all = |outline: &Outline| -> BTreeSet<u64> {
        addresses(Order::ALL.iter().flat_map(|order| outline.sequence(*order).iter_from(0)))
    };
    let (kept, replaced) = (all(outline), addresses(outline.replaced_chunks().iter()));
    assert!(kept.is_disjoint(&replaced), "a replaced chunk is there");
    assert_eq!(replaced.len(), outline.replaced_chunks().len(), "a chunk is replaced twice");
    let new: Vec<u64> = outline.new_chunks().map(|(_, chunk)| chunk.label).collect();
    let are_new = |order: &Order| {
        outline.sequence(*order).iter_from(0).filter(|chunk| matches!(chunk.place, Place::New(_))).count()
    };
    assert_eq!(new.len(), Order::ALL.iter().map(are_new).sum::<usize>());
    if !replaced.is_empty() {
        let old = old.map(all).unwrap_or_default();
        assert_eq!(kept.union(&replaced).copied().collect::<BTreeSet<u64>>(), old, "chunks are lost");
    }
}

/// A map that does not change.
pub struct Below<'g> {
    pub map: Map<'g>,
    pub log: &'g Log<'g>,
    pub limits: Limits,
    /// Comes before the next random bits.
    pub random: Cell<u64>,
}

pub fn live<'g>(map: &Map<'g>, key: HashedKey<'_>) -> Option<Value<'g>> {
    map.get(key.bytes()).copied().filter(|value| value.expires_at.is_none_or(|end| end > NOW))
}

impl Underlay for Below<'_> {
    fn get<'g>(&'g self, key: HashedKey<'_>) -> Option<Value<'g>> {
        live(&self.map, key)
    }

    fn large<'g>(&'g self, outline: &'g Outline) -> Large<'g> {
        Large::new(outline, self.log)
    }

    fn lends_all(&self) -> bool {
        true
    }

    fn count_look_ups(&self, _: usize, _: usize) {}

    fn longest_value_bytes(&self) -> u64 {
        LONGEST_VALUE_BYTES
    }

    fn collection_limits(&self) -> Limits {
        self.limits
    }

    fn takes_collections(&self) -> bool {
        true
    }

    fn random(&self) -> u64 {
        self.random.set(self.random.get() + 1);
        self.random.get()
    }
}

impl<'g> Plain<'g> {
    fn present(&self, key: usize) -> Value<'g> {
        live(&self.map.borrow(), self.keys[key]).expect("a key that has a value")
    }

    fn set(&self, key: usize, kind: ValueKind, value: &[&[u8]], expires_at: Option<WallMs>) {
        let content = Content::Whole(self.log.arena.alloc_slice_copy(&value.concat()));
        self.set_content(key, Value { kind, content, expires_at });
    }

    fn set_content(&self, key: usize, value: Value<'g>) {
        self.map.borrow_mut().insert(self.keys[key].bytes().to_vec(), value);
    }
}

impl<'g> Keyspace<'g> for Space<'g> {
    fn aside(&mut self) -> Option<Large<'g>> {
        let Space::Plain(plain) = self else { unreachable!("a transaction's commands run in one go") };
        plain.log.aside.get().map(|(_, built)| built)
    }

    fn put_aside(&mut self, kind: ValueKind, outline: Outline) -> Result<(), OutOfMemory> {
        let Space::Plain(plain) = self else { unreachable!("a transaction's commands run in one go") };
        if plain.log.is_out_of_memory.get() {
            return Err(OutOfMemory);
        }
        let value = |(kind, built)| Value { kind, content: Content::Large(built), expires_at: None };
        let built = plain.log.publish(&outline, plain.log.aside.get().map(value));
        plain.log.aside.set(Some((kind, built)));
        Ok(())
    }

    fn len(&self) -> usize {
        match self {
            Space::Plain(plain) => plain.keys.len(),
            Space::Overlay(overlay) => overlay.borrow().len(),
        }
    }

    fn get(&mut self, key: usize) -> Option<Value<'g>> {
        match self {
            Space::Plain(plain) => live(&plain.map.borrow(), plain.keys[key]),
            Space::Overlay(overlay) => overlay.borrow_mut().get(key),
        }
    }

    fn lends_unnamed(&self) -> bool {
        true
    }

    fn get_unnamed(&mut self, key: &[u8]) -> Option<Value<'g>> {
        match self {
            Space::Plain(plain) => live(&plain.map.borrow(), HashedKey::new(key)),
            Space::Overlay(overlay) => overlay.borrow_mut().get_unnamed(key),
        }
    }

    fn get_all(&mut self) -> Values<'g> {
        (0..self.len()).map(|key| self.get(key)).collect()
    }

    fn put(
        &mut self,
        key: usize,
        kind: ValueKind,
        value: &[&[u8]],
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => plain.set(key, kind, value, expires_at),
            Space::Overlay(overlay) => overlay.borrow_mut().put(key, kind, value, expires_at)?,
        }
        Ok(())
    }

    fn put_lasting(&mut self, key: usize, value: Value<'g>) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => plain.set_content(key, value),
            Space::Overlay(overlay) => overlay.borrow_mut().put_lasting(key, value)?,
        }
        Ok(())
    }

    fn put_large(
        &mut self,
        key: usize,
        kind: ValueKind,
        outline: Outline,
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => {
                let old = plain.map.borrow().get(plain.keys[key].bytes()).copied();
                let content = Content::Large(plain.log.publish(&outline, old));
                plain.set_content(key, Value { kind, content, expires_at });
            }
            Space::Overlay(overlay) => overlay.borrow_mut().put_large(key, kind, outline, expires_at)?,
        }
        Ok(())
    }

    fn extend(&mut self, key: usize, added: &[&[u8]]) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => {
                let old = plain.present(key);
                plain.set(key, old.kind, &[old.bytes(), &added.concat()], old.expires_at);
            }
            Space::Overlay(overlay) => overlay.borrow_mut().extend(key, added)?,
        }
        Ok(())
    }

    fn set_end(&mut self, key: usize, expires_at: Option<WallMs>) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => {
                let old = plain.present(key);
                plain.set_content(key, Value { expires_at, ..old });
            }
            Space::Overlay(overlay) => overlay.borrow_mut().set_end(key, expires_at)?,
        }
        Ok(())
    }

    fn remove(&mut self, key: usize) -> Result<(), OutOfMemory> {
        match self {
            Space::Plain(plain) => drop(plain.map.borrow_mut().remove(plain.keys[key].bytes())),
            Space::Overlay(overlay) => overlay.borrow_mut().remove(key)?,
        }
        Ok(())
    }

    fn count_look_ups(&mut self, _: usize, _: usize) {}

    fn longest_value_bytes(&self) -> u64 {
        LONGEST_VALUE_BYTES
    }

    fn collection_limits(&self) -> Limits {
        match self {
            Space::Plain(plain) => plain.limits,
            Space::Overlay(overlay) => overlay.borrow().collection_limits(),
        }
    }

    fn takes_collections(&self) -> bool {
        true
    }

    fn random(&mut self) -> u64 {
        match self {
            Space::Plain(plain) => {
                plain.random.set(plain.random.get() + 1);
                plain.random.get()
            }
            Space::Overlay(overlay) => overlay.borrow_mut().random(),
        }
    }
}

/// A request: its words, and which of them are keys.
pub struct Request<'g> {
    pub args: Vec<&'g [u8]>,
    pub keys: Vec<HashedKey<'g>>,
    pub run: Run<Toy>,
}

/// DUMP's payload of "hello", which a line names so.
pub const PAYLOAD: (&str, &[u8]) = ("PAYLOAD", b"\x00\x05hello\n\x00cr\xdfve4 \n");

pub fn parse<'g>(table: &CommandTable<Toy>, line: &'g str) -> Request<'g> {
    let args =
        line.split(' ').map(|word| if word == PAYLOAD.0 { PAYLOAD.1 } else { word.as_bytes() }).collect();
    request(table, args)
}

pub fn request<'g>(table: &CommandTable<Toy>, args: Vec<&'g [u8]>) -> Request<'g> {
    let spec = table.resolve(&args).unwrap_or_else(|error| panic!("{error}")).spec;
    let keys = spec.keys.indices(&args).map(|index| HashedKey::new(args[index])).collect();
    Request { args, keys, run: spec.run }
}

/// Runs a request; returns its reply in words.
pub fn run<'g>(request: &'g Request<'g>, keyspace: Space<'g>) -> String {
    step(request, keyspace, None).0.expect("only a command with progress goes on")
}

/// Runs a request once; returns its reply in words, or none if it goes on, and its progress.
pub fn step<'g>(
    request: &'g Request<'g>,
    keyspace: Space<'g>,
    progress: Option<Progress<'g>>,
) -> (Option<String>, Option<Progress<'g>>) {
    let Run::OverKeys(run) = request.run else { panic!("a command over keys") };
    let (reply, blocking) = (Words::default(), Blocking::No);
    let mut call: Call<'g, Toy> = Call { args: &request.args, keyspace, now: NOW, reply, blocking, progress };
    let reply = match run(&mut call) {
        Ok(()) if call.blocking == Blocking::GoesOn => {
            assert!(call.reply.0.is_empty(), "a written reply of a command that goes on");
            None
        }
        Ok(()) => Some(call.reply.0.join(" ")),
        Err(error) => {
            assert!(call.reply.0.is_empty(), "a written reply before an error");
            Some(error.to_string())
        }
    };
    (reply, call.progress)
}

pub fn live_only<'g>(map: &Map<'g>) -> Map<'g> {
    map.iter()
        .filter(|(key, _)| live(map, HashedKey::new(key)).is_some())
        .map(|(key, value)| (key.clone(), *value))
        .collect()
}

/// What a value is made of, in an order that tells nothing where a type has none.
pub fn elements_of(value: Value<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    macro_rules! collection {
        ($kind:ident) => {
            match value.content {
                Content::Whole(bytes) => $kind::of(bytes),
                Content::Large(large) => $kind::large(large),
            }
        };
    }
    let mut elements: Vec<(Vec<u8>, Vec<u8>)> = match value.kind {
        ValueKind::Completions | ValueKind::Locks => unreachable!("no command here makes it"),
        ValueKind::String => vec![(value.bytes().to_vec(), Vec::new())],
        ValueKind::Hash => {
            collection!(Hash).pairs().map(|(field, value)| (field.to_vec(), value.to_vec())).collect()
        }
        ValueKind::Set => collection!(Set).members().map(|member| (member.to_vec(), Vec::new())).collect(),
        ValueKind::List => collection!(List).items().map(|item| (item.to_vec(), Vec::new())).collect(),
        ValueKind::SortedSet => {
            let scored = |(member, score): (&[u8], f64)| (member.to_vec(), score.to_le_bytes().to_vec());
            collection!(SortedSet).members().map(scored).collect()
        }
    };
    if matches!(value.kind, ValueKind::Hash | ValueKind::Set) {
        elements.sort();
    }
    elements
}

/// Whether a collection is in chunks.
pub fn is_large(value: Value<'_>) -> bool {
    matches!(value.content, Content::Large(_))
}

/// Keys whose value two maps do not share by its elements, whatever form it has.
pub fn differences_of_elements(one: &Map<'_>, other: &Map<'_>) -> Vec<String> {
    let shown = |map: &Map<'_>, key: &[u8]| {
        map.get(key).map(|value| (value.kind, value.expires_at, elements_of(*value)))
    };
    let keys: BTreeSet<&Vec<u8>> = one.keys().chain(other.keys()).collect();
    let differ = keys.into_iter().filter(|key| shown(one, key) != shown(other, key));
    differ.map(|key| key.escape_ascii().to_string()).collect()
}

/// Keys whose value two maps do not share by its elements.
pub fn differences(one: &Map<'_>, other: &Map<'_>) -> Vec<String> {
    let shown = |map: &Map<'_>, key: &[u8]| {
        map.get(key).map(|value| (value.kind, value.expires_at, is_large(*value), elements_of(*value)))
    };
    let keys: BTreeSet<&Vec<u8>> = one.keys().chain(other.keys()).collect();
    let differ = keys.into_iter().map(|key| (key, shown(one, key), shown(other, key)));
    differ
        .filter(|(_, one, other)| one != other)
        .map(|(key, one, other)| format!("{}: {one:?}, {other:?}", key.escape_ascii()))
        .collect()
}
