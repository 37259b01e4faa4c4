//! Both testbeds with small trees.

use super::database::{Database, Popularity, distinct};
use super::ethernet::{Asks, Ethernet};
use super::rdma::{self, Limits, LookupRack, REGULAR};
use crate::harness::Run;
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::index::Access;

/// Requested records, and the keys of as many past requests.
fn drawn(database: &Database, count: usize) -> (Vec<u64>, Vec<u64>) {
    let popularity = Popularity::new(database, 0.99, 0.0, 1).expect("there is one");
    let mut rng = Rng::new(9);
    let asked = (0..count).map(|_| popularity.asked(&mut rng)).collect();
    let known = |_| database.key(popularity.known(&mut rng));
    (asked, (0..10 * count).map(known).collect())
}

#[test]
fn lookups_that_the_network_leads_take_fewer_round_trips_and_find_the_same() {
    let mut run = Run::quick(4);
    let database = Database {
        keys: 20_000,
        value_bytes: 1000,
    };
    let (asked, known) = drawn(&database, 100);
    let limits = Limits {
        ranges: 8,
        layers: 2,
        nodes: 40,
    };
    let rack = LookupRack::new(4, database, REGULAR, &distinct(&asked), Some(limits));
    let mut rack = rack.expect("there is space");
    rdma::load(&rack.index, &known).expect("it is loaded");
    let mut look_up = |access| {
        let seen = rack.look_up(&mut run, access, &asked);
        seen.expect("all are found")
    };
    let (network, baseline) = (look_up(Access::InNetwork), look_up(Access::OneSided));
    // 800 leaves, 58 and 5 tree nodes above, the root, and the record.
    assert_eq!(baseline.round_trips(), 5.0);
    assert!((2.0..3.0).contains(&network.round_trips()), "{network:?}");
    assert!(network.mean_us() < 0.7 * baseline.mean_us());
    assert!(network.per_second() > 1.4 * baseline.per_second());
}

#[test]
fn busy_servers_do_more_if_the_network_says_where_to_begin() {
    let mut run = Run::quick(5);
    let database = Database {
        keys: 200_000,
        value_bytes: 64,
    };
    let (asked, known) = drawn(&database, 4_000);
    let limits = Limits {
        ranges: 60,
        layers: 4,
        nodes: 360,
    };
    let rack = Ethernet::new(5, database, &distinct(&asked), (0.99, limits));
    let mut rack = rack.expect("there is space");
    let asks = Asks {
        database,
        asked: asked.into(),
        updates: 0.1,
    };
    let mut measure = |rack: &mut Ethernet| {
        let rate = rack.measure(&mut run, (4, 16), Duration::from_micros(300), &asks);
        rate.expect("all are answered")
    };
    let baseline = measure(&mut rack);
    rdma::load(&rack.index, &known).expect("it is loaded");
    let network = measure(&mut rack);
    assert!(network > 1.05 * baseline, "{network} {baseline}");
}
