//! What one client may use, and how many there may be.

use crate::config::LimitsConfig;
use sidle_node::Config;
use sidle_resp::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one client may use.
#[derive(Clone, Debug)]
pub(crate) struct ClientLimits {
    requests: Limits,
    /// How long it may take to give the password; `None`: no limit.
    pub(crate) password_patience_us: Option<u64>,
    /// The clients' places.
    pub(crate) places: Arc<Places>,
}

impl ClientLimits {
    /// The limits in the settings, on a node with this much memory for its data.
    pub(crate) fn new(config: &LimitsConfig, memory_bytes: u64) -> ClientLimits {
        let requests = Limits {
            arguments: config.arguments as usize,
            bulk_bytes: config.value.0 as usize,
            held_bytes: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
            ..Limits::default()
        };
        let password_patience_us =
            Some(u64::from(config.password_timeout) * 1_000_000).filter(|&patience_us| patience_us > 0);
        ClientLimits { requests, password_patience_us, places: Arc::default() }
    }

    /// The limits of other nodes' forwarded requests: those nodes judge their clients' limits. A request that
    /// exceeds this node's memory is refused.
    pub(crate) fn forwarded(&self) -> Limits {
        let (held_bytes, query_buffer_bytes) = (self.requests.held_bytes, u32::MAX as usize);
        Limits { held_bytes, query_buffer_bytes, ..Limits::default() }
    }

    /// The limits of requests on a new connection. The bound of all connections together bounds each of them
    /// too, and CONFIG SET may have changed it.
    pub(crate) fn requests(&self, config: &Config) -> Limits {
        Limits {
            held_bytes: usize::try_from(config.held_bytes()).unwrap_or(usize::MAX),
            query_buffer_bytes: config.query_buffer_bytes() as usize,
            ..self.requests
        }
    }
}

/// How many places are kept for operators on the node's own machine, beyond the clients'. A client that
/// turns out to be no operator holds one for a moment.
pub(crate) const RESERVED_PLACES: usize = 64;

/// Places for clients, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: AtomicUsize,
    reserved_taken: AtomicUsize,
}

impl Places {
    /// Takes one of `most` places until the returned value is dropped; `None` if all are taken.
    pub(crate) fn take(self: &Arc<Places>, most: usize) -> Option<Place> {
        take_one(&self.taken, most).then(|| Place { places: Arc::clone(self), is_reserved: false })
    }

    /// Takes one of the operators' places. `makes_room`: called if all are taken; returns whether one of
    /// them will soon be free.
    pub(crate) fn take_reserved(self: &Arc<Places>, makes_room: impl FnOnce() -> bool) -> Option<Place> {
        let is_taken = take_one(&self.reserved_taken, RESERVED_PLACES)
            // One more than there are, until the other one is gone.
            || makes_room() && take_one(&self.reserved_taken, 2 * RESERVED_PLACES);
        is_taken.then(|| Place { places: Arc::clone(self), is_reserved: true })
    }
}

fn take_one(taken: &AtomicUsize, most: usize) -> bool {
    let free = |taken: usize| (taken < most).then_some(taken + 1);
    taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).is_ok()
}

/// One client's place.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    is_reserved: bool,
}

impl Place {
    /// Whether it is one of the operators' places.
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let taken = if self.is_reserved { &self.places.reserved_taken } else { &self.places.taken };
        taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_run_out_and_come_back() {
        let limits = ClientLimits::new(&LimitsConfig::default(), 64 << 20);
        let first = limits.places.take(2);
        let second = limits.places.take(2);
        assert!(first.is_some() && second.is_some() && limits.places.take(2).is_none());
        drop(first);
        assert!(limits.places.take(2).is_some());
    }

    #[test]
    fn reserved_places_are_others_and_can_be_made() {
        let places = Arc::new(Places::default());
        let clients = places.take(1);
        assert!(clients.is_some() && places.take(1).is_none());
        let guests: Vec<Place> =
            (0..RESERVED_PLACES).map(|_| places.take_reserved(|| false).expect("one is free")).collect();
        assert!(guests.iter().all(Place::is_reserved));
        assert!(places.take_reserved(|| false).is_none());
        assert!(places.take_reserved(|| true).is_some(), "another one is about to leave");
        drop(guests);
        assert!(places.take_reserved(|| false).is_some() && places.take(1).is_none());
    }

    #[test]
    fn one_request_is_held_to_what_all_may_hold() {
        let limits = ClientLimits::new(&LimitsConfig::default(), 64 << 20);
        let config = Config::default();
        config.apply(vec![("maxmemory", (64_u64 << 20).to_string())]);
        assert_eq!(limits.requests(&config).held_bytes, 64 << 20);
        assert_eq!(limits.requests(&config).query_buffer_bytes, 1 << 30);
        config.apply(vec![("maxmemory-clients", "1mb".into())]);
        assert_eq!(limits.forwarded().held_bytes, 64 << 20, "what nodes forward is no client's");
        assert_eq!(limits.requests(&config).held_bytes, 1 << 20);
        assert_eq!(limits.requests(&config).query_buffer_bytes, 1 << 20);
    }
}
