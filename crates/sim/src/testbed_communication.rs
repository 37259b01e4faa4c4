//! The testbed of "Remote Direct Memory Access as Communication Tier for Disaggregated Database
//! Systems" ([`devices`], "Testbed of the communication tier").
//!
//! ```text
//!  storage node ─ConnectX-4─ ══ 100 Gbit/s ══ ─ConnectX-4─ compute node
//! ```
//!
//! The paper names no switch between the two, so there is none: the world's switch takes no time,
//! and there is no cable behind it.
//!
//! [`CopyModel`] gives the time that a core takes to move bytes from one level of its memory to
//! another: besides the wire this is the deciding factor in these experiments. Bytes pass once
//! through each level of their source and destination, one level after the other. An area that does
//! not fit in a level is held there in part.

use crate::world::{NodeModel, SwitchModel};
use crate::{CpuModel, LinkModel, NicModel, devices};
use rackweave_base::{Duration, NodeId};

/// The node that stores the data and sends it.
pub const STORAGE: NodeId = NodeId(0);

/// The node that requests it.
pub const COMPUTE: NodeId = NodeId(1);

/// The source of bytes that a core reads, or the destination of bytes that it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryArea {
    /// In memory, and in no cache.
    Memory,
    /// In an area of this many bytes that only this core uses repeatedly.
    Reused(u64),
    /// In an area of this many bytes that a device writes repeatedly.
    FromDevice(u64),
}

/// The time that a core takes to move bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CopyModel {
    /// Nanoseconds per byte from or to the second level cache, the last level, memory.
    ns_per_byte: [f64; 3],
    /// Bytes of the two caches.
    caches: [f64; 2],
    /// Bytes of the last level that a device writes into.
    device: f64,
}

impl CopyModel {
    /// A core of the node at `node`.
    pub fn new(node: NodeId) -> Self {
        let second = (hertz(node) * devices::SECOND_LEVEL_BYTES_PER_CYCLE) as f64;
        // By Little's law: the lines that a core has in flight, once per latency.
        let under_way = devices::HOST_LINES_IN_FLIGHT * devices::HOST_LINE_BYTES;
        let last = devices::HOST_CACHE_LATENCY.as_nanos() as f64 / under_way as f64;
        let memory = 1e9 / devices::CORE_MEMORY_BYTES_PER_SECOND as f64;
        Self {
            ns_per_byte: [1e9 / second, last, memory],
            caches: devices::COMMUNICATION_CACHE_BYTES.map(|bytes| bytes as f64),
            device: devices::DEVICE_CACHE_BYTES as f64,
        }
    }

    /// Time to copy `bytes` bytes.
    pub fn copy(&self, bytes: u64, from: MemoryArea, to: MemoryArea) -> Duration {
        nanos(bytes, self.per_byte(from) + self.per_byte(to))
    }

    /// Time to zero `bytes` bytes.
    pub fn set(&self, bytes: u64, at: MemoryArea) -> Duration {
        nanos(bytes, self.per_byte(at))
    }

    /// Nanoseconds per byte at a place.
    fn per_byte(&self, place: MemoryArea) -> f64 {
        let [second, last, memory] = self.ns_per_byte;
        match place {
            MemoryArea::Memory => memory,
            MemoryArea::Reused(area) => {
                let [near, far] = self.caches.map(|cache| part(cache, area));
                near * second + (far - near) * last + (1.0 - far) * memory
            }
            MemoryArea::FromDevice(area) => {
                let there = part(self.device, area);
                there * last + (1.0 - there) * memory
            }
        }
    }
}

/// The fraction of an area that a cache holds.
fn part(cache: f64, area: u64) -> f64 {
    (cache / area.max(1) as f64).min(1.0)
}

fn nanos(bytes: u64, per_byte: f64) -> Duration {
    Duration::from_nanos((bytes as f64 * per_byte).ceil() as u64)
}

fn hertz(node: NodeId) -> u64 {
    let [storage, compute] = devices::COMMUNICATION_HERTZ;
    if node == STORAGE { storage } else { compute }
}

/// The CPU of the node at `node`. Loads from the last level cache or from memory do not scale with
/// the clock.
pub fn cpu(node: NodeId) -> CpuModel {
    let cpu = CpuModel {
        cores: devices::COMMUNICATION_CORES,
        hertz: hertz(node),
        ..CpuModel::default()
    };
    CpuModel {
        post_cost: cpu.cycles(devices::WORK_REQUEST_CYCLES + devices::DOORBELL_CYCLES),
        ..cpu
    }
}

/// The models of both nodes, in the order of their numbers.
pub fn nodes() -> Vec<NodeModel> {
    let cable = LinkModel {
        bits_per_second: devices::EDR_BITS_PER_SECOND,
        lossless: true,
        ecn: None,
        check_needed: false,
        ..LinkModel::default()
    };
    let nothing = LinkModel {
        bits_per_second: devices::CARD_ESWITCH_BITS_PER_SECOND,
        propagation: Duration::ZERO,
        ..cable
    };
    let nic = NicModel {
        message_interval_picos: devices::CONNECTX_4_MESSAGE_INTERVAL_PICOS,
        transmit_latency: devices::CONNECTX_4_LATENCY,
        receive_latency: devices::CONNECTX_4_LATENCY,
        ..NicModel::default()
    };
    let node = |node| NodeModel {
        cpu: cpu(node),
        nic,
        to_switch: cable,
        from_switch: nothing,
    };
    [STORAGE, COMPUTE].map(node).to_vec()
}

/// A switch that takes no time.
pub fn switch() -> SwitchModel {
    SwitchModel {
        pipeline_latency: Duration::ZERO,
        ..SwitchModel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_area_is_never_faster() {
        let model = CopyModel::new(COMPUTE);
        for place in [MemoryArea::Reused, MemoryArea::FromDevice] {
            let mut last = Duration::ZERO;
            for shift in 10..32 {
                let takes = model.set(1 << 20, place(1 << shift));
                assert!(takes >= last, "2^{shift}: {takes:?} after {last:?}");
                last = takes;
            }
            assert!(last < model.set(1 << 20, MemoryArea::Memory));
        }
    }

    #[test]
    fn a_copy_from_memory_to_memory_is_what_stream_says() {
        let model = CopyModel::new(STORAGE);
        // 12 GB in and out, so 6 GB copied.
        let second = model.copy(6_000_000_000, MemoryArea::Memory, MemoryArea::Memory);
        assert_eq!(second, Duration::from_secs(1));
        let cached = model.copy(1 << 20, MemoryArea::Memory, MemoryArea::Reused(1 << 20));
        // 87.4 us from memory and 6.8 us to the second level.
        assert_eq!(cached.as_nanos() / 1000, 94);
    }

    #[test]
    fn a_packet_takes_the_cable_once() {
        let [storage, compute] = nodes().try_into().expect("two nodes");
        // 4096 bytes of payload and 82 around it: 334 ns at 100 Gbit/s.
        let packet = 14 + 20 + 8 + 12 + 4096 + 4;
        assert_eq!(storage.to_switch.occupancy(packet), 334_240);
        assert!(compute.from_switch.occupancy(packet) < 334_240 / 9);
        assert!(compute.cpu.hertz > storage.cpu.hertz);
        assert_eq!(switch().pipeline_latency, Duration::ZERO);
    }
}
