//! A rack of processes: what a command asks of it.
//!
//! `rackweave switch` and `rackweave node` run such a rack; a [`HostedRack`] is a connection to its
//! controller, which sets up flows between nodes and says how all are doing. With the feature
//! `hosted`. `docs/hosted.md` in the repository says how such a rack is started and protected.

pub use rackweave_rack::hosted::{
    FlowStatus, HostedError, HostedFlow, HostedRack, JobStatus, NodeStatus, RackStatus, RingName,
};
