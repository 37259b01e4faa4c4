//! Racks of processes from outside: their output, failures of processes, refused peers.
//!
//! Every test has its own folder and ports, so that tests can run concurrently.

mod columns;
mod commands;
mod lifecycle;
mod observed;
mod programs;
mod rack;
mod restart;
mod scripts;
mod serving;
mod strangers;
