//! The systems with which the papers compare, on the same simulated hardware.

pub mod collective;
pub mod cores;
pub mod cpu_shuffle;
pub mod ends;
pub mod join;
pub mod one_sided;
pub mod put_shuffle;
pub mod raw_writer;
pub mod requests;
pub mod scalestore;
pub mod set_up;
pub mod single_buffer;
#[cfg(test)]
mod tests;
pub mod tuples;
pub mod two_sided;
pub mod worker;
