//! The last tablet map used by this node, kept in the data directory for its next incarnation.
//!
//! Purpose: a node that restarts while the coordinator is away knows the owners, so that cluster clients
//! that ask it find the healthy nodes. It shows the map, and serves nothing by it.
//!
//! The file is written aside and renamed, on a thread of its own: the control thread has range tables to
//! publish. It is not synced: every node would have to sync each change of the map, and the
//! coordinator's commits would wait for the same disk. A power failure within the half minute before the
//! system writes it out loses the file. A file that is unreadable, or not of this node, its
//! cluster and an earlier incarnation, is left alone with a warning.
//!
//! Ownership: the control thread reads it once at the start, the keeper's thread writes it.

use crate::data_dir::{DataDir, Identity, Sync, read_file};
use serde::{Deserialize, Serialize};
use sidle_cluster::{ClusterId, TabletMap};
use sidle_types::{NodeId, Speaks};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The version of the file's format.
const FORMAT: u32 = 1;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
// Another version may have written it: what a later one adds is ignored, unless its format is another.
pub(crate) struct LastMap {
    format: u32,
    node: NodeId,
    cluster: ClusterId,
    /// The incarnation of the node that used the map.
    starts: u64,
    /// The node whose process ran the coordinator, if known.
    pub(crate) coordinator: Option<NodeId>,
    pub(crate) map: Arc<TabletMap>,
}

impl LastMap {
    /// The map that this incarnation uses; `None` while the node belongs to no cluster.
    pub(crate) fn new(
        identity: &Identity,
        coordinator: Option<NodeId>,
        map: Arc<TabletMap>,
    ) -> Option<LastMap> {
        let cluster = identity.cluster?;
        Some(LastMap {
            format: FORMAT,
            node: identity.node,
            cluster,
            starts: identity.starts,
            coordinator,
            map,
        })
    }

    /// An earlier incarnation's map, if it is usable.
    pub(crate) fn load(data_dir: &DataDir, identity: &Identity) -> Option<LastMap> {
        let path = data_dir.last_map_path();
        let read = match read_file(&path) {
            Ok(text) => serde_json::from_slice::<LastMap>(&text).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => Err(error.to_string()),
        };
        match read.and_then(|last| last.check(identity).map(|()| last)) {
            Ok(last) => Some(last),
            Err(why) => {
                tracing::warn!(
                    "{} is ignored ({why}): until this node has joined, it knows no other node",
                    path.display()
                );
                None
            }
        }
    }

    /// What is wrong with it, for a node with this identity.
    fn check(&self, identity: &Identity) -> Result<(), String> {
        let LastMap { format, node, cluster, starts, map, .. } = self;
        let ensure = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
        ensure(*format == FORMAT, format!("its format is {format}, this version reads {FORMAT}"))?;
        ensure(*node == identity.node, format!("it is of node {node}"))?;
        ensure(Some(*cluster) == identity.cluster, format!("it is of cluster {cluster}"))?;
        ensure(*starts < identity.starts, format!("it is of incarnation {starts}, which has not been yet"))?;
        Speaks::THIS_BUILD.check(map.version())?;
        ensure(map.node(*node).is_some(), "this node is no member by it".to_owned())
    }
}

/// Writes the newest map given to it.
pub(crate) struct MapKeeper {
    data_dir: Arc<DataDir>,
    /// Whether the newest map that was written should be in the data directory.
    is_written: Arc<AtomicBool>,
    maps: Option<Sender<LastMap>>,
    thread: Option<JoinHandle<()>>,
}

impl MapKeeper {
    /// Starts the thread.
    pub(crate) fn start(data_dir: Arc<DataDir>) -> io::Result<MapKeeper> {
        let (maps, queue) = channel();
        let is_written = Arc::new(AtomicBool::new(false));
        let (dir, written) = (Arc::clone(&data_dir), Arc::clone(&is_written));
        let thread = crate::thread::start("map-keeper".to_owned(), move || keep(&dir, &queue, &written))?;
        Ok(MapKeeper { data_dir, is_written, maps: Some(maps), thread: Some(thread) })
    }

    /// Whether the written map has gone from the data directory and must be kept anew; reported once.
    pub(crate) fn has_lost_it(&self) -> bool {
        self.is_written.load(Ordering::Acquire)
            && !self.data_dir.last_map_path().exists()
            && self.is_written.swap(false, Ordering::AcqRel)
    }

    /// Queues a map for writing; a newer one replaces it until its turn.
    pub(crate) fn keep(&self, map: LastMap) {
        if let Some(maps) = &self.maps {
            // The thread ends only with the keeper.
            let _ = maps.send(map);
        }
    }
}

