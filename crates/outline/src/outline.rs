//! A collection's sequences, and what was changed since it was published.

use crate::chunk::{Chunk, Place};
use crate::sequence::Sequence;
use std::sync::Arc;

/// Identifies a published collection of a store for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionId(pub u64);

/// Which of a collection's sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// All elements; of a list and a sorted set in their order.
    Main = 0,
    /// Of a sorted set, its members once more, in the order of their hashes.
    ByMember = 1,
}

impl Order {
    /// Both.
    pub const ALL: [Order; 2] = [Order::Main, Order::ByMember];
}

/// A large collection at one moment, without the bytes of its published chunks.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    id: Option<CollectionId>,
    /// The encoding to report, as `sidle-collections` numbers it.
    encoding: u8,
    sequences: [Sequence; 2],
    /// Published chunks that are no longer part of it. Clones share them.
    replaced: Arc<Vec<Chunk>>,
    /// Which publication of its collection it is, or was made from.
    generation: u64,
}

impl Outline {
    /// An empty one that is not published.
    pub fn new(encoding: u8) -> Outline {
        Outline { encoding, ..Outline::default() }
    }

    /// The published collection that it is a state of; none for a collection of its own.
    pub fn id(&self) -> Option<CollectionId> {
        self.id
    }

    /// The encoding to report.
    pub fn encoding(&self) -> u8 {
        self.encoding
    }

    /// Changes the encoding to report.
    pub fn set_encoding(&mut self, encoding: u8) {
        self.encoding = encoding;
    }

    /// How many elements it has.
    pub fn len(&self) -> u64 {
        self.sequence(Order::Main).elements()
    }

    /// Whether it has none: then the key must go.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of its sequences.
    pub fn sequence(&self, order: Order) -> &Sequence {
        &self.sequences[order as usize]
    }

    /// The bytes of all chunks' elements.
    pub fn bytes(&self) -> u64 {
        self.sequences.iter().map(Sequence::bytes).sum()
    }

    /// The bytes of memory that it takes, without its chunks.
    pub fn memory_bytes(&self) -> u64 {
        self.sequences.iter().map(Sequence::memory_bytes).sum()
    }

    /// Adds a chunk, or puts it in the place of that with its label. A published chunk may only come back to
    /// where it was: in the log it has its label with it.
    pub fn put(&mut self, order: Order, chunk: Chunk) {
        if let Place::InLog(_) = chunk.place {
            let again = self.replaced.iter().position(|replaced| replaced.place == chunk.place);
            if let Some(again) = again {
                let was = Arc::make_mut(&mut self.replaced).swap_remove(again);
                assert!(was.label == chunk.label, "a published chunk keeps its label");
            }
        }
        let old = self.sequences[order as usize].put(chunk);
        self.note_replaced(old);
    }

    /// Removes the chunk with this label; whether there was one.
    pub fn remove(&mut self, order: Order, label: u64) -> bool {
        let old = self.sequences[order as usize].remove(label);
        let was_there = old.is_some();
        self.note_replaced(old);
        was_there
    }

    fn note_replaced(&mut self, old: Option<Chunk>) {
        if let Some(old) = old
            && matches!(old.place, Place::InLog(_))
        {
            Arc::make_mut(&mut self.replaced).push(old);
        }
    }

    /// Chunks that are not published yet, each once; chunks that came and went are left out. In the order of
    /// sequences and labels. Takes time for these chunks only, however many others there are.
    pub fn new_chunks(&self) -> impl Iterator<Item = (Order, &Chunk)> {
        Order::ALL
            .into_iter()
            .flat_map(|order| self.sequence(order).new_chunks().into_iter().map(move |chunk| (order, chunk)))
    }

    /// Whether it differs from what was published in any chunk.
    pub fn is_changed(&self) -> bool {
        !self.replaced.is_empty() || self.sequences.iter().any(Sequence::has_new)
    }

    /// Published chunks that are no longer part of it.
    pub fn replaced_chunks(&self) -> &[Chunk] {
        &self.replaced
    }
}

/// For the store that publishes it.
impl Outline {
    /// Which publication of its collection it is, or was made from.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// It is a publication of this collection now, with this version: later than the ones before. Its new
    /// chunks are at these addresses, in the order of [`new_chunks`](Self::new_chunks).
    ///
    /// # Panics
    /// When there are more or fewer addresses than new chunks.
    pub fn publish(&mut self, id: CollectionId, generation: u64, version: u64, addresses: &[u64]) {
        let mut addresses = addresses.iter();
        for sequence in &mut self.sequences {
            sequence
                .publish(version, || Place::InLog(*addresses.next().expect("an address for each new chunk")));
        }
        assert!(addresses.next().is_none(), "a new chunk for each address");
        self.id = Some(id);
        self.generation = generation;
        self.replaced = Arc::default();
    }

    /// Takes a chunk out without a note of it: of a collection that is gone, to free what its chunks take.
    pub fn take_any(&mut self) -> Option<Chunk> {
        let sequence = self.sequences.iter_mut().find(|sequence| !sequence.is_empty())?;
        let label = sequence.first()?.chunk.label;
        sequence.remove(label)
    }

