//! The errors of a rack and its services, one or two for each: one for setting up, one for the
//! calls of every day.
//!
//! [`RackError`], [`PageServiceError`], [`PageError`] (with [`CommitError`]),
//! [`IndexServiceError`], [`CallError`], [`SequencerServiceError`], [`FlowError`], [`PushError`],
//! [`ConnectError`], [`SendError`] and [`FetchError`]. What they carry of the layer below, such as
//! [`FixError`] and [`IndexError`], is here, too.
//!
//! Each variant says what was wrong, where, and what to do about it; `docs/errors.md` in the
//! repository is the catalogue, and `docs/embedding.md` says which of them an engine has to handle
//! and how. In short:
//!
//! | error | meaning | what an engine does |
//! |---|---|---|
//! | [`FixError::Lost`] | the newest version of a page went down with its node | recover it from the log, or [`accept_loss`] |
//! | [`FixError::StorageFull`] | changed pages fill the pool and the device | free pages or make room, try again |
//! | [`FixError::Corrupt`], [`FixError::WrongPage`] | what came from storage is not the page | restore it |
//! | [`CommitError::Superseded`] | a change was not taken: its latch had been taken away | fix the page again and decide anew |
//! | [`CommitError::TimedOut`] | nobody has said in time whether a change was taken | it goes on; [`losses`] has it if it was not |
//! | [`FixError::NotLogged`] | a commit, `settle` or a flush has waited too long for the engine's own log | see to the log, repeat it |
//! | [`FixError::Fenced`] | the node was taken for dead, what only it had is lost | drop the worker, take another |
//! | [`FixError::Gone`] | the directory or the storage does not answer | try again; the store must be opened again after a restart of the switch |
//! | [`PageError::TimedOut`], [`FixError::TimedOut`] | somebody holds the latch | release one's own latches, try again |
//! | [`IndexError::Gone`] | the endpoint does not answer; nothing was changed | reconnect, or go without these keys |
//! | [`IndexError::OutcomeUnknown`] | a write was not answered | look the key up, or write what may be written twice |
//! | [`Closed`] | the peer of a connection closed it or died | dial anew; what was not consumed may not have arrived |
//! | [`SequencerError::Broken`] | the switch was restarted | reconnect; numbers are a gap at worst |
//! | [`PushError::Aborted`], [`Taken::Aborted`] | a flow was broken off, since a node died | make it anew; what was taken stays valid |
//!
//! [`accept_loss`]: crate::Rack::accept_loss
//! [`losses`]: crate::pages::PageWorker::losses
//! [`Taken::Aborted`]: crate::flow::Taken::Aborted

#[doc(no_inline)]
pub use crate::columns::FetchError;
#[doc(no_inline)]
pub use crate::config::{ConfigError, RackError, StoreError};
#[doc(no_inline)]
pub use crate::flow::{FlowError, PushError, RingError};
#[doc(no_inline)]
pub use crate::index::{
    BeginError, BeginMoveError, CallError, IndexError, IndexNetworkError, IndexServiceError,
    IndexSetUpError, MapError, MoveError,
};
#[doc(no_inline)]
pub use crate::messaging::{Closed, ConnectError, SendError};
#[cfg(feature = "files")]
#[doc(no_inline)]
pub use crate::pages::FileError;
#[doc(no_inline)]
pub use crate::pages::{
    AllocateError, CloseError, CommitError, FixError, FlushError, OpenError, PageError,
    PageServiceError, PageSetUpError,
};
#[doc(no_inline)]
pub use crate::rpc::{ResourceError, RpcError};
#[doc(no_inline)]
pub use crate::sequencer::{SequencerError, SequencerServiceError, SequencerSetUpError};
