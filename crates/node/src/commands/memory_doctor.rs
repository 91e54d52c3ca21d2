//! MEMORY DOCTOR: what stands out in the use of memory, each with what helps.

use super::info::human;
use crate::call::Call;
use crate::clients::ClientRecord;
use crate::shared::Gauges;
use std::sync::Arc;

/// What is smaller does not stand out.
const LITTLE_BYTES: u64 = 32 << 20;
/// Where so much of the limit is left for values, it does not stand out: a twentieth.
const LITTLE_ROOM: u64 = 20;
/// The mean of a connection's memory from which on it stands out, as in Redis.
const MUCH_FOR_EACH_CLIENT: u64 = 200 << 10;
/// The durable log's files take this many times what is live only where their cleaning falls behind.
const FILES_BEHIND: u64 = 4;
/// Below this the files are not cleaned, or hardly.
const SMALL_FILES_BYTES: u64 = 1 << 30;

/// The connection that holds the most.
#[derive(Clone, Debug)]
pub(super) struct Largest {
    id: u64,
    address: String,
    bytes: u64,
    output: u64,
}

impl Largest {
    fn of(client: &Arc<ClientRecord>) -> Largest {
        Largest {
            id: client.id,
            address: client.address.clone(),
            bytes: client.memory_bytes(),
            output: client.buffers().output + client.collected_bytes(),
        }
    }
}

/// What the report is made of. Bytes, unless the name says otherwise; 0 where something is not known.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    limit: u64,
    room: u64,
    log_used: u64,
    log_live: u64,
    index: u64,
    /// The pages of free segments, and what of them MEMORY PURGE returns.
    idle: u64,
    purgeable: u64,
    resident: u64,
    system: u64,
    clients_count: u64,
    clients: u64,
    clients_limit: u64,
    largest: Option<Largest>,
    files: u64,
    /// Written, and not in a file yet.
    waiting: u64,
}

impl Figures {
    /// A node's.
    pub(super) fn of(call: &Call<'_>) -> Figures {
        let (memory, shared) = (call.store.memory(), call.shared);
        let clients = shared.clients.list();
        Figures {
            limit: memory.limit,
            room: memory.room(),
            log_used: memory.log_used,
            log_live: memory.log_live,
            index: memory.index,
            idle: call.store.idle_bytes(),
            purgeable: call.store.purgeable_bytes(),
            resident: Gauges::read(&shared.gauges.resident_bytes),
            system: Gauges::read(&shared.gauges.system_memory_bytes),
            clients_count: clients.len() as u64,
            clients: shared.clients.memory_bytes(),
            clients_limit: shared.config.client_bytes().unwrap_or(0),
            largest: clients.iter().map(Largest::of).max_by_key(|client| client.bytes),
            files: Gauges::read(&shared.durability.file_bytes),
            waiting: call.store.commits().map_or(0, |commits| commits.buffered_bytes()),
        }
    }

    fn used(&self) -> u64 {
        self.log_used + self.index
    }

    /// The text for an operator.
    pub(super) fn report(&self) -> String {
        let looks = [
            Figures::limit,
            Figures::machine,
            Figures::dead,
            Figures::pages,
            Figures::beside,
            Figures::clients,
            Figures::output,
            Figures::files,
        ];
        let found: Vec<String> = looks.iter().filter_map(|look| look(self)).collect();
        let used = human(self.used());
        match found.len() {
            0 => format!("Nothing stands out: {used} of {} are used.\n", human(self.limit)),
            count => {
                let head = if count == 1 { "One thing stands out" } else { "Some things stand out" };
                format!("{head}; {used} of {} are used.\n\n{}", human(self.limit), found.concat())
            }
        }
    }

    fn limit(&self) -> Option<String> {
        (self.room < self.limit / LITTLE_ROOM).then(|| {
            format!(
                "- There is room for {} of values below maxmemory ({}). A write that finds none gets an OOM error. \
                 Delete keys, move slots to another node (sidle migrate), or restart with a larger max_memory.\n",
                human(self.room),
                human(self.limit)
            )
        })
    }

    fn machine(&self) -> Option<String> {
        let system = Some(self.system).filter(|&bytes| bytes > 0)?;
        if self.limit > system {
            return Some(format!(
                "- maxmemory ({}) is more than the machine has ({}): the system may end this process before writes \
                 are refused. Restart with a smaller max_memory.\n",
                human(self.limit),
                human(system)
            ));
        }
        (self.resident > system / 10 * 9).then(|| {
            format!(
                "- The process takes {} of the machine's {}. What does not fit is swapped out, or the process ended.\n",
                human(self.resident),
                human(system)
            )
        })
    }

    fn dead(&self) -> Option<String> {
        let dead = self.log_used.saturating_sub(self.log_live);
        (dead >= LITTLE_BYTES && dead > self.log_used / 2).then(|| {
            format!(
                "- Of the log's {} only {} are live: much was removed or overwritten. Writes find room all the same: \
                 the log is cleaned when memory is short, and not before.\n",
                human(self.log_used),
                human(self.log_live)
            )
        })
    }

    fn pages(&self) -> Option<String> {
        (self.purgeable >= LITTLE_BYTES && self.purgeable > self.used() / 2).then(|| {
            format!(
                "- Free segments of the log hold {} of memory. MEMORY PURGE returns it to the system.\n",
                human(self.purgeable)
            )
        })
    }

