//! A rack of processes at the command line: the processes themselves, the programs that nodes run,
//! and code shared by commands that use a hosted rack.
//!
//! `switch` and `node` are the processes, `up` starts them and keeps them running (`supervisor`,
//! `processes`, `child`), `keygen` creates their keys, `event` has their events.
//!
//! `jobs` has what a node runs for a command, `runner` the command's side.

pub mod args;
pub mod child;
pub mod event;
pub mod jobs;
pub mod keygen;
mod leash;
pub mod node;
pub mod processes;
pub mod runner;
pub mod supervisor;
pub mod switch;
pub mod up;
