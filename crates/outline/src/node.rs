//! A node of a sequence's tree: a B+tree whose leaves have the chunks.
//!
//! Nodes are shared between sequences. A change copies those on its way that are shared: about two KiB of a
//! collection of a hundred thousand elements, three of a million. The others are changed in place. A node
//! has room for its entries and no more, so a collection of few chunks takes little, and what a tree takes
//! follows from how many nodes and chunks it has.
//!
//! Each node has a **stamp**: the version of the last publication that changed anything in it. So what
//! changed since a version is found without a look at the rest. A removal leaves nothing but the stamp of
//! the leaf where the chunk was. Where leaves even out or split, each has the later stamp of them. So the
//! leaf of a chunk never gets an earlier stamp, and of the two leaves beside a removed label one has at
//! least that removal's.

use crate::chunk::{Chunk, Place};
use std::sync::Arc;

/// The most chunks of a leaf. All nodes but the root have at least half as many as their most.
pub(crate) const LEAF_MOST: usize = 20;
/// The most children of an inner node.
pub(crate) const INNER_MOST: usize = 16;

/// The stamp of what was changed and is not published yet: later than all versions.
pub(crate) const UNPUBLISHED: u64 = u64::MAX;

/// Some adjacent chunks of a sequence.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// The chunks themselves.
    Leaf(Arc<[Chunk]>),
    /// Nodes of the level below.
    Inner(Arc<[Child]>),
}

/// A node, and what is known of its chunks without looking at it.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    /// The label of its first chunk.
    pub(crate) first: u64,
    /// How many elements its chunks have.
    pub(crate) elements: u64,
    /// How many bytes they take.
    pub(crate) bytes: u64,
    /// Whether any of its chunks is not published.
    pub(crate) has_new: bool,
    /// How many bytes the longest of them takes.
    pub(crate) longest: u32,
    /// The version of the last publication that changed any of them.
    pub(crate) stamp: u64,
    pub(crate) node: Node,
}

/// How many nodes and chunks a tree has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) nodes: usize,
    pub(crate) chunks: usize,
}

impl Counts {
    /// The bytes that it takes. Its root stands in the sequence.
    pub(crate) fn memory_bytes(self) -> u64 {
        let entries = self.chunks * size_of::<Chunk>() + self.nodes.saturating_sub(1) * size_of::<Child>();
        // The counts of the node's `Arc`.
        (entries + self.nodes * 2 * size_of::<usize>()) as u64
    }
}

fn is_new(chunk: &Chunk) -> bool {
    matches!(chunk.place, Place::New(_))
}

impl Child {
    /// That of a changed node with at least one chunk.
    pub(crate) fn of(node: Node) -> Child {
        let (first, elements, bytes, has_new, longest) = (0, 0, 0, false, 0);
        let mut child = Child { first, elements, bytes, has_new, longest, stamp: UNPUBLISHED, node };
        child.sum();
        child
    }

    /// Sums up anew, after a change of the node. A leaf's stamp is no sum: whoever changes the leaf sets it.
    fn sum(&mut self) {
        (self.elements, self.bytes, self.has_new, self.longest) = (0, 0, false, 0);
        match &self.node {
            Node::Leaf(chunks) => {
                self.first = chunks.first().map_or(0, |chunk| chunk.label);
                for chunk in chunks.iter() {
                    self.elements += u64::from(chunk.elements);
                    self.bytes += u64::from(chunk.bytes);
                    self.has_new |= is_new(chunk);
                    self.longest = self.longest.max(chunk.bytes);
                }
            }
            Node::Inner(children) => {
                (self.first, self.stamp) = (children.first().map_or(0, |child| child.first), 0);
                for child in children.iter() {
                    self.elements += child.elements;
                    self.bytes += child.bytes;
                    self.has_new |= child.has_new;
                    self.longest = self.longest.max(child.longest);
                    self.stamp = self.stamp.max(child.stamp);
                }
            }
        }
    }

