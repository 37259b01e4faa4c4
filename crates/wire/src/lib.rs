//! Wire formats: stateless conversion between bytes and values, and the ICRC with its constant-time
//! update.
//!
//! Each header has one file of the same structure: layout, parse, emit, display, vectors.
//! [`Headers`] holds all headers of a packet as one value, [`parse_bytes`] turns a captured packet
//! into a [`Packet`], and [`icrc`] is the end-to-end check value with the two ways to keep it
//! correct when a switch rewrites a header. [`arp`] finds the Ethernet address of a neighbour.
//!
//! The crate supports the RoCEv2 of the InfiniBand specification 1.4 (annex A17) over IPv4, for the
//! reliable connection and unreliable datagram services, and the messages of the connection manager
//! ([`cm`]). It has no connections and no state: NIC and switch decide whether a
//! packet is expected. Start with [`headers`].
//!
//! [`Packet`]: rackweave_base::Packet

pub mod aeth;
pub mod arp;
pub mod atomic;
pub mod bth;
pub mod cm;
pub mod cnp;
pub mod datagram;
pub mod deth;
mod error;
pub mod ethernet;
pub mod extension;
pub mod fabric;
pub mod headers;
pub mod icrc;
pub mod immediate;
pub mod ipv4;
pub mod nvme;
pub mod opcode;
pub mod reth;
pub mod train;
pub mod udp;
pub mod vxlan;
mod words;

pub use aeth::{Aeth, NakCode, Syndrome};
pub use arp::{Arp, ArpError, ArpFrame};
pub use atomic::AtomicEth;
pub use bth::Bth;
pub use datagram::Datagram;
pub use deth::Deth;
pub use error::ParseError;
pub use ethernet::{Ethernet, EthernetView, Vlan};
pub use extension::{Extension, ExtensionKind};
pub use headers::{Headers, PacketFields, Template, View, pad_len, parse_bytes, parse_bytes_with};
pub use icrc::{Rewrite, Verdict};
pub use ipv4::{Ecn, Ipv4};
pub use opcode::Opcode;
pub use reth::Reth;
pub use udp::Udp;
pub use vxlan::{Vxlan, VxlanError};
