//! Tests of faults.

use super::*;
use crate::conformance::{self, packet, sequence};
use crate::in_process::{InProcess, pair};
use rackweave_wire::{Headers, Verdict, icrc};

const NONE: FaultConfig = FaultConfig {
    loss: 0.0,
    loss_burst: 1,
    duplicate: 0.0,
    reorder: 0.0,
    reorder_delay: Duration::from_micros(10),
    corrupt: 0.0,
};

const PACKETS: u32 = 20_000;

fn faulty(config: FaultConfig, seed: u64, memory: &Memory) -> (Fault<InProcess>, InProcess) {
    let (a, b) = pair(64);
    (
        Fault::new(a, config, Rng::new(seed), memory.clone()).unwrap(),
        b,
    )
}

/// The packets that arrive of [`PACKETS`] packets sent a microsecond apart, and the counters.
fn campaign(config: FaultConfig, seed: u64) -> (Vec<Packet>, FaultCounters) {
    let memory = Memory::new(1 << 20);
    let (mut a, mut b) = faulty(config, seed, &memory);
    let mut arrived = Vec::new();
    for number in 0..PACKETS {
        let now = Instant::ZERO + Duration::from_micros(1) * u64::from(number);
        let payload = Payload::inline(&number.to_be_bytes());
        a.send(now, packet(&memory, number, payload)).unwrap();
        arrived.extend(core::iter::from_fn(|| b.receive(now)));
    }
    while let Some(due) = a.poll_timeout() {
        assert!(a.receive(due).is_none());
        arrived.extend(core::iter::from_fn(|| b.receive(due)));
    }
    (arrived, a.counters())
}

/// Whether `count` of [`PACKETS`] is as expected for `rate`, within five standard deviations.
fn assert_rate(count: u64, rate: f64) {
    let expect = f64::from(PACKETS) * rate;
    let deviation = (expect * (1.0 - rate)).sqrt();
    assert!(
        (count as f64 - expect).abs() < 5.0 * deviation,
        "{count}, not about {expect}"
    );
}

#[test]
fn without_faults_it_conforms() {
    conformance::run(|memory| {
        let (a, b) = pair(16);
        let wrap = |end, seed| Fault::new(end, NONE, Rng::new(seed), memory.clone()).unwrap();
        (wrap(a, 1), wrap(b, 2))
    });
}

#[test]
fn with_faults_it_conforms_as_far_as_lossy_links_do() {
    let all = FaultConfig {
        loss: 0.1,
        duplicate: 0.1,
        reorder: 0.2,
        corrupt: 0.1,
        ..NONE
    };
    for seed in 0..20 {
        conformance::run_lossy(|memory| faulty(all, seed, memory));
    }
}

#[test]
fn losses_come_at_their_rate() {
    let (arrived, counters) = campaign(FaultConfig { loss: 0.1, ..NONE }, 1);
    assert_rate(counters.lost, 0.1);
    assert_eq!(arrived.len() as u64 + counters.lost, u64::from(PACKETS));
    assert_eq!(
        counters,
        FaultCounters {
            lost: counters.lost,
            ..FaultCounters::default()
        }
    );
    assert!(arrived.is_sorted_by_key(sequence), "nothing is reordered");
    assert_eq!(campaign(FaultConfig { loss: 1.0, ..NONE }, 1).0.len(), 0);
}

#[test]
fn bursts_take_packets_in_a_row() {
    let config = FaultConfig {
        loss: 0.01,
        loss_burst: 5,
        ..NONE
    };
    let (arrived, counters) = campaign(config, 2);
    assert!(counters.lost > 0);
    let arrived: Vec<u32> = arrived.iter().map(sequence).collect();
    for gap in arrived
        .windows(2)
        .map(|pair| pair[1] - pair[0] - 1)
        .filter(|gap| *gap > 0)
    {
        assert!(gap.is_multiple_of(5), "{gap} packets lost in a row");
    }
}

#[test]
fn duplicates_come_at_their_rate_and_are_alike() {
    let (arrived, counters) = campaign(
        FaultConfig {
            duplicate: 0.1,
            ..NONE
        },
        3,
    );
    assert_rate(counters.duplicated, 0.1);
    assert_eq!(
        arrived.len() as u64,
        u64::from(PACKETS) + counters.duplicated
    );
    let twins = arrived
        .windows(2)
        .filter(|pair| sequence(&pair[0]) == sequence(&pair[1]));
    assert_eq!(twins.count() as u64, counters.duplicated);
}

#[test]
fn reordered_packets_are_overtaken_and_none_is_lost() {
    let (arrived, counters) = campaign(
        FaultConfig {
            reorder: 0.1,
            ..NONE
        },
        4,
    );
    assert_rate(counters.reordered, 0.1);
    let mut numbers: Vec<u32> = arrived.iter().map(sequence).collect();
    let overtaken = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(
        overtaken as u64 > counters.reordered / 2,
        "{overtaken} of {}",
        counters.reordered
    );
    numbers.sort_unstable();
    assert_eq!(numbers, (0..PACKETS).collect::<Vec<_>>());
}

