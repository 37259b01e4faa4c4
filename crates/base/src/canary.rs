//! Planted bugs, to prove that the checkers can fail.
//!
//! Built without the `canary` feature, [`planted`] is the constant `false` and the bugs are not in
//! the binary. With it, at most one bug is armed for the whole process, by `arm`. `cargo xtask
//! canary` builds such a binary and demands that the checkers catch every bug listed here.

crate::named! {
    /// A bug that can be planted, by system and name.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u8)]
    pub enum Canary {
        /// The switch publishes a consumer's head before the data is acknowledged.
        FlowsEarlyHead(1) = "flows-early-head",
        /// The switch publishes a producer's tail before the consumer has acknowledged the data.
        FlowsEarlyTail = "flows-early-tail",
        /// Transfers commit in the order in which they finish, not in the order in which they
        /// began.
        FlowsUnorderedCommit = "flows-unordered-commit",
        /// The PSN offset of a lane is not renewed when a transfer starts.
        TransferStaleOffset = "transfer-stale-offset",
        /// A re-issued READ starts at the right PSN but at the first byte of the transfer.
        TransferReissueFromStart = "transfer-reissue-from-start",
        /// An acknowledgement of an earlier transfer counts for the one under way.
        TransferStaleAcknowledge = "transfer-stale-acknowledge",
        /// An acknowledgement counts for whatever the last owner of its target lane carries now.
        TransferForeignAcknowledge = "transfer-foreign-acknowledge",
        /// After a restart of the switch, producer tails are taken from the producers alone.
        ControllerForgetsCommit = "controller-forgets-commit",
        /// The NIC executes duplicate requests again instead of only acknowledging them.
        NicExecutesDuplicates = "nic-executes-duplicates",
        /// The NIC does not verify the ICRC.
        NicSkipsIcrc = "nic-skips-icrc",
        /// End of stream is announced while items are still on their way.
        FlowsEarlyEnd = "flows-early-end",
        /// A multicast transfer counts as done when its first member has everything.
        TransferFirstMember = "transfer-first-member",
        /// Threads of a balanced flow take from a producer without its lock.
        FlowsNoProducerLock = "flows-no-producer-lock",
        /// Transfers of one producer are published in any order, which only a restart can tell.
        FlowsAnyTurn = "flows-any-turn",
        /// Replication looks for room at one consumer only.
        FlowsFirstRoom = "flows-first-room",
        /// Anybody can give a page's latch back.
        PagesUnlockAnyone = "pages-unlock-anyone",
        /// The completion of a page request carries the latch word from when it was asked.
        PagesStaleCompletion = "pages-stale-completion",
        /// Nobody looks whether a buffer frame still holds the page that is read from it.
        PagesNoHeaderCheck = "pages-no-header-check",
        /// A flush ends without the storage having been asked to make durable what it has.
        PagesFlushNotDurable = "pages-flush-not-durable",
        /// A page of which an older version is being written home is not written again after that.
        PagesOlderWriteLast = "pages-older-write-last",
        /// A store that is opened leaves torn pages as the power cut left them.
        PagesNoRecovery = "pages-no-recovery",
        /// Who waits for a page from a dead node's memory is not told that it will not come.
        PagesDroppedTasks = "pages-dropped-tasks",
        /// A connection of a living node that broke is not made afresh.
        PagesNoRenewal = "pages-no-renewal",
        /// The directory is made again without the latches that nodes have.
        PagesRebuiltUnlatched = "pages-rebuilt-unlatched",
        /// The directory is made again without the pages that were changed and not written home.
        PagesRebuiltOlder = "pages-rebuilt-older",
        /// A node that is taken for dead and lives is not cut off.
        PagesNotFenced = "pages-not-fenced",
        /// A node never finds out whether it has the newest versions of pages in doubt.
        PagesNoDoubt = "pages-no-doubt",
        /// A store serves nodes to which it is not open.
        PagesOpenToAll = "pages-open-to-all",
        /// A page is handed out before its map, which has it in use, is durable.
        PagesEarlyAllocation = "pages-early-allocation",
        /// A page whose header is zeroes is one that was never written.
        PagesDamageIsBlank = "pages-damage-is-blank",
        /// Pages leave their node without asking the engine's log.
        PagesLogNotAsked = "pages-log-not-asked",
        /// A remote reader takes a tree node whose cache lines are of different moments.
        IndexNoTornCheck = "index-no-torn-check",
        /// A tree node that is freed looks as if it lived.
        IndexNoEpochOnFree = "index-no-epoch-on-free",
        /// A remote reader that has come to a tree node where its key is not says that it is
        /// absent.
        IndexMissingRestart = "index-missing-restart",
        /// The switch answers a fetch-and-add that came twice with two numbers.
        SequencerFreshDuplicate = "sequencer-fresh-duplicate",
        /// After a restart of the switch a sequencer goes on where its last block began.
        SequencerForgetsLimit = "sequencer-forgets-limit",
        /// A switch leads queries by the tables that were loaded last, active or not.
        IndexHalfLoaded = "index-half-loaded",
        /// A tree node that a switch leads to is split as if nobody led there.
        IndexUnpinnedSplit = "index-unpinned-split",
        /// The switch fills in the key that a queue pair had before.
        IndexStaleRkey = "index-stale-rkey",
        /// The word that tells of a package is written before the package.
        MessagingEarlyWord = "messaging-early-word",
        /// A receive buffer is said to be free when its package is looked at, not when it is
        /// released.
        MessagingEarlyFree = "messaging-early-free",
        /// A receiver takes whatever package a word names.
        MessagingAnySequence = "messaging-any-sequence",
        /// What was made for a connection that does not come about is kept.
        MessagingHalfOpen = "messaging-half-open",
        /// Nobody looks whether a silent peer still lives.
        MessagingNoPulse = "messaging-no-pulse",
    }
}

impl Canary {
    /// The system whose chaos campaign must catch it: that of its name, or flows.
    pub fn system(self) -> &'static str {
        match self.name().split('-').next() {
            Some(system @ ("pages" | "index" | "sequencer" | "messaging")) => system,
            _ => "flows",
        }
    }

    /// How the clients of an index have to read so that it is met, if that matters.
    pub const fn access(self) -> Option<&'static str> {
        match self {
            Canary::IndexHalfLoaded | Canary::IndexUnpinnedSplit | Canary::IndexStaleRkey => {
                Some("in-network")
            }
            _ => None,
        }
    }
}

#[cfg(feature = "canary")]
static ARMED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Plants `bug` for the rest of the process.
#[cfg(feature = "canary")]
pub fn arm(bug: Canary) {
    ARMED.store(bug as u8, core::sync::atomic::Ordering::Relaxed);
}

/// Whether `bug` is planted in this process.
#[cfg(feature = "canary")]
pub fn planted(bug: Canary) -> bool {
    ARMED.load(core::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether `bug` is planted: never, in a build without the `canary` feature.
#[cfg(not(feature = "canary"))]
#[inline(always)]
pub const fn planted(_bug: Canary) -> bool {
    false
}
