//! The packets shown in docs/concepts.md are those that pass a switch.
//!
//! Each test runs one scene of the guide on a small simulated rack, with a tap at every switch. The
//! tapped packets are decoded by `rackweave_wire`, described line by line ([`story`]), and compared
//! with the block of that scene in the guide ([`guide`]). The same packets are written as a
//! capture, in which tshark, where it is installed, must find nothing malformed ([`capture`]).
//!
//! After an intended change, `UPDATE_GUIDE=1 cargo test -p rackweave-rack --test all concepts`
//! rewrites the blocks. Reread the prose around them then.

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
