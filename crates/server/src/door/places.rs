//! Places of members' connections: a number in total, and a number for one source.

use super::{lock, waiting::Source};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Places to take and give back.
#[derive(Debug)]
pub(super) struct Places {
    total_max: usize,
    per_source_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_source: BTreeMap<Source, usize>,
}

impl Places {
    /// This many places in total, and this many for one source.
    pub(super) fn new(total_max: usize, per_source_max: usize) -> Arc<Places> {
        Arc::new(Places { total_max, per_source_max, taken: Mutex::default() })
    }

    /// Takes a place until the returned value is dropped; `None` if none is left for this source.
    pub(super) fn take(self: &Arc<Places>, source: Source) -> Option<Place> {
        let mut taken = lock(&self.taken);
        let of_source = taken.by_source.get(&source).copied().unwrap_or_default();
        if taken.total >= self.total_max || of_source >= self.per_source_max {
            return None;
        }
        taken.total += 1;
        taken.by_source.insert(source, of_source + 1);
        Some(Place { places: Arc::clone(self), source })
    }
}

/// A place that is given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    source: Source,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.taken);
        taken.total -= 1;
        if let Some(count) = taken.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                taken.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn one_source_cannot_take_all_places() {
        let source = |number| Source::of(IpAddr::from([10, 0, 0, number]));
        let places = Places::new(3, 2);
        let mut held: Vec<_> = (0..2).map(|_| places.take(source(1)).unwrap()).collect();
        assert!(places.take(source(1)).is_none());
        held.push(places.take(source(2)).unwrap());
        assert!(places.take(source(3)).is_none(), "all are taken");
        held.remove(0);
        held.push(places.take(source(3)).unwrap());
        drop(held);
        let taken = lock(&places.taken);
        assert_eq!((taken.total, taken.by_source.len()), (0, 0));
    }
}
