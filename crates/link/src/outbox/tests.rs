//! An outbox against a system that refuses.

use super::*;
use crate::conformance;
use rackweave_base::Payload;

/// A system that answers all calls alike, or takes everything.
#[derive(Default)]
struct System {
    answer: Option<Errno>,
    /// The most datagrams that it takes in one call.
    most: usize,
    arrived: Vec<u32>,
    calls: usize,
}

impl System {
    fn refusing(answer: Errno) -> Self {
        Self {
            answer: Some(answer),
            ..Self::default()
        }
    }

    fn taking(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }
}

impl Carrier for System {
    fn head(&self) -> &[u8] {
        b"head"
    }

    fn finish(&mut self, bytes: &mut Vec<u8>, at: usize) {
        assert_eq!(&bytes[at - 4..at], b"head");
        bytes.extend_from_slice(b"tail");
    }

    fn offer(&mut self, mut datagrams: Datagrams<'_>) -> io::Result<usize> {
        self.calls += 1;
        if let Some(answer) = self.answer {
            return Err(answer.into());
        }
        let taken = datagrams.lens.len().min(self.most);
        for &len in &datagrams.lens[..taken] {
            let (datagram, rest) = datagrams.bytes.split_at(len);
            let frame = datagram.strip_prefix(b"head").unwrap();
            let packet = rackweave_wire::parse_bytes(frame.strip_suffix(b"tail").unwrap());
            self.arrived.push(conformance::sequence(&packet.unwrap()));
            datagrams.bytes = rest;
        }
        Ok(taken)
    }
}

fn packet(memory: &Memory, number: u32) -> Packet {
    conformance::packet(memory, number, Payload::Empty)
}

/// Sends a packet through a system that returns `answer`; returns the counters.
fn check(answer: Errno) -> SendCounters {
    let memory = Memory::new(1 << 16);
    let mut outbox = Outbox::new(1500, memory.clone());
    let mut counters = SendCounters::default();
    let mut system = System::refusing(answer);
    let sent = outbox.send(
        Instant::ZERO,
        packet(&memory, 1),
        &mut counters,
        &mut system,
    );
    assert!(sent.is_ok());
    assert_eq!(outbox.free() < QUEUE_MAX, outbox.retry_at().is_some());
    counters
}

#[test]
fn what_cannot_be_sent_is_counted_and_what_may_go_later_is_kept() {
    let none = SendCounters::default();
    for errno in [Errno::AGAIN, Errno::NOBUFS, Errno::NOMEM, Errno::INTR] {
        assert_eq!(check(errno), none);
    }
    for errno in [
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::PERM,
        Errno::ACCESS,
    ] {
        assert_eq!(check(errno), SendCounters { refused: 1, ..none });
    }
    for errno in [Errno::CONNREFUSED, Errno::NOENT] {
        assert_eq!(
            check(errno),
            SendCounters {
                peer_gone: 1,
                ..none
            }
        );
    }
    assert_eq!(
        check(Errno::MSGSIZE),
        SendCounters {
            too_long: 1,
            ..none
        }
    );
}

#[test]
fn what_waited_goes_first() {
    let memory = Memory::new(1 << 16);
    let mut outbox = Outbox::new(1500, memory.clone());
    let mut counters = SendCounters::default();
    let mut full = System::refusing(Errno::AGAIN);
    for number in 0..=QUEUE_MAX as u32 {
        let packet = packet(&memory, number);
        let taken = outbox.send(Instant::ZERO, packet, &mut counters, &mut full);
        assert_eq!(taken.is_ok(), number < QUEUE_MAX as u32);
    }
    let due = outbox.retry_at().expect("packets wait");
    // The next packet can be sent again.
    let mut free = System::taking(7);
    let sent = outbox.send(due, packet(&memory, 99), &mut counters, &mut free);
    assert!(sent.is_ok());
    let expect: Vec<u32> = (0..QUEUE_MAX as u32).chain([99]).collect();
    assert_eq!(free.arrived, expect);
    assert_eq!((outbox.retry_at(), outbox.free()), (None, QUEUE_MAX));
    assert_eq!(counters.sent, expect.len() as u64);
}

#[test]
fn what_is_gathered_goes_in_few_calls() {
    let memory = Memory::new(1 << 16);
    let mut outbox = Outbox::new(1500, memory.clone());
    let mut counters = SendCounters::default();
    let mut system = System::taking(usize::MAX);
    outbox.cork();
    let count = QUEUE_MAX as u32 + 5;
    for number in 0..count {
        assert!(outbox.free() > 0);
        let packet = packet(&memory, number);
        let sent = outbox.send(Instant::ZERO, packet, &mut counters, &mut system);
        assert!(sent.is_ok());
    }
    assert_eq!(system.calls, 1, "a whole queue");
    outbox.uncork();
    outbox.flush(Instant::ZERO, &mut counters, &mut system);
    assert_eq!(system.calls, 2);
    assert_eq!(system.arrived, (0..count).collect::<Vec<u32>>());
    assert_eq!(counters.sent, u64::from(count));
}

#[test]
fn long_packets_are_not_gathered_without_bound() {
    let memory = Memory::new(1 << 16);
    let mut outbox = Outbox::new(4200, memory.clone());
    let mut counters = SendCounters::default();
    let mut system = System::taking(usize::MAX);
    outbox.cork();
    for number in 0..40 {
        let packet = conformance::packet(&memory, number, Payload::copied(&[7; 4096]));
        let sent = outbox.send(Instant::ZERO, packet, &mut counters, &mut system);
        assert!(sent.is_ok());
    }
    assert_eq!((system.calls, system.arrived.len()), (2, 32));
}
