//! Rings so short that workers run out of segments and of credit all the time.

use super::*;
use crate::baseline::ends::Ends;
use crate::baseline::tuples::Tally;
use crate::baseline::worker::{Ledger, Production, worker};
use crate::harness::shuffle;
use rackweave_base::{Duration, Instant};
use rackweave_rack::RunEnd;

fn run(shape: Shape, tuples: u64) -> (Tally, Duration) {
    let mut rack = shuffle::rack(2, 11).unwrap();
    let workers = shuffle::threads(2, 2);
    let ledger = Ledger::new(workers.len(), tuples * shape.tuple_size as u64);
    let (senders, receivers) = mesh(&mut rack, &workers, &workers, shape).unwrap();
    for (own, (sender, receiver)) in senders.into_iter().zip(receivers).enumerate() {
        let production = Production::share(tuples, own, workers.len(), shape.tuple_size);
        let ends: Ends = (Box::new(sender), Box::new(receiver));
        let worker = worker(production, ends, (own, workers.len()), ledger.clone());
        rack.spawn(workers[own], worker);
    }
    let end = rack.run(Instant::from_nanos(1_000_000_000));
    assert_eq!(rack.failure(), None);
    assert_eq!(end, RunEnd::Done);
    let ledger = ledger.borrow();
    (ledger.total(), ledger.finished_at - Instant::ZERO)
}

#[test]
fn short_rings_lose_nothing_and_cost_time() {
    let long = Shape {
        segment_bytes: 1024,
        segments: 64,
        source_segments: 16,
        tuple_size: 32,
    };
    let short = Shape {
        segments: 4,
        source_segments: 2,
        ..long
    };
    let tuples = 20_000;
    let (seen, fast) = run(long, tuples);
    assert_eq!(seen, Tally::expected(tuples));
    let (seen, slow) = run(short, tuples);
    assert_eq!(seen, Tally::expected(tuples));
    assert!(
        slow > fast,
        "{slow:?} with short rings, {fast:?} with long ones"
    );
}

#[test]
fn a_shuffle_of_nothing_ends() {
    let shape = Shape {
        segment_bytes: 256,
        segments: 4,
        source_segments: 2,
        tuple_size: 16,
    };
    assert_eq!(run(shape, 0).0, Tally::default());
    assert_eq!(run(shape, 1).0, Tally::expected(1));
}
