//! The invariants: of every completion when it arrives, and of both memories at the end.

use super::World;
use super::side::{Kind, PLACE, RECEIVED, RESULTS, Request, WORD, WRITTEN, pattern};
use rackweave_verbs::{CompletionStatus, Verbs};
use std::sync::atomic::Ordering;

impl World {
    pub fn take_completions(&mut self) {
        for at in 0..2 {
            self.take_sent(at);
            self.take_received(at);
            while self.sides[at].nic.poll_event().is_some() {}
        }
    }

    fn take_sent(&mut self, at: usize) {
        let [own, peer] = self.sides_of(at);
        let mut completions = Vec::new();
        own.nic.poll_cq(own.send_cq, usize::MAX, &mut completions);
        for completion in completions {
            let id = own.open.pop_front().expect("nothing completes twice");
            assert_eq!(completion.id, id as u64, "requests complete in order");
            if completion.status != CompletionStatus::Success {
                own.broken = true;
                continue;
            }
            assert!(!own.broken, "nothing succeeds behind a failure");
            let &Request { kind, offset, len } = &own.requests[id];
            let is_legal = offset != usize::MAX;
            assert!(is_legal, "a request succeeded that must be refused");
            let expect = |side: u8| pattern(side)[offset..offset + len].to_vec();
            let (own_number, peer_number) = (at as u8 + 1, 2 - at as u8);
            match kind {
                Kind::Send => {}
                Kind::Write => {
                    let place = WRITTEN + id * PLACE;
                    assert_eq!(peer.bytes(place, len), expect(own_number), "WRITE {id}");
                }
                Kind::Read => {
                    let place = RESULTS + id * PLACE;
                    assert_eq!(own.bytes(place, len), expect(peer_number), "READ {id}");
                }
                Kind::Add => {
                    let word = own.target.block.word(RESULTS + id * PLACE);
                    let before = word.load(Ordering::Acquire);
                    let expected = own.adds_succeeded;
                    assert_eq!(before, expected, "adds take effect in order, once");
                    own.adds_succeeded += 1;
                }
            }
        }
    }

    fn take_received(&mut self, at: usize) {
        let sender = 2 - at as u8;
        let side = &mut self.sides[at];
        let mut completions = Vec::new();
        side.nic
            .poll_cq(side.receive_cq, usize::MAX, &mut completions);
        for completion in completions {
            let id = side.receives_completed;
            side.receives_completed += 1;
            assert_eq!(completion.id, id as u64, "receives complete in order");
            if completion.status != CompletionStatus::Success {
                continue;
            }
            let (offset, len) = side.messages[id];
            assert_eq!(completion.length, len as u32);
            let received = side.bytes(RECEIVED + id * PLACE, len);
            let sent = &pattern(sender)[offset..offset + len];
            assert_eq!(received, sent, "message {id}");
        }
    }

    pub fn judge(&mut self) {
        for at in 0..2 {
            let [own, peer] = self.sides_of(at);
            let open = &own.open;
            assert!(open.is_empty(), "requests without completion: {open:?}");
            let word = peer.target.block.word(WORD);
            let word = word.load(Ordering::Acquire);
            assert!((own.adds_succeeded..=own.adds_posted).contains(&word));
            let guard = own.guard.bytes(0, PLACE);
            assert!(guard.is_all(0), "memory nobody registered");
            let source = own.source.block.bytes(0, 2 * PLACE).to_vec();
            assert_eq!(source, pattern(at as u8 + 1), "memory nobody may write");
        }
    }
}
