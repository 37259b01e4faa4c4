//! What nearly every experiment and baseline uses: runs and results, simulated racks and the
//! programs on their cores, rings and verbs, time and configurations, and what a figure is made of.

pub(crate) use super::drive::{
    Failure, OrFailed, Program, Testbed, Turn, Until, failed, flow_spec, nodes,
};
pub(crate) use super::grid::{self, Curve, Grid};
pub(crate) use super::metered::{Core, Metered, on_core};
pub(crate) use super::tally::{Shared, Span, Tally};
pub(crate) use super::{ExperimentError, Result, Run, Scale, shuffle};
pub(crate) use crate::figure::{Measured, Series, Values, panel_and_name, values};
pub(crate) use core::cell::{Cell, RefCell};
pub(crate) use core::ops::Range;
pub(crate) use core::sync::atomic::Ordering;
pub(crate) use rackweave_base::{Block, Duration, Instant, NodeId, Qpn, Rng};
pub(crate) use rackweave_controller::PageNode;
pub(crate) use rackweave_controller::connect::PairAttributes;
pub(crate) use rackweave_endpoint::btree::TreeConfig;
pub(crate) use rackweave_endpoint::flow::{Consumer, ITEM_HEADER, Producer, PushError, Taken};
pub(crate) use rackweave_endpoint::index::PartitionMap;
pub(crate) use rackweave_endpoint::rpc;
pub(crate) use rackweave_rack::config::{BudgetName, NodeConfig, Role, TopologyName};
pub(crate) use rackweave_rack::services::IndexService;
pub(crate) use rackweave_rack::{Flow, Rack, RackConfig, SimulatedRack};
pub(crate) use rackweave_sim::testbed::Server;
pub(crate) use rackweave_sim::world::{Context, Step};
pub(crate) use rackweave_sim::{Category, CpuModel, CpuReport, UnitModel, devices, stream_time};
pub(crate) use rackweave_verbs::{
    Completion, CompletionOpcode, CompletionStatus, CqId, Operation, ReceiveRequest, Region,
    Segment, Verbs, WorkRequest,
};
pub(crate) use rackweave_workload::ycsb::{Scatter, Zipf};
pub(crate) use std::collections::{BTreeMap, HashMap, VecDeque};
pub(crate) use std::rc::Rc;
pub(crate) use std::sync::LazyLock;
