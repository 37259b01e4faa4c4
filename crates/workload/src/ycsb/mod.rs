//! YCSB: the core workloads A to F, their keys, their records, and the permitted results of reads.
//!
//! Source: B. F. Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, and the
//! authors' program where the paper is silent. A worker takes operations from a [`Generator`],
//! locates records by a [`HeapLayout`], writes and verifies them with [`write_record`] and
//! [`verify_record`], and checks with [`Expectations`] whether a version may be seen. Inserts get
//! their numbers from [`InsertCounter`]. An open-loop worker starts operations at the times of a
//! [`PoissonSchedule`], and records in a [`LatencyRecorder`] how long after that they ended.
//!
//! Nothing here does I/O, reads a clock or owns a thread. One seed gives one sequence of operations
//! for each worker. Differences from the authors' program:
//!
//! - Records are fixed in size, and an update writes the whole record, so that each can be
//!   verified.
//! - Zipfian requests are drawn exactly, for any skew from 0 to 1.5 (see [`Zipf`]), and scrambled
//!   by a bijection, not by a hash (see [`Scatter`]), so that no two ranks fall on one key.
//! - The set of keys grows with the inserts. A new record is the hottest of `latest`, and the
//!   coldest of the other skewed distributions.

mod expectations;
mod generator;
mod heap;
mod inserts;
mod latency;
mod options;
mod record;
mod scatter;
mod schedule;
mod workload;
mod zipf;

#[cfg(test)]
mod tests;

pub use expectations::{Expectations, Floor, StaleRead, UpdateError};
pub use generator::Generator;
pub use heap::{HeapError, HeapLayout, RecordLocation};
pub use inserts::{InsertCounter, InsertError};
pub use latency::{LatencyRecorder, LatencySummary};
pub use options::{OptionsError, YcsbOptions};
pub use record::{RecordError, RecordView, Stamp, verify_record, write_record};
pub use scatter::Scatter;
pub use schedule::{PoissonSchedule, RateError};
pub use workload::{Distribution, Mix, Operation, UnknownDistribution, UnknownWorkload, Workload};
pub use zipf::{Zipf, ZipfError};
