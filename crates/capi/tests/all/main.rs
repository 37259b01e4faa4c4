//! Tests of the C face from outside.

mod common;
mod header;
mod installed;
mod joined;
