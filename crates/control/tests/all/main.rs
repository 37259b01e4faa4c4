//! Tests of control connections over real sockets, and of key files.

mod common;
mod connections;
mod keys;
mod strangers;