impl Drop for MapKeeper {
    /// Every queued map is written when this returns.
    fn drop(&mut self) {
        self.maps = None;
        if let Some(thread) = self.thread.take() {
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }
}

fn keep(data_dir: &DataDir, queue: &Receiver<LastMap>, is_written: &AtomicBool) {
    while let Ok(first) = queue.recv() {
        let newest = queue.try_iter().last().unwrap_or(first);
        let text = serde_json::to_vec(&newest).expect("a map has string keys and plain values only");
        match data_dir.replace(&data_dir.last_map_path(), &text, Sync::Later) {
            Ok(_) => is_written.store(true, Ordering::Release),
            Err(error) => tracing::error!("{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_cluster::{Incarnation, NodeInfo};
    use sidle_types::ProtocolVersion;

    fn identity(node: u8, starts: u64) -> Identity {
        Identity {
            node: NodeId::from_bytes([node; 20]),
            starts,
            cluster: Some(ClusterId::from_bits(7)),
            found_at: Vec::new(),
            log: None,
        }
    }

    fn last(identity: &Identity) -> LastMap {
        let info = NodeInfo {
            id: identity.node,
            incarnation: Incarnation(identity.starts),
            client_addr: "127.0.0.1:1".parse().unwrap(),
            bus_addr: "127.0.0.1:2".parse().unwrap(),
        };
        let map = Arc::new(TabletMap::founded_by(info));
        LastMap::new(identity, Some(identity.node), map).unwrap()
    }

    #[test]
    fn a_later_life_reads_what_an_earlier_one_used() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Arc::new(DataDir::open(folder.path()).unwrap());
        assert_eq!(LastMap::load(&dir, &identity(1, 2)), None, "there is none yet");
        let kept = last(&identity(1, 1));
        let keeper = MapKeeper::start(Arc::clone(&dir)).unwrap();
        keeper.keep(last(&identity(3, 1)));
        keeper.keep(kept.clone());
        drop(keeper);
        assert_eq!(LastMap::load(&dir, &identity(1, 2)), Some(kept));
    }

    #[test]
    fn a_map_that_has_gone_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Arc::new(DataDir::open(folder.path()).unwrap());
        let keeper = MapKeeper::start(Arc::clone(&dir)).unwrap();
        assert!(!keeper.has_lost_it(), "there is none yet");
        for _ in 0..2 {
            keeper.keep(last(&identity(1, 1)));
            while !keeper.is_written.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert!(!keeper.has_lost_it());
            std::fs::remove_file(dir.last_map_path()).unwrap();
            assert!(keeper.has_lost_it() && !keeper.has_lost_it());
        }
    }

    #[test]
    fn what_is_not_of_this_node_and_an_earlier_life_is_ignored() {
        let good = last(&identity(1, 4));
        assert_eq!(good.check(&identity(1, 5)), Ok(()));
        assert!(good.check(&identity(1, 4)).is_err(), "of an incarnation that is not over");
        assert!(good.check(&identity(2, 5)).is_err(), "of another node");
        assert!(good.check(&Identity { cluster: None, ..identity(1, 5) }).is_err(), "of another cluster");
        assert!(LastMap { format: 2, ..good.clone() }.check(&identity(1, 5)).is_err());
        let later = ProtocolVersion(ProtocolVersion::CURRENT.0 + 1);
        let unread = Arc::new(TabletMap::clone(&good.map).in_version(later));
        let unread = LastMap { map: unread, ..good.clone() }.check(&identity(1, 5));
        assert!(unread.is_err_and(|why| why.contains("speaks version 5")), "in a version that is not spoken");
        let foreign = last(&identity(9, 4)).map;
        assert!(LastMap { map: foreign, ..good }.check(&identity(1, 5)).is_err(), "no member");
    }

    #[test]
    fn what_a_later_program_writes_besides_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let text = serde_json::to_string(&last(&identity(1, 1))).unwrap();
        std::fs::write(dir.last_map_path(), text.replacen('{', r#"{"unheard_of":1,"#, 1)).unwrap();
        assert_eq!(LastMap::load(&dir, &identity(1, 2)), Some(last(&identity(1, 1))));
    }

    #[test]
    fn what_is_damaged_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let whole = serde_json::to_vec(&last(&identity(1, 1))).unwrap();
        for text in [&whole[..whole.len() / 2], b"", b"{}", b"\xff\x00"] {
            std::fs::write(dir.last_map_path(), text).unwrap();
            assert_eq!(LastMap::load(&dir, &identity(1, 2)), None);
        }
    }
}
