//! Messages as bytes.

use super::*;

#[test]
fn messages_travel_and_what_is_none_is_refused() {
    let place = Place { node: 3, frame: 77 };
    let revoke = |downgrade, push| Message::Revoke {
        page: 1 << 40,
        id: 9,
        downgrade,
        push,
    };
    let all = [
        Message::Fetch {
            page: u64::MAX,
            id: 2,
            kept: 1,
            frame: 5,
            exclusive: true,
            from_home: false,
        },
        Message::Drop((0..DROPS_MAX as u64).map(|at| (at, at << 33)).collect()),
        Message::Drop(Vec::new()),
        Message::WriteBack {
            page: 4,
            id: 5,
            frame: 6,
        },
        Message::Granted {
            version: 7,
            dirty: false,
            from_home: true,
        },
        Message::Redirect {
            version: 1,
            place,
            id: 3,
        },
        Message::Done { written: true },
        revoke(true, Some(place)),
        revoke(false, None),
        Message::Complied {
            page: 8,
            had: true,
            dirty: false,
        },
    ];
    for message in all {
        let envelope = Envelope {
            tag: 0x1234,
            message,
        };
        let mut bytes = [0xff; BYTES_MAX];
        let len = envelope.write(&mut bytes);
        assert_eq!(Envelope::read(&bytes[..len]), Ok(envelope));
        for wrong in [0, 1, len - 1] {
            assert!(Envelope::read(&bytes[..wrong]).is_err());
        }
        bytes[0] = 99;
        let (kind, bad) = (99, Envelope::read(&bytes[..len]));
        assert_eq!(bad, Err(BadMessage { kind, len }));
    }
}

#[test]
fn bytes_lie_as_the_head_of_the_module_says() {
    let mut bytes = [0; BYTES_MAX];
    let message = Message::Redirect {
        version: 0x0102,
        place: Place { node: 3, frame: 4 },
        id: 5,
    };
    let len = Envelope { tag: 6, message }.write(&mut bytes);
    let mut expect = [0; BYTES];
    (expect[0], expect[2], expect[4], expect[16]) = (5, 6, 3, 5);
    (expect[24], expect[25], expect[32]) = (2, 1, 4);
    assert_eq!(bytes[..len], expect);
}
