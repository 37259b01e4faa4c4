//! Values derived from the simulator's models alone: the time of a round trip, the page rate of a
//! link.

use super::testbed::PAGE_BYTES;
use super::worker::ENTRY_BYTES;
use rackweave_base::Duration;
use rackweave_sim::{CpuModel, LinkModel, NicModel, SwitchModel, devices};

/// Time of a READ of an entry in the memory server, from posting it to its completion, with all
/// queues empty: the rack's round trip time, computed from the models.
pub fn round_trip() -> Duration {
    // Ethernet, IPv4, UDP, BTH; then RETH, or AETH and the entry. No ICRC within a simulated rack.
    const HEADERS: usize = 14 + 20 + 8 + 12;
    let request = HEADERS + 16;
    let response = HEADERS + 4 + ENTRY_BYTES as usize;
    let (cpu, nic, link) = (
        CpuModel::default(),
        NicModel::default(),
        LinkModel::default(),
    );
    let wires: u64 = [request, response]
        .map(|bytes| 2 * link.occupancy(bytes))
        .iter()
        .sum();
    let fixed = [
        cpu.post_cost,
        nic.transmit_latency * 2,
        nic.memory_read_latency,
        nic.receive_latency * 2,
        SwitchModel::default().pipeline_latency * 2,
        devices::CABLE_DELAY_PER_METRE * devices::CABLE_METRES * 4,
        Duration::from_nanos(wires.div_ceil(1000)),
        cpu.spin_latency,
        cpu.poll_cost,
    ];
    fixed
        .into_iter()
        .fold(Duration::ZERO, |sum, part| sum + part)
}

/// Pages per second of a link that carries only full packets.
pub fn link_pages_per_second() -> f64 {
    const MTU: usize = 4096;
    let link = LinkModel::default();
    let packet = 14 + 20 + 8 + 12 + MTU;
    let picos = link.occupancy(packet) * u64::from(PAGE_BYTES) / MTU as u64;
    1e12 / picos as f64
}
