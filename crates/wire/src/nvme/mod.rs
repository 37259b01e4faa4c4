//! NVMe over Fabrics on RDMA: the capsules exchanged by a host and a target.
//!
//! A command capsule is a submission queue entry ([`Sqe`], 64 bytes), with data after it if the
//! entry says so; a response capsule is a completion queue entry ([`Cqe`], 16 bytes). Data outside
//! a capsule is described by a keyed descriptor ([`Sgl`]) and transferred by the target with RDMA
//! READs and WRITEs. All numbers are little-endian.
//!
//! Written from the NVM Express Base Specification 2.0 ("Base"), the NVM Command Set Specification
//! 1.0 ("NVM"), NVMe over Fabrics 1.1 ("Fabrics") and the RDMA Transport Specification 1.0
//! ("RDMA"). Offsets in comments are in bytes from the start of the structure, as in the figures
//! there. Start with [`sqe`], then [`fabrics`] for the creation of a queue.
//!
//! The module has no controllers and no queues: the two ends decide whether a command may be sent.

pub mod cm;
pub mod cqe;
mod error;
pub mod fabrics;
pub mod identify;
pub mod identify_controller;
pub mod io;
pub mod property;
pub mod sgl;
pub mod sqe;
pub mod status;

pub use cqe::Cqe;
pub use error::NvmeError;
pub use fabrics::{ConnectData, FabricsCommand};
pub use identify_controller::IdentifyController;
pub use io::{BlockRange, IoCommand};
pub use property::Property;
pub use sgl::Sgl;
pub use sqe::Sqe;
pub use status::Status;

/// The namespace id that means all namespaces (Base 3.2.1.2).
pub const NSID_ALL: u32 = 0xffff_ffff;

#[cfg(test)]
mod identify_tests;
#[cfg(test)]
mod tests;
