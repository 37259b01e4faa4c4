//! The control connection of a hosted rack: keys, TLS, versions, messages over TCP.
//!
//! This crate knows how two processes of one rack authenticate each other and how they then
//! exchange messages. It does not know racks, nodes, or the contents of messages: messages are any
//! types that `serde` can write and read.
//!
//! Start with [`keys`] for the files, [`Identity`] for what they are loaded into, and [`Listener`]
//! and [`Connection`] for the two ends.
//!
//! # The protocol, version 1
//!
//! One TCP connection, opened by the client (a node or a command) to the server (the controller).
//!
//! **TLS.** With keys, the connection is TLS 1.3 (RFC 8446) from its first byte, with certificates
//! on both sides. Every certificate is signed directly by the rack's authority (`authority.crt`)
//! and names its owner in one subject alternative name of type dNSName, by the rule of
//! [`dns_name`]. The server requests the client's certificate and aborts the handshake without a
//! valid one. The client requires that the server's certificate names [`CONTROLLER_NAME`], and
//! sends that DNS name as SNI. Keys are ECDSA P-256, suites and groups any of TLS 1.3. No
//! resumption, no tickets, no early data, no ALPN. Without keys there is no TLS, everything else is
//! the same, and both sides refuse any address that is not a loopback address.
//!
//! **Messages.** Everything after that consists of messages: the length of the body in bytes as a
//! u32, big-endian, then the body, a JSON text (RFC 8259) in UTF-8. There is nothing between
//! messages. A body of more than [`MESSAGE_LEN_MAX`] bytes (1 MiB) is an error, and the receiver
//! closes the connection once it has read the length. For the first message, the hello, the limit
//! is [`HELLO_LEN_MAX`] (16 KiB).
//!
//! **Order.** The client sends one hello:
//!
//! ```json
//! {"magic": "rackweave-control", "version_min": 1, "version_max": 1, "name": "n0",
//!  "purpose": "join", "rack": "5ca1ab1e", "body": null}
//! ```
//!
//! `magic`, `version_min` and `version_max` have the same place in all future versions, and unknown
//! members are ignored. `name` is the name of the client; under TLS its certificate must have the
//! same name. `purpose` and `rack` are texts for the layer above, `body` is any JSON value for it.
//!
//! The server answers with one of
//!
//! ```json
//! {"welcome": {"version": 1, "body": null}}
//! {"refused": {"reason": "the name `n0` is taken", "remedy": "choose another"}}
//! ```
//!
//! `version` is the highest version that both sides speak. After `refused` the server closes. After
//! `welcome` both sides send messages as defined by the layer above. The server refuses a hello
//! without a common version, one whose name is not that of the certificate, one that lacks members,
//! anything that is not a hello (a first length above the limit, a first message without the
//! magic), and any hello that the layer above rejects. If TLS fails, there is an alert instead.
//!
//! **Time.** The server gives TLS and hello together one deadline, however slowly the bytes arrive.
//! It keeps at most [`HALF_OPEN_MAX`] unauthenticated connections at a time; one more replaces the
//! oldest from the address that has most of them.
//!
//! **End.** Under TLS the side that ends the connection sends `close_notify`; then, as without TLS,
//! it closes its sending half, and waits briefly for the other side to do the same.

mod connection;
mod error;
mod hello;
mod identity;
mod key_files;
pub mod keys;
mod listener;
mod message;
mod stream;

pub use connection::{Closer, Connection, Introduction, MESSAGE_GRACE, SEND_LIMIT};
pub use error::{ControlError, KeyError};
pub use hello::Hello;
pub use identity::{Credential, Identity, Security, dns_name};
pub use listener::{HALF_OPEN_MAX, Incoming, Listener, Pending};
pub use message::{HELLO_LEN_MAX, MESSAGE_LEN_MAX};

/// The parts of the protocol that use no socket, for a fuzzer.
#[doc(hidden)]
pub mod parts {
    pub use crate::hello::Reply;
    pub use crate::message::{MessageReader, TooLong, decode, encode};
}

/// The newest version of the protocol that this side supports.
pub const PROTOCOL_VERSION: u16 = 1;

/// The oldest version of the protocol that this side supports.
pub const PROTOCOL_VERSION_MIN: u16 = 1;

/// The name that the server's certificate must have, so that no node can pose as the controller.
pub const CONTROLLER_NAME: &str = "controller";
