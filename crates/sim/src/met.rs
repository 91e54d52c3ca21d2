//! How often a simulation met the situations that it exists for.

use crate::clients::{Other, Session};
use crate::simulation::Simulation;
use crate::workload::Exchanged;
use sidle_cluster::MigrationState;

impl Simulation {
    /// Counts what can be counted at the end.
    pub(crate) fn count_what_was_met(&mut self) {
        let mut met = self.world.met.clone();
        let mut meet = |what, times| *met.entry(what).or_insert(0) += times;
        meet("packets over slow links", self.world.network.links.over_slow);
        meet("timed", self.history.timed.iter().filter(|record| record.return_us.is_some()).count() as u64);
        meet("members", self.history.members.iter().filter(|record| record.answer.is_some()).count() as u64);
        meet("noise", self.history.noise);
        meet("groups", self.history.groups);
        meet("names", self.history.names.iter().filter(|record| record.answer.is_some()).count() as u64);
        meet("out of memory", self.history.out_of_memory);
        meet("refused while a log could not be written", self.history.misconfigured);
        meet("to run once", self.sessions.iter().map(|session| session.asked_once).sum());
        for counters in self.sessions.iter().map(Session::counters) {
            meet("answered", counters.replies);
            meet("timeouts", counters.timeouts);
            meet("redirects", counters.redirects);
            meet("double reads", counters.double_reads);
            meet("reads of the target alone", counters.single_target_reads);
            meet("source values", counters.source_values);
            meet("given", counters.given);
            meet("pushes of cuts taken in", counters.given_pushes);
            meet("keys learnt to be given", counters.given_learnt);
        }
        for other in &self.others {
            match other {
                Other::Bare(hand) => {
                    meet("by hand", hand.answered);
                    meet("moved", hand.redirects[0]);
                    meet("asked", hand.redirects[1]);
                    meet("empty", hand.empties);
                    meet("transactions", hand.executed);
                }
                Other::Misbehaving(misbehaving) => meet("sent away", misbehaving.sent_away),
                Other::Canceller(_) => {}
                Other::Consumers(consumers) => {
                    meet("items after a wait", consumers.served);
                    meet("waits that ended with nothing", consumers.timed_out);
                    meet("waits ended by hanging up", consumers.hung_up);
                }
                Other::Comparers(comparers) => {
                    let [run, refused] = match comparers.of() {
                        Exchanged::Registers => ["exchanges", "exchanges refused"],
                        Exchanged::Timed => ["exchanges of what ends", "exchanges of what ends refused"],
                    };
                    meet(run, comparers.exchanged);
                    meet(refused, comparers.refused);
                }
                Other::Committers(of) => of.met.iter().for_each(|(what, times)| meet(what, *times)),
                Other::Executors(of) => of.met.iter().for_each(|(what, times)| meet(what, *times)),
                Other::Surveyor(surveyor) => {
                    meet("scanned keys", surveyor.judged);
                    meet("flushes", surveyor.flushes);
                    surveyor.flushed_registers().into_iter().for_each(|(what, times)| meet(what, times));
                }
            }
        }
        let possible = self.hosts[0].disk.as_ref().map(|disk| disk.possible()).unwrap_or_default();
        for migration in possible.iter().take(1).flat_map(|data| data.all_migrations()) {
            match &migration.state {
                MigrationState::Done => meet("done", 1),
                MigrationState::Cancelled => meet("cancelled", 1),
                MigrationState::Failed { .. } => meet("failed", 1),
                _ => {}
            }
            meet("ways back", u64::from(migration.continues.is_some()));
        }
        meet("given back", self.world.checks.given_back());
        self.summary.met = met;
    }
}
