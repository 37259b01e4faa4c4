//! Threads that sleep without a time limit: a waking that is lost is not made up for.

use super::*;
use rackweave_base::memory::Origin;
use rackweave_base::packet::Pool;
use rackweave_base::{Memory, Packet, Payload};
use rackweave_link::shared_memory::SharedMemory;

/// Sends what is posted, and counts what arrives.
struct End {
    link: SharedMemory,
    to_send: u64,
    received: u64,
}

impl LinkedMachine for End {
    fn run(&mut self, now: Instant) -> u32 {
        let mut moved = 0;
        while self.link.receive(now).is_some() {
            (self.received, moved) = (self.received + 1, moved + 1);
        }
        while self.to_send > 0 {
            let packet = Packet::new(&[1], Payload::copied(&[]));
            if self.link.send(now, packet).is_err() {
                break;
            }
            (self.to_send, moved) = (self.to_send - 1, moved + 1);
        }
        moved
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn links(&mut self) -> impl Iterator<Item = &mut dyn Link> {
        core::iter::once(&mut self.link as &mut dyn Link)
    }
}

/// Each of two machines is driven by a driver thread, and a waiting thread naps beside it and
/// leaves. One packet after the other is posted and arrives.
#[test]
fn no_waking_is_lost() {
    const PACKETS: u64 = 2_000;
    let memory = Memory::shared(1 << 20).unwrap();
    memory.set_origin(Origin(1));
    let pool = Pool::new(4);
    let (a, handover) = SharedMemory::create(64, memory.clone(), pool.clone()).unwrap();
    let b = SharedMemory::attach(handover, memory, pool).unwrap();
    let epoch = std::time::Instant::now();
    let [a, b] = [a, b].map(|link| {
        let (to_send, received) = (0, 0);
        let end = End {
            link,
            to_send,
            received,
        };
        Pump::new(end, epoch).unwrap()
    });
    let mut arrived = 0;
    std::thread::scope(|scope| {
        for pump in [&a, &b] {
            scope.spawn(|| pump.run_within(Time::MAX));
        }
        for packet in 1..=PACKETS {
            // The driver threads are about to sleep, or sleep.
            for pump in [&a, &b] {
                pump.doze(Time::from_micros(packet % 64));
            }
            a.with(|end| end.to_send += 1);
            let posted = std::time::Instant::now();
            while arrived < packet && posted.elapsed() < Time::from_secs(30) {
                std::thread::sleep(Time::from_micros(packet % 16));
                arrived = b.peek(|end| end.received);
            }
            if arrived < packet {
                break;
            }
        }
        for pump in [&a, &b] {
            pump.stop();
        }
    });
    assert_eq!(arrived, PACKETS, "a waking was lost");
}
