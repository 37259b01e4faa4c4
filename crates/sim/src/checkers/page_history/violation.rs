//! Violations in the history of a page.

use super::{PageStamp, Torn, Who};
use rackweave_base::Duration;

/// A violation by a page store.
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
    /// Two workers have a page exclusively.
    #[error("{who} got it exclusively while {holder} has it")]
    TwoHolders {
        /// The worker that got it.
        who: Who,
        /// The worker that had it.
        holder: Who,
    },
    /// An exclusive fix got a version that is not the newest: an update would be lost.
    #[error(
        "{who} got version {version} exclusively with {content:?}; the newest is \
         {newest}"
    )]
    NotNewest {
        /// The worker that got it.
        who: Who,
        /// The reported version.
        version: u64,
        /// The content of the page; `None`: zeroes.
        content: Option<PageStamp>,
        /// The version that it should have got.
        newest: String,
    },
    /// A shared fix got a version that had been replaced before the fix began.
    #[error("{who} read version {version}; when it asked, {oldest} had replaced it")]
    Stale {
        /// The reader.
        who: Who,
        /// The version it read.
        version: u64,
        /// The oldest permitted version.
        oldest: String,
    },
    /// After a node's death a page came back in an older version without the loss being accepted.
    #[error(
        "{who} got version {version}; {newest} went down with its node, and nobody \
         was told"
    )]
    SilentlyOld {
        /// The worker that got it.
        who: Who,
        /// The version it got.
        version: u64,
        /// The lost version.
        newest: String,
    },
    /// A version and a content that never belonged together.
    #[error("{who} got version {version} with {content:?}; known: {known}")]
    Unknown {
        /// The worker that got it.
        who: Who,
        /// The reported version.
        version: u64,
        /// The content of the page; `None`: zeroes.
        content: Option<PageStamp>,
        /// The possible results.
        known: String,
    },
    /// The bytes are not those of one version.
    #[error("{who} got version {version} torn: {error}")]
    Torn {
        /// The worker that got it.
        who: Who,
        /// The reported version.
        version: u64,
        /// What is wrong with the bytes.
        error: Torn,
    },
    /// The bytes are those of another page.
    #[error("{who} got {content:?} instead")]
    OtherPage {
        /// The worker that got it.
        who: Who,
        /// The actual content.
        content: PageStamp,
    },
    /// A page was reported lost although its newest version was not only at a dead node.
    #[error("reported lost without cause; the newest is {newest}")]
    LostWithoutCause {
        /// The actual newest version.
        newest: String,
    },
    /// The reported loss names a version other than the one that could be lost.
    #[error("version {version} was reported lost; the newest is {newest}")]
    WrongLoss {
        /// The reported version.
        version: u64,
        /// The actual newest version.
        newest: String,
    },
    /// A fix was refused because of a loss that was not reported.
    #[error("{who} was told that it is lost, and no loss was reported")]
    LossUnreported {
        /// The refused worker.
        who: Who,
    },
    /// The latch of a dead node was not given to others in time.
    #[error("{who} waited {waited} for the latch of a node that is dead")]
    LatchNotReleased {
        /// The waiting worker.
        who: Who,
        /// How long, since the death or its own request.
        waited: Duration,
    },
    /// The harness released a page that it did not hold.
    #[error("{who} gave back what it does not have")]
    NotHeld {
        /// The worker that released it.
        who: Who,
    },
    /// A change was reported as not taken that was taken, or whose writer was never declared dead.
    #[error("the change to version {version} by {who} was not taken, without cause")]
    ChangeRefused {
        /// The writer.
        who: Who,
        /// Its version.
        version: u64,
    },
}
