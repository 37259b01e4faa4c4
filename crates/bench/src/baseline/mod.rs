//! The systems with which the papers compare, on the same simulated hardware.

pub(crate) mod collective;
pub(crate) mod cpu_shuffle;
pub(crate) mod ends;
pub(crate) mod join;
pub(crate) mod one_sided;
pub(crate) mod put_shuffle;
pub(crate) mod raw_writer;
pub(crate) mod scalestore;
pub mod single_buffer;
#[cfg(test)]
mod tests;
pub(crate) mod tuples;
pub(crate) mod two_sided;
pub(crate) mod verbs;
pub(crate) mod worker;
