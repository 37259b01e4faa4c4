//! Tests of racks from outside: every service on every kind of rack, and the packets of the guide.

mod concepts;
mod conformance;
