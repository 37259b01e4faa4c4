//! The C interface of Rackweave: opaque handles with calls that submit, poll or wait, a status for
//! every call and a text for every error.
//!
//! `include/rackweave.h` is generated from this crate by cbindgen and checked in;
//! `include/rackweave.hpp` builds on it and is written by hand. docs/capi.md describes how to
//! install and use both.
//!
//! Conventions: objects are reached only through [`handle`], calls return only through
//! [`error::call`], and a caller's pointers are dereferenced only in [`pointer`]. Each handle is
//! either for any thread, several at a time, or for one thread at a time; the header says which,
//! and a second thread gets BUSY. This crate uses the same public calls as a Rust program, and
//! knows no state machine.

#![deny(unsafe_op_in_unsafe_fn)]
// Names are as in C.
#![allow(non_camel_case_types)]

mod channel;
mod column_reader;
mod columns;
mod connection;
mod detail;
mod error;
mod flow;
mod flow_ends;
mod handle;
mod index;
mod index_calls;
mod index_client;
mod messaging;
mod page_errors;
mod page_guard;
mod page_store;
mod pages;
mod pointer;
mod rack;
mod receiver;
mod region;
mod sender;
mod sequencer;
mod status;
mod version;
mod wait;

pub use channel::*;
pub use column_reader::*;
pub use columns::*;
pub use error::*;
pub use flow::*;
pub use flow_ends::*;
pub use index::*;
pub use index_calls::*;
pub use index_client::*;
pub use messaging::*;
pub use page_guard::*;
pub use page_store::*;
pub use pages::*;
pub use rack::*;
pub use receiver::*;
pub use region::*;
pub use sender::*;
pub use sequencer::*;
pub use status::*;
pub use version::*;
pub use wait::RACKWEAVE_FOREVER;

#[cfg(test)]
mod tests;
