//! A rack of processes at the command line: the processes themselves, the programs that nodes run,
//! and what commands that use a hosted rack share.
//!
//! `switch` and `node` are the processes, `up` starts and keeps them all (`supervisor`,
//! `processes`, `child`), `keygen` makes their keys, `event` is what they say.
//!
//! `jobs` is what a node runs when a command asks for it, `crew` the command's side of that.

pub mod args;
pub mod child;
pub mod crew;
pub mod event;
pub mod jobs;
pub mod keygen;
mod leash;
pub mod node;
pub mod processes;
pub mod supervisor;
pub mod switch;
pub mod up;
