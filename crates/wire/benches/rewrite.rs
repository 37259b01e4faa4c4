//! The hot path of a switch: parse, emit, and a READ response rewritten into a WRITE, with each way
//! to keep the ICRC correct; rehashing the whole packet is included for comparison.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rackweave_base::packet::HEADER_MAX;
use rackweave_base::{MacAddr, Memory, Packet, Payload, Psn, Qpn, Rkey};
use rackweave_wire::{
    Aeth, Bth, Ethernet, Extension, Headers, Ipv4, Opcode, Reth, Rewrite, Syndrome, Udp, icrc,
};
use std::hint::black_box;
use std::net::Ipv4Addr;

fn response() -> Headers {
    let aeth = Aeth {
        syndrome: Syndrome::Ack { credits: 31 },
        msn: 5,
    };
    Headers {
        ethernet: Ethernet::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        ipv4: Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)),
        udp: Udp::new(0xc000),
        bth: Bth::new(Opcode::ReadResponseOnly, Qpn(0x12), Psn::new(77)),
        extension: Extension::Aeth(aeth),
    }
}

/// The headers that a transfer turns a response into: new addresses, queue pair, PSN, and a RETH.
fn write_of(response: &Headers) -> Headers {
    let reth = Reth {
        address: 0x7f00_1234_5000,
        rkey: Rkey(0xdead_beef),
        length: 4096,
    };
    Headers {
        ethernet: Ethernet::new(MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 3])),
        ipv4: Ipv4 {
            source: response.ipv4.target,
            target: Ipv4Addr::new(10, 0, 0, 3),
            ttl: 64,
            ..response.ipv4
        },
        udp: Udp::new(0xc123),
        bth: Bth {
            ack_request: true,
            ..Bth::new(
                Opcode::WriteOnly,
                Qpn(0x4711),
                response.bth.psn.add(0x12_3456),
            )
        },
        extension: Extension::Reth(reth),
    }
}

fn rewrite(packet: &mut Packet, method: Rewrite) {
    let headers = Headers::of(packet).expect("a sound packet");
    method.replace(packet, &write_of(&headers));
}

fn benches(c: &mut Criterion) {
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(8192).expect("below the limit");
    block.write(0, &core::array::from_fn::<u8, 8192, _>(|at| at as u8));

    let payload = |len| Payload::Region(block.reference(0, len).expect("within the block"));
    let plain = response().packet(payload(4096));
    let write = write_of(&response());
    c.bench_function("parse/of", |b| {
        b.iter(|| black_box(&Headers::of(black_box(&plain))).is_ok())
    });
    c.bench_function("parse/of-write", |b| {
        let packet = write.packet(payload(4096));
        b.iter(|| black_box(&Headers::of(black_box(&packet))).is_ok());
    });
    c.bench_function("emit", |b| {
        let mut bytes = [0; HEADER_MAX];
        b.iter(|| black_box(&write).emit(black_box(&mut bytes), black_box(4096)));
    });
    c.bench_function("update", |b| {
        let (old, new) = (plain.clone(), write.packet(payload(4096)));
        b.iter(|| {
            icrc::update(
                black_box([1; 4]),
                old.header(),
                new.header(),
                black_box(4096),
            )
        });
    });
    for len in [256, 4096] {
        let mut sealed = response().packet(payload(len));
        assert!(icrc::seal(&mut sealed, &memory));
        let mut bench = |name: &str, run: &mut dyn FnMut(&mut Packet)| {
            c.bench_function(&format!("{name}/{len}"), |b| {
                b.iter_batched_ref(|| sealed.clone(), &mut *run, BatchSize::SmallInput);
            });
        };
        bench("rewrite/none", &mut |packet| {
            packet.check = None;
            rewrite(packet, Rewrite::Update);
        });
        bench("rewrite/update", &mut |packet| {
            rewrite(packet, Rewrite::Update)
        });
        bench("rewrite/balance", &mut |packet| {
            rewrite(packet, Rewrite::Balance)
        });
        bench("full-hash", &mut |packet| {
            assert!(icrc::seal(packet, &memory))
        });
    }
}

criterion_group! {
    name = rewriting;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = benches
}
criterion_main!(rewriting);
