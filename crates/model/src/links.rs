//! Network interfaces: each machine sends at its link's rate, and messages arrive after a latency.
//!
//! Small messages do not queue behind bulk data: switches and interfaces interleave their packets.

/// The link between machines.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// From a machine to any other, for the first byte.
    pub latency_ns: u64,
    /// A machine's sending rate.
    pub gbit_per_s: f64,
}

/// A message's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Small = 0,
    Bulk = 1,
}

/// The interfaces of all machines.
#[derive(Debug)]
pub(crate) struct Interfaces {
    link: Link,
    /// When each has sent everything, by class.
    free_ns: Vec<[u64; 2]>,
}

impl Interfaces {
    pub(crate) fn new(link: Link, machines: usize) -> Interfaces {
        Interfaces { link, free_ns: vec![[0; 2]; machines] }
    }

    /// When this many bytes that leave a machine now will have arrived.
    pub(crate) fn send(&mut self, now_ns: u64, machine: usize, class: Class, bytes: u64) -> u64 {
        let free_ns = &mut self.free_ns[machine][class as usize];
        let takes_ns = (bytes as f64 * 8.0 / self.link.gbit_per_s) as u64;
        *free_ns = now_ns.max(*free_ns) + takes_ns;
        *free_ns + self.link.latency_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_rate_and_small_messages_pass_bulk() {
        let mut interfaces = Interfaces::new(Link { latency_ns: 1000, gbit_per_s: 8.0 }, 2);
        assert_eq!(interfaces.send(0, 0, Class::Bulk, 5000), 6000);
        assert_eq!(interfaces.send(0, 0, Class::Bulk, 5000), 11_000, "one behind the other");
        assert_eq!(interfaces.send(0, 0, Class::Small, 100), 1100);
        assert_eq!(interfaces.send(0, 1, Class::Bulk, 5000), 6000, "each machine has its own");
        assert_eq!(interfaces.send(50_000, 0, Class::Bulk, 1), 51_001);
    }
}
