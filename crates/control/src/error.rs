//! Errors of keys and connections, each in one line with a remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Why keys could not be created or loaded.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A name that is not valid for a file and a certificate.
    #[error("no key can bear the name {name:?}: {rule}")]
    BadName {
        /// The name.
        name: String,
        /// The rule for valid names.
        rule: &'static str,
    },
    /// A file is missing.
    #[error(
        "{} is missing: make it with `rackweave keygen --config FILE`, and copy it here if that \
         was another machine",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file or directory cannot be read.
    #[error(
        "cannot read {}: {error}; make it readable for this user, or make new keys with \
         `rackweave keygen --config FILE`",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {}: {error}; run `rackweave keygen` where this user may", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A private key that other users may read or change.
    #[error(
        "{path} is open to others (mode {mode:o}): run `chmod 600 {path}`, or make a new key if \
         somebody may have read it",
        path = path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A key directory in which other users may create files.
    #[error(
        "others may write in {path} (mode {mode:o}): run `chmod 700 {path}`, or choose another \
         directory for the keys",
        path = path.display()
    )]
    OpenDirectory {
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A certificate that has expired.
    #[error(
        "{} has expired: run `rackweave keygen --config FILE`, and copy the new one here if that \
         was another machine",
        path.display()
    )]
    Expired {
        /// The file.
        path: PathBuf,
    },
    /// A file with invalid contents, or one that does not match the others.
    #[error("{} {detail}: {remedy}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
        /// The remedy.
        remedy: String,
    },
    /// The authority's certificate exists, its key does not.
    #[error(
        "{path} is missing, and authority.crt without it signs nothing: run `rackweave keygen` \
         where the rack's keys were made, or remove authority.crt here to make new keys for all",
        path = path.display()
    )]
    NoAuthorityKey {
        /// The key's file.
        path: PathBuf,
    },
    /// The cryptographic library failed.
    #[error("cannot make a key or certificate: {detail}; this is no fault of any file")]
    Library {
        /// The library's error.
        detail: String,
    },
}

/// Why a control connection was not established, or ended.
///
/// `peer` is always the other side, in a form suitable for a message.
#[derive(Debug, Error)]
pub enum ControlError {
    /// No process answers at the address.
    #[error("cannot reach {addr}: {error}; is `rackweave switch` running there?")]
    Unreachable {
        /// The address as given.
        addr: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {addr}: {error}; is another `rackweave switch` running, and is the \
         address one of this machine?"
    )]
    Listen {
        /// The address as given.
        addr: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A connection without keys to or at an address that other machines can reach.
    #[error(
        "{addr} is no loopback address, and without keys no other is allowed: make keys with \
         `rackweave keygen --config FILE`"
    )]
    PlainNotLoopback {
        /// The address.
        addr: SocketAddr,
    },
    /// The other side refused.
    #[error("{by} refused: {reason}: {remedy}")]
    Refused {
        /// The side that refused.
        by: String,
        /// The reason, as sent by that side.
        reason: String,
        /// The remedy, as sent by that side.
        remedy: String,
    },
    /// The other side's key was revoked.
    #[error("{peer} shows a key that was revoked: make a new one with `rackweave keygen`")]
    Revoked {
        /// The other side.
        peer: String,
    },
    /// Certificates that do not match, as seen by either side.
    #[error(
        "{peer} {detail}: give both sides keys from the same `rackweave keygen --config FILE`, \
         each its own"
    )]
    WrongKey {
        /// The other side.
        peer: String,
        /// Which key is wrong, and why.
        detail: String,
    },
    /// The received data is not the control protocol.
    #[error(
        "{peer} does not speak the control protocol ({detail}): check the address, and that both \
         sides or neither use keys"
    )]
    NotOurProtocol {
        /// The other side.
        peer: String,
        /// What was received instead.
        detail: String,
    },
    /// The two sides have no common version.
    #[error(
        "{peer} speaks version {min} to {max}, this side versions {} to {}: upgrade rackweave on \
         the older side",
        crate::PROTOCOL_VERSION_MIN,
        crate::PROTOCOL_VERSION
    )]
    Version {
        /// The other side.
        peer: String,
        /// The oldest version that it supports.
        min: u16,
        /// The newest version that it supports.
        max: u16,
    },
    /// A message above the limit, sent or received.
    #[error(
        "a message of {len} bytes, with {peer}, is longer than {limit} bytes: send less at once"
    )]
    TooLong {
        /// The other side.
        peer: String,
        /// The message's length, in bytes.
        len: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A message with invalid contents.
    #[error("a message with {peer} makes no sense: {detail}; do both sides run the same release?")]
    Malformed {
        /// The other side.
        peer: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The other side took too long.
    #[error("{peer} took too long {what}: is it stopped, or the network cut?")]
    TimedOut {
        /// The other side.
        peer: String,
        /// The step that took too long.
        what: &'static str,
    },
    /// The connection has ended.
    #[error(
        "the connection with {peer} has ended{}; see what that side says, and connect again",
        if *midway { " in the middle of a message" } else { "" }
    )]
    Closed {
        /// The other side.
        peer: String,
        /// Whether part of a message, or of the handshake, had arrived.
        midway: bool,
    },
    /// A system error on the connection.
    #[error("the connection with {peer} failed: {error}; check the network")]
    Io {
        /// The other side.
        peer: String,
        /// The error of the system.
        error: io::Error,
    },
}
