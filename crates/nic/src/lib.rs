//! The soft NIC: RoCEv2 reliable connections as a sans-IO machine.
//!
//! [`Nic`] implements [`Verbs`](rackweave_verbs::Verbs) for endpoints on one side and takes and
//! gives packets on the other: [`Nic::handle_packet`], [`Nic::poll_transmit`], and for time
//! [`Nic::poll_timeout`] with [`Nic::handle_timeout`]. The protocol is that of the InfiniBand
//! Architecture Specification 1.4, chapters 9 and 10, with annex A17 (RoCEv2); congestion control
//! is DCQCN ([`Dcqcn`]).
//!
//! It knows nothing of the switch, its programs, or what its bytes mean. Nothing is allocated per
//! packet, and every table and queue has a bound given in [`NicConfig`].
//!
//! Where peers are foreign, [`Neighbours`] stands beside it and speaks ARP. A NIC on which a UDP
//! port is bound (`datagrams`) does so by itself.
//!
//! Read `nic` for the way of a packet to its queue pair, `qp/responder` for how a request is
//! executed, `qp/requester` for how one is made.
//!
//! Two choices of ours. Request payloads travel as references into the sender's region, which its
//! owner must leave alone until the request completes, as with any NIC; a WRITE of up to 32 bytes
//! is copied into its packet. And a request that follows a READ waits until that READ's bytes have
//! been taken (`qp/held`).

mod config;
mod congestion;
mod counters;
mod cq;
mod datagrams;
mod drop_reason;
mod egress;
pub mod neighbours;
mod nic;
mod qp;
mod region_table;
mod shared;
mod table;
mod verbs;

pub use config::{NicConfig, QPS_MAX};
pub use congestion::Dcqcn;
pub use counters::Counters;
pub use drop_reason::DropReason;
pub use neighbours::{NeighbourConfig, NeighbourEvent, Neighbours, Resolution};
pub use nic::Nic;
