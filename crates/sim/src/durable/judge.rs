//! What a durable log has is what its node had when one of its commits was taken, whole (U1, U2): after a
//! death, and whenever it is read beside the running node. No safe commit is lost, unless the machine died,
//! and its log is not synced with each commit; no synced commit is lost at all.

use sidle_outline::{Large, Order};
use sidle_store::Store;
use sidle_types::{CommitNumber, KeyHash, PositionRange, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a death left of a durable log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Whether commits were lost that replies had shown, as the mode allows.
    pub(crate) loses_safe: bool,
}

/// What a store has: by key, the digest of its value; in the order of the keys' hashes.
type Content = Arc<Vec<(u64, u64)>>;

/// What is known of a key.
#[derive(Debug)]
struct Known {
    name: Vec<u8>,
    version: Version,
    digest: u64,
}

/// The judge of one machine's durable log.
#[derive(Debug, Default)]
pub(crate) struct DurableJudge {
    /// What the store had when each commit was taken, from the last synced one on. `None`: a flush was under
    /// way, of which readers see parts and the log has nothing (U4).
    contents: BTreeMap<CommitNumber, Option<Content>>,
    /// Keys by their hashes.
    known: BTreeMap<u64, Known>,
    synced: CommitNumber,
    safe: CommitNumber,
    /// Whether the machine died since the last process began with the log.
    machine_died: bool,
    /// Whether records come from other nodes, too, whose versions say nothing here.
    is_in_cluster: bool,
}

impl DurableJudge {
    /// The judge of a node that has others beside it, or not.
    pub(crate) fn new(is_in_cluster: bool) -> DurableJudge {
        DurableJudge { is_in_cluster, ..DurableJudge::default() }
    }

    /// This commit was taken. One without records is not written: what the store has is what the last one
    /// `written` has.
    pub(crate) fn taken(&mut self, commit: CommitNumber, written: Option<CommitNumber>, store: &Store) {
        let is_whole = store.commits().is_some_and(|commits| commits.is_whole(commit));
        match written {
            Some(_) if !is_whole => {}
            _ => {
                let content = is_whole.then(|| Arc::new(self.content_of(store, true)));
                self.contents.insert(written.unwrap_or(commit), content);
            }
        }
    }

    /// Everything up to this commit is synced.
    pub(crate) fn synced(&mut self, commit: CommitNumber) {
        self.synced = self.synced.max(commit);
        self.forget();
    }

    /// What is older than everything that a death may leave is not needed any more.
    fn forget(&mut self) {
        let kept = self.synced.min(self.safe);
        while let Some(second) = self.contents.keys().nth(1)
            && *second <= kept
        {
            self.contents.pop_first();
        }
    }

    /// Replies may show everything up to this commit.
    pub(crate) fn safe(&mut self, commit: CommitNumber) {
        self.safe = self.safe.max(commit);
        self.forget();
    }

    /// A process has begun with what the log has up to this commit, all of it synced.
    pub(crate) fn resumed(&mut self, last: CommitNumber, store: &Store) {
        self.known.clear();
        self.contents.clear();
        let content = Arc::new(self.content_of(store, true));
        self.contents.insert(last, Some(content));
        (self.synced, self.safe, self.machine_died) = (last, last, false);
    }

    /// Whether the machine has died, now or in a death before, since the last process began with the log.
    pub(crate) fn machine_has_died(&mut self, now: bool) -> bool {
        self.machine_died |= now;
        self.machine_died
    }

    /// What a death left of the log up to this commit.
    pub(crate) fn check_left(
        &mut self,
        last: CommitNumber,
        store: &Store,
        machine_died: bool,
    ) -> Result<Left, String> {
        let least = if machine_died { self.synced } else { self.safe };
        // Commits without records are not written.
        let is_written = |commit: CommitNumber| self.contents.range(..=commit).next_back().map(|(at, _)| *at);
        if is_written(last) < is_written(least) {
            let what = format!("commits up to {} are to be there, and it ends with {}", least.0, last.0);
            return Err(what);
        }
        let loses_safe = is_written(last) < is_written(self.safe);
        self.compare(last, store)?;
        Ok(Left { loses_safe })
    }

    /// A copy of the log that counts, up to this commit.
    pub(crate) fn check_copy(&mut self, last: CommitNumber, store: &Store) -> Result<(), String> {
        self.check_left(last, store, false).map(|_| ())
    }

    /// The log as it was written, up to this commit.
    pub(crate) fn check_all(&mut self, last: CommitNumber, store: &Store) -> Result<(), String> {
        if self.contents.keys().next_back().is_some_and(|newest| *newest > last) {
            let what = format!("it ends with commit {} though later ones are written", last.0);
            return Err(what);
        }
        self.compare(last, store)
    }

    /// Compares what was read up to a commit to what the node had when it was taken.
    fn compare(&mut self, last: CommitNumber, store: &Store) -> Result<(), String> {
        let read = self.content_of(store, false);
        let nothing = Some(Content::default());
        let had = self.contents.range(..=last).next_back().map_or(&nothing, |(_, content)| content);
        let is_as_it_was = |had: &Content| **had == read;
        if had.as_ref().is_none_or(is_as_it_was) {
            return store.check_accounting().map_err(|what| format!("the accounts of what was read: {what}"));
        }
        let (had, read): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (had.iter().flat_map(|had| had.iter()).copied().collect(), read.into_iter().collect());
        let keys = had.keys().chain(read.keys());
        let differs = keys.copied().find(|key| had.get(key) != read.get(key)).unwrap_or_default();
        let name = self.known.get(&differs).map_or("?".into(), |key| String::from_utf8_lossy(&key.name));
        let how = match (had.contains_key(&differs), read.contains_key(&differs)) {
            (true, true) => "has another value than it had",
            (true, false) => "is missing",
            _ => "was removed, and is back",
        };
        Err(format!("read up to commit {}, key {name} {how}", last.0))
    }

    /// What a store has. `is_live`: it is the running node's, whose versions tell what has changed, if it is
    /// alone.
    fn content_of(&mut self, store: &Store, is_live: bool) -> Vec<(u64, u64)> {
        let mut content = Vec::with_capacity(store.len() as usize);
        let all = PositionRange::ALL;
        let guard = store.pin();
        store.visit(all.first(), all.last(), usize::MAX, &mut |record| {
            let key = record.hashed_key();
            let (hash, version) = (key.hash().0, guard.version_of(record));
            let known = self.known.get(&hash);
            let tells = is_live && !self.is_in_cluster;
            if let Some(known) = known.filter(|known| tells && Some(known.version) == version) {
                content.push((hash, known.digest));
                return;
            }
            let mut digest = Digest(record.kind() as u64);
            digest.add(&record.expires_at().map_or(0, |at| at.0).to_le_bytes());
            match guard.get_whole(key).1 {
                Some(outline) => {
                    let large = Large::new(&outline, &guard);
                    for order in Order::ALL {
                        for (chunk, elements) in large.iter_from(order, 0) {
                            digest.add(&chunk.label.to_le_bytes());
                            digest.add(elements);
                        }
                    }
                }
                None => digest.add(record.value()),
            }
            if let Some(version) = version.filter(|_| is_live || known.is_none()) {
                // Of a store that was read, for the name only.
                let version = if is_live { version } else { Version(u64::MAX) };
                self.known.insert(hash, Known { name: key.bytes().to_vec(), version, digest: digest.0 });
            }
            content.push((hash, digest.0));
        });
        content.sort_unstable();
        content
    }
}

struct Digest(u64);

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = (self.0.rotate_left(7) ^ KeyHash::of_key(bytes).0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
