//! A link inside one process: two rings of packets, one for each direction.
//!
//! Packets are passed as pointers, their payloads mostly by reference to region memory, so sending
//! costs no copy of data and no allocation. The link is lossless and guarantees integrity: it needs
//! no ICRC. The ends may be on two threads.

use crate::doorbell::Doorbell;
use crate::ring::{Consumer, Producer, ring};
use crate::{Link, Properties};
use rackweave_base::{Instant, Packet};

/// The largest Ethernet payload: one RDMA MTU of 4096 bytes and its headers fit in a jumbo packet
/// of the usual size.
pub const MTU: usize = 9000;

/// One end of a link inside the process.
///
/// After the other end is dropped, packets sent are discarded; packets that it sent before can
/// still be received.
#[derive(Debug)]
pub struct InProcess {
    out: Producer<Packet>,
    back: Consumer<Packet>,
    /// Rung for the other end, once for all packets that are sent while the link is corked.
    doorbell: Option<Doorbell>,
    is_corked: bool,
    /// Whether packets were sent since the doorbell was rung.
    is_silent: bool,
}

/// Creates both ends of a link that holds up to `capacity` packets per direction, rounded up to a
/// power of two.
pub fn pair(capacity: usize) -> (InProcess, InProcess) {
    let (there, at_b) = ring(capacity);
    let (back, at_a) = ring(capacity);
    let end = |out, back| InProcess {
        out,
        back,
        doorbell: None,
        is_corked: false,
        is_silent: false,
    };
    (end(there, at_a), end(back, at_b))
}

impl InProcess {
    /// Number of packets that the link holds per direction.
    pub fn capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Rings this doorbell from now on when something has been sent. It is that of the machine at
    /// the other end.
    pub fn set_doorbell(&mut self, doorbell: Doorbell) {
        self.doorbell = Some(doorbell);
    }

    fn ring(&mut self) {
        self.is_silent = false;
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring();
        }
    }
}

impl Link for InProcess {
    #[inline]
    fn send(&mut self, _now: Instant, packet: Packet) -> Result<(), Packet> {
        if self.out.is_consumer_gone() {
            // No slot would ever become free again, and a sender must not wait for a dead peer.
            drop(packet);
            return Ok(());
        }
        self.out.push(packet)?;
        match self.is_corked {
            true => self.is_silent = true,
            false => self.ring(),
        }
        Ok(())
    }

    fn cork(&mut self) {
        self.is_corked = true;
    }

    fn uncork(&mut self, _now: Instant) {
        self.is_corked = false;
        if self.is_silent {
            self.ring();
        }
    }

    #[inline]
    fn receive(&mut self, _now: Instant) -> Option<Packet> {
        self.back.pop()
    }

    #[inline]
    fn free(&self) -> usize {
        if self.out.is_consumer_gone() {
            return self.out.capacity();
        }
        self.out.free()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn properties(&self) -> Properties {
        Properties {
            mtu: MTU,
            lossless: true,
            check_needed: false,
        }
    }

    fn is_peer_gone(&self) -> bool {
        self.out.is_consumer_gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::doorbell::Doorbells;
    use rackweave_base::Payload;
    use rackweave_base::packet::Pool;

    #[test]
    fn it_conforms() {
        for capacity in [1, 2, 64] {
            conformance::run(|_| pair(capacity));
        }
    }

    #[test]
    fn a_dead_peer_blocks_nobody_and_holds_no_buffers() {
        let pool = Pool::new(1);
        let (mut a, b) = pair(2);
        let buffer = pool.take(100, |_| true).unwrap();
        a.send(Instant::ZERO, Packet::new(b"", Payload::Pooled(buffer)))
            .unwrap();
        assert!(pool.take(100, |_| true).is_none() && !a.is_peer_gone());
        drop(b);
        assert!(a.is_peer_gone());
        for _ in 0..10 {
            let buffer = pool.take(100, |_| true).expect("the last one came back");
            a.send(Instant::ZERO, Packet::new(b"", Payload::Pooled(buffer)))
                .unwrap();
        }
        assert_eq!(a.free(), 2);
    }

    #[test]
    fn a_doorbell_rings_for_what_was_sent() {
        let bells = Doorbells::new(2);
        let (mut a, _b) = pair(2);
        a.set_doorbell(bells.doorbell(1));
        let send = |a: &mut InProcess| a.send(Instant::ZERO, Packet::new(b"", Payload::Empty));
        send(&mut a).unwrap();
        assert_eq!(bells.rung().collect::<Vec<_>>(), [1]);
        bells.take(1);
        a.cork();
        send(&mut a).unwrap();
        assert!(!bells.any(), "only once for all packets of a burst");
        a.uncork(Instant::ZERO);
        assert!(bells.any());
        bells.take(1);
        assert!(send(&mut a).is_err());
        a.cork();
        a.uncork(Instant::ZERO);
        assert!(!bells.any(), "nothing was sent");
    }

    #[test]
    fn what_a_peer_sent_before_it_went_still_arrives() {
        let (mut a, mut b) = pair(2);
        b.send(Instant::ZERO, Packet::new(b"last words", Payload::Empty))
            .unwrap();
        drop(b);
        assert_eq!(a.receive(Instant::ZERO).unwrap().header(), b"last words");
        assert!(a.receive(Instant::ZERO).is_none());
    }
}
