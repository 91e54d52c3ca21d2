//! Named faults, which tests put back one by one to prove that a checker detects each of them.
//!
//! A fault is one condition, [`fault!`](crate::fault), where the real mistake would be made. It has a line in
//! the list below, and a story in the tests of its crate: a scenario that fails with it and holds without.
//! Without the feature `faults` nothing can be put back, and every condition is false at compile time.

#[cfg(feature = "faults")]
use std::cell::Cell;
#[cfg(feature = "faults")]
use std::marker::PhantomData;

/// A fault's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The package of its code, and of the tests with its story.
    pub package: &'static str,
    /// Its display name.
    pub name: &'static str,
    /// What is wrong, and which invariant that breaks.
    pub what: &'static str,
    /// Within how many seeds, from the first on, the simulator detects it; `None` if its coincidence is too
    /// rare for random seeds, so that only its story shows it.
    pub seeds: Option<u64>,
    /// Where it can be seen.
    pub world: World,
}

/// What the simulator simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// Nodes between which data moves.
    Cluster,
    /// A node with a durable log, which dies and starts again.
    DurableLog,
    /// Nodes with durable logs, of which others keep copies.
    CopiedLogs,
    /// The same where nodes die for long, mostly in the middle of migrations, and others take over.
    Takeovers,
    /// Nodes without logs, where the source of most migrations is cut off from the coordinator as they begin
    /// to run, and the target dies.
    LonelySources,
}

/// Within how many seeds most faults are detected. Others need a rarer coincidence.
const USUAL: Option<u64> = Some(60);
/// Random seeds hardly ever meet the fault's conditions.
const SCRIPTED: Option<u64> = None;

/// Defines [`Fault`]: by package, each fault's documentation (what is wrong), its name in code and for
/// people, and within how many seeds it is detected.
macro_rules! faults {
    ($($package:literal, $world:ident: {
        $($(#[doc = $what:literal])+ $fault:ident, $name:literal, $seeds:expr;)+
    })+) => {
        /// A mistake that a programmer might make.
        ///
        /// It is put back for one thread: machines with it run on that thread, and are created after it is
        /// put back. The simulator and the scripted tests run each seed on one thread.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($($(#[doc = $what])+ $fault,)+)+
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Fault] = &[$($(Fault::$fault,)+)+];

            /// Its description.
            pub const fn about(self) -> About {
                match self {
                    $($(Fault::$fault => About {
                        package: $package,
                        name: $name,
                        what: concat!($($what),+).trim_ascii(),
                        seeds: $seeds,
                        world: World::$world,
                    },)+)+
                }
            }
        }
    };
}

