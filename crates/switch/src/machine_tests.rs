//! Tests of the machine with a small program: an echo with a counter.

use super::*;
use crate::{DropReason, Register};
use rackweave_base::{Duration, Payload};
use std::sync::{Arc, Mutex};

/// Sends every packet back, counts it, and recirculates once for packets that begin with `r`.
struct Echo {
    seen: Register<u32>,
}

#[derive(Clone, Copy)]
enum EchoTask {
    Count,
    Loop(u32),
}

impl Program for Echo {
    type Task = EchoTask;
    type Digest = u32;

    fn declare(&self, ledger: &mut Ledger) {
        ledger.register(&self.seen);
    }

    fn generator_keys(&self) -> usize {
        2
    }

    fn packet(&mut self, pass: &mut Pass<'_, EchoTask, u32>, port: PortId, packet: Packet) {
        match packet.header().first() {
            Some(b'r') => pass.recirculate(EchoTask::Count),
            Some(b'm') => pass.multicast(0, packet, |copy, packet| {
                packet.header_mut()[1] = copy as u8
            }),
            Some(b't') => pass.arm(1, Duration::from_nanos(50)),
            Some(b'l') => pass.recirculate(EchoTask::Loop(3)),
            Some(_) => pass.forward(port, packet),
            None => pass.drop(port, DropReason::Malformed, &packet),
        }
    }

    fn task(&mut self, pass: &mut Pass<'_, EchoTask, u32>, task: EchoTask) {
        match task {
            EchoTask::Count => {
                let seen = self.seen.update(&mut pass.cursor, 0, |seen| {
                    *seen += 1;
                    *seen
                });
                pass.digest(seen);
            }
            EchoTask::Loop(0) => pass.digest(0u32),
            EchoTask::Loop(left) => pass.recirculate(EchoTask::Loop(left - 1)),
        }
    }

    fn generated(&mut self, pass: &mut Pass<'_, EchoTask, u32>, key: u32) {
        pass.digest(key);
    }
}

fn echo(config: SwitchConfig) -> Switch<Echo> {
    let program = Echo {
        seen: Register::new("seen", 0, 1),
    };
    Switch::load(program, Budget::Tofino1, config).unwrap()
}

fn packet(header: &[u8]) -> Packet {
    Packet::new(header, Payload::Empty)
}

const T: fn(u64) -> Instant = Instant::from_nanos;

/// All counters that are not zero.
fn counters(switch: &Switch<Echo>) -> Vec<(&'static str, u64)> {
    switch
        .counters()
        .iter()
        .filter(|&(_, value)| value != 0)
        .collect()
}

#[test]
fn a_packet_leaves_by_its_port_and_only_there() {
    let mut switch = echo(SwitchConfig::default());
    switch.handle_packet(T(0), PortId(3), packet(b"x"));
    assert!(switch.poll_transmit(PortId(2)).is_none());
    assert_eq!(switch.poll_transmit(PortId(3)).unwrap().header(), b"x");
    assert!(switch.poll_transmit(PortId(3)).is_none());
    assert_eq!(
        counters(&switch),
        [("packets_in", 1), ("packets_out", 1), ("passes", 1)]
    );
}

#[test]
fn recirculation_takes_its_time() {
    let latency = Duration::from_nanos(100);
    let mut switch = echo(SwitchConfig {
        recirculation_latency: latency,
        ..Default::default()
    });
    switch.handle_packet(T(0), PortId(0), packet(b"l"));
    for (now, due) in [(100, 200), (200, 300), (300, 400)] {
        assert_eq!(switch.poll_timeout(), Some(T(now)));
        switch.handle_timeout(T(now));
        assert_eq!(switch.poll_timeout(), Some(T(due)));
    }
    assert_eq!(switch.poll_digest(), None);
    switch.handle_timeout(T(400));
    assert_eq!(switch.poll_digest(), Some(0));
    assert_eq!(
        counters(&switch),
        [("packets_in", 1), ("passes", 5), ("recirculations", 4)]
    );
}

#[test]
fn a_multicast_reaches_every_port_with_its_own_copy() {
    let mut switch = echo(SwitchConfig::default());
    switch.set_group(0, vec![(PortId(1), 0), (PortId(4), 1), (PortId(1), 2)]);
    switch.handle_packet(T(0), PortId(0), packet(b"m."));
    assert_eq!(switch.poll_transmit(PortId(1)).unwrap().header(), b"m\0");
    assert_eq!(switch.poll_transmit(PortId(4)).unwrap().header(), b"m\x01");
    assert_eq!(switch.poll_transmit(PortId(1)).unwrap().header(), b"m\x02");
    assert_eq!(
        counters(&switch),
        [("packets_in", 1), ("packets_out", 3), ("passes", 1)]
    );
}

