//! The conformance suite that every pair of links must pass.
//!
//! [`run`] is for links that declare themselves lossless; [`run_lossy`] checks only the part of the
//! contract that holds when packets may be lost. Both panic with the expected result, as tests do.

mod packets;

pub use packets::{packet, sequence};

use crate::{Link, Properties, wait};
use packets::{bytes_of, every_kind_of_packet, fixed_bytes_of};
use rackweave_base::packet::HEADER_MAX;
use rackweave_base::{Instant, Memory, Packet, Payload};
use rackweave_wire::ethernet::LEN as ETHERNET_LEN;
use rackweave_wire::{Headers, Verdict, icrc};
use std::time::Duration;

/// Number of polls before a packet counts as lost, for links through the system, which are slow.
const PATIENCE: usize = 10_000;

/// Maximum packets that a test sends in a row: links may have any capacity.
const BATCH_MAX: u32 = 1024;

/// The smallest RDMA MTU in bytes.
const RDMA_MTU_MIN: usize = 256;

/// Bytes of the ICRC.
const CHECK_LEN: usize = 4;

/// Maximum bytes of region memory that a test uses.
pub const ARENA_LIMIT: usize = 1 << 20;

/// Maximum time that a system takes to carry a packet from one socket to another.
#[cfg(test)]
const CARRIED_WITHIN: std::time::Duration = std::time::Duration::from_secs(20);

/// Maximum time that a test sleeps when it should be woken.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// A pair of links, the time, and the memory of their packets.
struct Bench<A, B> {
    a: A,
    b: B,
    now: Instant,
    memory: Memory,
}

/// Runs the whole suite. `make` creates a new pair whose payloads `memory` resolves.
///
/// # Panics
/// If the links do not conform.
pub fn run<A: Link, B: Link>(make: impl FnMut(&Memory) -> (A, B)) {
    run_in(|| Memory::new(ARENA_LIMIT), make);
}

/// Runs the whole suite as [`run`] does, each test with an arena from `memory`, for links that need
/// an arena of their kind. It must have space for [`ARENA_LIMIT`] bytes.
///
/// # Panics
/// If the links do not conform.
pub fn run_in<A: Link, B: Link>(
    mut memory: impl FnMut() -> Memory,
    mut make: impl FnMut(&Memory) -> (A, B),
) {
    let mut fresh = || fresh(memory(), &mut make);
    properties_are_honest(&mut fresh());
    order_is_kept(&mut fresh());
    directions_are_independent(&mut fresh());
    free_slots_are_respected(&mut fresh());
    full_then_drained(&mut fresh());
    packets_arrive_whole(&mut fresh());
    idle_links_want_nothing(&mut fresh());
    sleepers_are_woken(&mut fresh());
}

/// Runs the tests that hold for lossy links too: what arrives was sent, and is intact; announced
/// space is available.
///
/// # Panics
/// If the links do not conform.
pub fn run_lossy<A: Link, B: Link>(mut make: impl FnMut(&Memory) -> (A, B)) {
    let mut fresh = || fresh(Memory::new(ARENA_LIMIT), &mut make);
    promised_room_is_there(&mut fresh());
    what_arrives_was_sent(&mut fresh());
    idle_links_want_nothing(&mut fresh());
}

fn fresh<A: Link, B: Link>(
    memory: Memory,
    make: &mut impl FnMut(&Memory) -> (A, B),
) -> Bench<A, B> {
    let (a, b) = make(&memory);
    Bench {
        a,
        b,
        now: Instant::ZERO,
        memory,
    }
}

impl<A: Link, B: Link> Bench<A, B> {
    fn packet(&self, sequence: u32) -> Packet {
        packet(
            &self.memory,
            sequence,
            Payload::inline(&sequence.to_be_bytes()),
        )
    }

    /// What `b` receives, with as many polls and as much virtual time as needed.
    fn receive_at_b(&mut self) -> Option<Packet> {
        receive(&mut self.b, &mut self.a, &mut self.now)
    }

    fn receive_at_a(&mut self) -> Option<Packet> {
        receive(&mut self.a, &mut self.b, &mut self.now)
    }

