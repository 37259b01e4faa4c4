//! What runs over pages and over an index share: the run and its parts, racks and their clocks,
//! records.

pub(crate) use super::error::{Result, RunError, YcsbError};
pub(crate) use super::outcome::Kind;
pub(crate) use super::plan::{Load, Nodes, in_range};
pub(crate) use super::session::{Run, Session, Stepped, Table, Task};
pub(crate) use super::{Phase, Progress};
pub(crate) use core::cell::{Cell, RefCell};
pub(crate) use core::ops::Range;
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use rackweave_base::{Duration, Instant, NodeId};
pub(crate) use rackweave_endpoint::page_store::directory::Channel;
pub(crate) use rackweave_endpoint::page_store::{AllocateError, FixError, PageGuard, Statistics};
pub(crate) use rackweave_rack::config::{BudgetName, Role};
pub(crate) use rackweave_rack::services::{IndexService, PageService};
pub(crate) use rackweave_rack::{
    EmbeddedRack, Node, Rack, RackConfig, SharedServer, SimulatedRack,
};
pub(crate) use rackweave_sim::world::{Actor, Context, Step};
pub(crate) use rackweave_sim::{Category, CpuModel, CpuReport, devices};
pub(crate) use rackweave_wire::fabric::page::PageId;
pub(crate) use rackweave_workload::ycsb::{Floor, RecordError, Stamp, verify_record, write_record};
pub(crate) use std::rc::Rc;
pub(crate) use std::sync::{Arc, Mutex};
