//! The errors of a rack and its services: usually one for setup and one for regular calls.
//!
//! [`RackError`], [`PageServiceError`], [`PageError`] (with [`CommitError`]),
//! [`IndexServiceError`], [`CallError`], [`SequencerServiceError`], [`FlowError`], [`PushError`],
//! [`ConnectError`], [`SendError`] and [`FetchError`]. The errors of the layer below that they
//! carry, such as [`FixError`] and [`IndexError`], are re-exported here.
//!
//! Each variant says what was wrong, where, and how to handle it; `docs/errors.md` in the
//! repository is the catalogue, and `docs/embedding.md` lists those that an engine has to handle,
//! and how. In short:
//!
//! | error | meaning | what an engine does |
//! |---|---|---|
//! | [`FixError::Lost`] | the newest version of a page was lost with its node | recover it from the log, or [`accept_loss`] |
//! | [`FixError::StorageFull`] | changed pages fill the pool and the device | free pages or add capacity, then retry |
//! | [`FixError::Corrupt`], [`FixError::WrongPage`] | storage did not return the page | restore it |
//! | [`CommitError::Superseded`] | a change was rejected: its latch had been revoked | fix the page again and redo the decision |
//! | [`CommitError::TimedOut`] | no confirmation arrived in time that a change was taken | the commit continues; [`losses`] lists the page if it failed |
//! | [`FixError::NotLogged`] | a commit, `settle` or a flush has waited too long for the engine's own log | check the log, then repeat |
//! | [`FixError::Fenced`] | the node was declared dead; changes that only it held are lost | drop the worker, get a new one |
//! | [`FixError::Gone`] | the directory or the storage does not answer | retry; after a restart of the switch the store must be opened again |
//! | [`PageError::TimedOut`], [`FixError::TimedOut`] | another worker holds the latch | release your own latches, then retry |
//! | [`IndexError::Gone`] | the endpoint does not answer; nothing was changed | reconnect, or do without these keys |
//! | [`IndexError::OutcomeUnknown`] | a write was not answered | look the key up, or repeat the write if it is idempotent |
//! | [`Closed`] | the peer of a connection closed it or died | dial again; messages that were not consumed may not have arrived |
//! | [`SequencerError::Broken`] | the switch was restarted | reconnect; at worst numbers are skipped |
//! | [`AskError::NoAnswer`] | the controller's process of a rack of processes does not answer | wait for the next one, and set up again what it does not know |
//! | [`PushError::Aborted`], [`Taken::Aborted`] | a flow was aborted because a node died | create it again; items already taken stay valid |
//!
//! [`accept_loss`]: crate::Rack::accept_loss
//! [`losses`]: crate::pages::PageWorker::losses
//! [`Taken::Aborted`]: crate::flow::Taken::Aborted

#[doc(no_inline)]
pub use rackweave_controller::NameError;
#[doc(no_inline)]
pub use rackweave_controller::ask::AskError;
#[doc(no_inline)]
pub use rackweave_rack::ProcessError;

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
