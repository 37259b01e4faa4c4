//! The baseline moves items in order, and its cost is what its core is charged.

use super::*;
use crate::harness::Run;

fn goodput(flows: Flows, driving: (u32, Words)) -> f64 {
    let mut run = Run::quick(1);
    let span = Span {
        warm_up: Duration::from_micros(200),
        counted: Duration::from_micros(500),
    };
    // The consumers check the number of every item, so a rate means that all arrived in order.
    super::run(&mut run, flows, driving, span).unwrap()
}

const SMALL: Flows = Flows {
    count: 4,
    item_size: 4096,
    batch_bytes: 4096,
    transfers: 1,
};

#[test]
fn a_core_takes_the_time_that_it_is_charged() {
    let one = |words| goodput(SMALL, (1, words));
    let cpu = CpuModel::default();
    // Two posts, one completion, one store to the tail, one load of the head.
    let fixed = cpu.post_cost * 2 + cpu.poll_cost + cpu.cache_latency;
    for words in [Words::Device, Words::Host] {
        let item = fixed + words.look(&cpu);
        let bound = (4096.0 / item.as_secs_f64()).min(one_to_one::line_rate());
        let share = one(words) / bound;
        // READs of tails are added: at most one for half a ring of items.
        assert!(
            (0.9..1.002).contains(&share),
            "{words:?}: {share} of {bound}"
        );
    }
}

#[test]
fn more_cores_and_larger_writes_fill_the_link() {
    let line_rate = one_to_one::line_rate();
    let [four, one] = [4, 1].map(|cores| (cores, Words::Device));
    let batched = Flows {
        batch_bytes: 64 << 10,
        ..SMALL
    };
    for (name, got) in [
        ("four cores", goodput(SMALL, four)),
        ("batches", goodput(batched, one)),
    ] {
        let share = got / line_rate;
        assert!(
            (0.93..1.002).contains(&share),
            "{name}: {share} of line rate"
        );
    }
}

#[test]
fn a_ring_has_as_many_slots_as_fit() {
    for (item_size, slots) in [(4096, 256), (4096 * 3, 64), (1 << 20, 8)] {
        let layout = layout(Flows { item_size, ..SMALL });
        assert_eq!((layout.item_size, layout.slots), (item_size, slots));
    }
}
