//! The candidate: on a node whose cluster has its metadata where several nodes reach it, a thread that
//! campaigns while nobody leads, opens the coordinator when it has won, and extends the lease.
//!
//! It talks to the store with deadlines, so it is late at most. The coordinator acts by its [`Office`], which
//! ends by itself when this thread does not extend it.
//!
//! Ownership: the control thread holds the [`CandidateThread`]; the thread ends with it, and resigns.

use super::coordinator::CoordinatorSeat;
use super::coordinator_thread::CoordinatorThread;
use super::office::Office;
use crate::clock::Clock;
use crate::cluster_secret;
use crate::data_dir::DataDir;
use crate::door::Door;
use crate::repeated::Repeated;
use crate::thread;
use serde::{Deserialize, Serialize};
use sidle_cluster::{
    ClusterId, Election, HostPort, MetaError, MetaStore, NodeInfo, Seen, StartNumber, Tenure, ToNode,
};
use sidle_types::MonotonicUs;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// How often the store is asked who leads, by whoever does not.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The time between two extensions of a lease.
const EXTEND_AFTER_US: u64 = 1_500_000;

/// What a leader announces of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announced {
    /// Where nodes reach it.
    pub(crate) bus_addr: HostPort,
    /// Where clients reach it, and nodes of its machine that have no secret yet.
    pub(crate) client_addr: HostPort,
}

/// The candidate's news.
pub(super) enum ElectionNews {
    /// This node coordinates, by this thread. Its messages to this node come out of the second value.
    Elected(CoordinatorThread, mpsc::UnboundedReceiver<ToNode>),
    /// That node coordinates.
    Leads(Announced),
    /// The store has the record of this cluster, and the node belongs to another one.
    OtherCluster(ClusterId),
}

/// What a candidate needs.
pub(super) struct Candidate {
    pub(super) election: Box<dyn Election + Send>,
    /// This node, and the number that its process drew.
    pub(super) info: NodeInfo,
    pub(super) start: StartNumber,
    /// The node's cluster, once it has one.
    pub(super) cluster: watch::Receiver<Option<ClusterId>>,
    pub(super) data_dir: Arc<DataDir>,
    pub(super) door: Door,
    pub(super) clock: Clock,
    pub(super) news: mpsc::UnboundedSender<ElectionNews>,
}

/// The running thread; waited for when dropped.
pub(super) struct CandidateThread {
    stop: Option<Sender<()>>,
    handle: Option<JoinHandle<()>>,
}

impl CandidateThread {
    pub(super) fn start(candidate: Candidate) -> io::Result<CandidateThread> {
        let (stop, stopped) = channel();
        let campaign = Campaign { candidate, led: None, announced: None, complaints: Repeated::default() };
        let handle = thread::start("candidate".to_owned(), move || campaign.run(&stopped))?;
        Ok(CandidateThread { stop: Some(stop), handle: Some(handle) })
    }
}

impl Drop for CandidateThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(handle) = self.handle.take() {
            // A panic would have ended the process.
            let _ = handle.join();
        }
    }
}

/// What a node does that does not lead.
#[derive(Debug, PartialEq, Eq)]
enum Stance {
    /// Another node leads.
    Follows,
    /// Nobody leads, and this node can.
    Campaigns,
    /// Nobody leads, and this node cannot: why.
    Waits(&'static str),
}

/// `cluster`: the node's. `has_secret`: whether its data directory keeps a secret, as that of every member
/// does: a leader without the cluster's secret could talk to nobody.
fn stance(seen: &Seen, cluster: Option<ClusterId>, has_secret: bool) -> Stance {
    match seen {
        Seen { leader: Some(_), .. } => Stance::Follows,
        Seen { is_founded: false, .. } if cluster.is_some() => Stance::Waits(
            "nobody coordinates, and the record of this node's cluster is not there: check the name in --metadata \
             (`[node] metadata`), or put the record back there",
        ),
        Seen { is_founded: true, .. } if !has_secret => Stance::Waits(
            "nobody coordinates, and this node has not been a member yet: start a member of the cluster",
        ),
        _ => Stance::Campaigns,
    }
}

/// The thread's state.
struct Campaign {
    candidate: Candidate,
    /// The office that it holds, and when what last extended it was sent.
    led: Option<(Arc<Office>, MonotonicUs)>,
    /// The leader last reported.
    announced: Option<Announced>,
    complaints: Repeated,
}

impl Campaign {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            self.turn();
            if stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        if let Some((office, _)) = self.led.take() {
            office.end();
            self.candidate.election.resign();
        }
    }

    fn now(&self) -> MonotonicUs {
        self.candidate.clock.mono()
    }

    fn turn(&mut self) {
        let now = self.now();
        match self.led.clone() {
            Some((office, _)) if !office.is_held(now) => {
                office.end();
                self.candidate.election.resign();
                // It may still wait for the answer to a commit.
                if office.is_left() {
                    tracing::warn!("this node does not coordinate the cluster any more");
                    self.led = None;
                }
            }
            Some((office, sent)) if now >= sent.plus_us(EXTEND_AFTER_US) => self.extend(&office),
            Some(_) => {}
            None => self.stand(),
        }
    }

    fn extend(&mut self, office: &Arc<Office>) {
        let sent = self.now();
        match self.candidate.election.extend() {
            Ok(true) => {
                office.extend(Tenure::sent_at(sent, self.candidate.election.lease_us()));
                self.led = Some((Arc::clone(office), sent));
                self.complaints.forget();
            }
            Ok(false) => office.end(),
            Err(error) => self.complain(&error.to_string()),
        }
    }