    /// Sends packets from `a` until the link is full, or [`BATCH_MAX`], numbered from `first` on.
    /// Returns their number.
    fn fill(&mut self, first: u32) -> u32 {
        let mut sent = 0;
        while sent < BATCH_MAX && self.a.free() > 0 {
            let packet = self.packet(first + sent);
            assert!(self.a.send(self.now, packet).is_ok(), "space was promised");
            sent += 1;
        }
        sent
    }

    /// Asserts that `b` receives exactly the packets numbered `first..first + count`.
    fn drain(&mut self, first: u32, count: u32) {
        for expect in first..first + count {
            let packet = self.receive_at_b().expect("a lossless link loses nothing");
            assert_eq!(sequence(&packet), expect, "a lossless link keeps the order");
        }
    }
}

/// Calls `poll` until it returns something, for as long as a busy system may take to carry a packet
/// from one socket to another: it may use a separate thread for that.
#[cfg(test)]
pub(crate) fn patiently<T>(mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let until = std::time::Instant::now() + CARRIED_WITHIN;
    loop {
        let polled = poll();
        if polled.is_some() || std::time::Instant::now() >= until {
            return polled;
        }
        std::thread::yield_now();
    }
}

/// Receives at `end`, advancing `now` to the time that either end waits for.
fn receive(end: &mut dyn Link, other: &mut dyn Link, now: &mut Instant) -> Option<Packet> {
    for _ in 0..PATIENCE {
        if let Some(packet) = end.receive(*now) {
            return Some(packet);
        }
        if let Some(due) = [end.poll_timeout(), other.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
        {
            *now = (*now).max(due);
        }
        // The other end may have delayed packets to forward. These tests never make both ends
        // receive at once, so what it receives here must be nothing.
        assert!(
            other.receive(*now).is_none(),
            "a packet came back to its sender"
        );
    }
    None
}

fn properties_are_honest<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    let Properties { mtu, lossless, .. } = bench.a.properties();
    assert_eq!(
        bench.a.properties(),
        bench.b.properties(),
        "both ends are of one cable"
    );
    assert!(
        lossless,
        "this suite is for lossless links; see `run_lossy`"
    );
    let headers_max = HEADER_MAX - ETHERNET_LEN + CHECK_LEN;
    assert!(
        mtu >= RDMA_MTU_MIN + headers_max,
        "an MTU of {mtu} carries no RDMA MTU at all"
    );
}

fn order_is_kept<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    let mut received = 0;
    let mut sent = 0;
    // Batches of different sizes, so that the link is sometimes empty and sometimes not.
    for batch in (1..=7).cycle().take(200) {
        for _ in 0..batch {
            if bench.a.free() == 0 {
                break;
            }
            let packet = bench.packet(sent);
            assert!(
                bench.a.send(bench.now, packet).is_ok(),
                "space was promised"
            );
            sent += 1;
        }
        let count = (sent - received).min(4);
        bench.drain(received, count);
        received += count;
    }
    bench.drain(received, sent - received);
    assert!(sent >= 200, "only {sent} packets passed");
    assert!(bench.b.receive(bench.now).is_none(), "a packet came twice");
}

fn directions_are_independent<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    let sent = bench.fill(0);
    assert!(
        bench.b.free() > 0,
        "a full way there must not fill the way back"
    );
    bench.drain(0, sent);
    for number in 0..100 {
        let packet = bench.packet(1000 + number);
        assert!(
            bench.b.send(bench.now, packet).is_ok(),
            "an empty link has space"
        );
        let packet = bench.receive_at_a().expect("a lossless link loses nothing");
        assert_eq!(sequence(&packet), 1000 + number);
    }
    assert!(
        bench.b.receive(bench.now).is_none(),
        "a packet came back to its sender"
    );
}

