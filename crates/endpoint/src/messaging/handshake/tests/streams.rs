//! The stream delivers in pieces of any size, and breaks after any byte.

use super::rig::{Pair, START, Side};
use crate::messaging::handshake::{HandshakeError, Kind};
use rackweave_base::Rng;

#[test]
fn two_nodes_connect_and_every_channel_leads_where_it_should() {
    let mut pair = Pair::new(1);
    pair.settle();
    pair.check_traffic();
    pair.clear();
}

/// Delivers at most `limit` bytes in total, in random pieces, in random order of the directions.
fn deliver(pair: &mut Pair, rng: &mut Rng, mut limit: usize) -> usize {
    let mut delivered = 0;
    loop {
        pair.act(START);
        let (up, down) = (pair.compute.sent.len(), pair.storage.sent.len());
        if (up == 0 && down == 0) || limit == 0 {
            return delivered;
        }
        let goes_up = down == 0 || (up > 0 && rng.chance(0.5));
        let waiting = if goes_up { up } else { down };
        let most = [1, 7, 64, 1000][rng.below(4) as usize];
        let len = rng.between(1, most).min(waiting as u64).min(limit as u64) as usize;
        if goes_up {
            let bytes: Vec<u8> = pair.compute.sent.drain(..len).collect();
            pair.storage.hear(START, &bytes);
        } else {
            let bytes: Vec<u8> = pair.storage.sent.drain(..len).collect();
            pair.compute.hear(START, &bytes);
        }
        limit -= len;
        delivered += len;
    }
}

#[test]
fn pieces_of_any_size_make_the_same_messages() {
    for seed in 0..50 {
        let mut pair = Pair::new(seed);
        deliver(&mut pair, &mut Rng::new(seed), usize::MAX);
        let connected = (pair.compute.is_connected(), pair.storage.is_connected());
        assert_eq!(connected, (true, true), "seed {seed}");
        pair.check_traffic();
        pair.clear();
    }
}

#[test]
fn one_byte_at_a_time() {
    let mut pair = Pair::new(3);
    loop {
        pair.act(START);
        let up = pair.compute.sent.pop_front();
        let down = pair.storage.sent.pop_front();
        if up.is_none() && down.is_none() {
            break;
        }
        pair.storage.hear(START, up.as_slice());
        pair.compute.hear(START, down.as_slice());
    }
    pair.check_traffic();
    pair.clear();
}

/// Bytes of Hello, Offer, Open and Accept with five channels.
const LENS: [usize; 4] = [56, 52, 84, 84];

/// Whichever byte is the last: the node that fails holds nothing and reports what was missing, and
/// the compute node is never the only one connected. The storage node may be, if the Accept was
/// lost: its peer is then dead, which keepalive detects.
#[test]
fn the_stream_breaks_after_any_byte() {
    let all: usize = LENS.iter().sum();
    for seed in 0..4 {
        for limit in 0..=all {
            let mut pair = Pair::new(seed);
            let delivered = deliver(&mut pair, &mut Rng::new(seed << 32 | limit as u64), limit);
            assert_eq!(delivered, limit, "seed {seed}");
            pair.compute.machine.handle_end(START);
            pair.storage.machine.handle_end(START);
            pair.act(START);
            check_broken(&pair, limit, seed);
            pair.clear();
        }
    }
}

fn check_broken(pair: &Pair, limit: usize, seed: u64) {
    // Offsets where the messages start.
    let mut begins = [0; 5];
    for at in 0..4 {
        begins[at + 1] = begins[at] + LENS[at];
    }
    let [_, offer_at, open_at, accept_at, end] = begins;
    let missing = |side: &dyn Fn() -> HandshakeError| match side() {
        HandshakeError::Ended { due, came, .. } => (due, came),
        other => panic!("seed {seed}, {limit}: {other}"),
    };
    assert_eq!(pair.compute.is_connected(), limit >= end, "{limit}");
    assert_eq!(pair.storage.is_connected(), limit >= accept_at, "{limit}");
    let compute = |pair: &Pair| missing(&|| pair.compute.error().clone());
    let storage = |pair: &Pair| missing(&|| pair.storage.error().clone());
    if limit < offer_at {
        assert_eq!(compute(pair), (Kind::Offer, 0));
        assert_eq!(storage(pair), (Kind::Hello, limit));
    } else if limit < open_at {
        assert_eq!(compute(pair), (Kind::Offer, limit - offer_at));
        assert_eq!(storage(pair), (Kind::Open, 0));
    } else if limit < accept_at {
        assert_eq!(compute(pair), (Kind::Accept, 0));
        assert_eq!(storage(pair), (Kind::Open, limit - open_at));
    } else if limit < end {
        assert_eq!(compute(pair), (Kind::Accept, limit - accept_at));
    }
}

/// Nothing has any effect after the end.
#[test]
fn what_comes_after_the_end_is_nothing() {
    let mut pair = Pair::new(5);
    pair.settle();
    fn late(side: &mut Side) {
        side.machine.handle_bytes(START, b"GET / HTTP/1.1");
        side.machine.handle_end(START);
        side.act(START + super::rig::PATIENCE);
        assert!(side.sent.is_empty());
    }
    late(&mut pair.compute);
    late(&mut pair.storage);
    pair.check_traffic();
    pair.clear();
}
