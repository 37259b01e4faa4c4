//! A small tree.

use super::*;

fn seen(node_bytes: u32, offload: f64, clients: u16) -> Seen {
    let mut run = Run::quick(6);
    let plan = IndexPlan {
        offload,
        ..plan(20_000, node_bytes, clients, Duration::from_micros(800))
    };
    let seen = index::measure(&mut run, &plan);
    seen.unwrap_or_else(|error| panic!("{node_bytes} B, {offload}, seed 6: {error}"))
}

#[test]
fn the_dpu_s_memory_is_nearer_at_every_level() {
    let [host, dpu] = [0.0, 1.0].map(|offload| seen(2048, offload, 1));
    let nearer = rackweave_sim::devices::CARD_HOST_DISTANCE.as_nanos() as f64 / 1e3;
    // 20 000 keys, 110 in a leaf: 182 leaves under two tree nodes under the root.
    let levels = (host.median_us - dpu.median_us) / nearer;
    assert!((levels - levels.round()).abs() < 0.1, "{host:?} {dpu:?}");
    assert_eq!(levels.round(), 3.0, "{host:?} {dpu:?}");
}

#[test]
fn more_threads_do_more_until_the_cables_are_full() {
    let [one, many] = [1, 8].map(|clients| seen(1024, 0.5, clients).per_second);
    assert!(many > 6.0 * one, "{one} {many}");
}

#[test]
fn host_and_dpu_share_the_cables() {
    let both = f64::from(devices::CARD_PORTS) * devices::DPU_LINK_BITS_PER_SECOND as f64;
    // Half of the keys need one level less.
    for (offload, levels) in [(0.0, 3.0), (0.5, 2.0), (1.0, 3.0)] {
        // A response has 58 bytes of headers, and Ethernet puts 24 around it.
        let bits = levels * (2048.0 + 58.0 + 24.0) * 8.0;
        let busy = seen(2048, offload, 16).per_second * bits / both;
        assert!((0.93..1.01).contains(&busy), "{offload}: {busy}");
    }
}
