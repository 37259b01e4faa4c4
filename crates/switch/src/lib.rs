//! The programmable switch: a machine that runs a program over packets the way a match-action
//! pipeline does.
//!
//! A packet passes through the stages in order. In one pass it may do one read-modify-write on each
//! [`Register`] array. A loop is a small task that recirculates; copies are made by multicast
//! groups. Tables match exactly, by mask, or by range. A program declares the resources that it
//! uses in a [`Ledger`], and loading the program checks the ledger against a [`Budget`]. Debug
//! builds enforce the order of stages and the single access per pass.
//!
//! The switch knows packets and headers, and ports and time as numbers. It does not know nodes,
//! flows or pages: programs (crate `rackweave-programs`) do. The [`transfer`] engine, which moves
//! bytes between queue pairs of different nodes, is in this crate because every program shares it.
//!
//! Start with [`machine`], then in [`transfer`].

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
