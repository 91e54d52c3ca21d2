//! Chunks ordered by label: a value that shares what did not change with the value that it was made from.

use crate::chunk::{Chunk, Place};
use crate::node::{Child, Counts, Node, covering};
use crate::walk::Walk;
use std::cell::RefCell;

/// A chunk, and how many elements stand in front of it.
#[derive(Clone, Copy, Debug)]
pub struct At<'o> {
    /// The chunk.
    pub chunk: &'o Chunk,
    /// The index of its first element in the sequence.
    pub first_index: u64,
}

/// Where something changed: some labels, and all chunks that have one of them.
#[derive(Clone, Copy, Debug)]
pub struct Span<'o> {
    /// The first of the labels.
    pub first: u64,
    /// The last of them.
    pub last: u64,
    /// The chunks, in order.
    pub chunks: &'o [Chunk],
}

/// Chunks ordered by label.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    root: Option<Child>,
    counts: Counts,
}

impl Sequence {
    /// How many elements its chunks have.
    pub fn elements(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.elements)
    }

    /// How many bytes its chunks' elements take.
    pub fn bytes(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.bytes)
    }

    /// How many chunks there are.
    pub fn chunk_count(&self) -> usize {
        self.counts.chunks
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The bytes of memory that the sequence itself takes, without its chunks, if it shares none with others.
    pub fn memory_bytes(&self) -> u64 {
        self.counts.memory_bytes()
    }

    /// Whether any of its chunks is not published.
    pub(crate) fn has_new(&self) -> bool {
        self.root.as_ref().is_some_and(|root| root.has_new)
    }

    /// Descends to one chunk: `child` chooses in an inner node, `chunk` in a leaf.
    fn find<'o>(
        &'o self,
        mut child: impl FnMut(&'o [Child], u64) -> Option<usize>,
        chunk: impl FnOnce(&'o [Chunk], u64) -> Option<usize>,
    ) -> Option<At<'o>> {
        let (mut node, mut before) = (&self.root.as_ref()?.node, 0);
        loop {
            match node {
                Node::Inner(children) => {
                    let at = child(children, before)?;
                    before += children[..at].iter().map(|child| child.elements).sum::<u64>();
                    node = &children[at].node;
                }
                Node::Leaf(chunks) => {
                    let at = chunk(chunks, before)?;
                    before += chunks[..at].iter().map(|chunk| u64::from(chunk.elements)).sum::<u64>();
                    return Some(At { chunk: &chunks[at], first_index: before });
                }
            }
        }
    }

    /// The chunk with this label.
    pub fn labelled(&self, label: u64) -> Option<At<'_>> {
        self.last_up_to(label).filter(|at| at.chunk.label == label)
    }

    /// The last chunk whose label is not greater.
    pub fn last_up_to(&self, label: u64) -> Option<At<'_>> {
        self.find(
            |children, _| Some(covering(children, label)),
            |chunks, _| chunks.partition_point(|chunk| chunk.label <= label).checked_sub(1),
        )
    }

    /// The first chunk whose label is not smaller.
    pub fn first_from(&self, label: u64) -> Option<At<'_>> {
        let Some(before) = label.checked_sub(1).and_then(|label| self.last_up_to(label)) else {
            return self.first();
        };
        let chunk = self.iter_from(label).next()?;
        Some(At { chunk, first_index: before.first_index + u64::from(before.chunk.elements) })
    }

    /// The chunk that has the element of this index.
    pub fn with_index(&self, index: u64) -> Option<At<'_>> {
        self.find(
            |children, before| reaching(children.iter().map(|child| child.elements), before, index),
            |chunks, before| reaching(chunks.iter().map(|chunk| u64::from(chunk.elements)), before, index),
        )
    }

    /// The chunk that has the byte of this number, and the number of its first byte.
    pub fn with_byte(&self, byte: u64) -> Option<(&Chunk, u64)> {
        let (mut node, mut before) = (&self.root.as_ref()?.node, 0);
        loop {
            match node {
                Node::Inner(children) => {
                    let at = reaching(children.iter().map(|child| child.bytes), before, byte)?;
                    before += children[..at].iter().map(|child| child.bytes).sum::<u64>();
                    node = &children[at].node;
                }
                Node::Leaf(chunks) => {
                    let bytes = |chunk: &Chunk| u64::from(chunk.bytes);
                    let at = reaching(chunks.iter().map(bytes), before, byte)?;
                    return Some((&chunks[at], before + chunks[..at].iter().map(bytes).sum::<u64>()));
                }
            }
        }
    }

    /// The bytes of the longest chunk.
    pub fn longest_chunk(&self) -> u32 {
        self.root.as_ref().map_or(0, |root| root.longest)
    }

    /// The next span from this label on with a change published after `version`, or not published. Outside
    /// of all spans the sequence is what it was at that version. Takes time for one span, whatever the
    /// length.
    ///
    /// Where a sequence changes between two calls, and its version is noted before the first one, everything
    /// is in a span that changed up to the version noted. So a copy may be brought up to date bit by bit.
    pub fn changed_since(&self, version: u64, label: u64) -> Option<Span<'_>> {
        let Some(root) = &self.root else { return Some(Span { first: label, last: u64::MAX, chunks: &[] }) };
        let (leaf, next) = root.stamped_after(version, label, None)?;
        // A removed label shows in the gaps on both sides.
        let before = leaf.first()?.label.checked_sub(1).and_then(|label| self.last_up_to(label));
        let first = before.map_or(0, |at| at.chunk.label + 1).max(label);
        let last = next.map_or(u64::MAX, |next| next - 1);
        Some(Span { first, last, chunks: &leaf[leaf.partition_point(|chunk| chunk.label < first)..] })
    }

    /// The last chunk for which this holds. It holds for some first chunks, and for no later one.
    pub fn last_where<'o>(&'o self, holds: impl FnMut(&'o Chunk) -> bool) -> Option<At<'o>> {
        // Borrowed by both choices, of which one runs at a time.
        let holds = RefCell::new(holds);
        let holds_for = |chunk: &'o Chunk| (holds.borrow_mut())(chunk);
        self.find(
            |children, _| {
                let first = |at: usize| children[at].first_chunk();
                let count = count_where(children.len(), |at| first(at).is_some_and(holds_for));
                Some(count.saturating_sub(1))
            },
            |chunks, _| count_where(chunks.len(), |at| holds_for(&chunks[at])).checked_sub(1),
        )
    }

    /// The first chunk.
    pub fn first(&self) -> Option<At<'_>> {
        Some(At { chunk: self.root.as_ref()?.first_chunk()?, first_index: 0 })
    }

    /// The last chunk.
    pub fn last(&self) -> Option<At<'_>> {
        self.last_up_to(u64::MAX)
    }

    /// The chunks from the first whose label is not smaller, in order.
    pub fn iter_from(&self, label: u64) -> impl Iterator<Item = &Chunk> {
        Walk::<false>::new(self.root.as_ref(), label)
    }

    /// The chunks from the last whose label is not greater, in the order of falling labels.
    pub fn iter_back_from(&self, label: u64) -> impl Iterator<Item = &Chunk> {
        Walk::<true>::new(self.root.as_ref(), label)
    }

    /// The chunks that are not published, in order; takes no time for the others.
    pub(crate) fn new_chunks(&self) -> Vec<&Chunk> {
        let mut new = Vec::new();
        if let Some(root) = &self.root {
            root.each_new(&mut |chunk| new.push(chunk));
        }
        new
    }

    /// The chunks that are not published get these places, in order.
    pub(crate) fn publish(&mut self, version: u64, mut place: impl FnMut() -> Place) {
        if let Some(root) = &mut self.root {
            root.publish(version, &mut place);
        }
    }

    /// Adds a chunk, or puts it in the place of that with its label, which it returns.
    pub(crate) fn put(&mut self, chunk: Chunk) -> Option<Chunk> {
        let Some(root) = &mut self.root else {
            self.root = Some(Child::of(Node::Leaf([chunk].into())));
            self.counts = Counts { nodes: 1, chunks: 1 };
            return None;
        };
        let (old, next) = root.put(chunk, &mut self.counts);
        if let Some(next) = next {
            let both = [root.clone(), next].into();
            self.root = Some(Child::of(Node::Inner(both)));
            self.counts.nodes += 1;
        }
        old
    }

    /// Removes the chunk with this label, which it returns.
    pub(crate) fn remove(&mut self, label: u64) -> Option<Chunk> {
        self.labelled(label)?;
        let root = self.root.as_mut()?;
        let old = root.remove(label, &mut self.counts);
        if root.node.is_empty() {
            *self = Sequence::default();
        } else if let Some(only) = root.node.only_child().cloned() {
            self.root = Some(only);
            self.counts.nodes -= 1;
        }
        old
    }

    /// The chunk with this label is at another address now, if it is at `from`; whether it was.
    pub(crate) fn move_chunk(&mut self, label: u64, from: u64, to: u64) -> bool {
        let is_there = self.labelled(label).is_some_and(|at| at.chunk.place == Place::InLog(from));
        if is_there && let Some(root) = &mut self.root {
            root.move_chunk(label, to);
        }
        is_there
    }
}