    /// Adds a chunk, or puts it in the place of that with its label. Returns that one, and a node that has to
    /// follow this one if it would have more than the most.
    pub(crate) fn put(&mut self, chunk: Chunk, counts: &mut Counts) -> (Option<Chunk>, Option<Child>) {
        let (old, next) = match &mut self.node {
            Node::Leaf(chunks) => put_in_leaf(chunks, chunk, counts),
            Node::Inner(children) => {
                let at = covering(children, chunk.label);
                let (old, next) = Arc::make_mut(children)[at].put(chunk, counts);
                let next = next.and_then(|next| insert(children, at + 1, next, INNER_MOST));
                (old, next.map(Node::Inner))
            }
        };
        counts.nodes += usize::from(next.is_some());
        self.stamp = UNPUBLISHED;
        self.sum();
        (old, next.map(Child::of))
    }

    /// Removes the chunk with this label, which is there. The node may be left with less than its least.
    pub(crate) fn remove(&mut self, label: u64, counts: &mut Counts) -> Option<Chunk> {
        let old = match &mut self.node {
            Node::Leaf(chunks) => {
                let at = chunks.binary_search_by_key(&label, |chunk| chunk.label).ok();
                counts.chunks -= usize::from(at.is_some());
                at.map(|at| take_out(chunks, at))
            }
            Node::Inner(children) => {
                let at = covering(children, label);
                let child = &mut Arc::make_mut(children)[at];
                let old = child.remove(label, counts);
                if child.node.is_short() && children.len() > 1 {
                    fill_up(children, at.saturating_sub(1), counts);
                }
                old
            }
        };
        self.stamp = UNPUBLISHED;
        self.sum();
        old
    }

    /// Replaces the address of the chunk with this label, which is there and published: no sum changes.
    pub(crate) fn move_chunk(&mut self, label: u64, to: u64) {
        match &mut self.node {
            Node::Leaf(chunks) => {
                if let Ok(at) = chunks.binary_search_by_key(&label, |chunk| chunk.label) {
                    Arc::make_mut(chunks)[at].place = Place::InLog(to);
                }
            }
            Node::Inner(children) => {
                let at = covering(children, label);
                Arc::make_mut(children)[at].move_chunk(label, to);
            }
        }
    }

    /// Everything in it is published now: replaces the place of each chunk that was not, in order, and stamps
    /// what has changed.
    pub(crate) fn publish(&mut self, stamp: u64, place: &mut impl FnMut() -> Place) {
        if self.stamp != UNPUBLISHED {
            return;
        }
        self.stamp = stamp;
        match &mut self.node {
            Node::Leaf(_) if !self.has_new => {}
            Node::Leaf(chunks) => {
                let new = Arc::make_mut(chunks).iter_mut().filter(|chunk| is_new(chunk));
                new.for_each(|chunk| chunk.place = place());
            }
            Node::Inner(children) => {
                Arc::make_mut(children).iter_mut().for_each(|child| child.publish(stamp, place));
            }
        }
        self.sum();
    }

    /// The first leaf whose stamp is later, among those that end behind this label; and the first label
    /// behind the leaf, if there is one. `next`: the first label behind this node.
    pub(crate) fn stamped_after(
        &self,
        stamp: u64,
        label: u64,
        next: Option<u64>,
    ) -> Option<(&[Chunk], Option<u64>)> {
        if self.stamp <= stamp || next.is_some_and(|next| next <= label) {
            return None;
        }
        match &self.node {
            Node::Leaf(chunks) => Some((chunks, next)),
            Node::Inner(children) => {
                let ends = children.iter().skip(1).map(|child| Some(child.first)).chain([next]);
                children.iter().zip(ends).find_map(|(child, end)| child.stamped_after(stamp, label, end))
            }
        }
    }

    /// Passes each chunk that is not published to `f`, in order.
    pub(crate) fn each_new<'o>(&'o self, f: &mut impl FnMut(&'o Chunk)) {
        if !self.has_new {
            return;
        }
        match &self.node {
            Node::Leaf(chunks) => chunks.iter().filter(|chunk| is_new(chunk)).for_each(f),
            Node::Inner(children) => children.iter().for_each(|child| child.each_new(f)),
        }
    }

