//! All copies of a log: which count, what is safe, and what is to be changed about that.

use crate::backup_id::BackupId;
use crate::held_up::{Reached, Waits};
use crate::lease::Leases;
use crate::link::{Counting, Link, Sent};
use crate::own::OwnFiles;
use crate::settings::Settings;
use sidle_types::{CommitNumber, MonotonicUs, fault};
use sidle_wire::{Place, Tail, ToWriter};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How often the rest of a node that is left out doubles.
const MOST_DOUBLINGS: u32 = 6;

/// The coordinator's record of a log's copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The log's epoch.
    pub epoch: u64,
    /// The copies that count, besides the one where the log is written.
    pub backups: BTreeSet<BackupId>,
    /// The log may be taken over when its writer is gone for so long, in milliseconds.
    pub takeover_after_ms: Option<u64>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Connect to a backup.
    Connect(BackupId),
    /// Close the connection to it.
    Close(BackupId),
    /// Compare the log's file with what a copy has of it; [`Copies::compared`] takes the result.
    Compare(BackupId, Tail),
    /// Have the coordinator decide this, if its record is of the epoch before.
    Propose(Record),
}

/// The copies of the log that this node writes.
#[derive(Debug)]
pub struct Copies {
    settings: Settings,
    own: OwnFiles,
    /// The last commit of earlier lives of this node: it may have been safe.
    begun_behind: CommitNumber,
    /// What the log has made safe here, and what it has synced.
    safe_here: CommitNumber,
    synced_here: CommitNumber,
    record: Record,
    /// A change that is not decided (Y3).
    proposed: Option<Record>,
    nodes: Vec<BackupId>,
    /// The connections, by backup.
    links: BTreeMap<BackupId, Link>,
    connecting: BTreeSet<BackupId>,
    /// Backups that were left out, and until when.
    resting: BTreeMap<BackupId, MonotonicUs>,
    /// How often in a row they were.
    failures: BTreeMap<BackupId, u32>,
    /// Since when a copy is up to date, again and again.
    caught_up: BTreeMap<BackupId, MonotonicUs>,
    events: VecDeque<Event>,
    leases: Leases,
    /// What all copies that count have.
    safe: CommitNumber,
    /// What waits to be safe.
    waits: Waits,
    /// The last copy is to be left out once the log is synced.
    wants_to_stand_alone: bool,
    /// No copy is to count before that is decided.
    stands_alone_first: bool,
    /// What was known of the record is lost: whatever it is, it is this writer's.
    adopts_record: bool,
    /// Behind this epoch the first record of a new log comes: the coordinator's was of another one.
    behind: u64,
    is_deposed: bool,
}

impl Copies {
    /// The copies of a log that has these files, up to this commit, whose record is this one. `proposed`: a
    /// change that an earlier life of the writer proposed, and that may be decided.
    pub fn new(
        settings: Settings,
        own: OwnFiles,
        last: CommitNumber,
        record: Record,
        proposed: Option<Record>,
    ) -> Copies {
        let proposed = proposed.filter(|proposed| proposed.epoch > record.epoch);
        let mut copies = Copies {
            settings,
            own,
            begun_behind: last,
            safe_here: last,
            synced_here: last,
            record,
            proposed: proposed.clone(),
            nodes: Vec::new(),
            links: BTreeMap::new(),
            connecting: BTreeSet::new(),
            resting: BTreeMap::new(),
            failures: BTreeMap::new(),
            caught_up: BTreeMap::new(),
            events: VecDeque::new(),
            leases: Leases::default(),
            safe: CommitNumber(0),
            waits: Waits::default(),
            wants_to_stand_alone: false,
            stands_alone_first: false,
            adopts_record: false,
            behind: 0,
            is_deposed: false,
        };
        copies.own.begin_with(last);
        // They may be there still. Who is not is left out.
        let named = proposed.iter().chain([&copies.record]).flat_map(|record| &record.backups);
        copies.connecting = named.copied().collect();
        copies.events.extend(copies.connecting.iter().map(|&backup| Event::Connect(backup)));
        copies.events.extend(proposed.map(Event::Propose));
        copies
    }

    /// The copies that count were synced otherwise than the settings say: first none counts, and then they
    /// join again.
    pub fn stand_alone_first(&mut self) {
        self.stands_alone_first = true;
    }

