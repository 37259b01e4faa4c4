//! The papers' experiments, in virtual time, with their baselines.
//!
//! [`figure`] is what an experiment gives: curves, claims, notes, and how they become CSV and SVG.
//! [`baseline`] has the systems that the papers compare with, run on the same simulated hardware:
//! CPU-driven one-sided WRITEs, two-sided replication, CPU-driven shuffles. [`experiment`] has one
//! file per figure. [`pages`] runs YCSB over the page store and [`index`] over the B+tree, in real
//! time and in virtual time; [`ycsb`] is what both share.
//!
//! It knows racks, endpoints and the simulator. It must not know the machines' insides: what it
//! reports, anyone could measure from outside.

pub mod baseline;
pub mod experiment;
pub mod figure;
pub mod index;
pub mod pages;
pub mod ycsb;
