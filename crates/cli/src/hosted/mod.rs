//! A rack of processes at the command line.
//!
//! `switch` and `node` are the processes, `up` starts them and keeps them running (`supervisor`,
//! `processes`, `child`; `etcd` for tests), `keygen` creates their keys, `event` has their events.

pub mod child;
pub mod etcd;
pub mod event;
pub mod keygen;
pub mod node;
pub mod processes;
pub mod supervisor;
pub mod switch;
pub mod up;