    /// What was known of the record is lost: the first one that is decided is this writer's. It asks for one
    /// without copies, and learns the one that there is.
    pub fn adopt_record(&mut self) {
        self.adopts_record = true;
        let record = Record { epoch: self.record.epoch + 1, ..Record::default() };
        self.events.push_back(Event::Propose(record.clone()));
        self.proposed = Some(record);
    }

    /// The last commit that all copies that count have (Y1).
    pub fn safe(&self) -> CommitNumber {
        self.safe
    }

    /// If no commit has come nearer to being safe for too long: the copies that count, or whose change is not
    /// decided, and lack what waits. None of them: this node itself has not synced it.
    pub fn held_up(&self) -> Option<BTreeSet<BackupId>> {
        let lacks = |backup: &BackupId| {
            let link = self.links.get(backup).filter(|link| link.follows());
            link.is_none_or(|link| self.own.commit_at(self.place_of(link)) < self.safe_here)
        };
        let counting = self.proposed.iter().chain([&self.record]).flat_map(|record| &record.backups);
        self.waits.are_long().then(|| counting.copied().filter(lacks).collect())
    }

    /// The record, as last decided.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Whether another one writes the log.
    pub fn is_deposed(&self) -> bool {
        self.is_deposed
    }

    /// A backup counts, or an undecided change names it.
    fn counts(&self, backup: BackupId) -> bool {
        let is_proposed = self.proposed.as_ref().is_some_and(|record| record.backups.contains(&backup));
        self.record.backups.contains(&backup) || is_proposed
    }

    /// What is to be made of what is at a backup.
    fn counting(&self, backup: BackupId) -> Counting {
        let mut named = self.proposed.iter().chain([&self.record]).flat_map(|record| &record.backups);
        match self.counts(backup) {
            true => Counting::Counts,
            false if named.any(|other| other.node == backup.node) => Counting::CountsAsEarlier,
            false => Counting::No,
        }
    }

    /// The settings want leases, or a record has the log taken over by some.
    fn is_leased(&self) -> bool {
        self.settings.takeover_after_ms.is_some() || self.may_be_taken_over()
    }

    fn may_be_taken_over(&self) -> bool {
        self.proposed.iter().chain([&self.record]).any(|record| record.takeover_after_ms.is_some())
    }

    /// Until when nobody takes the log over (Y10): who takes it over reads one copy that counts, once that
    /// one's promise is over. Without leases, and where no copy counts, for ever.
    pub fn lease_until(&self) -> MonotonicUs {
        if (self.is_deposed || self.adopts_record) && self.is_leased() {
            return MonotonicUs(0);
        }
        if !self.may_be_taken_over() {
            return MonotonicUs(u64::MAX);
        }
        let counting = self.proposed.iter().chain([&self.record]).flat_map(|record| &record.backups);
        counting.map(|backup| self.leases.of(*backup)).min().unwrap_or(MonotonicUs(u64::MAX))
    }

    /// The nodes that can be backups, the ones to be taken first in front. This node is none of them. A copy
    /// elsewhere goes over to one that comes first, once nothing else is to be done.
    pub fn set_nodes(&mut self, now: MonotonicUs, nodes: Vec<BackupId>) {
        self.failures.retain(|backup, _| nodes.contains(backup));
        self.nodes = nodes;
        self.judge(now);
    }

    /// The log was written up to here; `commit` ends here. `safe_here`: what it has made safe itself.
    pub fn written(&mut self, now: MonotonicUs, to: Place, commit: Option<CommitNumber>) {
        if self.own.written(to, commit) {
            let backups: Vec<BackupId> =
                self.links.iter().filter(|(_, link)| link.has_of(to.file)).map(|(id, _)| *id).collect();
            backups.into_iter().for_each(|backup| self.leave(now, backup));
        }
        self.judge(now);
    }

    /// The log has made everything up to this commit safe, as far as this node goes; `synced`: its disk has
    /// everything up to there.
    pub fn safe_here(&mut self, now: MonotonicUs, commit: CommitNumber, synced: CommitNumber) {
        (self.safe_here, self.synced_here) = (commit, synced);
        self.own.safe_here(commit);
        self.judge(now);
    }

    /// The oldest file of the log is gone.
    pub fn removed(&mut self, file: u64) {
        self.own.removed(file);
    }

    /// A connection that was asked for is there.
    pub fn connected(&mut self, backup: BackupId) {
        if self.connecting.remove(&backup) {
            self.links.insert(backup, Link::new());
        } else {
            self.events.push_back(Event::Close(backup));
        }
    }