faults! {
    "sidle-migration", Cluster: {
        /// Replay replaces what the target wrote (breaks M5; NetMigrate's code).
        ReplayOverwrites, "replay-overwrites", USUAL;
        /// A removal at the target leaves nothing behind (breaks M6).
        NoTombstones, "no-tombstones", USUAL;
        /// Progress is published before the records are in the store (breaks M7; Fulva's code).
        ProgressBeforeReplay, "progress-before-replay", USUAL;
        /// A finished partition's progress becomes 0, and so moves back, and the migration never ends (breaks
        /// M7; Fulva's code).
        FinishedPartitionResets, "finished-partition-resets", USUAL;
        /// The source tells a pull to go on one position too far, and what stands there never comes (breaks
        /// M7).
        PartitionSkipsPosition, "partition-skips-position", USUAL;
        /// The source gives a partition's records back as soon as it has sent the last of them (breaks M8;
        /// Rocksteady's code drops the source before the target has everything safe).
        SourceReleasesAtFin, "source-releases-at-fin", USUAL;
        /// Activation counts as heard when it is sent; when it is lost with its connection, nobody serves the
        /// range for ever (breaks M10).
        ActivateSentOnce, "activate-sent-once", Some(200);
        /// A target serves a range without a note of that in its durable log: after a restart what it has of
        /// the range is taken for copies (breaks M1).
        ServedWithoutNote, "served-without-note", SCRIPTED;
        /// A target serves what a cut gave without a note of that in its durable log: after a restart it is
        /// taken for copies, and pulled from the source again (breaks M33).
        GivenWithoutNote, "given-without-note", SCRIPTED;
        /// A target keeps copies whose changes a source had marked, which has restarted since (breaks M33).
        CopiesOutliveTheirMarks, "copies-outlive-their-marks", SCRIPTED;
        /// A flush ends an import whose source is dead before the copy of its log has entered: what arrives
        /// behind it was flushed (breaks M35).
        FlushBeforeTheCopy, "flush-before-the-copy", SCRIPTED;
        /// The source's word that it has no such key replaces what was written at the target meanwhile
        /// (breaks M5).
        AbsentAnswerOverwrites, "absent-answer-overwrites", Some(150);
        /// When a priority pull returns, only the first of those who wait for a key is woken (breaks
        /// liveness).
        LostWake, "lost-wake", SCRIPTED;
        /// A partition's tombstones go when its last pull is replayed, though replies out of turn may still
        /// be replayed (breaks M6).
        TombstonesFreedEarly, "tombstones-freed-early", USUAL;
        /// After FLUSHALL at the target what has not arrived still arrives (breaks linearizability).
        FlushLeavesLateRecords, "flush-leaves-late-records", USUAL;
        /// The source gives back all of its memory but the last partition's (leaks).
        ReleaseLeavesRecords, "release-leaves-records", USUAL;
        /// The source forgets the changes of a round when it has sent them; when they are lost with their
        /// connection, the target keeps what it had (breaks M10 and M11).
        RoundForgetsUnacknowledged, "round-forgets-unacknowledged", SCRIPTED;
        /// The target adds what a round brings to what it has, and what was deleted meanwhile stays (breaks
        /// M11).
        RoundKeepsWhatIsGone, "round-keeps-what-is-gone", USUAL;
        /// The target takes a round for the last one because nothing was left, though it was packed before
        /// the freeze (breaks M11).
        LastRoundBeforeFreeze, "last-round-before-freeze", USUAL;
        /// A piece is taken for the next one of what is in hand, though it is of another version (breaks
        /// M12).
        PiecesOfTwoVersions, "pieces-of-two-versions", Some(300);
        /// A cut is packed before every worker uses its step (breaks M22).
        CutPackedBeforeBarrier, "cut-packed-before-barrier", Some(300);
        /// A cut carries nothing that changed since it was copied (breaks M22).
        CutIgnoresMarks, "cut-ignores-marks", USUAL;
        /// A copy that arrives late enters a position that was given (breaks M24).
        LateCopyWins, "late-copy-wins", Some(300);
        /// A window is copied before every worker marks its changes there (breaks M28).
        CopyBeforeMarks, "copy-before-marks", Some(300);
        /// The target serves a position as soon as it has requested it (breaks M20 and M23).
        TargetServesAtRequest, "target-serves-at-request", USUAL;
        /// The source goes on serving what it has given (breaks M20).
        SourceServesWhatItGave, "source-serves-what-it-gave", USUAL;
        /// A cut names what the target has not copied (breaks M25).
        CutNamesWhatIsNotCopied, "cut-names-what-is-not-copied", USUAL;
        /// A position is given out of turn without its records (breaks M22).
        TakenWithoutRecord, "taken-without-record", USUAL;
        /// A source gives a large collection for which the target has no memory: nobody serves it in transit
        /// (breaks M34).
        GivesWhatDoesNotFit, "gives-what-does-not-fit", SCRIPTED;
        /// A target owns a large collection that the source has kept for want of memory (breaks M34).
        KeptCountsAsGiven, "kept-counts-as-given", SCRIPTED;
        /// Copying a window forgets what was marked there meanwhile (breaks M28).
        CopyClearsMarks, "copy-clears-marks", Some(300);
        /// A reply to a cut that was applied is applied again (breaks M25).
        CutAppliedTwice, "cut-applied-twice", Some(300);
        /// A migration turns back while a cut is in transit, and nobody owns what that gives (breaks M20).
        TurnsBackWithCutInTransit, "turns-back-with-cut-in-transit", Some(300);
        /// A way back begins with the outdated records of what was given, which are taken for copies (breaks
        /// M24).
        StaleGivenSurvivesTurn, "stale-given-survives-turn", Some(300);
        /// A way back brings the inert copies of what was never given (breaks M23 and M24).
        InertCopySentBack, "inert-copy-sent-back", Some(300);
        /// A copy packed before the cut that gave all enters what is owed (breaks M30).
        OldCopyEntersOwed, "old-copy-enters-owed", Some(300);
        /// The target keeps its inert copies of what is owed (breaks M30).
        OwedKeepsInertCopy, "owed-keeps-inert-copy", USUAL;
        /// The cut that gives all carries nothing that changed since it was copied (breaks M22).
        GiveAllWithoutMarks, "give-all-without-marks", Some(300);
        /// A flush is answered once the cut in flight is given, though not all is (breaks M31).
        FlushedInTransit, "flushed-in-transit", SCRIPTED;
        /// The target keeps a copy made before the freeze, though the position was marked since (breaks M30).
        HotCopyKeptThoughMarked, "hot-copy-kept-though-marked", Some(300);
        /// A hot position is copied behind the barrier of a step, and workers mark their changes there only
        /// from the next step on (breaks M28).
        HotCopyBeforeTrackingBarrier, "hot-copy-before-tracking-barrier", Some(300);
        /// A patch of a collection leaves out the first change since the version that the target has (breaks
        /// M32).
        PatchSkipsAVersion, "patch-skips-a-version", Some(300);
        /// A patch adds what is new in a collection, and what was removed from it stays (breaks M32).
        PatchKeepsWhatIsGone, "patch-keeps-what-is-gone", Some(300);
        /// A collection that was copied before the freeze is served at once, and what changed in it since
        /// comes too late (breaks M32).
        InertOutlineServed, "inert-outline-served", Some(300);
        /// What is in transit waits for memory at its target, however long: nobody serves it, and deleting it
        /// would free that memory (breaks M38).
        TransitWaitsForMemory, "transit-waits-for-memory", SCRIPTED;
    }
    "sidle-node", Cluster: {
        /// A read-modify-write does not wait for a key that has not arrived, but takes it for absent (Fulva's
        /// code).
        IncrementsStartAtZero, "increments-start-at-zero", USUAL;
        /// The mover hears that a range is frozen before every worker has passed the table in which it is
        /// exported (breaks C1 and M2).
        FreezeWithoutBarrier, "freeze-without-barrier", Some(120);
        /// The source goes on serving a range that it exports (breaks M1 and M2).
        SourceServesAfterFreeze, "source-serves-after-freeze", USUAL;
        /// The target serves a range before the source has activated it (breaks M1 and M3).
        TargetServesBeforeActivate, "target-serves-before-activate", Some(300);
        /// The target serves what was copied before the freeze, and does not know yet which of it still holds
        /// (breaks M3 and M30).
        HotCopyServedBeforeTheList, "hot-copy-served-before-the-list", Some(300);
        /// Active expiry at the target leaves nothing behind, and an older value without a deadline comes
        /// back (breaks M6).
        ExpiryLeavesNoTombstone, "expiry-leaves-no-tombstone", Some(300);
        /// Active expiry removes records from a frozen range (breaks M2).
        FrozenSourceExpires, "frozen-source-expires", USUAL;
        /// A command that was woken runs twice: when it is woken, and when its connection is served again.
        ParkedCommandRunsTwice, "parked-command-runs-twice", USUAL;
        /// A new range table wakes nobody: whoever waits for a migration that was given up waits for ever
        /// (breaks P3).
        NewTableWakesNobody, "new-table-wakes-nobody", SCRIPTED;
        /// A target that has turned back lets forwarded requests wait for what stays with the source (breaks
        /// F9): the turn waits for the source, and the source for the command that sent them.
        PartsOutliveTheTurn, "parts-outlive-the-turn", SCRIPTED;
        /// A new owner serves what it has read of a dead node's log before that node's lease is over (breaks
        /// Y10): a paused process shows stale values when it goes on.
        ServesBeforePromisesLapse, "serves-before-promises-lapse", SCRIPTED;
        /// A backup lets a new owner read its copy before that is fenced (breaks Y17): what its writer adds
        /// meanwhile is acknowledged, and lost.
        FetchedUnfenced, "fetched-unfenced", SCRIPTED;
        /// A new owner serves what it has not taken over from a dead node yet (breaks R5).
        ServesBeforeItHasTakenOver, "serves-before-it-has-taken-over", SCRIPTED;
        /// A range is taken although what an earlier owner left in it is still here (breaks C4 and M5).
        PreparesOverLeavings, "prepares-over-leavings", SCRIPTED;
        /// A target that is to turn back reports that nothing is in transit before its durable log is synced
        /// (breaks C10): the source forgets what it gave, and nobody has it after a restart.
        SettledBeforeSynced, "settled-before-synced", SCRIPTED;
        /// A target reports that all has arrived before its durable log has it, and the source forgets its
        /// copy (breaks C10).
        FinishedBeforeSynced, "finished-before-synced", SCRIPTED;
        /// A source activates the target before its durable log has all that the target then shows (breaks
        /// C11).
        ActivatedBeforeSafe, "activated-before-safe", SCRIPTED;
        /// A target that goes on after a restart keeps what it had copied before it served (breaks C4 and
        /// M30).
        ResumedOverCopies, "resumed-over-copies", SCRIPTED;
        /// SCAN goes on behind a range whose keys have not all arrived, and leaves out those that come later
        /// (breaks its guarantee).
        ScanPassesWhatHasNotArrived, "scan-passes-what-has-not-arrived", Some(150);
        /// FLUSHALL forgets that it has flushed an import, and flushes it again (breaks linearizability).
        ImportFlushedTwice, "import-flushed-twice", USUAL;
        /// A worker marks what it is about to change, so that the mark may be taken before there is anything
        /// to be read (breaks M11).
        MarkBeforeWrite, "mark-before-write", SCRIPTED;
        /// The mover hears that a range is tracked before every worker marks its changes (breaks C5 and M11).
        TrackingWithoutBarrier, "tracking-without-barrier", SCRIPTED;
        /// FLUSHALL does not mark what it clears (breaks M11).
        FlushMarksNothing, "flush-marks-nothing", SCRIPTED;
        /// A forwarded request runs where it arrives, whoever owns its keys by then (breaks F1).
        ForwardedWithoutOwnershipCheck, "forwarded-without-ownership-check", Some(150);
        /// A write whose answer was lost with the connection is sent once more (breaks F2).
        LostWriteIsForwardedAgain, "lost-write-is-forwarded-again", SCRIPTED;
        /// Nodes carry out their parts of a command without a hold of its keys (breaks F8).
        PartsWithoutHold, "parts-without-hold", SCRIPTED;
        /// MSET publishes its first key by itself, and others run before it publishes the rest (breaks X1).
        HalfMsetVisible, "half-mset-visible", Some(150);
        /// EXEC publishes what its first command wrote, and others run before the rest (breaks X1).
        HalfExecVisible, "half-exec-visible", USUAL;
        /// A RESTORE in slices gives its key what it has built so far, in place of the value before (breaks
        /// X1).
        HalfRestoreVisible, "half-restore-visible", SCRIPTED;
        /// A watched key counts as unchanged although its range was another node's meanwhile (breaks O2).
        WatchOutlivesHandOver, "watch-outlives-hand-over", Some(300);
        /// A watched key counts as unchanged although its value has ended (breaks O1).
        WatchOutlivesTheEnd, "watch-outlives-the-end", Some(300);
        /// A command that found nothing waits without another look under its keys' locks (breaks B1).
        WaitsWithoutLook, "waits-without-look", Some(300);
        /// Whoever has the turn at a key leaves, and nobody gets it (breaks B2).
        TurnEndsWithItsHolder, "turn-ends-with-its-holder", USUAL;
        /// A command that ends without a turn, when its time is over or its client gone, keeps its place, and
        /// gets the turn (breaks B2).
        PlaceOutlivesItsCommand, "place-outlives-its-command", USUAL;
        /// A push is answered before those that waited for it are served (breaks B4).
        RepliesBeforeServed, "replies-before-served", SCRIPTED;
        /// A move that ran keeps its turn until it is answered, and stands behind one that stands behind it
        /// (breaks B5).
        KeepsItsTurnBehindOthers, "keeps-its-turn-behind-others", SCRIPTED;
        /// A command goes on waiting for a key that a cut has given away (breaks P3).
        GivenKeyKeepsItsWaiters, "given-key-keeps-its-waiters", USUAL;
        /// A command that is only to ask again counts as answered: once the source has given all, it runs
        /// where its key has not arrived (breaks D5).
        AskedAgainCountsAsAnswered, "asked-again-counts-as-answered", SCRIPTED;
        /// A client's report of the lowest request that is open goes with the replies that it ends (breaks
        /// N2): a request below that, which arrives late, runs again.
        LowestOpenIsForgotten, "lowest-open-is-forgotten", SCRIPTED;
        /// A request runs however long ago it was issued (breaks N3): the reply of an earlier attempt may be
        /// gone.
        OldRequestRuns, "old-request-runs", SCRIPTED;
        /// What transactions have at keys is not sent before the target serves these (breaks M37).
        LocksLeftBehind, "locks-left-behind", Some(150);
        /// A flush does not wait for keys that have voted for transactions (breaks X4).
        FlushIgnoresLocks, "flush-ignores-locks", SCRIPTED;
        /// A part is prepared though what its transaction had read has changed (breaks X3: its key was not to
        /// vote for it).
        ChangedReadsPass, "changed-reads-pass", Some(100);
        /// The end of a transaction at a key wakes nobody who waits for the key (breaks P3).
        LockEndWakesNobody, "lock-end-wakes-nobody", Some(300);
        /// A decision changes a key that is being copied and leaves no mark (breaks M11).
        DecisionLeavesNoMark, "decision-leaves-no-mark", SCRIPTED;
    }
    "sidle-cluster", Cluster: {
        /// The coordinator acts on a change whose commit failed (breaks its invariant 1).
        ActBeforeCommit, "act-before-commit", Some(500);
        /// A range goes back to a source that may have frozen it, and the target have served it (breaks M1
        /// and the coordinator's invariant 7).
        GivenBackThoughSent, "given-back-though-sent", Some(300);
        /// A running migration whose source has only fallen silent is ended as if the source had restarted,
        /// and what had not arrived is given up (breaks linearizability).
        SilenceCountsAsDeath, "silence-counts-as-death", Some(300);
        /// A repeated request is taken for a new one (breaks M10).
        RequestExecutedTwice, "request-executed-twice", USUAL;
        /// A process that was not let in sends its clients' requests, which the coordinator takes for those
        /// of the member of its incarnation (breaks M10 and the agent's invariant 6).
        AsksBeforeItJoined, "asks-before-it-joined", SCRIPTED;
        /// The end of a migration is told once; when that is lost, both ends keep what they have for it for
        /// ever (breaks M10; leaks).
        EndToldOnce, "end-told-once", Some(150);
        /// A node goes back to an older map when one comes late, and so to what it no longer owns (breaks M1
        /// and the agent's invariant 1).
        OlderMapAdopted, "older-map-adopted", USUAL;
        /// A migration goes on with a node that restarted without what it had: what had not arrived is taken
        /// for absent (breaks linearizability and the coordinator's invariant 4).
        ReboundWithoutItsLog, "rebound-without-its-log", SCRIPTED;
        /// A way back begins before its target's durable log has what that kept: it is lost if the node
        /// restarts (breaks the coordinator's invariant 8).
        TurnedBeforeNoted, "turned-before-noted", SCRIPTED;
        /// The cluster's version is raised to what one member speaks, whatever the others do (breaks M9: who
        /// does not speak it reads no message of a migration that begins in it).
        RaisedBeforeAllSpeak, "raised-before-all-speak", Some(150);
    }
    "sidle-cluster", LonelySources: {
        /// A restarted target gets its range before the source is known to have frozen it (breaks M1 and the
        /// coordinator's invariant 4).
        RestartedTargetServesAtOnce, "restarted-target-serves-at-once", USUAL;
    }
    "sidle-client-core", Cluster: {
        /// The source's value is returned without waiting for what the target says (breaks M4).
        SourceValueWithoutTargetAnswer, "source-value-without-target-answer", USUAL;
        /// "Not here yet" of one migration is paired with what the source froze for an earlier one (breaks
        /// M4).
        SourceValueOfOtherMigration, "source-value-of-other-migration", SCRIPTED;
        /// A write whose connection was lost is sent again, though it may have run.
        LostWriteSentAgain, "lost-write-sent-again", USUAL;
    }
    "sidle-log-files", DurableLog: {
        /// The oldest file goes when what is needed of it was written again, synced or not (breaks G4).
        FileGoesBeforeSurvivorsSynced, "file-goes-before-survivors-synced", USUAL;
        /// A sync counts for what was written while it was under way (breaks G2).
        SyncCoversWhatCameLater, "sync-covers-what-came-later", USUAL;
        /// A start closes the last file with a block that names all before it as synced, and syncs both
        /// together: the block alone may reach the disk (breaks G2).
        ClosedBeforeSynced, "closed-before-synced", SCRIPTED;
        /// A file that could not be synced is synced again, with success: the system had dropped what it
        /// could not write (breaks G5).
        FailedSyncIsRepeated, "failed-sync-is-repeated", Some(400);
        /// A start syncs what it read, and takes it as synced: what an earlier sync failed to write is not on
        /// the disk (breaks G5).
        ReadIsTakenAsWritten, "read-is-taken-as-written", Some(1000);
        /// The record of the files names one whose head may not be on the disk (breaks G6).
        RecordedBeforeItsHeadIsSynced, "recorded-before-its-head-is-synced", USUAL;
        /// A file whose removal failed is recorded again, though it may be gone (breaks G6).
        GoneFileIsRecorded, "gone-file-is-recorded", USUAL;
        /// A file goes that was judged while a flush was under way, whose record the log has not (breaks U4).
        FileGoesBeforeFlushIsWhole, "file-goes-before-flush-is-whole", SCRIPTED;
    }
    // No node uses transactions yet: they show in their own world.
    "sidle-txn", Cluster: {
        /// A key is locked for two transactions that write it (breaks X1).
        LockedTwice, "locked-twice", USUAL;
        /// Reads go past the locks of a transaction, and show what it has replaced elsewhere (breaks X4;
        /// RAMCloud's reads).
        ReadsIgnoreLocks, "reads-ignore-locks", SCRIPTED;
        /// A key votes for a transaction that it has refused (breaks X3).
        PreparedAfterRefusal, "prepared-after-refusal", Some(150);
        /// A key that is asked before its vote does not keep that it refuses (breaks X3).
        RefusalIsNotKept, "refusal-is-not-kept", Some(300);
        /// A key forgets a transaction as soon as it is applied there (breaks X12).
        OutcomeIsNotKept, "outcome-is-not-kept", USUAL;
        /// The first key forgets a transaction before the others have (breaks X12).
        FirstKeyForgetsFirst, "first-key-forgets-first", SCRIPTED;
        /// A node that decides in place of a coordinator does not ask the first key again (breaks X12).
        FirstKeyIsAskedFirst, "first-key-is-asked-first", SCRIPTED;
        /// What nodes decided is forgotten while the coordinator may still ask (breaks X13).
        SettledIsForgotten, "settled-is-forgotten", SCRIPTED;
        /// A node ends a vote whose coordinator is silent (breaks X2).
        HelperAbortsUnasked, "helper-aborts-unasked", USUAL;
        /// A node commits a transaction that a key has refused (breaks X3).
        HelperCommitsWithoutVote, "helper-commits-without-vote", USUAL;
        /// A part whose answer was lost is sent again (breaks X11).
        PartSentTwice, "part-sent-twice", USUAL;
    }

    // Five cannot show in the simulator. Its copies sync each append, so that a forgotten file is not
    // needed; its writers send no gaps, and are never stopped; and nobody deposes them, nor takes a log over.
    // Three take an event within the moments in which a change is undecided, or a copy joins.
    "sidle-log-copies", CopiedLogs: {
        /// A copy that was lost counts no more, though no change is decided (breaks Y1).
        LostCopyDoesNotCount, "lost-copy-does-not-count", USUAL;
        /// A copy that an undecided change names does not count before its decision (breaks Y1).
        UndecidedCopyDoesNotCount, "undecided-copy-does-not-count", SCRIPTED;
        /// A copy is proposed before it has everything that is safe (breaks Y2).
        JoinsBeforeItHasEverything, "joins-before-it-has-everything", SCRIPTED;
        /// A backup removes a file before what replaced it is synced (breaks Y4).
        BackupForgetsBeforeItSyncs, "backup-forgets-before-it-syncs", SCRIPTED;
        /// A copy that counts is begun anew (breaks Y5).
        CopyThatCountsBeginsAnew, "copy-that-counts-begins-anew", SCRIPTED;
        /// A backup appends behind a gap (breaks Y5).
        GapIsAppended, "gap-is-appended", SCRIPTED;
        /// A backup takes what a deposed writer sends (breaks Y6).
        OlderEpochIsTaken, "older-epoch-is-taken", SCRIPTED;
        /// A log goes on behind the end of its own files, though a copy that counts has more (breaks Y8).
        GoesOnBehindItsOwnEnd, "goes-on-behind-its-own-end", USUAL;
        /// A log whose last copy is left out has not synced what is safe (breaks Y9).
        LogStandsInUnsynced, "log-stands-in-unsynced", USUAL;
        /// A backup that has restarted keeps no promise that its earlier start gave (breaks Y12).
        RestartedBackupForgetsItsPromise, "restarted-backup-forgets-its-promise", SCRIPTED;
        /// A copy takes what a restarted writer writes before it has forgotten what was gone when that began
        /// (breaks Y13): a removal there may outweigh it.
        CopyKeepsWhatWasGone, "copy-keeps-what-was-gone", SCRIPTED;
        /// A start takes the log for whole because a stop was clean, and does not look whether the files end
        /// where that closed them (breaks Y14).
        CleanStopIsNotCompared, "clean-stop-is-not-compared", SCRIPTED;
        /// What a process of a backup left is thrown away by its next one while that counts (breaks Y15).
        EarlierCopyBeginsAnew, "earlier-copy-begins-anew", SCRIPTED;
    }
    "sidle-store", DurableLog: {
        /// A change is published, and its records enter the log's buffer with the head's next change (breaks
        /// U1).
        PublishedBeforeLogged, "published-before-logged", USUAL;
        /// A removal has no record in the log (breaks U1).
        RemovalNotLogged, "removal-not-logged", USUAL;
        /// What a flush clears has no record in the log (breaks U1).
        FlushNotLogged, "flush-not-logged", USUAL;
        /// The first record of a change of several enters the log's buffer by itself (breaks U2).
        HalfAnExec, "half-an-exec", USUAL;
        /// The chunks of a large collection go with their file, though they are still needed (breaks G4).
        ChunksGoWithTheirFile, "chunks-go-with-their-file", USUAL;
        /// A tombstone of a range that is imported goes with its file, and what it hid is pulled again after
        /// a restart (breaks M6).
        TombstonesGoWithTheirFile, "tombstones-go-with-their-file", SCRIPTED;
        /// Recovery keeps no tombstone of a range that was being imported (breaks M6).
        RecoveredWithoutTombstones, "recovered-without-tombstones", SCRIPTED;
        /// Where an import goes on, removals of an earlier stay of the range are recovered as tombstones, and
        /// what arrives is taken for older (breaks M6).
        OldTombstonesRecovered, "old-tombstones-recovered", SCRIPTED;
        /// Who takes the place of a target that died has none of its tombstones, and what was removed there
        /// arrives again (breaks M36).
        SucceededWithoutTombstones, "succeeded-without-tombstones", SCRIPTED;
        /// Who does so has all that it had of the range, also where it had answered nobody: copies that may
        /// be outdated, and hide what arrives (breaks M36).
        SucceededWithCopies, "succeeded-with-copies", SCRIPTED;
        /// What recovery has read of a key counts, though it reads a newer record.
        FirstRecordReadCounts, "first-record-read-counts", USUAL;
    }
    "sidle-node", DurableLog: {
        /// Replies do not wait for the commit that has what they show (breaks C5 of a connection).
        RepliesBeforeSafe, "replies-before-safe", USUAL;
        /// Replies of commands that only read do not wait (breaks C5 of a connection).
        ReadsPassTheGate, "reads-pass-the-gate", USUAL;
        /// The reply of a command over two nodes' keys does not wait for the commit that has this node's part
        /// (breaks C5 of a connection).
        OwnPartPassesTheGate, "own-part-passes-the-gate", SCRIPTED;
    }
    "sidle-node", CopiedLogs: {
        /// Whether the node's lease lasts is looked at before the command runs, and a pause behind that goes
        /// unseen (breaks C5 of a connection).
        LeaseCheckedBeforeExecuting, "lease-checked-before-executing", SCRIPTED;
    }
    "sidle-node", Takeovers: {
        /// The writes of a request that is to run once are published without the reply to it (breaks N1): it
        /// runs again when it is repeated.
        WritesWithoutCompletion, "writes-without-completion", Some(150);
    }
}