fn free_slots_are_respected<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    let free = bench.a.free();
    assert!(free > 0, "an empty link has space");
    let sent = bench.fill(0);
    assert!(
        sent as usize >= free.min(BATCH_MAX as usize),
        "{sent} fit where {free} were promised"
    );
    if bench.a.free() > 0 {
        return;
    }
    let refused = bench.a.send(bench.now, bench.packet(sent));
    let packet = refused.expect_err("a full lossless link gives the packet back");
    assert_eq!(
        bytes_of(&packet, &bench.memory),
        bytes_of(&bench.packet(sent), &bench.memory)
    );
    bench.drain(0, sent);
    assert!(
        bench.b.receive(bench.now).is_none(),
        "what was given back was sent nevertheless"
    );
    assert!(bench.a.free() > 0, "a drained link has space");
}

fn full_then_drained<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    let mut first = 0;
    for _ in 0..5 {
        let sent = bench.fill(first);
        assert!(sent > 0, "a drained link has space");
        bench.drain(first, sent);
        assert!(
            bench.b.receive(bench.now).is_none(),
            "an empty link gives nothing"
        );
        first += sent;
    }
}

fn packets_arrive_whole<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    let (_block, packets) = every_kind_of_packet(&bench.memory, bench.a.properties().mtu);
    for packet in packets {
        let expect = bytes_of(&packet, &bench.memory);
        assert!(
            bench.a.send(bench.now, packet).is_ok(),
            "an empty link has space"
        );
        let packet = bench.receive_at_b().expect("a lossless link loses nothing");
        assert_eq!(
            bytes_of(&packet, &bench.memory),
            expect,
            "a packet was changed"
        );
        assert_eq!(Headers::of(&packet).map(|_| ()), Ok(()));
    }
}

fn idle_links_want_nothing<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    assert_eq!(
        (bench.a.poll_timeout(), bench.b.poll_timeout()),
        (None, None),
        "nothing is due"
    );
    assert!(bench.a.receive(bench.now).is_none() && bench.b.receive(bench.now).is_none());
}

/// A thread that sleeps by the rules wakes for a packet, whether it arrived before or after the
/// thread fell asleep.
fn sleepers_are_woken<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    if bench.b.wake_fd().is_none() {
        return;
    }
    for number in 0..10 {
        assert!(bench.b.prepare_sleep(), "nothing has come: it may sleep");
        assert!(!is_woken(&bench.b, Duration::ZERO), "nothing has come");
        if number % 2 == 0 {
            bench.b.end_sleep();
        }
        let packet = bench.packet(number);
        assert!(
            bench.a.send(bench.now, packet).is_ok(),
            "space was promised"
        );
        if number % 2 == 0 {
            let may_sleep = bench.b.prepare_sleep();
            assert!(
                !may_sleep || is_woken(&bench.b, SLEEP_MAX),
                "it came before"
            );
        } else {
            assert!(is_woken(&bench.b, SLEEP_MAX), "it came after");
        }
        bench.b.end_sleep();
        bench.drain(number, 1);
    }
}

fn is_woken(link: &impl Link, limit: Duration) -> bool {
    let fd = link.wake_fd().expect("links do not lose their descriptor");
    wait::sleep(&[fd], limit).expect("a descriptor can be waited for")
}

fn promised_room_is_there<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    let mut first = 0;
    for _ in 0..20 {
        first += bench.fill(first);
        while bench.receive_at_b().is_some() {}
        assert!(bench.a.free() > 0, "a drained link has space");
    }
}

fn what_arrives_was_sent<A: Link, B: Link>(bench: &mut Bench<A, B>) {
    for _ in 0..20 {
        let (_block, packets) = every_kind_of_packet(&bench.memory, bench.a.properties().mtu);
        let mut sent = Vec::new();
        for packet in packets {
            sent.push(fixed_bytes_of(&packet, &bench.memory));
            // A full link drops or returns it, which makes no difference to this test.
            let _given_back = bench.a.send(bench.now, packet);
        }
        while let Some(packet) = bench.receive_at_b() {
            let bytes = fixed_bytes_of(&packet, &bench.memory);
            let was_damaged = icrc::verify(&packet, &bench.memory) == Verdict::Wrong
                || Headers::of(&packet).is_err();
            assert!(
                was_damaged || sent.contains(&bytes),
                "a packet that nobody sent arrived"
            );
        }
    }
}
