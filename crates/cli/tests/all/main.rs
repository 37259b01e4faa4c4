//! Tests of the command from outside: its programs, output and errors.

mod capture;
mod chaos;
mod cli;
mod common;
mod demo;
mod fan_out;
mod figures;
mod flow;
mod hosted;
mod index_shift;
mod live;
mod messaging;
mod namespaces;
mod ycsb;
mod ycsb_index;
