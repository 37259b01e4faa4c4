//! The index's control plane: mirrors `rackweave_programs::index` (fat-btree, sections III-B, III-C
//! and IV).
//!
//! From the upper parts of the servers' trees ([`TreeOutline`]) and the known load ([`KeyWeights`])
//! a [`plan()`] is made: the fat root and the layers below it. Its range tables are
//! [`range_tables`]. The controller's [`IndexRegistry`] loads plans into the switches while queries
//! pass. The [`Adapter`] decides when another plan is worthwhile.
//!
//! Making plans is pure: the same outlines and weights give the same plan. It uses no tree and no
//! server; the caller makes the outlines, and pins what a plan leads to before it is loaded.

mod adapt;
mod enter;
mod fat_root;
mod leads;
mod load;
mod outline;
mod plan;
#[cfg(test)]
mod plan_tests;
mod ranges;
mod registry;
#[cfg(test)]
mod test_trees;
mod trees_now;
mod weights;

pub use adapt::{Adapter, AdapterConfig, Verdict};
pub use leads::{Forecast, Led};
pub use load::IndexLoadError;
pub use outline::{Inner, TreeOutline};
pub use plan::{IndexPlan, LAYERS_MAX, PlanError, PlanLimits, PlanSummary, Target, plan};
pub use ranges::range_tables;
pub(crate) use registry::IndexState;
pub use registry::{IndexRegistry, LoadStep};
pub use weights::KeyWeights;

/// The server of keys without an owner: no queue pair leads there, so queries for them get the root
/// of the server that they were sent to, whose fences show the reader that the key is not there.
pub const NOBODY: u16 = u16::MAX;
