//! Flows between two nodes at maximum rate: the measurement of figures 6 and 7.
//!
//! A GPU's kernels are one program per node that takes no time: it fills every slot as soon as it
//! is free and frees every item as soon as it arrives.

use super::prelude::*;
use rackweave_sim::LinkModel;

/// The producers' node and the consumers' node.
pub const ENDS: (NodeId, NodeId) = (NodeId(0), NodeId(1));

/// Payload bytes of a packet. Source: zero-sided RDMA, section 4: 1024 bytes is the default.
pub const MTU: u32 = 1024;

/// Bytes of a ring, unless a few items are larger.
const RING_BYTES: u32 = 1 << 20;

/// Minimum number of items, and of batches, that a ring holds.
const RING_ITEMS: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flows {
    pub count: u32,
    /// Bytes of an item.
    pub item_size: u32,
    /// Maximum bytes of one transfer.
    pub batch_bytes: u32,
    /// Transfers of a flow in flight at a time: 1, 2 or 4.
    pub transfers: u8,
}

impl Flows {
    /// Bytes of a ring: 1 MiB, eight items, or eight batches, whichever is largest.
    pub fn ring_bytes(&self) -> u32 {
        let largest = self.item_size.max(self.batch_bytes);
        RING_BYTES.max(largest.saturating_mul(RING_ITEMS))
    }

    /// How long these flows must run to measure a rate: `least`, or the time of `rounds` rounds if
    /// that is longer. In a round every transfer in flight ends once; NICs serve them side by side,
    /// so they may all end at once. The warm-up is two rounds, or a millisecond.
    pub fn span(&self, least: Duration, rounds: u32) -> Span {
        let bytes = u64::from(self.count) * u64::from(self.transfers) * u64::from(self.batch_bytes);
        let round = Duration::from_nanos((bytes as f64 / line_rate() * 1e9) as u64);
        Span::new(
            (round * 2).max(Duration::from_millis(1)),
            (round * u64::from(rounds)).max(least),
        )
    }
}

/// The rack of the paper's testbed with its MTU.
pub fn rack(seed: u64) -> Result<Testbed> {
    let mut config = RackConfig {
        seed,
        ..RackConfig::default()
    };
    config.nic.mtu = MTU;
    Testbed::new(&config)
}

/// Payload bytes per second of a link that carries only full packets of WRITEs or READ responses,
/// which have the same headers in the middle of a message: Ethernet 14, IPv4 20, UDP 8, BTH 12,
/// ICRC 4.
pub fn line_rate() -> f64 {
    payload_rate(MTU)
}

/// As [`line_rate`], with another payload per packet.
pub fn payload_rate(mtu: u32) -> f64 {
    let packet = 14 + 20 + 8 + 12 + mtu as usize + 4;
    f64::from(mtu) / (LinkModel::default().occupancy(packet) as f64 * 1e-12)
}

/// Runs zero-sided flows and returns the bytes per second that arrive.
pub fn zero_sided(run: &mut Run<'_>, flows: Flows, span: Span) -> Result<f64> {
    let mut rack = rack(run.seed)?;
    let tally = Tally::new(Instant::ZERO, span);
    let (mut made, mut sources, mut sinks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..flows.count {
        let ends = [&[ENDS.0][..], &[ENDS.1]];
        let mut spec = flow_spec(&rack, ends, flows.item_size, flows.ring_bytes())?;
        spec.batch_bytes = flows.batch_bytes.max(flows.item_size);
        spec.transfers = flows.transfers;
        let flow = rack.create_flow(spec)?;
        sources.extend(flow.take_producers(0)?);
        sinks.push(flow.take_consumer(0)?);
        made.push(flow);
    }
    rack.spawn(ENDS.0, kernel_source(sources, None));
    rack.spawn(ENDS.1, sink(sinks, tally.clone()));
    Tally::run(&tally, run, &mut rack)?;
    tally.borrow_mut().bytes_per_second()
}

/// The producing kernels: they push numbered items into these rings, at `rate` bytes per second
/// into each or at the maximum rate.
pub fn kernel_source(rings: Vec<Producer>, rate: Option<f64>) -> impl Program {
    let mut rings: Vec<(Producer, u64)> = rings.into_iter().map(|ring| (ring, 0)).collect();
    move |context: &mut Context<'_>| -> Turn {
        let elapsed = context.now().since(Instant::ZERO).as_secs_f64();
        let mut next = None;
        for (ring, items) in &mut rings {
            let size = f64::from(ring.item_size());
            let due = rate.map(|rate| (elapsed * rate / size) as u64);
            let filled = fill(ring, items, due.unwrap_or(u64::MAX));
            let filled = filled.map_err(|error| error.to_string())?;
            if let Some(rate) = rate.filter(|_| filled) {
                let wait = (*items + 1) as f64 * size / rate - elapsed;
                next = Some(Duration::from_nanos((wait * 1e9).max(1.0) as u64));
            }
        }
        Ok(next.map_or(Step::WaitForPacket, Step::Sleep))
    }
}

/// Fills a ring with the items up to `due` while slots are free; false if slots ran out.
fn fill(ring: &mut Producer, items: &mut u64, due: u64) -> Result<bool, PushError> {
    let size = ring.item_size() as usize;
    while *items < due {
        let most = (due - *items).min(u64::from(u32::MAX)) as u32;
        let mut slots = match ring.reserve(most) {
            Ok(slots) => slots,
            Err(PushError::Full) => return Ok(false),
            Err(error) => return Err(error),
        };
        let count = slots.len() / size;
        for mut slot in slots.chunks_exact(size) {
            slot.write(0, &items.to_le_bytes());
            *items += 1;
        }
        ring.commit(count as u32);
    }
    Ok(true)
}

/// The consuming kernels: they take numbered items out of these rings.
pub fn sink(rings: Vec<Consumer>, tally: Shared) -> impl Program {
    let mut rings: Vec<(Consumer, u64)> = rings.into_iter().map(|ring| (ring, 0)).collect();
    move |context: &mut Context<'_>| -> Turn {
        let now = context.now();
        let mut tally = tally.borrow_mut();
        for (ring, items) in &mut rings {
            let size = ring.item_size() as usize;
            loop {
                let slots = match ring.peek(u32::MAX) {
                    Taken::Items(slots) => slots,
                    Taken::Empty => break,
                    Taken::Ended | Taken::Aborted => return Err("a flow was broken off".into()),
                };
                let bytes = slots.len();
                for slot in slots.chunks_exact(size) {
                    if slot.u64_le(0) != *items {
                        return Err("an item is not the one that was expected".into());
                    }
                    *items += 1;
                }
                ring.release((bytes / size) as u32);
                tally.add(now, bytes as u64);
            }
        }
        Ok(Step::WaitForPacket)
    }
}

#[cfg(test)]
mod tests;
