//! What can go wrong with keys and connections, each in one line with its remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Why keys could not be made or loaded.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A name that cannot name a file and a certificate.
    #[error("no key can bear the name {name:?}: {rule}")]
    BadName {
        /// The name.
        name: String,
        /// What a good name is.
        rule: &'static str,
    },
    /// A file is not there.
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
        /// What the system said.
        error: io::Error,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {}: {error}; run `rackweave keygen` where this user may", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A private key that others may read or change.
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
    /// A directory for keys where others may put files.
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
    /// A file that does not hold what it should, or does not belong to the others.
    #[error("{} {detail}: {remedy}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
        /// What to do.
        remedy: String,
    },
    /// The authority's certificate is there, its key is not.
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
        /// What it said.
        detail: String,
    },
}

/// Why a control connection did not come about, or ended.
///
/// `peer` is always the other side, in words fit for a message.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nobody answers at the address.
    #[error("cannot reach {addr}: {error}; is `rackweave switch` running there?")]
    Unreachable {
        /// The address as given.
        addr: String,
        /// What the system said.
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
        /// What the system said.
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
    /// The other side understood, and said no.
    #[error("{by} refused: {reason}: {remedy}")]
    Refused {
        /// Who refused.
        by: String,
        /// Why, in its words.
        reason: String,
        /// What to do, in its words.
        remedy: String,
    },
    /// The other side's key was revoked.
    #[error("{peer} shows a key that was revoked: make a new one with `rackweave keygen`")]
    Revoked {
        /// The other side.
        peer: String,
    },
    /// Certificates that do not go together; either side's view.
    #[error(
        "{peer} {detail}: give both sides keys from the same `rackweave keygen --config FILE`, \
         each its own"
    )]
    WrongKey {
        /// The other side.
        peer: String,
        /// Whose key is wrong, and how.
        detail: String,
    },
    /// What came is not the control protocol.
    #[error(
        "{peer} does not speak the control protocol ({detail}): check the address, and that both \
         sides or neither use keys"
    )]
    NotOurProtocol {
        /// The other side.
        peer: String,
        /// What came instead.
        detail: String,
    },
    /// No version that both sides speak.
    #[error(
        "{peer} speaks version {min} to {max}, this side versions {} to {}: upgrade rackweave on \
         the older side",
        crate::PROTOCOL_VERSION_MIN,
        crate::PROTOCOL_VERSION
    )]
    Version {
        /// The other side.
        peer: String,
        /// The oldest version that it speaks.
        min: u16,
        /// The newest.
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
    /// A message that is not what it should be.
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
        /// At what.
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
        /// Whether part of a message, or of the handshake, had come.
        midway: bool,
    },
    /// The system failed at the connection.
    #[error("the connection with {peer} failed: {error}; check the network")]
    Io {
        /// The other side.
        peer: String,
        /// What the system said.
        error: io::Error,
    },
}
