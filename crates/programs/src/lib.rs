//! The programs of the switch.
//!
//! [`pipeline`] is the packet's story, readable from top to bottom: the [`guard`] turns away who
//! speaks in another's name, [`arp`] answers who is where, what is for the switch goes to the
//! transfer engine, and what the engine finishes goes on to the program that asked for it;
//! everything else is [`forward`]ed, a query of an [`index`] after the switch has led it on.
//! [`flows`] are the zero-sided flows, [`pages`] is the page directory, [`sequencer`] hands out
//! numbers.
//!
//! A program knows tables, registers, lanes and the encodings of `rackweave_wire::fabric`. It
//! knows no endpoint, no NIC and no controller; those fill its tables and write its rings.

pub mod arp;
pub mod flows;
pub mod forward;
pub mod guard;
pub mod index;
pub mod pages;
pub mod pipeline;
pub mod sequencer;

pub use pipeline::{Digest, Pipeline, PipelineConfig, Task};

#[cfg(test)]
mod neighbourhood_tests;