#[test]
fn corruption_flips_one_bit_and_is_noticed() {
    let (arrived, counters) = campaign(
        FaultConfig {
            corrupt: 0.1,
            ..NONE
        },
        5,
    );
    assert_rate(counters.corrupted, 0.1);
    assert_eq!(arrived.len(), PACKETS as usize);
    let memory = Memory::new(1 << 20);
    let (mut damaged, mut unnoticed) = (0, 0);
    for (number, packet) in arrived.iter().enumerate() {
        let payload = Payload::inline(&(number as u32).to_be_bytes());
        let sent = conformance::packet(&memory, number as u32, payload);
        let bits = differing_bits(&sent, packet, &memory);
        assert!(bits <= 1);
        damaged += bits;
        let is_noticed =
            Headers::of(packet).is_err() || icrc::verify(packet, &memory) == Verdict::Wrong;
        // Byte 4 of the BTH is masked in the ICRC, since switches may change it.
        unnoticed += u64::from(bits == 1 && !is_noticed);
        assert!(bits == 1 || !is_noticed);
    }
    assert_eq!(u64::from(damaged), counters.corrupted);
    assert!(
        unnoticed <= counters.corrupted / 20,
        "{unnoticed} of {damaged}"
    );
}

#[test]
fn what_one_link_has_damaged_another_does_not_repair() {
    let memory = Memory::new(1 << 20);
    let config = FaultConfig {
        corrupt: 1.0,
        ..NONE
    };
    let (mut first, mut between) = faulty(config, 7, &memory);
    let (mut second, mut end) = faulty(config, 8, &memory);
    for number in 0..PACKETS {
        let sent = packet(&memory, number, Payload::Empty);
        first.send(Instant::ZERO, sent.clone()).unwrap();
        let harmed = between.receive(Instant::ZERO).unwrap();
        // Except in the bytes that switches may change, which the check does not cover.
        let is_noticed =
            Headers::of(&harmed).is_err() || icrc::verify(&harmed, &memory) == Verdict::Wrong;
        second.send(Instant::ZERO, harmed).unwrap();
        let arrived = end.receive(Instant::ZERO).unwrap();
        let bits = differing_bits(&sent, &arrived, &memory);
        assert!(bits > 0 || !is_noticed, "{number}: {bits} bits");
    }
    assert_eq!(second.counters().corrupted, u64::from(PACKETS));
}

fn differing_bits(one: &Packet, other: &Packet, memory: &Memory) -> u32 {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    assert!(one.serialise(memory, &mut left) && other.serialise(memory, &mut right));
    assert_eq!(left[..14], right[..14], "the Ethernet header is left alone");
    assert_eq!(left.len(), right.len());
    left.iter()
        .zip(&right)
        .map(|(a, b)| (a ^ b).count_ones())
        .sum()
}

