//! What a rack is given to do: TPC-H over zero-sided flows, and YCSB over pages.
//!
//! [`tpch`]: storage workers generate the tables and push their rows into producer rings; compute
//! workers take them out of consumer rings and answer queries. A worker is a machine that is
//! polled: it knows no clock, no thread and no switch, so the same worker runs on a thread of an
//! embedded rack and as an actor in virtual time. It knows flows as `rackweave_endpoint::flow`
//! shows them, and nothing below.
//!
//! [`ycsb`]: operations, keys, records that tell whether they are whole, and what a read may see.
//! It knows no store: whoever runs it fetches the pages.
//!
//! [`columns`]: Arrow arrays and TPC-H's columns, as storage units serve them to compute units.

pub mod columns;
pub mod tpch;
pub mod ycsb;
