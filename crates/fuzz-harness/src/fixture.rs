//! Parts of targets: hosts with soft NICs, regions, connected queue pairs; and seeds from texts.

use rackweave_base::packet::Pool;
use rackweave_base::{Block, KeyRng, MacAddr, Memory, Qpn, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_switch::{Counters, DropReason};
use rackweave_target::{MemoryBackend, Target, TargetConfig};
use rackweave_verbs::{Access, PdId, QpModify, ReceiveSide, Region, SendSide, Verbs};
use std::net::Ipv4Addr;

/// Initial inputs of a corpus, by name.
pub type Seeds = Vec<(String, Vec<u8>)>;

/// One end of a packet's path.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub mac: MacAddr,
    pub ip: Ipv4Addr,
}

pub const fn host(number: u8) -> Host {
    Host {
        mac: MacAddr([2, 0, 0, 0, 0, number]),
        ip: Ipv4Addr::new(10, 0, 0, number),
    }
}

/// A NIC with this many payload buffers, whose keys come from `rng`.
pub fn nic(config: NicConfig, memory: &Memory, buffers: usize, rng: Rng) -> Nic {
    let keys = KeyRng::seeded(rng);
    Nic::new(config, memory.clone(), Pool::new(buffers), keys)
}

/// A registered region of zero bytes.
pub fn region(nic: &mut Nic, memory: &Memory, pd: PdId, len: usize, access: Access) -> Region {
    let block = memory.allocate(len).expect("capacity");
    nic.register(pd, block, access).expect("capacity")
}

pub fn connect(nic: &mut Nic, qpn: Qpn, receive: ReceiveSide, send: SendSide) {
    let receive = QpModify::ReadyToReceive(receive);
    for modify in [QpModify::Init, receive, QpModify::ReadyToSend(send)] {
        nic.modify_qp(qpn, modify).expect("a legal transition");
    }
}

/// All bytes of a block.
pub fn bytes_of(block: &Block) -> Vec<u8> {
    block.bytes(0, block.len()).to_vec()
}

/// Packets that a switch has dropped, by reason.
pub fn drops(counters: &Counters) -> Vec<(DropReason, u64)> {
    let drops = |&reason| (reason, counters.drops(reason));
    DropReason::ALL.iter().map(drops).collect()
}

/// Checks that a message to a user is one line without control characters for a terminal.
pub fn check_line(text: &str) {
    let is_line = !text.is_empty() && !text.contains(char::is_control);
    assert!(is_line, "{text:?}");
}

/// Seeds by name, each after the same first bytes.
pub fn named<const N: usize>(first: &[u8], seeds: [(&str, Vec<u8>); N]) -> Seeds {
    let named = |(name, bytes): (&str, Vec<u8>)| (name.to_owned(), [first, &bytes].concat());
    seeds.into_iter().map(named).collect()
}

/// The bytes given by hexadecimal numbers that are separated by spaces.
pub fn hex(text: &str) -> Vec<u8> {
    let byte = |number| u8::from_str_radix(number, 16).expect("a byte in hexadecimal");
    text.split_whitespace().map(byte).collect()
}

/// An NVMe target with a namespace of so many bytes in memory; a transfer has a page at most.
pub fn target(nic: &mut Nic, memory: &Memory, bytes: u64, page_size: u32) -> Target {
    let config = TargetConfig {
        queues_max: 8,
        buffers: 2,
        transfer_max: page_size,
        ..TargetConfig::default()
    };
    let disk = MemoryBackend::new(512, bytes / 512);
    let target = Target::new(config, nic, memory, vec![Box::new(disk)]);
    target.expect("the configuration is valid")
}
