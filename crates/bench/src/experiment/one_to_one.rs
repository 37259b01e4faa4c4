//! Flows from one node to another, as fast as they go: what figures 6 and 7 measure.
//!
//! The kernels of a GPU are one program per node that takes no time of its own: it fills every slot
//! as soon as it is free and frees every item as soon as it is there.

use super::ExperimentError;
use super::meter::{Meter, Span, Sweep};
use core::cell::RefCell;
use rackweave_base::{Duration, NodeId};
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_rack::{RackConfig, SimulatedRack};
use rackweave_sim::LinkModel;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// The node of the producers and that of the consumers.
pub const ENDS: (NodeId, NodeId) = (NodeId(0), NodeId(1));

/// Payload bytes of a packet. Source: zero-sided RDMA, section 4: 1024 bytes is the default.
pub const MTU: u32 = 1024;

/// Bytes of a ring, unless a few items are more.
const RING_BYTES: u32 = 1 << 20;

/// Items, and batches, that a ring holds at least.
const RING_ITEMS: u32 = 8;

/// Some flows between the two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flows {
    /// How many.
    pub count: u32,
    /// Bytes of an item.
    pub item_size: u32,
    /// Bytes of one transfer at most.
    pub batch_bytes: u32,
    /// Transfers of a flow under way at a time: 1, 2 or 4.
    pub transfers: u8,
}

impl Flows {
    /// Bytes of a ring: 1 MiB, eight items, or eight batches, whichever is most.
    pub fn ring_bytes(&self) -> u32 {
        RING_BYTES
            .max(self.item_size.saturating_mul(RING_ITEMS))
            .max(self.batch_bytes.saturating_mul(RING_ITEMS))
    }

    /// How long these flows must run for a rate: `least`, or as long as `rounds` rounds take. In a
    /// round all transfers under way come to their end; NICs serve them side by side, so they may
    /// all end at once. Two rounds, or a millisecond, are the warm-up.
    pub fn span(&self, least: Duration, rounds: u32) -> Span {
        let bytes = u64::from(self.count) * u64::from(self.transfers) * u64::from(self.batch_bytes);
        let round = Duration::from_nanos((bytes as f64 / line_rate() * 1e9) as u64);
        Span {
            warm_up: (round * 2).max(Duration::from_millis(1)),
            counted: (round * u64::from(rounds)).max(least),
        }
    }
}

/// The rack of the paper's testbed with its MTU.
///
/// # Errors
/// If it cannot be built.
pub fn rack(seed: u64) -> Result<SimulatedRack, ExperimentError> {
    let mut config = RackConfig {
        seed,
        ..RackConfig::default()
    };
    config.nic.mtu = MTU;
    Ok(SimulatedRack::new(&config)?)
}

/// Payload bytes per second of a link that carries nothing but full packets of WRITEs or READ
/// responses, which in the middle of a message have the same headers: Ethernet 14, IPv4 20, UDP 8,
/// BTH 12, ICRC 4.
pub fn line_rate() -> f64 {
    let link = LinkModel::default();
    let packet = 14 + 20 + 8 + 12 + MTU as usize + 4;
    f64::from(MTU) / (link.occupancy(packet) as f64 * 1e-12)
}

/// Runs zero-sided flows and returns the bytes per second that arrive.
///
/// # Errors
/// If the rack or a flow cannot be set up, the run goes wrong, or the user wishes to stop.
pub fn zero_sided(
    sweep: &mut Sweep<'_, '_>,
    flows: Flows,
    span: Span,
) -> Result<f64, ExperimentError> {
    let mut rack = rack(sweep.seed())?;
    let meter = Meter::new(span);
    let (mut made, mut sources, mut sinks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..flows.count {
        let mut spec = rack
            .flow(&[ENDS.0], &[ENDS.1])
            .item_bytes(flows.item_size)
            .ring_bytes(flows.ring_bytes())
            .spec()?;
        spec.batch_bytes = flows.batch_bytes.max(flows.item_size);
        spec.transfers = flows.transfers;
        let flow = rack.create_flow(spec)?;
        sources.extend(flow.take_producers(0)?);
        sinks.push(flow.take_consumer(0)?);
        made.push(flow);
    }
    let items = vec![0; sources.len()];
    let source = Source(sources, items.clone(), meter.clone());
    rack.spawn(ENDS.0, Box::new(source));
    rack.spawn(ENDS.1, Box::new(Sink(sinks, items, meter.clone())));
    sweep.measure(&mut rack, span, &meter)
}

/// The producing kernels, with what each has produced.
struct Source(Vec<Producer>, Vec<u64>, Rc<RefCell<Meter>>);

impl Actor for Source {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        for (producer, items) in self.0.iter_mut().zip(&mut self.1) {
            let size = producer.item_size() as usize;
            loop {
                let mut slots = match producer.reserve(u32::MAX) {
                    Ok(slots) => slots,
                    Err(PushError::Full) => break,
                    Err(error) => {
                        self.2.borrow_mut().fail(error.to_string());
                        return Step::Done;
                    }
                };
                let count = slots.len() / size;
                for mut slot in slots.chunks_exact(size) {
                    slot.write(0, &items.to_le_bytes());
                    *items += 1;
                }
                producer.commit(count as u32);
            }
        }
        Step::WaitForPacket
    }
}

/// The consuming kernels, with what each has consumed.
struct Sink(Vec<Consumer>, Vec<u64>, Rc<RefCell<Meter>>);

impl Actor for Sink {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        let mut meter = self.2.borrow_mut();
        for (consumer, items) in self.0.iter_mut().zip(&mut self.1) {
            let size = consumer.item_size() as usize;
            loop {
                let slots = match consumer.peek(u32::MAX) {
                    Taken::Items(slots) => slots,
                    Taken::Empty => break,
                    Taken::Ended | Taken::Aborted => {
                        meter.fail("a flow was broken off");
                        return Step::Done;
                    }
                };
                let (bytes, count) = (slots.len(), slots.len() / size);
                for slot in slots.chunks_exact(size) {
                    if slot.u64_le(0) != *items {
                        meter.fail("an item is not the one that was expected");
                        return Step::Done;
                    }
                    *items += 1;
                }
                consumer.release(count as u32);
                meter.add(now, bytes as u64);
            }
        }
        Step::WaitForPacket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_rate_is_what_ethernet_leaves() {
        // 1082 bytes of packet, 8 of preamble, 4 of check sequence, 12 of silence per 1024.
        let expect = 12.5e9 * 1024.0 / 1106.0;
        assert!((line_rate() / expect - 1.0).abs() < 1e-6, "{}", line_rate());
    }
}
