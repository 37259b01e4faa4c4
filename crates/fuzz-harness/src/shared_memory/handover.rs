//! What a process sends when a link's descriptors are handed over.

use crate::fixture::{Seeds, check_line, hex, named};
use crate::input::Input;
use rackweave_link::shared_memory::handover::{
    DESCRIPTORS_MAX, HandoverError, MESSAGE_MAX, receive, send,
};
use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// More than a message may have.
const DESCRIPTORS: usize = DESCRIPTORS_MAX + 4;

/// The first byte says how many descriptors go with the first piece, the second how long that piece
/// is. The bytes after these two are the stream, which then ends.
///
/// # Panics
/// If anything else arrives than what the stream says, or a descriptor is left open.
pub fn handover(data: &[u8]) {
    let mut input = Input::new(data);
    let (Some(descriptors), Some(first)) = (input.below(DESCRIPTORS + 1), input.byte()) else {
        return;
    };
    let stream = input.bytes(usize::MAX);
    if stream.is_empty() {
        return;
    }
    let (mut hostile, victim) = UnixStream::pair().expect("descriptors are free");
    let (mut open, passed) = std::io::pipe().expect("descriptors are free");
    let (piece, rest) = stream.split_at(usize::from(first).clamp(1, stream.len()));
    send_with(&hostile, piece, &vec![passed.as_fd(); descriptors]);
    drop(passed);
    hostile.write_all(rest).expect("the socket has space");
    drop(hostile);
    check(&victim, stream, descriptors);
    drop(victim);
    // While any process has a descriptor of the other end, a blocking read would never end.
    rustix::io::ioctl_fionbio(&open, true).expect("it is a pipe");
    let left = open.read(&mut [0]);
    assert!(matches!(left, Ok(0)), "a descriptor stays open");
}

fn send_with(stream: &UnixStream, piece: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(
        descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)),
        "the space is for so many"
    );
    let sent = sendmsg(
        stream,
        &[IoSlice::new(piece)],
        &mut control,
        SendFlags::empty(),
    );
    assert_eq!(sent, Ok(piece.len()), "the socket has room");
}

/// The first message is what the stream says, or refused; an accepted one can be sent again.
fn check(victim: &UnixStream, stream: &[u8], found: usize) {
    let received = receive(victim);
    let Some((prefix, behind)) = stream.split_first_chunk::<4>() else {
        assert!(
            matches!(received, Err(HandoverError::Stream(_))),
            "{received:?}"
        );
        return;
    };
    let [len, said] = [[prefix[0], prefix[1]], [prefix[2], prefix[3]]];
    let [len, said] = [len, said].map(|half| usize::from(u16::from_le_bytes(half)));
    match received {
        Ok((message, descriptors)) => {
            assert_eq!((descriptors.len(), message.len()), (said, len));
            assert_eq!((&message[..], found), (&behind[..len], said));
            again(
                &message,
                &descriptors.iter().map(AsFd::as_fd).collect::<Vec<_>>(),
            );
        }
        Err(error) => {
            check_line(&error.to_string());
            let is_long = len > MESSAGE_MAX || said > DESCRIPTORS_MAX;
            let is_right = match error {
                HandoverError::TooLong { bytes, descriptors } => {
                    is_long && (bytes, descriptors) == (len, said)
                }
                HandoverError::Descriptors { said: claimed, .. } => {
                    !is_long && claimed == said && found != said
                }
                HandoverError::Stream(_) => !is_long && found == said && behind.len() < len,
            };
            assert!(is_right, "{len} bytes, {said} and {found} descriptors");
        }
    }
}

fn again(message: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let (a, b) = UnixStream::pair().expect("descriptors are free");
    send(&a, message, descriptors).expect("it came like this");
    let (bytes, passed) = receive(&b).expect("it was sent like this");
    assert_eq!((&bytes[..], passed.len()), (message, descriptors.len()));
}

pub fn seeds() -> Seeds {
    let stories = [
        ("handover", "03 04 02 00 03 00 68 69"),
        ("handover-in-pieces", "03 01 02 00 03 00 68 69"),
        ("handover-without", "00 04 01 00 03 00 68"),
        ("handover-unannounced", "02 04 01 00 00 00 68"),
        ("handover-too-many", "14 04 00 00 10 00"),
        ("handover-too-long", "00 04 01 10 00 00"),
        ("handover-cut-off", "01 09 09 00 01 00 68"),
    ];
    named(&[1], stories.map(|(name, bytes)| (name, hex(bytes))))
}
