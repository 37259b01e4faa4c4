//! Tests of the library from outside: examples, threads, and an engine that is killed.

mod examples;
mod kv_kill;
mod threads;
