//! The soft NIC: RoCEv2 reliable connections as a sans-IO machine.
//!
//! [`Nic`] implements [`Verbs`](rackweave_verbs::Verbs) for endpoints, and receives and sends
//! packets through [`Nic::handle_packet`] and [`Nic::poll_transmit`]. Time enters through
//! [`Nic::poll_timeout`] and [`Nic::handle_timeout`]. The protocol is that of the InfiniBand
//! Architecture Specification 1.4, chapters 9 and 10, with annex A17 (RoCEv2); congestion control
//! is DCQCN ([`Dcqcn`]).
//!
//! Of the switch the NIC knows only which cable leads to it, and nothing of its programs or of the
//! meaning of the bytes that it moves. Nothing is allocated per packet, and every table and queue
//! has a bound given in [`NicConfig`].
//!
//! Queue pairs are connected by a controller that knows both ends, or by the connection manager
//! (`cm`), whose messages the NIC itself sends and receives on queue pair 1.
//!
//! Where peers are foreign, [`Neighbours`] works beside the NIC and speaks ARP. A NIC on which a
//! UDP port is bound (`datagrams`) speaks ARP itself.
//!
//! Read `nic` for the path of a packet to its queue pair, `qp/responder` for how a request is
//! executed, `qp/requester` for how one is built.
//!
//! Two design choices: request payloads travel as references into the sender's region, which its
//! owner must not change until the request completes, as with any NIC; a WRITE of up to 32 bytes is
//! copied into its packet. A request that follows a READ waits until that READ's bytes have been
//! taken (`qp/held`).

mod cables;
mod cm;
mod config;
mod congestion;
mod connections;
mod counters;
mod cq;
mod cut_through;
mod datagrams;
mod drop_reason;
mod egress;
pub mod neighbours;
mod nic;
mod qp;
mod received;
mod region_table;
mod shared;
mod table;
mod verbs;

pub use cables::CableId;
pub use config::{NicConfig, QPS_MAX};
pub use congestion::Dcqcn;
pub use counters::Counters;
pub use cut_through::{CutThrough, Reach};
pub use drop_reason::DropReason;
pub use neighbours::{NeighbourConfig, NeighbourEvent, Neighbours, Resolution};
pub use nic::Nic;
