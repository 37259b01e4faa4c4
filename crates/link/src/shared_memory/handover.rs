//! Passes descriptors to another process, with a few bytes that describe them.
//!
//! A message is sent over a Unix stream: the number of its bytes (2, little-endian), the number of
//! its descriptors (2), and the bytes. The descriptors are attached to the first four bytes
//! (`SCM_RIGHTS`, unix(7)). The wait for the other side is limited by the timeouts of the stream.

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Maximum bytes of a message.
pub const MESSAGE_MAX: usize = 4096;

/// Maximum descriptors of a message.
pub const DESCRIPTORS_MAX: usize = 16;

/// The descriptors with which the other end of a link attaches.
#[derive(Debug)]
pub struct Handover {
    /// The segment.
    pub segment: OwnedFd,
    /// The sockets that wake the creator of the segment and the attaching end.
    pub wake: [OwnedFd; 2],
}

/// Why a message was not transmitted.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The stream failed or its timeout has passed.
    #[error("descriptors could not be passed: {0}; check that the process at the other end lives")]
    Stream(#[from] io::Error),
    /// The message exceeds the limits.
    #[error(
        "a message of {bytes} bytes and {descriptors} descriptors, of which {MESSAGE_MAX} and \
         {DESCRIPTORS_MAX} are allowed; run the same version of Rackweave in every process"
    )]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// Descriptors of the message.
        descriptors: usize,
    },
    /// The descriptors did not arrive with the message.
    #[error(
        "{found} descriptors came where {said} were announced; raise the limit of open files, or \
         run the same version of Rackweave in every process"
    )]
    Descriptors {
        /// Number of descriptors announced in the message.
        said: usize,
        /// Number of descriptors received.
        found: usize,
    },
}

impl Handover {
    /// The descriptors in the order in which [`Self::from_descriptors`] takes them.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        let [maker, attacher] = &self.wake;
        [self.segment.as_fd(), maker.as_fd(), attacher.as_fd()]
    }

    /// Builds a handover from descriptors received from another process.
    pub fn from_descriptors([segment, maker, attacher]: [OwnedFd; 3]) -> Self {
        Self {
            segment,
            wake: [maker, attacher],
        }
    }
}

/// Sends `message` with `descriptors`, which stay open here.
///
/// # Errors
/// If there are too many of either, or the stream fails.
pub fn send(
    mut stream: &UnixStream,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), HandoverError> {
    check(message.len(), descriptors.len())?;
    let [l0, l1] = (message.len() as u16).to_le_bytes();
    let [n0, n1] = (descriptors.len() as u16).to_le_bytes();
    let prefix = [l0, l1, n0, n1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors));
    assert!(fits, "the space is for as many as are allowed");
    let sent = retry(|| {
        let bytes = [IoSlice::new(&prefix)];
        sendmsg(stream, &bytes, &mut control, SendFlags::NOSIGNAL)
    })?;
    // The descriptors were sent with the first byte.
    stream.write_all(&prefix[sent..])?;
    stream.write_all(message)?;
    Ok(())
}

/// Receives a message and its descriptors, which close on exec.
///
/// # Errors
/// If the stream fails or ends, or the message does not have the format in the module
/// documentation. The stream is unusable then.
pub fn receive(mut stream: &UnixStream) -> Result<(Vec<u8>, Vec<OwnedFd>), HandoverError> {
    let mut prefix = [0; 4];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = retry(|| {
        let mut bytes = [IoSliceMut::new(&mut prefix)];
        recvmsg(stream, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    stream.read_exact(&mut prefix[received.bytes..])?;
    let [l0, l1, n0, n1] = prefix;
    let bytes = usize::from(u16::from_le_bytes([l0, l1]));
    let said = usize::from(u16::from_le_bytes([n0, n1]));
    check(bytes, said)?;
    let found = descriptors.len();
    if said != found || received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(HandoverError::Descriptors { said, found });
    }
    let mut message = vec![0; bytes];
    stream.read_exact(&mut message)?;
    Ok((message, descriptors))
}

fn check(bytes: usize, descriptors: usize) -> Result<(), HandoverError> {
    if bytes > MESSAGE_MAX || descriptors > DESCRIPTORS_MAX {
        return Err(HandoverError::TooLong { bytes, descriptors });
    }
    Ok(())
}

/// Repeats `call` when it was interrupted by a signal.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    rustix::io::retry_on_intr(&mut call).map_err(io::Error::from)
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
