//! Helpers shared by tests of the baselines.

pub mod two_nics;
