//! PSNs that wrap in the middle of everything.

use crate::common::*;
use rackweave_base::Psn;
use rackweave_verbs::*;
use std::sync::atomic::Ordering;

fn wrapping(before: u32) -> Setup {
    Setup {
        psn_a: Psn::SPACE - before,
        psn_b: Psn::SPACE - before,
        ..Setup::default()
    }
}

#[test]
fn messages_span_the_wrap() {
    for before in 0..8 {
        for lost in [None, Some(0), Some(2), Some(5)] {
            let mut pair = Pair::with(&wrapping(before));
            let mut count = 0;
            pair.filter = Box::new(move |_, _, _| {
                count += 1;
                if Some(count - 1) == lost {
                    Fate::Drop
                } else {
                    Fate::Deliver
                }
            });
            let data = pattern(4000, 1);
            pair.a.block.write(0, &data);
            pair.b.block.write(10_000, &data);
            pair.b.post_receive(0, 20_000, 4000);
            pair.b.block.word(30_000).store(1, Ordering::Relaxed);
            let region = pair.b.region.clone();
            pair.a.post(1, write_to(&region, 0), 0, 4000);
            pair.a.post(2, read_from(&region, 10_000), 10_000, 4000);
            pair.a.post(3, SEND, 0, 4000);
            pair.a.post(4, fetch_add(&region, 30_000, 1), 30_000, 8);
            pair.run();
            let statuses = pair.a.statuses();
            let ok = CompletionStatus::Success;
            assert_eq!(
                statuses,
                [(1, ok), (2, ok), (3, ok), (4, ok)],
                "{before} {lost:?}"
            );
            assert_eq!(pair.b.bytes(0, 4000), data);
            assert_eq!(pair.a.bytes(10_000, 4000), data);
            assert_eq!(pair.b.bytes(20_000, 4000), data);
            assert_eq!(pair.b.block.word(30_000).load(Ordering::Relaxed), 2);
        }
    }
}