    fn beside(&self) -> Option<String> {
        let pages = self.used() + self.idle;
        let beside = self.resident.saturating_sub(pages);
        (beside >= 2 * LITTLE_BYTES && beside > pages / 10 * 4).then(|| {
            format!(
                "- The process takes {} beside log and index. Connections hold {} of it; the rest is the program's, of \
                 migrations, saves and the durable log.\n",
                human(beside),
                human(self.clients)
            )
        })
    }

    fn clients(&self) -> Option<String> {
        let each = self.clients / self.clients_count.max(1);
        let is_near = self.clients_limit > 0 && self.clients > self.clients_limit / 10 * 9;
        (each > MUCH_FOR_EACH_CLIENT || is_near).then(|| {
            let limit = match self.clients_limit {
                0 => "no limit".to_owned(),
                bytes => format!("a limit of {}", human(bytes)),
            };
            let largest = self.largest.as_ref().map(|client| {
                format!(" The largest is id={} addr={} with {}.", client.id, client.address, human(client.bytes))
            });
            format!(
                "- {} connections hold {}, with {limit} (maxmemory-clients).{} CLIENT LIST shows all, CLIENT KILL ends \
                 one.\n",
                self.clients_count,
                human(self.clients),
                largest.unwrap_or_default()
            )
        })
    }

    fn output(&self) -> Option<String> {
        let client = self.largest.as_ref().filter(|client| client.output >= LITTLE_BYTES)?;
        Some(format!(
            "- The client id={} addr={} has {} of replies to read. It is slow, or asks for too much at a time.\n",
            client.id,
            client.address,
            human(client.output)
        ))
    }

    fn files(&self) -> Option<String> {
        if self.waiting >= 2 * LITTLE_BYTES {
            return Some(format!(
                "- {} wait to be written to the durable log: its disk is slower than the writes.\n",
                human(self.waiting)
            ));
        }
        (self.files > SMALL_FILES_BYTES && self.files / FILES_BEHIND > self.log_live).then(|| {
            format!(
                "- The durable log's files take {} for {} of live data: their cleaning falls behind.\n",
                human(self.files),
                human(self.log_live)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A node of which nothing stands out.
    fn healthy() -> Figures {
        Figures {
            limit: 1000 * MIB,
            room: 600 * MIB,
            log_used: 400 * MIB,
            log_live: 300 * MIB,
            index: 10 * MIB,
            idle: 32 * MIB,
            purgeable: 0,
            resident: 500 * MIB,
            system: 4000 * MIB,
            clients_count: 10,
            clients: MIB,
            clients_limit: 500 * MIB,
            largest: Some(Largest { id: 7, address: "a:1".into(), bytes: MIB, output: MIB }),
            files: 600 * MIB,
            waiting: MIB,
        }
    }

    #[test]
    fn nothing_is_said_of_a_healthy_node_or_an_empty_one() {
        assert_eq!(healthy().report(), "Nothing stands out: 410.00M of 1000.00M are used.\n");
        let empty = Figures { limit: 64 * MIB, room: 57 * MIB, log_used: MIB, ..Figures::default() };
        assert!(empty.report().starts_with("Nothing stands out"), "{}", empty.report());
    }

    #[test]
    fn each_thing_that_stands_out_is_said_once() {
        let big = Largest { id: 7, address: "a:1".into(), bytes: 60 * MIB, output: 50 * MIB };
        for (figures, words) in [
            (Figures { room: 49 * MIB, ..healthy() }, "room for 49.00M of values"),
            (Figures { system: 900 * MIB, ..healthy() }, "more than the machine has (900.00M)"),
            (
                Figures { system: 1000 * MIB, resident: 901 * MIB, idle: 400 * MIB, ..healthy() },
                "swapped out",
            ),
            (Figures { log_live: 150 * MIB, ..healthy() }, "only 150.00M are live"),
            (Figures { purgeable: 300 * MIB, ..healthy() }, "MEMORY PURGE returns it"),
            (Figures { resident: 800 * MIB, ..healthy() }, "takes 358.00M beside log and index"),
            (Figures { clients: 3 * MIB, ..healthy() }, "10 connections hold 3.00M"),
            (Figures { largest: Some(big), ..healthy() }, "id=7 addr=a:1 has 50.00M of replies"),
            (Figures { waiting: 64 * MIB, ..healthy() }, "64.00M wait to be written"),
            (Figures { files: 2000 * MIB, ..healthy() }, "cleaning falls behind"),
        ] {
            let report = figures.report();
            assert!(report.contains(words), "{words}: {report}");
            let points = report.lines().filter(|line| line.starts_with("- ")).count();
            assert_eq!(points, 1, "{report}");
        }
    }

    #[test]
    fn connections_near_their_limit_stand_out_however_many_they_are() {
        let many = Figures { clients_count: 100_000, clients: 460 * MIB, ..healthy() };
        let report = many.report();
        assert!(report.contains("a limit of 500.00M") && report.contains("id=7 addr=a:1"), "{report}");
        let unbounded = Figures { clients_limit: 0, clients: 30 * MIB, largest: None, ..healthy() };
        assert!(unbounded.report().contains("hold 30.00M, with no limit"), "{}", unbounded.report());
    }
}