/// The first of these counts with which their sum from `before` on exceeds the index.
fn reaching(counts: impl Iterator<Item = u64>, before: u64, index: u64) -> Option<usize> {
    let mut up_to = before;
    let mut sums = counts.map(|count| {
        up_to += count;
        up_to
    });
    sums.position(|sum| index < sum)
}

/// For how many of the first of so many entries this holds. It holds for no later one.
fn count_where(len: usize, mut holds: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
impl Sequence {
    /// Checks the tree's form, and every sum in it.
    pub(crate) fn check(&self) {
        let mut counts = Counts::default();
        if let Some(root) = &self.root {
            check_child(root, true, &mut counts);
        }
        assert_eq!(counts, self.counts);
    }
}

/// Checks one subtree; returns its height.
#[cfg(test)]
fn check_child(child: &Child, is_root: bool, counts: &mut Counts) -> usize {
    use crate::node::{INNER_MOST, LEAF_MOST};
    counts.nodes += 1;
    let (len, most, height) = match &child.node {
        Node::Leaf(chunks) => {
            counts.chunks += chunks.len();
            assert!(chunks.is_sorted_by(|a, b| a.label < b.label));
            (chunks.len(), LEAF_MOST, 0)
        }
        Node::Inner(children) => {
            assert!(children.is_sorted_by(|a, b| a.first < b.first));
            let heights: Vec<usize> =
                children.iter().map(|child| check_child(child, false, counts)).collect();
            assert!(heights.iter().all(|height| *height == heights[0]), "{heights:?}");
            (children.len(), INNER_MOST, heights[0] + 1)
        }
    };
    let least = if !is_root { most / 2 } else { 1 + usize::from(height > 0) };
    assert!((least..=most).contains(&len), "{len} entries, root: {is_root}, height {height}");
    let anew = Child::of(child.node.clone());
    assert_eq!(
        (anew.first, anew.elements, anew.bytes, anew.has_new, anew.longest),
        (child.first, child.elements, child.bytes, child.has_new, child.longest)
    );
    assert!(!child.has_new || child.stamp == crate::node::UNPUBLISHED, "what is new is stamped so");
    assert!(height == 0 || child.stamp == anew.stamp, "an inner node has the latest stamp below");
    height
}
