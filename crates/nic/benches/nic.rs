//! Packets per second of the soft NIC, two of them connected directly: each packet that one sends
//! is passed to the other at once.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rackweave_base::packet::Pool;
use rackweave_base::{Duration, Instant, KeyRng, MacAddr, Memory, Psn, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{
    Access, Completion, CqId, Mtu, Operation, Peer, QpCapabilities, QpModify, ReceiveSide, Region,
    SendSide, Verbs, WorkRequest,
};
use std::hint::black_box;
use std::net::Ipv4Addr;

struct Node {
    nic: Nic,
    cq: CqId,
    qpn: Qpn,
    region: Region,
    peer: Peer,
}

fn node(memory: &Memory, number: u8, check: bool) -> Node {
    let (ip, mac) = (
        Ipv4Addr::new(10, 0, 0, number),
        MacAddr([2, 0, 0, 0, 0, number]),
    );
    let config = NicConfig {
        check,
        ..NicConfig::new(ip, mac)
    };
    let pool = Pool::new(1024);
    let mut nic = Nic::new(
        config,
        memory.clone(),
        pool,
        KeyRng::seeded(Rng::new(u64::from(number))),
    );
    let pd = nic.create_pd();
    let cq = nic.create_cq(1024).unwrap();
    let qpn = nic
        .create_qp(pd, cq, cq, QpCapabilities::default())
        .unwrap();
    let region = nic
        .register(pd, memory.allocate(1 << 20).unwrap(), Access::all())
        .unwrap();
    Node {
        nic,
        cq,
        qpn,
        region,
        peer: Peer { mac, ip, qpn },
    }
}

fn pair(check: bool) -> (Node, Node) {
    let memory = Memory::new(16 << 20);
    let (mut a, mut b) = (node(&memory, 1, check), node(&memory, 2, check));
    let peer_of_b = a.peer;
    for (node, peer) in [(&mut a, b.peer), (&mut b, peer_of_b)] {
        let receive = ReceiveSide {
            peer,
            psn: Psn::new(0),
            mtu: Mtu::B4096,
            access: Access::all(),
            reads_in_flight_max: 16,
            rnr_wait: Duration::from_micros(10),
        };
        let send = SendSide {
            psn: Psn::new(0),
            timeout: Duration::from_millis(1),
            retries: 7,
            rnr_retries: 7,
            reads_in_flight_max: 16,
        };
        node.nic.modify_qp(node.qpn, QpModify::Init).unwrap();
        node.nic
            .modify_qp(node.qpn, QpModify::ReadyToReceive(receive))
            .unwrap();
        node.nic
            .modify_qp(node.qpn, QpModify::ReadyToSend(send))
            .unwrap();
    }
    (a, b)
}

/// Runs both NICs until neither has anything to send. Returns the number of packets.
fn exchange(a: &mut Node, b: &mut Node, now: Instant) -> u64 {
    let mut packets = 0;
    loop {
        let before = packets;
        while let Some(packet) = a.nic.poll_transmit(now) {
            b.nic.handle_packet(now, packet);
            packets += 1;
        }
        while let Some(packet) = b.nic.poll_transmit(now) {
            a.nic.handle_packet(now, packet);
            packets += 1;
        }
        if packets == before {
            return packets;
        }
    }
}

/// `count` requests of `len` bytes at a time.
struct Load {
    a: Node,
    b: Node,
    operation: Operation,
    len: u32,
    count: u64,
    now: Instant,
    completions: Vec<Completion>,
}

impl Load {
    fn new(check: bool, by_reference: bool, read: bool, len: u32, count: u64) -> Self {
        let (a, mut b) = pair(check);
        b.nic.set_read_by_reference(b.qpn, by_reference);
        let (address, rkey) = (b.region.address, b.region.rkey);
        let operation = match read {
            true => Operation::Read { address, rkey },
            false => Operation::Write {
                address,
                rkey,
                immediate: None,
            },
        };
        let now = Instant::from_nanos(1000);
        Self {
            a,
            b,
            operation,
            len,
            count,
            now,
            completions: Vec::with_capacity(1024),
        }
    }

    fn round(&mut self) -> u64 {
        self.now += Duration::from_micros(10);
        let segment = self.a.region.segment(0, self.len);
        for id in 0..self.count {
            let request = WorkRequest::new(id, self.operation, &[segment]);
            self.a.nic.post_send(self.a.qpn, request).unwrap();
        }
        let packets = exchange(&mut self.a, &mut self.b, self.now);
        self.completions.clear();
        let completed = self.a.nic.poll_cq(self.a.cq, 1024, &mut self.completions);
        assert_eq!(completed as u64, self.count);
        packets
    }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("nic");
    // Whole messages of 100 full packets, so that First and Last have little weight.
    let loads = [
        ("write_4096", false, false, 100 * 4096, 2),
        ("read_4096_by_reference", true, true, 100 * 4096, 2),
        ("read_4096_copied", false, true, 100 * 4096, 2),
    ];
    for (name, by_reference, read, len, count) in loads {
        for check in [false, true] {
            let mut load = Load::new(check, by_reference, read, len, count);
            group.throughput(Throughput::Elements(u64::from(len / 4096) * count));
            let id = BenchmarkId::new(name, if check { "icrc" } else { "no icrc" });
            group.bench_function(id, |bencher| bencher.iter(|| black_box(load.round())));
        }
    }
    let small = [("read_8_depth_64", true), ("write_8_depth_64", false)];
    for (name, read) in small {
        for check in [false, true] {
            let mut load = Load::new(check, false, read, 8, 64);
            group.throughput(Throughput::Elements(64));
            let id = BenchmarkId::new(name, if check { "icrc" } else { "no icrc" });
            group.bench_function(id, |bencher| bencher.iter(|| black_box(load.round())));
        }
    }
    group.finish();
    copies(criterion);
}

/// The cost of the copies alone, for comparison in the same run.
fn copies(criterion: &mut Criterion) {
    let memory = Memory::new(4 << 20);
    let (from, to) = (
        memory.allocate(1 << 20).unwrap(),
        memory.allocate(1 << 20).unwrap(),
    );
    let mut group = criterion.benchmark_group("copy");
    group.throughput(Throughput::Elements(100));
    group.bench_function("4096", |bencher| {
        bencher.iter(|| {
            for at in 0..100 {
                let source = from.reference(at * 4096, 4096).unwrap();
                let target = to.reference(at * 4096, 4096).unwrap();
                assert!(memory.copy(source, target));
            }
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = bench
}
criterion_main!(benches);
