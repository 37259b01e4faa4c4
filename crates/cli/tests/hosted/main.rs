//! Racks of processes from outside: what they show, what dies how, who is not let in.
//!
//! Every test has a folder and ports of its own, so that they run side by side.

mod commands;
mod lifecycle;
mod rack;
mod strangers;