/// Whether this [`Fault`] is put back: false at compile time without the feature `faults`.
#[macro_export]
macro_rules! fault {
    ($fault:ident) => {
        $crate::Fault::$fault.is_put_back()
    };
}

impl Fault {
    /// The fault of this name.
    pub fn named(name: &str) -> Option<Fault> {
        Fault::ALL.iter().copied().find(|fault| fault.about().name == name)
    }

    /// For [`fault!`](crate::fault).
    #[doc(hidden)]
    #[inline(always)]
    pub fn is_put_back(self) -> bool {
        #[cfg(feature = "faults")]
        return PUT_BACK.with(|put_back| put_back[self as usize].get());
        #[cfg(not(feature = "faults"))]
        false
    }
}

#[cfg(feature = "faults")]
const COUNT: usize = Fault::ALL.len();

#[cfg(feature = "faults")]
thread_local! {
    /// Which faults are in effect on this thread.
    static PUT_BACK: [Cell<bool>; COUNT] = const { [const { Cell::new(false) }; COUNT] };
}

/// Keeps a fault in effect on its thread until it is dropped.
#[cfg(feature = "faults")]
#[derive(Debug)]
#[must_use = "the fault is in effect only as long as this lives"]
pub struct PutBack {
    fault: Fault,
    /// It stays on its thread.
    _not_send: PhantomData<*const ()>,
}

