//! Tests of the soft NIC, two of them connected by a programmable channel.

mod cables;
mod common;
mod congestion;
mod connections;
mod cut_through;
mod datagrams;
mod lifecycle;
mod loss;
mod matrix;
mod naks;
mod opcodes;
mod ordering;
mod protection;
mod random;
mod retry;
mod rnr;
mod trains;
mod wrap;
