//! What tests of the baselines share.

pub mod two_nics;
