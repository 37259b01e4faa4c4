//! A capture of the packets that a switch receives and sends, with the reason of every drop.

use rackweave_base::{Instant, Packet, PortId};
use rackweave_link::SharedCapture;
use rackweave_switch::{Direction, Tap};

/// Feeds a capture with the packets at a switch, as its tap.
#[derive(Debug)]
pub struct SwitchCapture(pub SharedCapture);

impl Tap for SwitchCapture {
    fn packet(
        &mut self,
        now: Instant,
        port: PortId,
        direction: Direction,
        packet: &Packet,
        dropped: Option<&'static str>,
    ) {
        let direction = match direction {
            Direction::Ingress => rackweave_link::Direction::Ingress,
            Direction::Egress => rackweave_link::Direction::Egress,
        };
        self.0.record(now, port, direction, packet, dropped);
    }
}
