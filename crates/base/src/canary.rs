//! Planted bugs, to prove that the checkers can fail.
//!
//! In a release build, [`planted`] is the constant `false` and the bugs are not in the binary. In a
//! build with debug assertions, at most one bug is armed for the whole process, by `arm`.
//! `cargo xtask canary` requires that the checkers catch every bug listed here.

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
        /// started.
        FlowsUnorderedCommit = "flows-unordered-commit",
        /// The PSN offset of a lane is not updated when a transfer starts.
        TransferStaleOffset = "transfer-stale-offset",
        /// A reissued READ starts at the right PSN but at the first byte of the transfer.
        TransferReissueFromStart = "transfer-reissue-from-start",
        /// An acknowledgement of an earlier transfer counts for the one in flight.
        TransferStaleAcknowledge = "transfer-stale-acknowledge",
        /// An acknowledgement counts for the current transfer of the last owner of its target lane.
        TransferForeignAcknowledge = "transfer-foreign-acknowledge",
        /// After a restart of the switch, producer tails are taken from the producers alone.
        ControllerForgetsCommit = "controller-forgets-commit",
        /// The NIC executes duplicate requests again instead of only acknowledging them.
        NicExecutesDuplicates = "nic-executes-duplicates",
        /// The NIC does not verify the ICRC.
        NicSkipsIcrc = "nic-skips-icrc",
        /// End of stream is announced while items are still in flight.
        FlowsEarlyEnd = "flows-early-end",
        /// A multicast transfer counts as done when its first member has every fragment.
        TransferFirstMember = "transfer-first-member",
        /// Threads of a balanced flow consume from a producer without its lock.
        FlowsNoProducerLock = "flows-no-producer-lock",
        /// Transfers of one producer are published in any order, which only a restart reveals.
        FlowsAnyTurn = "flows-any-turn",
        /// Replication checks the free slots of one consumer only.
        FlowsFirstRoom = "flows-first-room",
        /// Any node can release a page's latch.
        PagesUnlockAnyone = "pages-unlock-anyone",
        /// The completion of a page request carries the latch word from the time of the request.
        PagesStaleCompletion = "pages-stale-completion",
        /// A read from a buffer frame does not check that the frame still holds the page.
        PagesNoHeaderCheck = "pages-no-header-check",
        /// A flush ends without a request to the storage to make its data durable.
        PagesFlushNotDurable = "pages-flush-not-durable",
        /// A page whose older version is being written home is not written again afterwards.
        PagesOlderWriteLast = "pages-older-write-last",
        /// Opening a store leaves torn pages as the power failure left them.
        PagesNoRecovery = "pages-no-recovery",
        /// A waiter for a page from a dead node's memory is not notified that the page will not
        /// arrive.
        PagesDroppedTasks = "pages-dropped-tasks",
        /// A broken connection of a live node is not reestablished.
        PagesNoRenewal = "pages-no-renewal",
        /// The directory is rebuilt without the latches that nodes hold.
        PagesRebuiltUnlatched = "pages-rebuilt-unlatched",
        /// The directory is rebuilt without the pages that were changed and not written home.
        PagesRebuiltOlder = "pages-rebuilt-older",
        /// A live node that is considered dead is not cut off.
        PagesNotFenced = "pages-not-fenced",
        /// A node never determines whether it has the newest versions of pages in doubt.
        PagesNoDoubt = "pages-no-doubt",
        /// A store serves nodes to which it is not open.
        PagesOpenToAll = "pages-open-to-all",
        /// A page is allocated before the map that marks it as used is durable.
        PagesEarlyAllocation = "pages-early-allocation",
        /// A page with a header of zeroes counts as one that was never written.
        PagesDamageIsBlank = "pages-damage-is-blank",
        /// Pages leave their node without a check of the engine's log.
        PagesLogNotAsked = "pages-log-not-asked",
        /// A revocation of leases is reported as done before the nodes have acknowledged it.
        PagesRevokeUnconfirmed = "pages-revoke-unconfirmed",
        /// Latches are granted at once although leases of a dead node, or of a lost directory, have
        /// not expired.
        PagesNoHold = "pages-no-hold",
        /// The second place of a page is kept when the page is changed.
        PagesStaleSecond = "pages-stale-second",
        /// A remote reader accepts a tree node whose cache lines are from different moments.
        IndexNoTornCheck = "index-no-torn-check",
        /// A freed tree node still looks live.
        IndexNoEpochOnFree = "index-no-epoch-on-free",
        /// A remote reader that reaches a tree node without its key reports the key as absent.
        IndexMissingRestart = "index-missing-restart",
        /// The switch answers a duplicate fetch-and-add with a second number.
        SequencerFreshDuplicate = "sequencer-fresh-duplicate",
        /// After a restart of the switch a sequencer continues at the start of its last block.
        SequencerForgetsLimit = "sequencer-forgets-limit",
        /// A switch routes queries by the tables that were loaded last, active or not.
        IndexHalfLoaded = "index-half-loaded",
        /// A tree node that a switch routes to is split as if no switch routed to it.
        IndexUnpinnedSplit = "index-unpinned-split",
        /// The switch fills in the previous key of a queue pair.
        IndexStaleRkey = "index-stale-rkey",
        /// The word that announces a package is written before the package.
        MessagingEarlyWord = "messaging-early-word",
        /// A receive buffer is reported free when its package is inspected, not when it is
        /// released.
        MessagingEarlyFree = "messaging-early-free",
        /// A receiver accepts any package that a word names.
        MessagingAnySequence = "messaging-any-sequence",
        /// Resources of a connection that is never established are kept.
        MessagingHalfOpen = "messaging-half-open",
        /// No check is made whether a silent peer is alive.
        MessagingNoPulse = "messaging-no-pulse",
        /// A node obeys a switch process of an earlier term than one that it has obeyed.
        HostedOldEpoch = "hosted-old-epoch",
        /// The newest numbers of a sequencer are handed out before the limit that covers them is
        /// stored: that happens with the next ones.
        HostedEarlyRange = "hosted-early-range",
    }
}

impl Canary {
    /// The system whose chaos campaign must catch the bug: the one in its name, or flows.
    pub fn system(self) -> &'static str {
        match self.name().split('-').next() {
            Some(system @ ("pages" | "index" | "sequencer" | "messaging" | "hosted")) => system,
            _ => "flows",
        }
    }

    /// How the clients of an index must read so that the bug is triggered, if that matters.
    pub const fn access(self) -> Option<&'static str> {
        match self {
            Canary::IndexHalfLoaded | Canary::IndexUnpinnedSplit | Canary::IndexStaleRkey => {
                Some("in-network")
            }
            _ => None,
        }
    }
}

#[cfg(debug_assertions)]
static ARMED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Plants `bug` for the rest of the process.
#[cfg(debug_assertions)]
pub fn arm(bug: Canary) {
    ARMED.store(bug as u8, core::sync::atomic::Ordering::Relaxed);
}

/// The bug that is planted in this process.
#[cfg(debug_assertions)]
pub fn armed() -> Option<Canary> {
    Canary::ALL.into_iter().find(|&bug| planted(bug))
}

/// Whether `bug` is planted in this process.
#[cfg(debug_assertions)]
pub fn planted(bug: Canary) -> bool {
    ARMED.load(core::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether `bug` is planted: never, in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn planted(_bug: Canary) -> bool {
    false
}