    /// The chunk with this label is at another address now, if it is published at `from`; whether it was.
    pub fn move_chunk(&mut self, order: Order, label: u64, from: u64, to: u64) -> bool {
        self.sequences[order as usize].move_chunk(label, from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: CollectionId = CollectionId(7);

    /// A publication with chunks of these labels, at addresses a hundred times as large.
    fn published(labels: impl Iterator<Item = u64>) -> Outline {
        let mut outline = Outline::new(1);
        let labels: Vec<u64> = labels.collect();
        labels.iter().for_each(|label| outline.put(Order::Main, Chunk::new(*label, 2, b"abcd")));
        let addresses: Vec<u64> = labels.iter().map(|label| label * 100).collect();
        outline.publish(ID, 1, 1, &addresses);
        outline
    }

    fn new_labels(outline: &Outline) -> Vec<(Order, u64)> {
        outline.new_chunks().map(|(order, chunk)| (order, chunk.label)).collect()
    }

    fn replaced(outline: &Outline) -> Vec<u64> {
        outline.replaced_chunks().iter().map(|chunk| chunk.label).collect()
    }

    #[test]
    fn a_publication_has_nothing_new_and_names_its_collection() {
        let outline = published(1..100);
        assert_eq!((outline.id(), outline.generation(), outline.len()), (Some(ID), 1, 198));
        assert!(!outline.is_changed() && new_labels(&outline).is_empty() && replaced(&outline).is_empty());
        let at = outline.sequence(Order::Main).labelled(42).expect("it is there");
        assert_eq!((&at.chunk.place, at.first_index), (&Place::InLog(4200), 82));
    }

    #[test]
    fn a_chunk_that_comes_and_goes_is_neither_new_nor_replaced() {
        let mut outline = published(1..100);
        outline.put(Order::Main, Chunk::new(1000, 1, b"x"));
        outline.put(Order::ByMember, Chunk::new(5, 1, b"x"));
        assert!(outline.is_changed());
        assert!(outline.remove(Order::Main, 1000) && outline.remove(Order::ByMember, 5));
        assert!(!outline.remove(Order::Main, 1000));
        assert!(!outline.is_changed() && new_labels(&outline).is_empty() && replaced(&outline).is_empty());
    }

    #[test]
    fn a_published_chunk_is_replaced_once_however_often_it_is_put() {
        let mut outline = published(1..100);
        let before = outline.clone();
        for bytes in [b"one".as_slice(), b"two", b"three"] {
            outline.put(Order::Main, Chunk::new(50, 3, bytes));
        }
        outline.put(Order::ByMember, Chunk::new(50, 3, b"m"));
        assert_eq!(new_labels(&outline), [(Order::Main, 50), (Order::ByMember, 50)]);
        assert_eq!(replaced(&outline), [50]);
        assert_eq!((outline.len(), outline.bytes()), (199, 98 * 4 + 5 + 1));
        assert_eq!((before.len(), before.is_changed()), (198, false));
        outline.publish(ID, 2, 2, &[77, 78]);
        assert!(!outline.is_changed());
        let place = |order| &outline.sequence(order).labelled(50).expect("it is there").chunk.place;
        assert_eq!((place(Order::Main), place(Order::ByMember)), (&Place::InLog(77), &Place::InLog(78)));
    }

    #[test]
    fn a_relabelled_chunk_is_a_new_one_and_replaces_what_it_was() {
        let mut outline = published(1..100);
        assert!(outline.remove(Order::Main, 50));
        outline.put(Order::Main, Chunk::new(1050, 2, b"abcd"));
        assert_eq!((new_labels(&outline), replaced(&outline)), (vec![(Order::Main, 1050)], vec![50]));
        assert_eq!(outline.len(), 198);
    }

    #[test]
    fn a_published_chunk_that_comes_back_is_not_replaced() {
        let mut outline = published(1..100);
        let was = outline.sequence(Order::Main).labelled(50).expect("it is there").chunk.clone();
        assert!(outline.remove(Order::Main, 50));
        outline.put(Order::Main, Chunk::new(50, 1, b"x"));
        outline.put(Order::Main, was);
        assert!(!outline.is_changed() && replaced(&outline).is_empty());
    }

    #[test]
    #[should_panic(expected = "keeps its label")]
    fn a_published_chunk_has_no_second_label() {
        let mut outline = published(1..100);
        let was = outline.sequence(Order::Main).labelled(50).expect("it is there").chunk.clone();
        assert!(outline.remove(Order::Main, 50));
        outline.put(Order::Main, Chunk { label: 1050, ..was });
    }

    #[test]
    fn a_collection_that_is_gone_is_taken_apart() {
        let mut outline = published(1..100);
        outline.put(Order::ByMember, Chunk::new(5, 1, b"x"));
        let taken: Vec<u64> = std::iter::from_fn(|| outline.take_any()).map(|chunk| chunk.label).collect();
        assert!(taken.into_iter().eq((1..100).chain([5])));
        assert_eq!((outline.memory_bytes(), outline.replaced_chunks().len()), (0, 0));
    }

    #[test]
    fn a_chunk_is_moved_only_from_where_it_is() {
        let mut outline = published(1..100);
        assert!(!outline.move_chunk(Order::Main, 50, 5001, 9));
        assert!(!outline.move_chunk(Order::Main, 500, 5000, 9));
        assert!(outline.move_chunk(Order::Main, 50, 5000, 9));
        assert!(!outline.is_changed());
        let at = outline.sequence(Order::Main).labelled(50).expect("it is there");
        assert_eq!(at.chunk.place, Place::InLog(9));
    }
}
