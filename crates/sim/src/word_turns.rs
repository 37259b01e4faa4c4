//! Atomics on one word take turns.
//!
//! A NIC executes an atomic by reading the word from its node's memory, changing it, and writing it
//! back, and allows no other atomic on the word in between. The next one may read as soon as the
//! write has been issued: reads do not pass posted writes (PCI Express base specification, ordering
//! rules). So each atomic holds its word for one read. Packets of the same queue pair behind an
//! atomic wait with it; others pass.

use crate::{NicModel, picos, wire_link};
use rackweave_base::{Instant, Packet};
use std::collections::VecDeque;

/// Offset of the queue pair number in the BTH, and of the address after it (IB specification, 9.2
/// and 9.3.3).
const QPN_AT: usize = 5;
const ADDRESS_AT: usize = 12;

/// Held words, with the times at which they become free, in picoseconds.
#[derive(Clone, Default, Debug)]
pub(crate) struct WordTurns {
    held: VecDeque<(u64, u64)>,
}

impl WordTurns {
    /// When an atomic request that is ready at `ready` is executed; `ready` for any other packet.
    pub(crate) fn turn(&mut self, ready: Instant, packet: &Packet, model: &NicModel) -> Instant {
        let Some(address) = atomic_address(packet) else {
            return ready;
        };
        let at = picos::since_start(ready);
        self.held.retain(|&(_, free)| free > at);
        let hold = picos::of(model.memory_read_latency);
        match self.held.iter_mut().find(|(word, _)| *word == address) {
            Some((_, free)) => {
                let begins = *free;
                *free += hold;
                picos::instant(begins)
            }
            None => {
                self.held.push_back((address, at + hold));
                ready
            }
        }
    }
}

/// Inserts a packet into the queue of waiting packets by the time of its handling; packets of a
/// queue pair keep their order of arrival.
pub(crate) fn enter(waiting: &mut VecDeque<(Instant, Packet)>, mut ready: Instant, packet: Packet) {
    if waiting.back().is_none_or(|(last, _)| *last <= ready) {
        waiting.push_back((ready, packet));
        return;
    }
    let own = queue_pair(&packet);
    let earlier = waiting
        .iter()
        .rev()
        .find(|(_, other)| queue_pair(other) == own);
    if let Some((other, _)) = earlier {
        ready = ready.max(*other);
    }
    let at = waiting.partition_point(|(other, _)| *other <= ready);
    waiting.insert(at, (ready, packet));
}

fn queue_pair(packet: &Packet) -> Option<[u8; 3]> {
    let header = packet.header();
    let at = wire_link::bth_at(header)? + QPN_AT;
    header.get(at..at + 3)?.try_into().ok()
}

fn atomic_address(packet: &Packet) -> Option<u64> {
    const COMPARE_SWAP: u8 = 0x13;
    const FETCH_ADD: u8 = 0x14;
    let header = packet.header();
    let bth = wire_link::bth_at(header)?;
    if !matches!(*header.get(bth)?, COMPARE_SWAP | FETCH_ADD) {
        return None;
    }
    let at = bth + ADDRESS_AT;
    Some(u64::from_be_bytes(header.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::{Duration, Payload};

    fn packet(opcode: u8, qpn: u8, address: u64) -> Packet {
        let mut header = [0; 82];
        (header[12], header[14]) = (8, 0x45);
        header[36..38].copy_from_slice(&4791u16.to_be_bytes());
        header[42] = opcode;
        header[49] = qpn;
        header[54..62].copy_from_slice(&address.to_be_bytes());
        Packet::new(&header, Payload::copied(&[]))
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn atomics_on_one_word_wait_for_each_other() {
        let model = NicModel {
            memory_read_latency: Duration::from_nanos(500),
            ..NicModel::default()
        };
        let mut turns = WordTurns::default();
        let mut turn = |nanos, opcode, address| {
            turns
                .turn(at(nanos), &packet(opcode, 1, address), &model)
                .as_nanos()
        };
        assert_eq!(turn(100, 0x14, 64), 100);
        assert_eq!(turn(110, 0x13, 64), 600);
        assert_eq!(turn(120, 0x14, 64), 1100);
        assert_eq!(turn(130, 0x14, 72), 130, "another word is free");
        assert_eq!(turn(140, 0x0c, 64), 140, "a READ takes no turn");
        assert_eq!(turn(1600, 0x14, 64), 1600, "the last one has written");
    }

    #[test]
    fn packets_pass_an_atomic_that_waits_unless_they_are_of_its_queue_pair() {
        let mut waiting = VecDeque::new();
        for (ready, qpn) in [(10, 1), (900, 2), (20, 3), (30, 2), (25, 3)] {
            enter(&mut waiting, at(ready), packet(0x14, qpn, 0));
        }
        let order: Vec<(u64, Option<[u8; 3]>)> = waiting
            .iter()
            .map(|(ready, packet)| (ready.as_nanos(), queue_pair(packet)))
            .collect();
        let qpn = |qpn| Some([0, 0, qpn]);
        let expect = [
            (10, qpn(1)),
            (20, qpn(3)),
            (25, qpn(3)),
            (900, qpn(2)),
            (900, qpn(2)),
        ];
        assert_eq!(order, expect);
    }
}
