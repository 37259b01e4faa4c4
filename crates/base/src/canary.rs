//! Planted bugs, to prove that the checkers can fail.
//!
//! Built without the `canary` feature, [`planted`] is the constant `false` and the bugs are not in
//! the binary. With it, at most one bug is armed for the whole process, by `arm`. `cargo xtask
//! canary` builds such a binary and demands that the checkers catch every bug listed here.

/// A bug that can be planted, by system and name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Canary {
    /// The switch publishes a consumer's head before the data is acknowledged.
    FlowsEarlyHead = 1,
    /// The switch publishes a producer's tail before the consumer has acknowledged the data.
    FlowsEarlyTail,
    /// Transfers commit in the order in which they finish, not in the order in which they began.
    FlowsUnorderedCommit,
    /// The PSN offset of a lane is not renewed when a transfer starts.
    TransferStaleOffset,
    /// A re-issued READ starts at the right PSN but at the first byte of the transfer.
    TransferReissueFromStart,
    /// An acknowledgement of an earlier transfer counts for the one under way.
    TransferStaleAcknowledge,
    /// An acknowledgement counts for whatever the last owner of its target lane carries now.
    TransferForeignAcknowledge,
    /// After a restart of the switch, producer tails are taken from the producers alone.
    ControllerForgetsCommit,
    /// The NIC executes duplicate requests again instead of only acknowledging them.
    NicExecutesDuplicates,
    /// The NIC does not verify the ICRC.
    NicSkipsIcrc,
    /// End of stream is announced while items are still on their way.
    FlowsEarlyEnd,
    /// A multicast transfer counts as done when its first member has everything.
    TransferFirstMember,
    /// Threads of a balanced flow take from a producer without its lock.
    FlowsNoProducerLock,
    /// Transfers of one producer are published in any order, which only a restart can tell.
    FlowsAnyTurn,
    /// Replication looks for room at one consumer only.
    FlowsFirstRoom,
    /// Anybody can give a page's latch back.
    PagesUnlockAnyone,
    /// The completion of a page request carries the latch word from when it was asked.
    PagesStaleCompletion,
    /// Nobody looks whether a buffer frame still holds the page that is read from it.
    PagesNoHeaderCheck,
    /// A flush ends without the storage having been asked to make durable what it has.
    PagesFlushNotDurable,
    /// A page of which an older version is being written home is not written again after that.
    PagesOlderWriteLast,
    /// A store that is opened leaves torn pages as the power cut left them.
    PagesNoRecovery,
    /// Who waits for a page from a dead node's memory is not told that it will not come.
    PagesDroppedTasks,
    /// A connection of a living node that broke is not made afresh.
    PagesNoRenewal,
    /// The directory is made again without the latches that nodes have.
    PagesRebuiltUnlatched,
    /// The directory is made again without the pages that were changed and not written home.
    PagesRebuiltOlder,
    /// A node that is taken for dead and lives is not cut off.
    PagesNotFenced,
    /// A node never finds out whether it has the newest versions of pages in doubt.
    PagesNoDoubt,
    /// A store serves nodes to which it is not open.
    PagesOpenToAll,
    /// A page is handed out before its map, which has it in use, is durable.
    PagesEarlyAllocation,
    /// A page whose header is zeroes is one that was never written.
    PagesDamageIsBlank,
    /// Pages leave their node without asking the engine's log.
    PagesLogNotAsked,
    /// A remote reader takes a tree node whose cache lines are of different moments.
    IndexNoTornCheck,
    /// A tree node that is freed looks as if it lived.
    IndexNoEpochOnFree,
    /// A remote reader that has come to a tree node where its key is not says that it is absent.
    IndexMissingRestart,
    /// The switch answers a fetch-and-add that came twice with two numbers.
    SequencerFreshDuplicate,
    /// After a restart of the switch a sequencer goes on where its last block began.
    SequencerForgetsLimit,
    /// A switch leads queries by the tables that were loaded last, active or not.
    IndexHalfLoaded,
    /// A tree node that a switch leads to is split as if nobody led there.
    IndexUnpinnedSplit,
    /// The switch fills in the key that a queue pair had before.
    IndexStaleRkey,
    /// The word that tells of a package is written before the package.
    MessagingEarlyWord,
    /// A receive buffer is said to be free when its package is looked at, not when it is released.
    MessagingEarlyFree,
    /// A receiver takes whatever package a word names.
    MessagingAnySequence,
    /// What was made for a connection that does not come about is kept.
    MessagingHalfOpen,
    /// Nobody looks whether a silent peer still lives.
    MessagingNoPulse,
}

