//! The papers' experiments, in virtual time, with their baselines.
//!
//! [`figure`] is an experiment's result: curves, claims and notes, written as CSV and SVG.
//! [`harness`] has what experiments and baselines share. [`baseline`] has the systems that the
//! papers compare with, run on the same simulated hardware: CPU-driven one-sided WRITEs, two-sided
//! replication, CPU-driven shuffles. [`experiment`] has one file per figure, and [`report`] shows
//! all of them on one page. [`pages`] runs YCSB over the page store and [`index`] over the B+tree,
//! in real time and in virtual time; [`ycsb`] is the code that both share.
//!
//! This crate knows racks, endpoints and the simulator. It must not know the state machines'
//! internals: it reports only what can be measured from outside.

pub mod baseline;
pub mod experiment;
pub mod figure;
pub mod harness;
pub mod index;
pub mod pages;
pub mod report;
pub mod ycsb;
