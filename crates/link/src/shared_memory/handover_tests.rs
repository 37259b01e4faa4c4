//! Messages with descriptors between the two ends of a stream.

use super::*;
use std::time::Duration;

fn streams() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    b.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    (a, b)
}

#[test]
fn messages_arrive_with_their_descriptors() {
    let (a, b) = streams();
    let (out, mut into) = std::io::pipe().unwrap();
    for count in [0, 1, DESCRIPTORS_MAX] {
        send(&a, &[count as u8; MESSAGE_MAX], &vec![out.as_fd(); count]).unwrap();
    }
    send(&a, b"", &[]).unwrap();
    let mut last = Vec::new();
    for count in [0, 1, DESCRIPTORS_MAX] {
        let (message, descriptors) = receive(&b).unwrap();
        assert_eq!(message, [count as u8; MESSAGE_MAX]);
        assert_eq!(descriptors.len(), count);
        last = descriptors;
    }
    assert!(receive(&b).unwrap().0.is_empty());
    into.write_all(b"through").unwrap();
    let mut pipe = std::io::PipeReader::from(last.pop().unwrap());
    let mut bytes = [0; 7];
    pipe.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"through");
}

#[test]
fn too_much_is_refused_by_either_side() {
    let (mut a, b) = streams();
    let long = send(&a, &[0; MESSAGE_MAX + 1], &[]).unwrap_err();
    assert!(matches!(long, HandoverError::TooLong { bytes: 4097, .. }));
    let fds = vec![a.as_fd(); DESCRIPTORS_MAX + 1];
    let many = send(&a, b"", &fds).unwrap_err();
    assert!(matches!(
        many,
        HandoverError::TooLong {
            descriptors: 17,
            ..
        }
    ));
    a.write_all(&[0x01, 0x10, 0, 0]).unwrap();
    let long = receive(&b).unwrap_err();
    assert!(matches!(long, HandoverError::TooLong { bytes: 4097, .. }));
}

#[test]
fn what_is_announced_must_come() {
    let (mut a, b) = streams();
    a.write_all(&[0, 0, 2, 0]).unwrap();
    let none = receive(&b).unwrap_err();
    assert!(matches!(
        none,
        HandoverError::Descriptors { said: 2, found: 0 }
    ));
    // More descriptors than there is space for: the system omits some and reports that.
    let (a, b) = streams();
    let fds = vec![a.as_fd(); DESCRIPTORS_MAX + 4];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX + 4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let bytes = [IoSlice::new(&[0, 0, 16, 0])];
    sendmsg(&a, &bytes, &mut control, SendFlags::empty()).unwrap();
    let many = receive(&b).unwrap_err();
    assert!(
        matches!(many, HandoverError::Descriptors { said: 16, .. }),
        "{many}"
    );
}

#[test]
fn a_silent_or_dead_peer_is_told() {
    let (mut a, b) = streams();
    let kind = |result: Result<_, HandoverError>| match result.map(|_: (Vec<u8>, Vec<OwnedFd>)| ())
    {
        Err(HandoverError::Stream(error)) => error.kind(),
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(receive(&b)), io::ErrorKind::WouldBlock);
    a.write_all(&[1, 0, 0]).unwrap();
    assert_eq!(kind(receive(&b)), io::ErrorKind::WouldBlock);
    drop(a);
    assert_eq!(kind(receive(&b)), io::ErrorKind::UnexpectedEof);
    assert!(matches!(
        send(&b, b"hello", &[]),
        Err(HandoverError::Stream(_))
    ));
}
