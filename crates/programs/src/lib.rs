//! The programs of the switch.
//!
//! [`pipeline`] shows the path of a packet from top to bottom: the [`guard`] drops packets with a
//! foreign source address, [`arp`] answers address queries, packets for the switch go to the
//! transfer engine, and events of the engine go to the program that requested the transfer;
//! everything else is [`forward`]ed, a query of an [`index`] after the switch has advanced it down
//! the tree. [`flows`] are the zero-sided flows, [`pages`] is the page directory, [`sequencer`]
//! hands out numbers.
//!
//! A program knows tables, registers, lanes and the encodings of `rackweave_wire::fabric`. It knows
//! nothing of endpoints, NICs and controllers; those fill its tables and write its rings.

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
