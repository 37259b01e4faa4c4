//! What nearly every experiment and baseline uses: runs and results, simulated racks and the
//! programs on their cores, rings and verbs, time and configurations, and what a figure is made of.

pub(crate) use super::drive::{
    Failure, OrFailed, Program, Testbed, Turn, Until, failed, flow_spec, nodes,
};
pub(crate) use super::grid::{self, Curve, Grid};
pub(crate) use super::metered::{Metered, on_core};
pub(crate) use super::tally::{Shared, Span, Tally};
pub(crate) use super::{ExperimentError, Result, Run, Scale};
pub(crate) use crate::figure::{Measured, Series, Values, values};
pub(crate) use core::cell::RefCell;
pub(crate) use core::ops::Range;
pub(crate) use core::sync::atomic::Ordering;
pub(crate) use rackweave_base::{Block, Duration, Instant, NodeId, Qpn, Rng};
pub(crate) use rackweave_controller::connect::PairAttributes;
pub(crate) use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
pub(crate) use rackweave_rack::config::{BudgetName, NodeConfig, Role};
pub(crate) use rackweave_rack::{Flow, Rack, RackConfig, SimulatedRack};
pub(crate) use rackweave_sim::world::{Context, Step};
pub(crate) use rackweave_sim::{Category, CpuModel, CpuReport, devices, stream_time};
pub(crate) use rackweave_verbs::{Completion, CqId, Operation, Region, Verbs, WorkRequest};
pub(crate) use std::collections::{HashMap, VecDeque};
pub(crate) use std::rc::Rc;