    fn stand(&mut self) {
        let seen = match self.candidate.election.look() {
            Ok(seen) => seen,
            Err(error) => return self.complain(&error.to_string()),
        };
        let cluster = *self.candidate.cluster.borrow();
        match stance(&seen, cluster, self.has_secret()) {
            Stance::Follows => self.follow(seen.leader.as_deref().unwrap_or_default()),
            Stance::Waits(why) => self.complain(why),
            Stance::Campaigns => {
                if let Err(why) = self.campaign() {
                    self.candidate.election.resign();
                    self.complain(&why);
                }
            }
        }
    }

    /// Another node leads, and announces this.
    fn follow(&mut self, announced: &str) {
        let Ok(leader) = serde_json::from_str::<Announced>(announced) else {
            return self.complain("the leader's announcement is not understood: is it of another program?");
        };
        self.complaints.forget();
        // What an earlier process of this node announced ends with its lease.
        if leader.bus_addr != self.candidate.info.bus_addr && self.announced.as_ref() != Some(&leader) {
            self.announced = Some(leader.clone());
            self.report(ElectionNews::Leads(leader));
        }
    }

    /// Leads if nobody else does.
    fn campaign(&mut self) -> Result<(), String> {
        let Candidate { info, start, door, clock, .. } = &self.candidate;
        let (info, start, door, clock) = (info.clone(), *start, door.clone(), *clock);
        let announced = Announced { bus_addr: info.bus_addr.clone(), client_addr: info.client_addr.clone() };
        let announced = serde_json::to_string(&announced).map_err(|error| error.to_string())?;
        let sent = self.now();
        let won = self.candidate.election.campaign(&announced).map_err(|error| error.to_string())?;
        let Some(store) = won else { return Ok(()) };
        self.prepare()?;
        let term = store.term();
        let office = Arc::new(Office::of(Tenure::sent_at(sent, self.candidate.election.lease_us())));
        let seat = CoordinatorSeat::open(self.now(), store, &info, start, door);
        let seat = seat.map_err(|error| error.to_string())?;
        let cluster = seat.cluster();
        if self.candidate.cluster.borrow().is_some_and(|own| own != cluster) {
            self.report(ElectionNews::OtherCluster(cluster));
            return Err(format!("the record is that of cluster {cluster}, and this node is of another one"));
        }
        self.candidate.door.accept_secret();
        let started = CoordinatorThread::start(seat, clock, Arc::clone(&office));
        let (thread, to_node) = started.map_err(|error| error.to_string())?;
        tracing::info!("this node coordinates cluster {cluster} from now on, term {}", term.0);
        (self.led, self.announced) = (Some((office, sent)), None);
        self.complaints.forget();
        self.report(ElectionNews::Elected(thread, to_node));
        Ok(())
    }

    /// Ensures that a leader has its cluster's secret. Nobody else founds the cluster meanwhile.
    fn prepare(&mut self) -> Result<(), String> {
        let seen = self.candidate.election.look().map_err(|error: MetaError| error.to_string())?;
        if self.has_secret() {
            return Ok(());
        }
        if seen.is_founded {
            return Err("the cluster was founded meanwhile: this node joins it".to_owned());
        }
        let Candidate { data_dir, door, .. } = &self.candidate;
        cluster_secret::of_founder(data_dir, door).map_err(|error| error.to_string())
    }

    fn has_secret(&self) -> bool {
        matches!(cluster_secret::kept(&self.candidate.data_dir), Ok(Some(_)))
    }

    fn report(&self, news: ElectionNews) {
        // Without a control thread the process is ending.
        let _ = self.candidate.news.send(news);
    }

    fn complain(&mut self, why: &str) {
        if let Some(text) = self.complaints.due(why, Instant::now()) {
            tracing::warn!("the cluster's coordinator: {text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_campaigns_for_its_own_cluster_or_founds_one() {
        let own = Some(ClusterId::from_bits(7));
        let seen = |leads: bool, is_founded| Seen { leader: leads.then(String::new), is_founded };
        for (cluster, has_secret) in [(None, false), (None, true), (own, false), (own, true)] {
            for is_founded in [false, true] {
                assert_eq!(stance(&seen(true, is_founded), cluster, has_secret), Stance::Follows);
            }
        }
        assert_eq!(stance(&seen(false, false), None, false), Stance::Campaigns, "it founds one");
        assert_eq!(stance(&seen(false, true), own, true), Stance::Campaigns);
        assert_eq!(stance(&seen(false, true), None, true), Stance::Campaigns, "a founder that died at once");
        let waits = |seen: &Seen, cluster, has_secret| {
            let Stance::Waits(why) = stance(seen, cluster, has_secret) else { panic!("it waits") };
            why
        };
        assert!(waits(&seen(false, false), own, true).contains("--metadata"), "it founds no second one");
        assert!(waits(&seen(false, true), None, false).contains("start a member"));
    }

    #[test]
    fn an_announcement_names_both_addresses() {
        let text = r#"{"bus_addr":"10.0.0.1:16379","client_addr":"10.0.0.1:6379"}"#;
        let announced: Announced = serde_json::from_str(text).unwrap();
        assert_eq!(announced.bus_addr.to_string(), "10.0.0.1:16379");
        assert_eq!(serde_json::to_string(&announced).unwrap(), text);
    }
}
