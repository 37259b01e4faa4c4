//! Messages between a storage node, which listens, and a compute node, which dials.
//!
//! They connect over TCP and then write into each other's receive buffers with one-sided writes
//! (*Communication Tier*, GvDB 2022). A connection has channels; each end of a channel belongs to
//! one thread: [`MessageSender`], [`MessageReceiver`]. `docs/messaging.md` in the repository
//! documents the guarantees.
//!
//! ```
//! use rackweave::messaging::{Listener, MessagingConfig, dial};
//! use rackweave::Rack;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rack = Rack::builder().build()?;
//! let (storage, compute) = (rack.node("storage0")?, rack.node("compute0")?);
//! let (config, patience) = (MessagingConfig::default(), Duration::from_secs(5));
//!
//! let mut listener = Listener::bind(&rack, &storage, "127.0.0.1:0".parse()?, config.clone())?;
//! let address = listener.local_addr();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         // An end that is dropped closes the connection, so this one is kept, though unused.
//!         let (mut senders, _kept) = listener.accept(patience).expect("somebody dials").split();
//!         senders[0].send(7, b"a message").expect("the peer is there");
//!         senders[0].finish_wait().expect("the peer takes it");
//!     });
//!     let (_kept, mut receivers) = dial(&rack, &compute, address, config, patience)?.split();
//!     let (mut message, receiver) = (Vec::new(), &mut receivers[0]);
//!     let came = receiver.receive(&mut message)?.ok_or("one was sent")?;
//!     assert_eq!((came.opcode, &message[..]), (7, &b"a message"[..]));
//!     assert!(receiver.receive(&mut message)?.is_none(), "that was all");
//!     Ok(())
//! })
//! # }
//! ```

pub use rackweave_endpoint::messaging::{
    Agreed, Arrived, CloseReason, Closed, ClosedBy, ConfigError, Connection, MessageInfo,
    MessageReceiver, MessageSender, MessagingConfig, NodeTerms, Piece, RECEIVE_BYTES_MAX,
    RECEIVE_BYTES_MIN, Receiver, ReceiverCounters, Refusal, Role, SendError, Sender,
    SenderCounters, handshake,
};
pub use rackweave_rack::messaging::{
    ConnectError, Dialing, Failure, Listener, ListenerCounters, MessageConnection, PATIENCE,
    PENDING_MAX, PeerQuota, dial,
};
