//! Workloads of a rack: TPC-H over zero-sided flows, and YCSB over pages.
//!
//! [`tpch`]: storage workers generate the tables and push their rows into producer rings; compute
//! workers take them out of consumer rings and answer queries. A worker is a polled state machine:
//! it knows no clock, no thread and no switch, so the same worker runs on a thread of an embedded
//! rack and as an actor in virtual time. It uses flows through `rackweave_endpoint::flow`, and
//! nothing below.
//!
//! [`ycsb`]: operations, keys, self-verifying records, and the versions that a read may see.
//! It knows no store: its caller fetches the pages.
//!
//! [`columns`]: Arrow arrays and TPC-H's columns, as storage nodes serve them to compute nodes.

pub mod columns;
pub mod tpch;
pub mod ycsb;
