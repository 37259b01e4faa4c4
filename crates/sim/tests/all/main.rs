//! Tests of the simulated world with real software NICs.

mod actors;
mod read_lines;
mod support;
mod world;
