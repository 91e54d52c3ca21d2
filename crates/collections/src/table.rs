//! What is known of each of several names, in the order in which they were added: a collection that is
//! changed, or asked often.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sidle_types::KeyHash;

/// From so many uses on, names are found by an index: it costs about so many walks to make.
const INDEXED_FROM: usize = 8;
/// Memory that is taken before anything is found: a collection's own count is a peer's word.
const EXPECTED_MOST: usize = 1 << 16;

/// Names, each with a value.
#[derive(Debug)]
pub(crate) struct Table<'b, V> {
    /// In order; of a removed one nothing is left.
    places: Vec<Option<(&'b [u8], V)>>,
    /// How many are left.
    len: usize,
    /// The places by names, if it is used often.
    index: Option<HashTable<usize>>,
}

impl<'b, V: Copy> Table<'b, V> {
    /// A table of different names, which will be used about so many times.
    pub(crate) fn new(named: impl Iterator<Item = (&'b [u8], V)>, uses: usize) -> Table<'b, V> {
        let mut places = Vec::with_capacity(named.size_hint().0.min(EXPECTED_MOST) + uses.min(EXPECTED_MOST));
        places.extend(named.map(Some));
        let index = (uses >= INDEXED_FROM).then(|| {
            let mut index = HashTable::with_capacity(places.len() + uses.min(EXPECTED_MOST));
            for (place, named) in places.iter().enumerate() {
                let Some((name, _)) = named else { continue };
                index.insert_unique(hash_of(name), place, |&place| hash_at(&places, place));
            }
            index
        });
        Table { len: places.len(), places, index }
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<V> {
        let place = self.place_of(name)?;
        self.places[place].map(|(_, value)| value)
    }

    /// Sets a name's value; returns the old one.
    pub(crate) fn set(&mut self, name: &'b [u8], value: V) -> Option<V> {
        self.change(name, |_| value)
    }

    /// Sets a name's value to what the old one becomes; returns the old one.
    pub(crate) fn change(&mut self, name: &'b [u8], becomes: impl FnOnce(Option<V>) -> V) -> Option<V> {
        let place = match &mut self.index {
            None => self.place_of(name),
            Some(index) => {
                let is_it = |&place: &usize| self.places[place].is_some_and(|(other, _)| other == name);
                let hash_at = |&place: &usize| hash_at(&self.places, place);
                match index.entry(hash_of(name), is_it, hash_at) {
                    Entry::Occupied(entry) => Some(*entry.get()),
                    Entry::Vacant(entry) => {
                        entry.insert(self.places.len());
                        None
                    }
                }
            }
        };
        match place {
            Some(place) => {
                let old = self.places[place].map(|(_, old)| old);
                self.places[place] = Some((name, becomes(old)));
                old
            }
            None => {
                self.places.push(Some((name, becomes(None))));
                self.len += 1;
                None
            }
        }
    }

    /// Removes a name; returns its value.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<V> {
        let place = self.place_of(name)?;
        if let Some(index) = &mut self.index
            && let Ok(entry) = index.find_entry(hash_of(name), |&other| other == place)
        {
            entry.remove();
        }
        self.len -= 1;
        self.places[place].take().map(|(_, value)| value)
    }

    /// All names with their values, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'b [u8], V)> + '_ {
        self.places.iter().flatten().copied()
    }

    fn place_of(&self, name: &[u8]) -> Option<usize> {
        let is_it = |place: &usize| self.places[*place].is_some_and(|(other, _)| other == name);
        match &self.index {
            None => (0..self.places.len()).find(is_it),
            Some(index) => index.find(hash_of(name), is_it).copied(),
        }
    }
}

fn hash_of(name: &[u8]) -> u64 {
    KeyHash::of_key(name).0
}

fn hash_at<V: Copy>(places: &[Option<(&[u8], V)>], place: usize) -> u64 {
    places[place].map_or(0, |(name, _)| hash_of(name))
}
