//! The examples run, end by themselves, and are as short as they promise.

#[path = "../examples/index.rs"]
mod index;
#[path = "../examples/kv.rs"]
mod kv;
#[path = "../examples/messages.rs"]
mod messages;
#[path = "../examples/page_store.rs"]
mod page_store;
#[path = "../examples/sequencer.rs"]
mod sequencer;
#[path = "../examples/shuffle.rs"]
mod shuffle;

use std::error::Error;

/// The longest example of one system, in lines.
const LINES_MAX: usize = 60;
/// The longest engine.
const ENGINE_LINES_MAX: usize = 200;

fn check(example: fn() -> Result<(), Box<dyn Error>>, source: &str) {
    check_up_to(LINES_MAX, example, source);
}

fn check_up_to(lines_max: usize, example: fn() -> Result<(), Box<dyn Error>>, source: &str) {
    let lines = source.lines().count();
    assert!(lines <= lines_max, "{lines} lines");
    if let Err(error) = example() {
        panic!("it ended with: {error}");
    }
}

#[test]
fn page_store() {
    check(page_store::main, include_str!("../examples/page_store.rs"));
}

#[test]
fn index() {
    check(index::main, include_str!("../examples/index.rs"));
}

#[test]
fn shuffle() {
    check(shuffle::main, include_str!("../examples/shuffle.rs"));
}

#[test]
fn messages() {
    check(messages::main, include_str!("../examples/messages.rs"));
}

#[test]
fn sequencer() {
    check(sequencer::main, include_str!("../examples/sequencer.rs"));
}

#[test]
fn kv() {
    let source = include_str!("../examples/kv.rs");
    check_up_to(ENGINE_LINES_MAX, kv::main, source);
}