    /// A connection has ended, or could not be made.
    pub fn lost(&mut self, now: MonotonicUs, backup: BackupId) {
        self.connecting.remove(&backup);
        self.links.remove(&backup);
        let failures = self.failures.entry(backup).or_default();
        let lasted_us = self.caught_up.remove(&backup).map_or(0, |since| now.since(since));
        if lasted_us >= self.settings.rest_us << (*failures + 2) {
            *failures = 0;
        }
        // What was sent to it before may still be on its way, and in the way.
        self.resting.insert(backup, now.plus_us(self.settings.rest_us << *failures));
        *failures = (*failures + 1).min(MOST_DOUBLINGS);
        self.judge(now);
    }

    /// A backup has answered.
    pub fn receive(&mut self, now: MonotonicUs, backup: BackupId, answer: ToWriter<'_>) {
        if let ToWriter::Deposed(epoch) = answer {
            // It may know of this writer's own change, which is decided, or was while this was under way.
            let own = self.proposed.as_ref().map_or(self.record.epoch, |proposed| proposed.epoch);
            self.is_deposed |= epoch > own && !self.adopts_record;
            self.leave(now, backup);
            return;
        }
        let Some(link) = self.links.get_mut(&backup) else { return };
        let makes_sense = link.receive(now, answer, &self.own).is_some();
        if let Some(sent_at) = link.answered_of().filter(|_| makes_sense) {
            self.leases.note(backup, sent_at);
        }
        if !makes_sense {
            self.leave(now, backup);
        } else if link.follows() && link.written() == self.own.end() {
            self.caught_up.entry(backup).or_insert(now);
        } else if let Some(tail) = link.to_compare() {
            self.events.push_back(Event::Compare(backup, tail));
        }
        self.judge(now);
    }

    /// Whether the log's file begins as a copy's.
    pub fn compared(&mut self, now: MonotonicUs, backup: BackupId, is_same: bool) {
        let counting = self.counting(backup);
        if let Some(link) = self.links.get_mut(&backup) {
            link.compared(is_same, counting, &self.own);
        }
        self.judge(now);
    }

    /// The coordinator's record is this now.
    pub fn decided(&mut self, now: MonotonicUs, record: Record) {
        if record.epoch <= self.record.epoch {
            return;
        }
        let is_own = self.proposed.take().is_some_and(|proposed| proposed == record);
        // One that was refused for what was not known to be decided can go on at once.
        self.resting.retain(|backup, _| !record.backups.contains(backup));
        self.stands_alone_first &= !record.backups.is_empty();
        self.record = record;
        if !std::mem::take(&mut self.adopts_record) && !is_own {
            self.is_deposed = true;
        }
        self.judge(now);
    }

    /// The coordinator's record is of another log, at this epoch. A new log's copies begin behind that; one
    /// whose copies were decided before is not this node's any more.
    pub fn begin_behind(&mut self, now: MonotonicUs, epoch: u64) {
        if !self.record.backups.is_empty() {
            self.is_deposed = true;
        } else if epoch > self.record.epoch.max(self.behind) {
            // The copies learn of it with that record (Y16).
            self.behind = epoch;
            // No copy counts.
            self.proposed = None;
            self.stands_alone_first = false;
            self.judge(now);
        }
    }

    /// What is to be sent next, and to whom. Nobody whose connection `is_full`.
    pub fn poll_transmit(
        &mut self,
        now: MonotonicUs,
        is_full: impl Fn(BackupId) -> bool,
    ) -> Option<(BackupId, Sent)> {
        let backups: Vec<BackupId> = self.links.keys().copied().filter(|id| !is_full(*id)).collect();
        for backup in backups {
            let (counting, epoch) = (self.counting(backup), self.record.epoch);
            let settings = self.settings;
            let link = self.links.get_mut(&backup)?;
            match link.next(now, epoch, counting, &self.own, &settings) {
                Ok(Some(sent)) => {
                    if link.goes() {
                        // Behind that.
                        self.links.remove(&backup);
                        self.events.push_back(Event::Close(backup));
                    }
                    return Some((backup, sent));
                }
                Ok(None) => {}
                // It is followed again once a change without it is decided.
                Err(()) => self.leave(now, backup),
            }
        }
        None
    }

