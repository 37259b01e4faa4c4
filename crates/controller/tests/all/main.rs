//! Tests of the controller with a real switch and real soft NICs.

mod common;
mod flows;
mod hosts;
mod scaling;
mod sequencer;
mod shapes;
