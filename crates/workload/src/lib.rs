//! What a rack is given to do: TPC-H rows, queries, and workers that run over zero-sided flows.
//!
//! Storage workers generate the tables and push their rows into producer rings; compute workers
//! take them out of consumer rings and answer queries. A worker is a machine that is polled: it
//! knows no clock, no thread and no switch, so the same worker runs on a thread of an embedded
//! rack and as an actor in virtual time. Start reading at [`tpch`].
//!
//! The crate knows flows as `rackweave_endpoint::flow` shows them, and nothing below.

pub mod tpch;