    /// What is to be done next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Copies::pass_time`] if nothing else happens.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let patience_us = self.settings.patience_us;
        let answers = self.links.values().filter_map(|link| Some(link.waits_since()?.plus_us(patience_us)));
        let beats = self.links.values().filter(|_| self.is_leased()).filter_map(Link::poll_beat);
        let held_up = self.waits.due(self.settings.refuses_after_us);
        answers.chain(self.resting.values().copied()).chain(beats).chain(held_up).min()
    }

    /// Time has passed.
    pub fn pass_time(&mut self, now: MonotonicUs) {
        let patience_us = self.settings.patience_us;
        let is_over = |link: &Link| link.waits_since().is_some_and(|since| now.since(since) >= patience_us);
        let slow: Vec<BackupId> =
            self.links.iter().filter(|(_, link)| is_over(link)).map(|(id, _)| *id).collect();
        slow.into_iter().for_each(|backup| self.leave(now, backup));
        self.resting.retain(|_, until| *until > now);
        self.leases.pass_time(now);
        if self.is_leased() {
            self.links.values_mut().for_each(|link| link.pass_time(now));
        }
        self.judge(now);
    }

    fn leave(&mut self, now: MonotonicUs, backup: BackupId) {
        self.events.push_back(Event::Close(backup));
        self.lost(now, backup);
    }

    /// Sees what is safe, and whom to follow, and what to propose.
    fn judge(&mut self, now: MonotonicUs) {
        self.judge_safe(now);
        self.connect(now);
        self.propose(now);
    }

    /// Y9: whether the log itself is to have synced what is safe: no copy may count.
    fn stands_alone(&self) -> bool {
        let mut records = self.proposed.iter().chain([&self.record]);
        self.settings.syncs && records.any(|record| record.backups.is_empty()) && !fault!(LogStandsInUnsynced)
    }

    /// The commit up to which the log itself is to be synced, if anything waits for that.
    pub fn wanted_synced(&self) -> Option<CommitNumber> {
        let waits = self.settings.syncs && (self.stands_alone() || self.wants_to_stand_alone);
        (waits && self.synced_here < self.safe_here).then_some(self.safe_here)
    }

    fn judge_safe(&mut self, now: MonotonicUs) {
        let undecided = self.proposed.iter().flat_map(|record| &record.backups);
        let undecided = undecided.filter(|_| !fault!(UndecidedCopyDoesNotCount));
        let mut safe = if self.stands_alone() { self.synced_here } else { self.safe_here };
        let mut copied: Option<Place> = None;
        for backup in self.record.backups.iter().chain(undecided) {
            let there = match self.links.get(backup).filter(|link| link.follows()) {
                Some(link) => self.place_of(link),
                None if fault!(LostCopyDoesNotCount) => continue,
                None => Place::default(),
            };
            safe = safe.min(self.own.commit_at(there));
            copied = Some(copied.map_or(there, |copied| copied.min(there)));
        }
        self.safe = self.safe.max(safe);
        self.own.forget_ends(self.safe);
        let reached = Reached { safe: self.safe, copied: copied.unwrap_or_default() };
        self.waits.note(now, self.safe < self.safe_here, reached, self.settings.refuses_after_us);
    }

    /// Up to where a copy has what was sent.
    fn place_of(&self, link: &Link) -> Place {
        if self.settings.syncs { link.synced() } else { link.written() }
    }

    fn is_resting(&self, backup: BackupId, now: MonotonicUs) -> bool {
        self.resting.get(&backup).is_some_and(|&until| until > now)
    }

    /// Connects to the copies that count, and to as many others as are wanted.
    fn connect(&mut self, now: MonotonicUs) {
        if self.is_deposed {
            return;
        }
        self.close_spare(now);
        let taken = |copies: &Copies, backup: BackupId| {
            copies.links.contains_key(&backup) || copies.connecting.contains(&backup)
        };
        let mut missing = self.settings.wanted;
        let mut others = Vec::new();
        for &backup in &self.nodes {
            if taken(self, backup) {
                missing = missing.saturating_sub(1);
            } else if !self.is_resting(backup, now) {
                others.push(backup);
            }
        }
        // Those that count come first: what they have is not sent again.
        others.sort_by_key(|backup| !self.counts(*backup));
        let to = self.moves_to(now).filter(|to| !taken(self, *to));
        for backup in others.into_iter().take(missing).chain(to) {
            self.connecting.insert(backup);
            self.events.push_back(Event::Connect(backup));
        }
    }

    /// The nodes that come first: so all nodes have about as many copies, if each keeps to that.
    fn places(&self) -> &[BackupId] {
        &self.nodes[..self.nodes.len().min(self.settings.wanted)]
    }

    /// The node that is to have the copy of one that does not come first. One at a time, and only where there
    /// are as many copies as wanted, and all of them follow.
    fn moves_to(&self, now: MonotonicUs) -> Option<BackupId> {
        let is_free = |id: &&BackupId| !self.record.backups.contains(*id) && !self.is_resting(**id, now);
        self.places().iter().find(is_free).copied().filter(|_| self.is_complete())
    }

    /// The record's copies, one of which has gone over to this node.
    fn moved_to(&self, to: BackupId) -> BTreeSet<BackupId> {
        let mut backups = self.record.backups.clone();
        let comes_last = |backup: &BackupId| self.nodes.iter().position(|node| node == backup);
        let from = backups.iter().copied().max_by_key(|backup| comes_last(backup).unwrap_or(usize::MAX));
        if let Some(from) = from {
            backups.remove(&from);
        }
        backups.insert(to);
        backups
    }

    /// Closes what neither counts nor is wanted.
    fn close_spare(&mut self, now: MonotonicUs) {
        let most = self.settings.wanted.saturating_sub(self.connecting.len());
        let to = self.moves_to(now);
        let is_spare = |id: &BackupId| !self.counts(*id) && Some(*id) != to;
        let spare: Vec<BackupId> = self.links.keys().copied().filter(is_spare).collect();
        let is_unneeded = self.is_complete();
        for backup in spare.into_iter().rev().take(self.links.len().saturating_sub(most)) {
            match self.links.get_mut(&backup) {
                Some(link) if is_unneeded && link.follows() => link.give_up_copy(),
                Some(link) if link.goes() => {}
                _ => {
                    self.links.remove(&backup);
                    self.events.push_back(Event::Close(backup));
                }
            }
        }
    }

    /// Whether as many copies count as are wanted, all of them follow, and nothing else is to be decided.
    fn is_complete(&self) -> bool {
        let counted = &self.record.backups;
        let follows = |backup: &BackupId| self.links.get(backup).is_some_and(Link::follows);
        let is_settled = self.proposed.is_none() && !self.stands_alone_first && !self.is_deposed;
        is_settled && counted.len() == self.settings.wanted && counted.iter().all(follows)
    }

    /// Y3: one change at a time.
    fn propose(&mut self, now: MonotonicUs) {
        if self.proposed.is_some() || self.is_deposed {
            return;
        }
        let has_all = |backup: &BackupId| {
            let link = self.links.get(backup).filter(|link| link.follows())?;
            let has = self.own.commit_at(self.place_of(link));
            let place = self.place_of(link);
            // One that counts has something, so that a start can tell one that lost it.
            let is_any = place > Place::default();
            let is_whole = is_any && place >= link.whole_at() && has >= self.safe.max(self.begun_behind);
            // Else replies would wait for its promise.
            let is_promised = !self.is_leased() || self.leases.of(*backup) > now;
            (is_promised && (is_whole || fault!(JoinsBeforeItHasEverything))).then_some(())
        };
        let stays = |backup: &&BackupId| self.links.contains_key(backup) || self.connecting.contains(backup);
        let mut backups: BTreeSet<BackupId> = self.record.backups.iter().filter(stays).copied().collect();
        let joins = self.links.keys().filter(|backup| has_all(backup).is_some());
        let missing = self.settings.wanted.saturating_sub(backups.len());
        let joins: Vec<BackupId> =
            joins.filter(|backup| !backups.contains(backup)).copied().take(missing).collect();
        backups.extend(joins);
        if let Some(to) = self.moves_to(now).filter(|to| has_all(to).is_some()) {
            backups = self.moved_to(to);
        }
        let most = if self.stands_alone_first { 0 } else { self.settings.wanted };
        while backups.len() > most {
            backups.pop_last();
        }
        // Y9
        let is_sound = self.synced_here >= self.safe || !self.settings.syncs || fault!(LogStandsInUnsynced);
        self.wants_to_stand_alone = backups.is_empty() && !is_sound;
        let takeover_after_ms = self.settings.takeover_after_ms;
        let is_set_anew = !backups.is_empty() && takeover_after_ms != self.record.takeover_after_ms;
        if (backups != self.record.backups || is_set_anew) && !self.wants_to_stand_alone {
            let epoch = self.record.epoch.max(self.behind) + 1;
            let record = Record { epoch, backups, takeover_after_ms };
            self.events.push_back(Event::Propose(record.clone()));
            self.proposed = Some(record);
        }
    }
}
