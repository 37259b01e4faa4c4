//! What can be wrong with the history of a page.

use super::{PageStamp, Torn, Who};
use rackweave_base::Duration;

/// What is wrong with a page store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageViolation {
    /// Two have a page exclusively.
    #[error("page {page:#x}: {who} got it exclusively while {holder} has it")]
    TwoHolders {
        /// The page.
        page: u64,
        /// Who got it.
        who: Who,
        /// Who had it.
        holder: Who,
    },
    /// An exclusive fix got a version that is not the newest: an update would be lost.
    #[error(
        "page {page:#x}: {who} got version {version} exclusively with {content:?}; the newest is \
         {newest}"
    )]
    NotNewest {
        /// The page.
        page: u64,
        /// Who got it.
        who: Who,
        /// The version it was told.
        version: u64,
        /// What was in the page; nothing: zeroes.
        content: Option<PageStamp>,
        /// What it should have got.
        newest: String,
    },
    /// A shared fix got a version that had been replaced before the fix began.
    #[error(
        "page {page:#x}: {who} read version {version}; when it asked, {oldest} had replaced it"
    )]
    Stale {
        /// The page.
        page: u64,
        /// Who read.
        who: Who,
        /// The version it read.
        version: u64,
        /// The oldest that it could have got.
        oldest: String,
    },
    /// After a node's death a page came back in an older version, and nobody had accepted that.
    #[error(
        "page {page:#x}: {who} got version {version}; {newest} went down with its node, and nobody \
         was told"
    )]
    SilentlyOld {
        /// The page.
        page: u64,
        /// Who got it.
        who: Who,
        /// The version it got.
        version: u64,
        /// What was lost.
        newest: String,
    },
    /// A version and a content that never belonged together.
    #[error("page {page:#x}: {who} got version {version} with {content:?}; known: {known}")]
    Unknown {
        /// The page.
        page: u64,
        /// Who got it.
        who: Who,
        /// The version it was told.
        version: u64,
        /// What was in the page; nothing: zeroes.
        content: Option<PageStamp>,
        /// What it could have got.
        known: String,
    },
    /// The bytes are not those of one version.
    #[error("page {page:#x}: {who} got version {version} torn: {error}")]
    Torn {
        /// The page.
        page: u64,
        /// Who got it.
        who: Who,
        /// The version it was told.
        version: u64,
        /// What is wrong with the bytes.
        error: Torn,
    },
    /// The bytes are those of another page.
    #[error("page {page:#x}: {who} got {content:?} instead")]
    OtherPage {
        /// The page.
        page: u64,
        /// Who got it.
        who: Who,
        /// What was there.
        content: PageStamp,
    },
    /// A page was reported lost whose newest version no dead node had to itself.
    #[error("page {page:#x}: reported lost without cause; the newest is {newest}")]
    LostWithoutCause {
        /// The page.
        page: u64,
        /// What is there.
        newest: String,
    },
    /// The loss of another version was reported than could be lost.
    #[error("page {page:#x}: version {version} was reported lost; the newest is {newest}")]
    WrongLoss {
        /// The page.
        page: u64,
        /// What was reported.
        version: u64,
        /// What is there.
        newest: String,
    },
    /// A fix was refused because of a loss that nobody reported.
    #[error("page {page:#x}: {who} was told that it is lost, and no loss was reported")]
    LossUnreported {
        /// The page.
        page: u64,
        /// Who was told.
        who: Who,
    },
    /// The latch of a dead node was not given to others in time.
    #[error("page {page:#x}: {who} waited {waited} for the latch of a node that is dead")]
    LatchNotReleased {
        /// The page.
        page: u64,
        /// Who waited.
        who: Who,
        /// How long, since the death or its own request.
        waited: Duration,
    },
    /// The harness gave back what it did not have.
    #[error("page {page:#x}: {who} gave back what it does not have")]
    NotHeld {
        /// The page.
        page: u64,
        /// Who gave it back.
        who: Who,
    },
    /// A change was reported as not taken that was, or whose writer was never taken for dead.
    #[error(
        "page {page:#x}: the change to version {version} by {who} was not taken, without cause"
    )]
    ChangeRefused {
        /// The page.
        page: u64,
        /// Who made it.
        who: Who,
        /// Its version.
        version: u64,
    },
}
