//! The NVMe-oF target: namespaces behind a NIC, for peers that connect as NVMe hosts.
//!
//! [`Target`] is a sans-IO state machine over [`Verbs`](rackweave_verbs::Verbs): it creates queue
//! pairs, receives command capsules on them, moves data with RDMA READs and WRITEs, and answers
//! with response capsules. It has no thread, clock or socket; the driver of the node polls it as a
//! [`Service`](rackweave_verbs::Service). Blocks are in a [`Backend`]: [`MemoryBackend`] or
//! [`FileBackend`], which does the only I/O of this crate; [`DoubleWrite`] over either makes writes
//! atomic under power failure.
//!
//! It knows the NVM Express Base Specification 2.0, the NVM Command Set 1.0, NVMe over Fabrics 1.1
//! and the RDMA Transport 1.0, with the formats of `rackweave_wire::nvme`. It knows nothing of
//! pages, switches or how its queue pairs are connected.
//!
//! The path of a command: `plan` determines what it needs or why it is refused; `flow` gives it a
//! transfer buffer, fetches its data, passes it to the backend and answers. `namespace` keeps
//! requests for the same blocks in order. `fabrics` and `admin` handle everything before the first
//! read, `ending` how queues end.
//!
//! Limits for other hosts: keys are not invalidated by responses, and a host that requests it is
//! refused; there is no discovery service, no authentication and no log page.

mod backend;
mod buffers;
mod config;
mod controller;
mod counters;
mod namespace;
mod target;

pub use backend::double_write::{DoubleWrite, DoubleWriteArea, DoubleWriteError};
#[cfg(feature = "files")]
pub use backend::file::{Engine, FileBackend, FileError, FileOptions};
pub use backend::memory::MemoryBackend;
pub use backend::{Backend, Io, IoDone, IoError, IoKind, RegionRange};
pub use config::{ConfigError, TargetConfig, TargetError};
pub use counters::Counters;
pub use target::Target;