#[test]
fn a_multicast_to_nowhere_is_counted() {
    let mut switch = echo(SwitchConfig::default());
    switch.handle_packet(T(0), PortId(0), packet(b"m."));
    assert_eq!(
        counters(&switch),
        [("packets_in", 1), ("passes", 1), ("drop_no_port", 1)]
    );
}

#[test]
fn the_generator_fires_when_it_is_due() {
    let mut switch = echo(SwitchConfig::default());
    switch.handle_packet(T(0), PortId(0), packet(b"t"));
    switch.handle_timeout(T(49));
    assert_eq!(
        (switch.poll_digest(), switch.poll_timeout()),
        (None, Some(T(50)))
    );
    switch.handle_timeout(T(50));
    assert_eq!(
        (switch.poll_digest(), switch.poll_timeout()),
        (Some(1), None)
    );
}

#[test]
fn a_full_egress_queue_drops_and_counts() {
    let mut switch = echo(SwitchConfig {
        egress_packets: 1,
        ..Default::default()
    });
    switch.handle_packet(T(0), PortId(0), packet(b"a"));
    switch.handle_packet(T(0), PortId(0), packet(b"b"));
    assert_eq!(switch.egress_len(PortId(0)), 1);
    assert_eq!(switch.counters().drops(DropReason::EgressFull), 1);
}

#[test]
fn a_restart_forgets_state_but_not_counters() {
    let mut switch = echo(SwitchConfig::default());
    switch.handle_packet(T(0), PortId(0), packet(b"r"));
    switch.handle_packet(T(0), PortId(0), packet(b"x"));
    switch
        .restart(Echo {
            seen: Register::new("seen", 0, 1),
        })
        .unwrap();
    assert!(switch.poll_transmit(PortId(0)).is_none());
    switch.handle_packet(T(9), PortId(0), packet(b"r"));
    assert_eq!(
        switch.poll_digest(),
        Some(1),
        "the register began again at zero"
    );
    assert_eq!(switch.counters().packets_in, 3);
}

/// The direction, and the reason if it was dropped.
type Crossing = (Direction, Option<&'static str>);

#[test]
fn the_tap_sees_every_crossing_and_every_drop() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<Crossing>>>);
    impl Tap for Log {
        fn packet(
            &mut self,
            _: Instant,
            _: PortId,
            direction: Direction,
            _: &Packet,
            dropped: Option<&'static str>,
        ) {
            self.0.lock().unwrap().push((direction, dropped));
        }
    }
    let log = Log::default();
    let mut switch = echo(SwitchConfig::default());
    switch.set_tap(Some(Box::new(log.clone())));
    switch.handle_packet(T(0), PortId(0), packet(b"x"));
    switch.handle_packet(T(0), PortId(0), packet(b""));
    assert_eq!(
        *log.0.lock().unwrap(),
        [
            (Direction::Ingress, None),
            (Direction::Egress, None),
            (Direction::Ingress, None),
            (Direction::Ingress, Some("drop_malformed")),
        ]
    );
}

#[test]
fn a_program_beyond_the_budget_is_refused() {
    let program = Echo {
        seen: Register::new("seen", 12, 1),
    };
    let error = Switch::load(program, Budget::Tofino1, SwitchConfig::default())
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "the program needs 13 stages; tofino1 has 12"
    );
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a pass has one way out")]
fn a_pass_has_one_way_out() {
    struct Twice;
    impl Program for Twice {
        type Task = ();
        type Digest = ();
        fn declare(&self, _: &mut Ledger) {}
        fn generator_keys(&self) -> usize {
            0
        }
        fn packet(&mut self, pass: &mut Pass<'_, (), ()>, port: PortId, packet: Packet) {
            pass.forward(port, packet.clone());
            pass.forward(port, packet);
        }
        fn task(&mut self, _: &mut Pass<'_, (), ()>, (): ()) {}
        fn generated(&mut self, _: &mut Pass<'_, (), ()>, _: u32) {}
    }
    let mut switch = Switch::load(Twice, Budget::Tofino1, SwitchConfig::default()).unwrap();
    switch.handle_packet(T(0), PortId(0), packet(b"x"));
}
