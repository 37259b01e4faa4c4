//! A rack of processes: the client side of its controller. A program that wants to be a node of it
//! calls [`Rack::join`](crate::Rack::join) instead.
//!
//! `rackweave switch` and `rackweave node` run such a rack; a [`HostedRack`] is a connection to its
//! controller, which sets up flows between nodes and reports the state of all nodes. Requires the
//! feature `hosted`. `docs/hosted.md` in the repository describes how such a rack is started and
//! protected.

//!
//! A [`SwitchProcess`] is the switch and controller of a rack, for a program that starts a rack of
//! its own processes.

pub use rackweave_rack::hosted::{
    FlowStatus, HostStatus, HostedError, HostedFlow, HostedRack, JobStatus, NodeStatus, RackStatus,
    RingName, SwitchEvent, SwitchOptions, SwitchProcess,
};
