//! What can be wrong with the history of a page.

use super::{PageStamp, Torn, Who};
use rackweave_base::Duration;

/// What is wrong with a page store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("page {page:#x}: {fault}")]
pub struct PageViolation {
    /// The page.
    pub page: u64,
    /// What is wrong with it.
    pub fault: PageFault,
}

/// What is wrong with a page.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageFault {
    /// Two have a page exclusively.
    #[error("{who} got it exclusively while {holder} has it")]
    TwoHolders {
        /// Who got it.
        who: Who,
        /// Who had it.
        holder: Who,
    },
    /// An exclusive fix got a version that is not the newest: an update would be lost.
    #[error(
        "{who} got version {version} exclusively with {content:?}; the newest is \
         {newest}"
    )]
    NotNewest {
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
    #[error("{who} read version {version}; when it asked, {oldest} had replaced it")]
    Stale {
        /// Who read.
        who: Who,
        /// The version it read.
        version: u64,
        /// The oldest that it could have got.
        oldest: String,
    },
    /// After a node's death a page came back in an older version, and nobody had accepted that.
    #[error(
        "{who} got version {version}; {newest} went down with its node, and nobody \
         was told"
    )]
    SilentlyOld {
        /// Who got it.
        who: Who,
        /// The version it got.
        version: u64,
        /// What was lost.
        newest: String,
    },
    /// A version and a content that never belonged together.
    #[error("{who} got version {version} with {content:?}; known: {known}")]
    Unknown {
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
    #[error("{who} got version {version} torn: {error}")]
    Torn {
        /// Who got it.
        who: Who,
        /// The version it was told.
        version: u64,
        /// What is wrong with the bytes.
        error: Torn,
    },
    /// The bytes are those of another page.
    #[error("{who} got {content:?} instead")]
    OtherPage {
        /// Who got it.
        who: Who,
        /// What was there.
        content: PageStamp,
    },
    /// A page was reported lost whose newest version no dead node had to itself.
    #[error("reported lost without cause; the newest is {newest}")]
    LostWithoutCause {
        /// What is there.
        newest: String,
    },
    /// The loss of another version was reported than could be lost.
    #[error("version {version} was reported lost; the newest is {newest}")]
    WrongLoss {
        /// What was reported.
        version: u64,
        /// What is there.
        newest: String,
    },
    /// A fix was refused because of a loss that nobody reported.
    #[error("{who} was told that it is lost, and no loss was reported")]
    LossUnreported {
        /// Who was told.
        who: Who,
    },
    /// The latch of a dead node was not given to others in time.
    #[error("{who} waited {waited} for the latch of a node that is dead")]
    LatchNotReleased {
        /// Who waited.
        who: Who,
        /// How long, since the death or its own request.
        waited: Duration,
    },
    /// The harness gave back what it did not have.
    #[error("{who} gave back what it does not have")]
    NotHeld {
        /// Who gave it back.
        who: Who,
    },
    /// A change was reported as not taken that was, or whose writer was never taken for dead.
    #[error("the change to version {version} by {who} was not taken, without cause")]
    ChangeRefused {
        /// Who made it.
        who: Who,
        /// Its version.
        version: u64,
    },
}
