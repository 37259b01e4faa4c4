//! The tree that the switch leads through: two servers, a fat root of two ranges, one tree node.

use super::SERVER;
use crate::rack::host;
use rackweave_base::{PortId, Qpn, Rkey};
use rackweave_programs::index::{
    BRANCHES, Child, FatRange, FatRoot, Index, NO_SLOT, Next, QueryEntry, RegularNode, ServerEntry,
    SliceEntry,
};

/// The client's queue pair with each server.
pub const QPN: Qpn = Qpn(0x77);
pub const RKEY: Rkey = Rkey(0x1234_5678);
/// A tree node takes 1024 bytes.
pub const SHIFT: u8 = 10;
pub const ROOT: u32 = 1;
/// The first server's tree node for its keys, and its position in the layer.
pub const FIRST: u32 = 10;
pub const NODE: u16 = 5;
/// The last keys of its children, and their tree nodes; keys above belong to the second server.
pub const CHILDREN: [(u64, u32); 3] = [(99, 100), (199, 101), (999, 102)];
/// The second server's tree node for its keys.
pub const OTHER: u32 = 20;

/// The address of tree node 0 of a server.
pub fn base(server: u16) -> u64 {
    0x7f00_0000_0000 + (u64::from(server) << 40)
}

/// Enters both servers, their queue pairs, and, in bank 0, the tree.
pub fn set_up(index: &mut Index) {
    for server in 0..2 {
        let ip = host(SERVER + usize::from(server)).ip;
        let entry = ServerEntry {
            ip,
            address: base(server),
            node_shift: SHIFT,
        };
        let rkey = RKEY;
        index.set_server(server, Some(entry)).expect("capacity");
        let entry = QueryEntry { server, rkey };
        index.set_query(ip, QPN, Some(entry)).expect("capacity");
        index.set_udp_server(ip, Some(server)).expect("capacity");
    }
    index
        .set_trusted(PortId(super::TRUNK), true)
        .expect("capacity");
    // Key 999 and below is range 0; keys without a match in table 1 are range 1.
    let entry = |table, first, last, next| SliceEntry {
        table,
        first,
        last,
        next,
    };
    let last = CHILDREN[2].0 as u16;
    let child = |node, slot| Child { node, slot };
    let root = FatRoot {
        stages: [
            vec![
                entry(0, 0, 0, Next::Table(1)),
                entry(0, 1, u16::MAX, Next::Range(1)),
            ],
            vec![entry(1, 0, 0, Next::Table(1))],
            vec![entry(1, 0, 0, Next::Table(1))],
            vec![entry(1, 0, last, Next::Range(0))],
        ],
        ranges: vec![
            FatRange {
                server: 0,
                child: child(FIRST, NODE),
            },
            FatRange {
                server: 1,
                child: child(OTHER, NO_SLOT),
            },
        ],
    };
    index.load_fat_root(0, &root).expect("it is sound");
    let mut node = RegularNode {
        pivots: [u64::MAX; BRANCHES],
        children: [Child::NONE; BRANCHES],
    };
    for (at, (last, number)) in CHILDREN.into_iter().enumerate() {
        (node.pivots[at], node.children[at]) = (last, child(number, NO_SLOT));
    }
    index.load_nodes(0, 1, NODE, &[node]).expect("it is sound");
}
