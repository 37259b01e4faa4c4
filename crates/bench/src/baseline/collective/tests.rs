//! Rounds so short that there are many, with ranks that run out of tuples at different times.

use super::*;
use crate::baseline::tuples::Tally;
use crate::harness::shuffle;
use rackweave_base::Instant;
use rackweave_rack::RunEnd;

#[test]
fn many_short_rounds_lose_nothing() {
    for (nodes, per_node, tuples) in [(1, 1, 100), (3, 1, 5000), (2, 2, 5000), (2, 2, 0)] {
        let mut rack = shuffle::rack(nodes, 17).unwrap();
        let ranks = shuffle::threads(nodes, per_node);
        let plan = CollectivePlan {
            buffer_bytes: 256,
            tuple_size: 32,
            tuples,
        };
        let ledger = Ledger::new(ranks.len(), tuples * 32);
        spawn(&mut rack, &ranks, plan, &ledger).unwrap();
        let end = rack.run(Instant::from_nanos(1_000_000_000));
        let ledger = ledger.borrow();
        assert_eq!(rack.failure(), None);
        assert_eq!(end, RunEnd::Done, "{nodes} nodes, {per_node} ranks each");
        assert_eq!(ledger.total(), Tally::expected(tuples));
    }
}
