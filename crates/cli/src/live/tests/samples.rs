//! Hand-made racks, for tests of how they are shown.

use crate::live::Snapshot;
use crate::live::snapshot::SCHEMA;
use rackweave_rack::statistics::{
    Counters, FlowStatistics, IndexStatistics, NodeStatistics, PageStatistics, RackStatistics,
    SequencerStatistics, SwitchStatistics, TargetStatistics,
};

/// Counters by name.
pub fn counters(named: &[(&str, u64)]) -> Counters {
    let named = named.iter();
    named
        .map(|&(name, count)| (name.to_owned(), count))
        .collect()
}

/// A node that has sent and received this many packets of 4 KiB.
fn node(name: &str, role: &str, (packets_in, packets_out): (u64, u64)) -> NodeStatistics {
    NodeStatistics {
        name: name.to_owned(),
        role: role.to_owned(),
        packets_in,
        packets_out,
        bytes_in: packets_in * 4158,
        bytes_out: packets_out * 4158,
        counters: counters(&[
            ("sent_pkts", packets_out),
            ("rcvd_pkts", packets_in),
            ("rdma_tx_bytes", packets_out * 4158),
            ("rdma_rx_bytes", packets_in * 4158),
            ("completer_retry_err", packets_out / 1_000_000),
            ("duplicate_request", 0),
            ("rx_read_requests", packets_in / 3),
        ]),
        drops: counters(&[("drop_ghost_response", 0)]),
        ..NodeStatistics::default()
    }
}

fn flow(id: u32, shape: &str, (from, to): (&[&str], &[&str]), items: u64) -> FlowStatistics {
    let names = |nodes: &[&str]| nodes.iter().map(|&name| name.to_owned()).collect();
    FlowStatistics {
        id,
        shape: shape.to_owned(),
        producers: names(from),
        consumers: names(to),
        state: FlowStatistics::RUNNING.to_owned(),
        weight: None,
        item_bytes: 32768,
        items_pushed: items + 40,
        items_delivered: items,
        items_waiting: 12,
        bytes_delivered: items * 32768,
    }
}

fn snapshot(rack: RackStatistics) -> Snapshot {
    Snapshot {
        schema: SCHEMA.to_owned(),
        version: "0.0.0".to_owned(),
        pid: 4711,
        command: "ycsb --workload a --operations 100000000".to_owned(),
        phase: "running operations".to_owned(),
        phase_seconds: rack.elapsed_seconds - 0.5,
        up_seconds: rack.elapsed_seconds + 0.5,
        racks: 1,
        rack: Some(rack),
    }
}

/// A rack on which nothing has happened yet.
pub fn idle() -> Snapshot {
    snapshot(RackStatistics {
        elapsed_seconds: 1.0,
        nodes: vec![
            node("compute0", "compute", (0, 0)),
            node("storage0", "storage", (0, 0)),
        ],
        switches: vec![SwitchStatistics {
            role: "switch".to_owned(),
            counters: counters(&[("packets_in", 0), ("packets_out", 0)]),
            drops: counters(&[("drop_egress_full", 0)]),
        }],
        ..RackStatistics::default()
    })
}

/// A rack with some of everything, after this many seconds.
#[expect(clippy::too_many_lines, reason = "one sample of everything")]
pub fn busy(seconds: u32) -> Snapshot {
    let t = u64::from(seconds);
    let mut compute1 = node("compute1", "compute", (1_400_000 * t, 310_000 * t));
    compute1.drops = counters(&[("drop_bad_icrc", 3 * t), ("truncated", 1)]);
    let mut storage1 = node("storage1", "storage", (90, 40));
    storage1.dead = true;
    let mut storage0 = node("storage0", "storage", (520_000 * t, 1_250_000 * t));
    storage0.target = Some(TargetStatistics {
        reads: 18_000 * t,
        writes: 700 * t,
        bytes_read: 18_000 * t * 65536,
        bytes_written: 700 * t * 65536,
        errors: 0,
    });
    let mut ended = flow(0, "shuffle", (&["storage0"], &["compute0"]), 9_000);
    ended.state = FlowStatistics::ENDED.to_owned();
    let mut broken = flow(1, "balance", (&["storage1"], &["compute0"]), 31);
    broken.state = "storage1 has died".to_owned();
    let from = &["storage0", "storage0", "storage1"][..];
    let mut weighted = flow(3, "replicate", (from, &["compute0", "compute1"]), 2_750 * t);
    weighted.weight = Some(3);
    snapshot(RackStatistics {
        elapsed_seconds: f64::from(seconds),
        nodes: vec![
            node("compute0", "compute", (1_200_000 * t, 480_000 * t)),
            compute1,
            storage0,
            storage1,
        ],
        switches: vec![
            SwitchStatistics {
                role: "first".to_owned(),
                counters: counters(&[
                    ("packets_in", 2_000_000 * t),
                    ("packets_out", 2_000_000 * t),
                    ("passes", 2_500_000 * t),
                    ("recirculations", 0),
                ]),
                drops: counters(&[("drop_egress_full", 11 * t), ("drop_no_route", 0)]),
            },
            SwitchStatistics {
                role: "second".to_owned(),
                counters: counters(&[("packets_in", 900_000 * t), ("packets_out", 900_000 * t)]),
                drops: Counters::new(),
            },
        ],
        flows: vec![
            ended,
            broken,
            flow(2, "shuffle", (from, &["compute0", "compute1"]), 41_000 * t),
            weighted,
        ],
        flows_made: 4,
        pages: Some(PageStatistics {
            page_bytes: 65536,
            pages: 280_000,
            pages_indexed: 280_000,
            answers: counters(&[
                ("local", 2_100 * t),
                ("memory", 9_000 * t),
                ("storage", 18_000 * t),
                ("verified", 41_000 * t),
                ("unfixed", 5_000 * t),
                ("released", 0),
                ("written", 700 * t),
                ("locked", 130 * t),
                ("busy", 2),
                ("repeated", 5),
                ("dropped_meanwhile", 40 * t),
            ]),
            pages_lost: 0,
        }),
        index: Some(IndexStatistics {
            queries: 610_000 * t,
            lookups: 0,
            by_depth: vec![100 * t, 9_900 * t, 600_000 * t, 0, 0],
            other: counters(&[("beyond", 17), ("no_bank", 100)]),
        }),
        sequencers: vec![SequencerStatistics {
            id: 1,
            next: 750_000 * t,
        }],
    })
}

/// A rack with more nodes, flows and drops than any screen has lines.
pub fn crowded(seconds: u32) -> Snapshot {
    let t = u64::from(seconds);
    let mut snapshot = busy(seconds);
    let Some(rack) = &mut snapshot.rack else {
        return snapshot;
    };
    let many = (0..40).map(|at| {
        let name = format!("a-node-with-a-long-name-{at}");
        let mut node = node(&name, "memory", (1000 * at * t, 10 * at * t));
        node.drops = counters(&[("drop_out_of_sequence", at * t)]);
        node
    });
    rack.nodes.extend(many);
    let names: Vec<String> = rack.nodes.iter().map(|node| node.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let flows = (4..60).map(|id| flow(id, "shuffle", (&names, &names), u64::from(id) * t));
    rack.flows.extend(flows);
    rack.flows_made = 60;
    snapshot
}
