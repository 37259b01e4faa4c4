//! The suite's end of the cable to a guest, with a capture and faults.

use crate::failure::{Failure, Outcome};
use crate::guest::{ETHERNET_MTU, Guest};
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet, PortId, Rng};
use rackweave_link::unix::UnixDatagram;
use rackweave_link::{Capture, Fault, FaultConfig, Link, Properties, SharedCapture};

/// The suite's end of the cable to a guest. It can lose packets, in both directions alike.
pub struct Cable {
    out: Fault<Capture<UnixDatagram>>,
    loss: f64,
    rng: Rng,
    lost_inbound: u64,
}

impl Cable {
    /// Connects the suite's end of the cable; the capture records its packets as those of `port`.
    pub fn plug(
        guest: &Guest,
        memory: &Memory,
        capture: &SharedCapture,
        port: PortId,
        mut rng: Rng,
    ) -> Outcome<Self> {
        let pool = Pool::new(1024);
        let (own, peer) = (guest.socket("host"), guest.socket("guest"));
        let socket = UnixDatagram::bind(&own, &peer, ETHERNET_MTU, memory.clone(), pool)
            .map_err(|error| Failure::refused("the cable", error))?;
        let recorded = Capture::new(socket, capture.clone(), port);
        let faults = rng.fork("outbound");
        let out = Fault::new(recorded, FaultConfig::default(), faults, memory.clone())
            .map_err(|error| Failure::refused("the cable", error))?;
        Ok(Self {
            out,
            loss: 0.0,
            rng: rng.fork("inbound"),
            lost_inbound: 0,
        })
    }

    /// From now on each packet is lost with this probability, in both directions.
    pub fn set_loss(&mut self, loss: f64) {
        let config = FaultConfig {
            loss,
            ..FaultConfig::default()
        };
        self.out
            .set_config(config)
            .expect("a probability between 0 and 1");
        self.loss = loss;
    }

    /// Packets lost so far: towards the guest, and from it.
    pub fn lost(&self) -> (u64, u64) {
        (self.out.counters().lost, self.lost_inbound)
    }
}

impl Link for Cable {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        self.out.send(now, packet)
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        loop {
            let packet = self.out.receive(now)?;
            if self.loss == 0.0 || !self.rng.chance(self.loss) {
                return Some(packet);
            }
            self.lost_inbound += 1;
        }
    }

    fn free(&self) -> usize {
        self.out.free()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.out.poll_timeout()
    }

    fn properties(&self) -> Properties {
        self.out.properties()
    }
}
