//! Two ends over two NICs.

use super::*;
use crate::baseline::tests::two_nics::TwoNics;
use rackweave_base::Rng;

const HALF: usize = 256;

fn ends(nics: &mut TwoNics) -> [SingleBuffer; 2] {
    let made = nics.pair(2 * HALF + NOTICE_BYTES, SEND_REQUESTS);
    let peers = [1, 0].map(|other: usize| made[other].keyed());
    let [(a, to_b), (b, to_a)] = [(&made[0], peers[0]), (&made[1], peers[1])];
    [(a, to_b), (b, to_a)]
        .map(|(end, peer)| SingleBuffer::new(end.region.clone(), HALF, (end.qpn, end.cq), peer))
}

/// Sends `message` from `ends[from]` as far as possible and receives what has arrived.
struct Transfer {
    from: usize,
    message: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    packages: u32,
}

impl Transfer {
    fn step(&mut self, nics: &mut TwoNics, ends: &mut [SingleBuffer; 2]) {
        let (near, far) = (self.from, 1 - self.from);
        ends[near].poll(&mut nics.nics[near]).expect("no lie");
        let total = self.message.len();
        if ends[near].is_free() && (self.sent < total || (total == 0 && self.packages == 0)) {
            let len = (total - self.sent).min(ends[near].payload_max());
            let header = PackageHeader {
                code: 7,
                length: len as u64,
                total: total as u64,
                offset: self.sent as u64,
            };
            let (begin, end) = self.message[self.sent..self.sent + len].split_at(len / 3);
            ends[near].fill(header, [begin, end]);
            ends[near]
                .post(&mut nics.nics[near])
                .expect("there is space");
            self.sent += len;
        }
        ends[far].poll(&mut nics.nics[far]).expect("no lie");
        if let Some(header) = ends[far].look().expect("no lie") {
            assert_eq!((header.code, header.total), (7, total as u64));
            let mut bytes = vec![0xaa; header.length as usize];
            ends[far].copy_out(&mut bytes);
            self.received.extend(bytes);
            ends[far]
                .release(&mut nics.nics[far])
                .expect("there is space");
            self.packages += 1;
        }
    }
}

#[test]
fn messages_of_any_length_arrive_whole_and_in_order_both_ways() {
    let mut nics = TwoNics::new(3);
    let mut ends = ends(&mut nics);
    let payload = ends[0].payload_max();
    assert_eq!(payload, HALF - HEADER_BYTES);
    let mut rng = Rng::new(3);
    for length in [0, 1, payload - 1, payload, payload + 1, 10 * payload + 5] {
        for from in [0, 1] {
            let message: Vec<u8> = (0..length).map(|_| rng.next_u32() as u8).collect();
            let mut transfer = Transfer {
                from,
                message,
                sent: 0,
                received: Vec::new(),
                packages: 0,
            };
            let packages = length.div_ceil(payload).max(1) as u32;
            for _ in 0..10 * packages + 10 {
                transfer.step(&mut nics, &mut ends);
                nics.settle();
            }
            assert_eq!(transfer.packages, packages, "{length} bytes");
            assert!(transfer.received == transfer.message, "{length} bytes");
        }
    }
}

#[test]
fn nothing_is_sent_before_the_receiver_gives_notice() {
    let mut nics = TwoNics::new(4);
    let mut ends = ends(&mut nics);
    let header = PackageHeader {
        code: 1,
        length: 3,
        total: 3,
        offset: 0,
    };
    ends[0].fill(header, [&b"abc"[..]]);
    ends[0].post(&mut nics.nics[0]).expect("there is space");
    for _ in 0..5 {
        nics.settle();
        ends[0].poll(&mut nics.nics[0]).expect("no lie");
        assert!(!ends[0].is_free());
    }
    assert_eq!(ends[1].look(), Ok(Some(header)));
    ends[1].release(&mut nics.nics[1]).expect("there is space");
    assert_eq!(ends[1].look(), Ok(None), "it is cleared");
    nics.settle();
    assert_eq!(ends[0].poll(&mut nics.nics[0]), Ok(true));
    assert!(ends[0].is_free());
}

#[test]
fn a_peer_that_lies_is_named() {
    let max = (HALF - HEADER_BYTES) as u64;
    let check = |words: [u64; 4], expect: SingleBufferError| {
        let mut nics = TwoNics::new(5);
        let mut ends = ends(&mut nics);
        for (at, word) in words.iter().enumerate() {
            let block = &ends[1].region.block;
            block.write(HALF + 8 * at, &word.to_le_bytes());
        }
        assert_eq!(ends[1].look(), Err(expect), "{words:?}");
    };
    check([0x100, 1, 1, 0], SingleBufferError::Code(0x100));
    check(
        [1, max + 1, max + 1, 0],
        SingleBufferError::Length {
            length: max + 1,
            max,
        },
    );
    let place = |length, total, offset| SingleBufferError::Place {
        offset,
        length,
        total,
        expected: 0,
    };
    check([1, 5, 4, 0], place(5, 4, 0));
    check([1, 5, 20, 5], place(5, 20, 5));
    check([1, 5, 20, u64::MAX], place(5, 20, u64::MAX));
    check([1, 0, 20, 0], place(0, 20, 0));
}

#[test]
fn a_notice_that_is_none_is_named() {
    let mut nics = TwoNics::new(6);
    let mut ends = ends(&mut nics);
    ends[0].region.block.write(0, &9_u64.to_le_bytes());
    let found = ends[0].poll(&mut nics.nics[0]);
    assert_eq!(found, Err(SingleBufferError::Notice(9)));
    // Notice of a package that is only filled.
    let [_, end] = &mut ends;
    let header = PackageHeader {
        code: 2,
        length: 0,
        total: 0,
        offset: 0,
    };
    end.fill(header, []);
    end.region.block.write(0, &0_u64.to_le_bytes());
    let found = end.poll(&mut nics.nics[1]);
    assert_eq!(found, Err(SingleBufferError::Notice(0)));
}

#[test]
fn a_write_that_fails_is_told() {
    let mut nics = TwoNics::new(7);
    let mut ends = ends(&mut nics);
    let header = PackageHeader {
        code: 2,
        length: 0,
        total: 0,
        offset: 0,
    };
    let region = ends[1].region.clone();
    assert!(nics.nics[1].deregister(&region));
    ends[0].fill(header, []);
    ends[0].post(&mut nics.nics[0]).expect("there is space");
    nics.settle();
    let found = ends[0].poll(&mut nics.nics[0]);
    let expect = SingleBufferError::Broken(CompletionStatus::RemoteAccess);
    assert_eq!(found, Err(expect));
}