#[test]
fn every_bit_behind_the_ethernet_header_can_be_hit() {
    let memory = Memory::new(1 << 20);
    let original = packet(&memory, 9, Payload::inline(b"abcde"));
    let mut sent = Vec::new();
    assert!(original.serialise(&memory, &mut sent));
    for bit in 0..8 * (sent.len() - 14) {
        let mut packet = original.clone();
        flip(&mut packet, b"abcde".to_vec(), 14, bit);
        let mut got = Vec::new();
        assert!(packet.serialise(&memory, &mut got));
        let mut expect = sent.clone();
        expect[14 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(got, expect, "bit {bit}");
    }
}

#[test]
fn region_memory_is_never_touched_and_late_packets_keep_their_bytes() {
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(1024).unwrap();
    block.write(0, &[0xaa; 1024]);
    let config = FaultConfig {
        corrupt: 1.0,
        duplicate: 1.0,
        reorder: 1.0,
        ..NONE
    };
    let (mut a, mut b) = faulty(config, 6, &memory);
    for number in 0..20 {
        let payload = Payload::Region(block.reference(0, 1024).unwrap());
        a.send(Instant::ZERO, packet(&memory, number, payload))
            .unwrap();
    }
    let mut bytes = [0; 1024];
    block.read(0, &mut bytes);
    assert_eq!(bytes, [0xaa; 1024]);
    block.write(0, &[0xbb; 1024]);
    let due = Instant::ZERO + Duration::from_millis(1);
    assert!(a.receive(due).is_none());
    let mut arrived = 0;
    while let Some(packet) = b.receive(due) {
        let wrong = packet
            .payload
            .to_vec(&memory)
            .unwrap()
            .iter()
            .filter(|b| **b != 0xaa)
            .count();
        assert!(
            wrong <= 1,
            "a late packet shows bytes written after it was sent"
        );
        arrived += 1;
    }
    assert_eq!(arrived, 40);
}

#[test]
fn a_packet_without_check_value_gets_one_before_it_is_harmed() {
    let memory = Memory::new(1 << 20);
    let (mut a, mut b) = faulty(
        FaultConfig {
            corrupt: 1.0,
            ..NONE
        },
        7,
        &memory,
    );
    assert!(a.properties().check_needed && !a.properties().lossless);
    let mut bare = packet(&memory, 1, Payload::inline(b"data"));
    bare.check = None;
    a.send(Instant::ZERO, bare).unwrap();
    assert!(b.receive(Instant::ZERO).unwrap().check.is_some());
    // A packet other than RoCE has no check value; an empty one has no bit to flip.
    a.send(Instant::ZERO, Packet::new(&[7; 20], Payload::Empty))
        .unwrap();
    assert_eq!(b.receive(Instant::ZERO).unwrap().check, None);
    a.send(Instant::ZERO, Packet::new(&[], Payload::Empty))
        .unwrap();
    assert_eq!(a.counters().corrupted, 2);
}

#[test]
fn a_cut_cable_drops_both_ways_and_a_mended_one_works() {
    let memory = Memory::new(1 << 20);
    let (mut a, mut b) = faulty(
        FaultConfig {
            reorder: 1.0,
            ..NONE
        },
        8,
        &memory,
    );
    let handle = a.handle();
    a.send(Instant::ZERO, packet(&memory, 1, Payload::Empty))
        .unwrap();
    handle.set_down(true);
    assert!(a.is_down() && a.free() > 0);
    a.send(Instant::ZERO, packet(&memory, 2, Payload::Empty))
        .unwrap();
    b.send(Instant::ZERO, packet(&memory, 3, Payload::Empty))
        .unwrap();
    let later = Instant::ZERO + Duration::from_millis(1);
    assert!(a.receive(later).is_none() && b.receive(later).is_none());
    assert_eq!(handle.counters().partitioned, 3);
    assert_eq!(a.poll_timeout(), None);
    a.set_down(false);
    b.send(later, packet(&memory, 4, Payload::Empty)).unwrap();
    assert_eq!(sequence(&a.receive(later).unwrap()), 4);
}

#[test]
fn what_waits_has_its_room_kept() {
    let memory = Memory::new(1 << 20);
    let config = FaultConfig {
        duplicate: 0.5,
        reorder: 0.5,
        ..NONE
    };
    let (mut a, mut b) = faulty(config, 9, &memory);
    let mut sent = 0;
    while a.free() > 0 {
        a.send(Instant::ZERO, packet(&memory, sent, Payload::Empty))
            .unwrap();
        sent += 1;
    }
    assert!(
        a.send(Instant::ZERO, packet(&memory, sent, Payload::Empty))
            .is_err()
    );
    let later = Instant::ZERO + Duration::from_millis(1);
    assert!(a.receive(later).is_none());
    assert_eq!(core::iter::from_fn(|| b.receive(later)).count(), 64);
    assert_eq!(a.counters().refused, 0);
}

#[test]
fn the_seed_decides_everything() {
    let all = FaultConfig {
        loss: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        corrupt: 0.1,
        ..NONE
    };
    let trace = |config, seed| {
        let memory = Memory::new(1 << 20);
        let (arrived, counters) = campaign(config, seed);
        let mut bytes = Vec::new();
        assert!(
            arrived
                .iter()
                .all(|packet| packet.serialise(&memory, &mut bytes))
        );
        (bytes, counters)
    };
    assert!(trace(all, 10) == trace(all, 10));
    assert!(trace(all, 10) != trace(all, 11));
    // One fault's rate does not change the packets affected by another one.
    let (_, few) = trace(
        FaultConfig {
            duplicate: 0.0,
            ..all
        },
        10,
    );
    assert_eq!(few.lost, trace(all, 10).1.lost);
}

#[test]
fn senseless_rates_are_refused() {
    #[track_caller]
    fn check(config: FaultConfig, expect: &str) {
        let memory = Memory::new(4096);
        let error = Fault::new(pair(1).0, config, Rng::new(0), memory).unwrap_err();
        assert_eq!(error.to_string(), expect);
    }
    let loss = "the probability `loss` is 1.5; it must be between 0 and 1";
    check(FaultConfig { loss: 1.5, ..NONE }, loss);
    let corrupt = "the probability `corrupt` is NaN; it must be between 0 and 1";
    check(
        FaultConfig {
            corrupt: f64::NAN,
            ..NONE
        },
        corrupt,
    );
    let burst = "`loss_burst` is 0; a loss takes at least the packet itself, so set 1";
    check(
        FaultConfig {
            loss_burst: 0,
            ..NONE
        },
        burst,
    );
    let delay = "`reorder` is 0.5 but `reorder_delay` is 0; set a delay for others to overtake in";
    check(
        FaultConfig {
            reorder: 0.5,
            reorder_delay: Duration::ZERO,
            ..NONE
        },
        delay,
    );
}
