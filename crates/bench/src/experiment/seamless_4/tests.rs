//! A small rack of the microbenchmarks.

use super::*;
use crate::harness::Run;

fn seen(want: Want, table: Table, load: Load) -> Seen {
    let mut run = Run::quick(9);
    let all = 2_000;
    let shape = Shape {
        depth: 4,
        held: 64,
        cold: all - 64,
        indexed: if table == Table::Server { 0 } else { all },
        capacity: all as u32,
        looks_from: (table == Table::Looked).then_some(0),
    };
    let mut rack = PageRack::new(&mut run, shape).expect("the rack is built");
    let rate = match load {
        Load::Open(rate) => rate,
        Load::Closed(_) => 50_000.0,
    };
    let counted = Duration::from_nanos((400.0 / rate * 1e9) as u64);
    let seen = rack.measure(&mut run, (want, load), counted);
    seen.unwrap_or_else(|error| panic!("{want:?}, {table:?}, seed 9: {error}"))
}

#[test]
fn a_look_takes_a_round_trip_as_the_models_say() {
    let micros = round_trip().as_nanos() as f64 / 1e3;
    let look = seen(Want::Latch, Table::Looked, Load::Open(20_000.0));
    assert!((look.p50_us - micros).abs() < 0.03, "{look:?}, {micros} us");
    let plain = seen(Want::Memory, Table::Switch, Load::Open(5_000.0));
    let looked = seen(Want::Memory, Table::Looked, Load::Open(5_000.0));
    let more = looked.p50_us - plain.p50_us;
    assert!((more - micros).abs() < 0.1, "{more} us more, {micros} us");
}

#[test]
fn entries_are_where_they_are_said_to_be() {
    for want in [Want::Memory, Want::Storage] {
        let switch = seen(want, Table::Switch, Load::Open(5_000.0));
        let server = seen(want, Table::Server, Load::Open(5_000.0));
        assert!(switch.indexed >= 1.0 && server.indexed == 0.0, "{want:?}");
        assert!(server.p50_us > switch.p50_us, "{want:?}");
        assert_eq!((switch.drops, server.drops), (0, 0));
    }
}

#[test]
fn a_rate_that_no_link_carries_is_not_held() {
    let line = link_pages_per_second();
    let little = seen(Want::Memory, Table::Switch, Load::Open(0.3 * line));
    let much = seen(Want::Memory, Table::Switch, Load::Open(2.0 * line));
    assert!(
        little.held > SUSTAINED && much.held < 0.7,
        "{little:?} {much:?}"
    );
    // The latency of a queued request counts from when it was due.
    assert!(much.p99_us > 10.0 * little.p99_us, "{little:?} {much:?}");
    let closed = seen(Want::Memory, Table::Switch, Load::Closed(16));
    assert!(
        (0.95..1.01).contains(&(closed.per_second / line)),
        "{closed:?}"
    );
}
