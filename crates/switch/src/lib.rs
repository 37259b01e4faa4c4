//! The programmable switch: a machine that runs a program over packets as a match-action pipeline
//! would.
//!
//! A packet passes the stages in order. In one pass it may do one read-modify-write on each
//! [`Register`] array; loops are recirculations of a small task; copies are made by multicast
//! groups. Tables match exactly, by mask, or by range. What a program uses it declares in a
//! [`Ledger`], and loading it checks that against a [`Budget`]. Debug builds enforce the order of
//! stages and the single access per pass.
//!
//! It knows packets and headers, ports and time as numbers. It knows no node, no flow and no page:
//! those are programs (crate `rackweave-programs`). The [`transfer`] engine, which moves bytes
//! between queue pairs of different nodes, lives here because every program shares it.
//!
//! Read on in [`machine`], then in [`transfer`].

pub mod budget;
mod counters;
mod fabric;
pub mod machine;
mod pass;
mod register;
pub mod table;
pub mod transfer;

pub use budget::{Budget, BudgetError, Ledger};
pub use counters::{Counters, DropReason};
pub use fabric::{Direction, SwitchConfig, Tap};
pub use machine::{Program, Switch};
pub use pass::{Cursor, Pass};
pub use register::Register;
