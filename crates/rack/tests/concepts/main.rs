//! The packets that docs/concepts.md shows are those that pass a switch.
//!
//! Each test runs one scene of the guide on a small simulated rack, with a tap at every switch.
//! What the taps see is decoded by the parsers of `rackweave_wire`, told line by line ([`story`]),
//! and compared with the block of that scene in the guide ([`guide`]). The same packets are written
//! as a capture, in which tshark, where it is installed, must find nothing malformed ([`capture`]).
//!
//! After a change that is meant, `UPDATE_GUIDE=1 cargo test -p rackweave-rack --test concepts`
//! writes the blocks anew. Read the prose around them again then.

mod capture;
mod guide;
mod index;
mod messages;
mod pages;
mod places;
mod psn;
mod sequencer;
mod shuffle;
mod story;
