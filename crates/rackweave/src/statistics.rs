//! Statistics of a rack: packets, counters of NICs and switches, flows, directory answers.
//!
//! [`Rack::observer`](crate::Rack::observer) returns a handle that reads them from any thread and
//! without holding the rack; `rackweave top` shows the same.

pub use rackweave_rack::statistics::{
    Counters, FlowStatistics, IndexStatistics, NodeStatistics, PageStatistics, RackObserver,
    RackStatistics, SequencerStatistics, SwitchStatistics, TargetStatistics,
};
