//! Iterators over a sequence's chunks, leaf by leaf.

use crate::chunk::Chunk;
use crate::node::{Child, Node, covering};
use std::slice::Iter;

/// A walk over chunks: in order, or in the order of falling labels.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'o, const IS_BACK: bool> {
    /// What is left of the inner nodes on the way to the leaf, from the root on.
    above: Vec<Iter<'o, Child>>,
    /// What is left of the leaf.
    leaf: Iter<'o, Chunk>,
}

impl<'o, const IS_BACK: bool> Walk<'o, IS_BACK> {
    /// In order, from the first chunk whose label is not smaller; or backwards from the last one whose label
    /// is not greater.
    pub(crate) fn new(root: Option<&'o Child>, label: u64) -> Walk<'o, IS_BACK> {
        let mut walk = Walk { above: Vec::new(), leaf: [].iter() };
        let mut next = root;
        while let Some(child) = next.take() {
            match &child.node {
                Node::Leaf(chunks) if IS_BACK => {
                    walk.leaf = chunks[..chunks.partition_point(|chunk| chunk.label <= label)].iter();
                }
                Node::Leaf(chunks) => {
                    walk.leaf = chunks[chunks.partition_point(|chunk| chunk.label < label)..].iter();
                }
                Node::Inner(children) => {
                    let at = covering(children, label);
                    let rest = if IS_BACK { &children[..at] } else { &children[at + 1..] };
                    walk.above.push(rest.iter());
                    next = children.get(at);
                }
            }
        }
        walk
    }

    fn step<T>(iter: &mut Iter<'o, T>) -> Option<&'o T> {
        if IS_BACK { iter.next_back() } else { iter.next() }
    }

    /// Goes to the next leaf, if there is one.
    fn next_leaf(&mut self) -> Option<()> {
        let mut child = loop {
            match Self::step(self.above.last_mut()?) {
                Some(child) => break child,
                None => self.above.pop(),
            };
        };
        loop {
            match &child.node {
                Node::Leaf(chunks) => {
                    self.leaf = chunks.iter();
                    return Some(());
                }
                Node::Inner(children) => {
                    let mut rest = children.iter();
                    child = Self::step(&mut rest)?;
                    self.above.push(rest);
                }
            }
        }
    }
}

impl<'o, const IS_BACK: bool> Iterator for Walk<'o, IS_BACK> {
    type Item = &'o Chunk;

    #[inline]
    fn next(&mut self) -> Option<&'o Chunk> {
        loop {
            if let Some(chunk) = Self::step(&mut self.leaf) {
                return Some(chunk);
            }
            self.next_leaf()?;
        }
    }
}
