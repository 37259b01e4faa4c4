//! Messages: round trips, and random bytes.

use super::*;
use proptest::prelude::*;

fn requests<'a>(numbers: [u64; 4], bytes: &'a [u8], entries: &'a [u8]) -> Vec<Request<'a>> {
    let [a, b, c, d] = numbers;
    let (id, map) = (MoveId(a), PartitionMap::split(&[b.max(1)]).unwrap());
    let entries = Entries::new(entries).unwrap();
    vec![
        Request::Get { key: a },
        Request::Insert {
            key: a,
            value: bytes,
        },
        Request::Update {
            key: a,
            value: bytes,
        },
        Request::Put {
            key: a,
            value: bytes,
        },
        Request::Delete { key: a },
        Request::Scan {
            low: a,
            last: b,
            direction: [Direction::Forward, Direction::Backward][usize::from(c > d)],
            limit: c as u32,
        },
        Request::Load { entries },
        Request::Map,
        Request::Statistics,
        Request::State,
        Request::Mark {
            id,
            to: EndpointId(b as u16),
            low: c,
            last: d,
            entries_max: a as u32,
            map: map.clone(),
        },
        Request::Export { id, from: b },
        Request::Release { id },
        Request::Commit {
            id,
            map: map.clone(),
        },
        Request::Stage {
            id,
            low: b,
            last: c,
            map: map.clone(),
        },
        Request::Install { id, entries },
        Request::Discard { id },
        Request::Seal { id, entries: d },
        Request::Adopt {
            id,
            map: map.clone(),
        },
        Request::Abort { id },
        Request::ReplicaPut {
            epoch: a,
            key: b,
            value: bytes,
        },
        Request::ReplicaRemove { epoch: c, key: d },
        Request::ReplicaInstall { epoch: d, entries },
        Request::ReplicaClear {
            epoch: a,
            low: b,
            last: c,
        },
        Request::ReplicaMap { epoch: b, map },
    ]
}

proptest! {
    #[test]
    fn requests_there_and_back(
        numbers in any::<[u64; 4]>(),
        value in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut entries = Vec::new();
        Entries::push(&mut entries, numbers[0], &value);
        Entries::push(&mut entries, numbers[1], &[]);
        let all = requests(numbers, &value, &entries);
        prop_assert_eq!(Method::from_number(all.len() as u16 + 1), None);
        prop_assert_eq!(Method::from_number(0), None);
        for (at, request) in all.into_iter().enumerate() {
            let method = request.method();
            prop_assert_eq!(Method::from_number(at as u16 + 1), Some(method));
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            let decoded = Request::decode(method as u16, &bytes);
            prop_assert_eq!(decoded.as_ref(), Ok(&request));
            // No request is a prefix of another, except that values may be shorter.
            for len in 0..bytes.len() {
                if let Ok(shorter) = Request::decode(method as u16, &bytes[..len]) {
                    prop_assert!(shorter != request);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        method in 0u16..30,
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        match Request::decode(method, &bytes) {
            Ok(request) => {
                let mut again = Vec::new();
                request.encode(&mut again);
                prop_assert_eq!(&again, &bytes);
            }
            Err(RequestError::UnknownMethod(unknown)) => {
                prop_assert_eq!(unknown, method);
                prop_assert_eq!(Method::from_number(method), None);
            }
            Err(RequestError::Malformed { len, .. }) => prop_assert_eq!(len, bytes.len()),
        }
        let _ = (reply(&bytes), Page::decode(&bytes));
    }
}

#[test]
fn pages_there_and_back() {
    for next in [None, Some(0), Some(u64::MAX)] {
        let mut bytes = page_header(next).to_vec();
        Entries::push(&mut bytes, 7, b"seven");
        let page = Page::decode(&bytes).unwrap();
        assert_eq!(page.next, next);
        assert_eq!(
            page.entries.iter().collect::<Vec<_>>(),
            [(7, &b"seven"[..])]
        );
    }
    assert_eq!(Page::decode(&[0; PAGE_HEADER - 1]), None);
}