impl Canary {
    /// Every canary.
    pub const ALL: [Canary; 44] = [
        Canary::FlowsEarlyHead,
        Canary::FlowsEarlyTail,
        Canary::FlowsUnorderedCommit,
        Canary::TransferStaleOffset,
        Canary::TransferReissueFromStart,
        Canary::TransferStaleAcknowledge,
        Canary::TransferForeignAcknowledge,
        Canary::ControllerForgetsCommit,
        Canary::NicExecutesDuplicates,
        Canary::NicSkipsIcrc,
        Canary::FlowsEarlyEnd,
        Canary::TransferFirstMember,
        Canary::FlowsNoProducerLock,
        Canary::FlowsAnyTurn,
        Canary::FlowsFirstRoom,
        Canary::PagesUnlockAnyone,
        Canary::PagesStaleCompletion,
        Canary::PagesNoHeaderCheck,
        Canary::PagesFlushNotDurable,
        Canary::PagesOlderWriteLast,
        Canary::PagesNoRecovery,
        Canary::PagesDroppedTasks,
        Canary::PagesNoRenewal,
        Canary::PagesRebuiltUnlatched,
        Canary::PagesRebuiltOlder,
        Canary::PagesNotFenced,
        Canary::PagesNoDoubt,
        Canary::PagesOpenToAll,
        Canary::PagesEarlyAllocation,
        Canary::PagesDamageIsBlank,
        Canary::PagesLogNotAsked,
        Canary::IndexNoTornCheck,
        Canary::IndexNoEpochOnFree,
        Canary::IndexMissingRestart,
        Canary::SequencerFreshDuplicate,
        Canary::SequencerForgetsLimit,
        Canary::IndexHalfLoaded,
        Canary::IndexUnpinnedSplit,
        Canary::IndexStaleRkey,
        Canary::MessagingEarlyWord,
        Canary::MessagingEarlyFree,
        Canary::MessagingAnySequence,
        Canary::MessagingHalfOpen,
        Canary::MessagingNoPulse,
    ];

    /// The name under which the command line knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Canary::FlowsEarlyHead => "flows-early-head",
            Canary::FlowsEarlyTail => "flows-early-tail",
            Canary::FlowsUnorderedCommit => "flows-unordered-commit",
            Canary::TransferStaleOffset => "transfer-stale-offset",
            Canary::TransferReissueFromStart => "transfer-reissue-from-start",
            Canary::TransferStaleAcknowledge => "transfer-stale-acknowledge",
            Canary::TransferForeignAcknowledge => "transfer-foreign-acknowledge",
            Canary::ControllerForgetsCommit => "controller-forgets-commit",
            Canary::NicExecutesDuplicates => "nic-executes-duplicates",
            Canary::NicSkipsIcrc => "nic-skips-icrc",
            Canary::FlowsEarlyEnd => "flows-early-end",
            Canary::TransferFirstMember => "transfer-first-member",
            Canary::FlowsNoProducerLock => "flows-no-producer-lock",
            Canary::FlowsAnyTurn => "flows-any-turn",
            Canary::FlowsFirstRoom => "flows-first-room",
            Canary::PagesUnlockAnyone => "pages-unlock-anyone",
            Canary::PagesStaleCompletion => "pages-stale-completion",
            Canary::PagesNoHeaderCheck => "pages-no-header-check",
            Canary::PagesFlushNotDurable => "pages-flush-not-durable",
            Canary::PagesOlderWriteLast => "pages-older-write-last",
            Canary::PagesNoRecovery => "pages-no-recovery",
            Canary::PagesDroppedTasks => "pages-dropped-tasks",
            Canary::PagesNoRenewal => "pages-no-renewal",
            Canary::PagesRebuiltUnlatched => "pages-rebuilt-unlatched",
            Canary::PagesRebuiltOlder => "pages-rebuilt-older",
            Canary::PagesNotFenced => "pages-not-fenced",
            Canary::PagesNoDoubt => "pages-no-doubt",
            Canary::PagesOpenToAll => "pages-open-to-all",
            Canary::PagesEarlyAllocation => "pages-early-allocation",
            Canary::PagesDamageIsBlank => "pages-damage-is-blank",
            Canary::PagesLogNotAsked => "pages-log-not-asked",
            Canary::IndexNoTornCheck => "index-no-torn-check",
            Canary::IndexNoEpochOnFree => "index-no-epoch-on-free",
            Canary::IndexMissingRestart => "index-missing-restart",
            Canary::SequencerFreshDuplicate => "sequencer-fresh-duplicate",
            Canary::SequencerForgetsLimit => "sequencer-forgets-limit",
            Canary::IndexHalfLoaded => "index-half-loaded",
            Canary::IndexUnpinnedSplit => "index-unpinned-split",
            Canary::IndexStaleRkey => "index-stale-rkey",
            Canary::MessagingEarlyWord => "messaging-early-word",
            Canary::MessagingEarlyFree => "messaging-early-free",
            Canary::MessagingAnySequence => "messaging-any-sequence",
            Canary::MessagingHalfOpen => "messaging-half-open",
            Canary::MessagingNoPulse => "messaging-no-pulse",
        }
    }

    /// The system whose chaos campaign must catch it.
    pub const fn system(self) -> &'static str {
        match self {
            Canary::PagesUnlockAnyone
            | Canary::PagesStaleCompletion
            | Canary::PagesNoHeaderCheck
            | Canary::PagesEarlyAllocation
            | Canary::PagesDamageIsBlank
            | Canary::PagesLogNotAsked
            | Canary::PagesFlushNotDurable
            | Canary::PagesOlderWriteLast
            | Canary::PagesNoRecovery
            | Canary::PagesDroppedTasks
            | Canary::PagesNoRenewal
            | Canary::PagesRebuiltUnlatched
            | Canary::PagesRebuiltOlder
            | Canary::PagesNotFenced
            | Canary::PagesNoDoubt
            | Canary::PagesOpenToAll => "pages",
            Canary::IndexNoTornCheck
            | Canary::IndexNoEpochOnFree
            | Canary::IndexMissingRestart
            | Canary::IndexHalfLoaded
            | Canary::IndexUnpinnedSplit
            | Canary::IndexStaleRkey => "index",
            Canary::SequencerFreshDuplicate | Canary::SequencerForgetsLimit => "sequencer",
            Canary::MessagingEarlyWord
            | Canary::MessagingEarlyFree
            | Canary::MessagingAnySequence
            | Canary::MessagingHalfOpen
            | Canary::MessagingNoPulse => "messaging",
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