#[cfg(feature = "faults")]
impl Drop for PutBack {
    fn drop(&mut self) {
        PUT_BACK.with(|put_back| put_back[self.fault as usize].set(false));
    }
}

#[cfg(feature = "faults")]
impl Fault {
    /// Puts the fault back on this thread, where it must not be in effect already.
    pub fn put_back(self) -> PutBack {
        assert!(!self.is_put_back(), "{self:?} is put back twice");
        PUT_BACK.with(|put_back| put_back[self as usize].set(true));
        PutBack { fault: self, _not_send: PhantomData }
    }

    /// Checks the stories of a package, `env!("CARGO_PKG_NAME")`: each of its faults has one, in their order,
    /// which holds without the fault, and with it fails by panicking.
    pub fn check_stories(package: &str, stories: &[(Fault, fn())]) {
        let of_package = Fault::ALL.iter().copied().filter(|fault| fault.about().package == package);
        let told = stories.iter().map(|&(fault, _)| fault);
        assert_eq!(told.collect::<Vec<_>>(), of_package.collect::<Vec<_>>());
        for &(fault, story) in stories {
            story();
            let _in_effect = fault.put_back();
            assert!(std::panic::catch_unwind(story).is_err(), "{fault:?} is not seen");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs::{read_dir, read_to_string};
    use std::path::Path;

    #[test]
    fn every_name_names_one_fault() {
        for &fault in Fault::ALL {
            let About { name, what, .. } = fault.about();
            let is_kebab_case = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(name.chars().all(is_kebab_case) && what.ends_with('.'), "{name}: {what}");
            assert_eq!(Fault::named(name), Some(fault), "the name is given twice");
        }
        assert_eq!(Fault::named("none of them"), None);
    }

    fn tells_stories(folder: &Path) -> bool {
        read_dir(folder).expect("a folder of the crate").any(|entry| {
            let path = entry.expect("a folder can be read").path();
            match path.is_dir() {
                true => tells_stories(&path),
                false => read_to_string(path).is_ok_and(|text| text.contains("Fault::check_stories(env!")),
            }
        })
    }

    #[test]
    fn every_package_with_faults_checks_its_stories() {
        let packages: BTreeSet<&str> = Fault::ALL.iter().map(|fault| fault.about().package).collect();
        for package in packages {
            let folder = package.strip_prefix("sidle-").expect("a package is called like its folder");
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
            assert!(tells_stories(&folder), "no test of {package} tells the stories of its faults");
        }
    }

    #[cfg(feature = "faults")]
    #[test]
    fn a_fault_is_in_effect_on_its_thread_until_its_guard_goes() {
        let in_effect = Fault::LostWake.put_back();
        assert!(fault!(LostWake) && !fault!(NoTombstones));
        let other = Fault::NoTombstones.put_back();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!fault!(LostWake))).join().expect("it is not there")
        });
        drop(in_effect);
        assert!(!fault!(LostWake) && fault!(NoTombstones));
        drop(other);
        let ended = std::panic::catch_unwind(|| {
            let _in_effect = Fault::LostWake.put_back();
            panic!("as a story that sees it");
        });
        assert!(ended.is_err() && !fault!(LostWake));
    }

    #[cfg(not(feature = "faults"))]
    #[test]
    fn nothing_is_put_back_without_the_feature() {
        assert!(Fault::ALL.iter().all(|fault| !fault.is_put_back()));
    }
}