    /// The first of its chunks.
    pub(crate) fn first_chunk(&self) -> Option<&Chunk> {
        let mut node = &self.node;
        loop {
            match node {
                Node::Leaf(chunks) => return chunks.first(),
                Node::Inner(children) => node = &children.first()?.node,
            }
        }
    }
}

impl Node {
    fn is_short(&self) -> bool {
        match self {
            Node::Leaf(chunks) => chunks.len() < LEAF_MOST / 2,
            Node::Inner(children) => children.len() < INNER_MOST / 2,
        }
    }

    /// The only child of an inner node.
    pub(crate) fn only_child(&self) -> Option<&Child> {
        match self {
            Node::Inner(children) if children.len() == 1 => children.first(),
            _ => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(chunks) => chunks.is_empty(),
            Node::Inner(children) => children.is_empty(),
        }
    }
}

/// The index of the last child whose first label is not greater; otherwise of the first one.
pub(crate) fn covering(children: &[Child], label: u64) -> usize {
    children.partition_point(|child| child.first <= label).saturating_sub(1)
}

fn put_in_leaf(
    chunks: &mut Arc<[Chunk]>,
    chunk: Chunk,
    counts: &mut Counts,
) -> (Option<Chunk>, Option<Node>) {
    let at = match chunks.binary_search_by_key(&chunk.label, |chunk| chunk.label) {
        Ok(at) => return (Some(std::mem::replace(&mut Arc::make_mut(chunks)[at], chunk)), None),
        Err(at) => at,
    };
    counts.chunks += 1;
    (None, insert(chunks, at, chunk, LEAF_MOST).map(Node::Leaf))
}

/// Some entries with one more.
fn with<T: Clone>(entries: &[T], at: usize, entry: T) -> Arc<[T]> {
    let (before, after) = entries.split_at(at);
    before.iter().cloned().chain(std::iter::once(entry)).chain(after.iter().cloned()).collect()
}

/// Inserts an entry. If the entries were as many as the most, the upper half of them is returned.
fn insert<T: Clone>(entries: &mut Arc<[T]>, at: usize, entry: T, most: usize) -> Option<Arc<[T]>> {
    if entries.len() < most {
        *entries = with(entries, at, entry);
        return None;
    }
    let (lower, upper) = entries.split_at(most / 2);
    let (lower, upper) = match at.checked_sub(lower.len()) {
        Some(at) if at > 0 => (lower.into(), with(upper, at, entry)),
        _ => (with(lower, at, entry), upper.into()),
    };
    *entries = lower;
    Some(upper)
}

fn take_out<T: Clone>(entries: &mut Arc<[T]>, at: usize) -> T {
    let out = entries[at].clone();
    *entries = entries[..at].iter().chain(&entries[at + 1..]).cloned().collect();
    out
}

/// Evens out two neighbours, of which one is short: they become one if they fit into one.
fn fill_up(children: &mut Arc<[Child]>, left: usize, counts: &mut Counts) {
    let right = left + 1;
    let (before, after) = Arc::make_mut(children).split_at_mut(right);
    let (lower, upper) = (&mut before[left], &mut after[0]);
    let is_empty = match (&mut lower.node, &mut upper.node) {
        (Node::Leaf(lower), Node::Leaf(upper)) => even_out(lower, upper, LEAF_MOST),
        (Node::Inner(lower), Node::Inner(upper)) => even_out(lower, upper, INNER_MOST),
        _ => unreachable!("neighbours are of the same level"),
    };
    (lower.stamp, upper.stamp) = (lower.stamp.max(upper.stamp), lower.stamp.max(upper.stamp));
    lower.sum();
    upper.sum();
    if is_empty {
        take_out(children, right);
        counts.nodes -= 1;
    }
}

/// Moves entries between neighbours; whether the upper one is empty now.
fn even_out<T: Clone>(lower: &mut Arc<[T]>, upper: &mut Arc<[T]>, most: usize) -> bool {
    let count = lower.len() + upper.len();
    let is_one = count <= most;
    let keep = if is_one { count } else { count / 2 };
    let all = || lower.iter().chain(upper.iter()).cloned();
    (*lower, *upper) = (all().take(keep).collect(), all().skip(keep).collect());
    is_one
}
