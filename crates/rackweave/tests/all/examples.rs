//! The examples run, terminate, and are as short as promised.

#[path = "../../examples/index.rs"]
mod index;
#[path = "../../examples/kv.rs"]
pub mod kv;
#[path = "../../examples/messages.rs"]
mod messages;
#[path = "../../examples/page_store.rs"]
mod page_store;
#[path = "../../examples/sequencer.rs"]
mod sequencer;
#[path = "../../examples/shuffle.rs"]
mod shuffle;

use rackweave::{Rack, RackBuilder};
use std::error::Error;

/// Maximum lines of an example of one system.
const LINES_MAX: usize = 49;
/// Maximum lines of the example engine.
const ENGINE_LINES_MAX: usize = 200;

type Main = fn() -> Result<(), Box<dyn Error>>;
type Run = fn(RackBuilder) -> Result<(), Box<dyn Error>>;

/// Runs an example on a rack in this process, as users do, and on one in virtual time.
fn check(main: Main, run: Run, source: &str) {
    check_length(LINES_MAX, source);
    for (kind, result) in [
        ("embedded", main()),
        ("simulated", run(Rack::builder().simulated())),
    ] {
        if let Err(error) = result {
            panic!("{kind}: it ended with: {error}");
        }
    }
}

fn check_length(lines_max: usize, source: &str) {
    let lines = source.lines().count();
    assert!(lines <= lines_max, "{lines} lines");
}

macro_rules! examples {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            let source = include_str!(concat!("../../examples/", stringify!($name), ".rs"));
            check($name::main, $name::run, source);
        }
    )*};
}

examples!(page_store, index, shuffle, messages, sequencer);

#[test]
fn kv() {
    check_length(ENGINE_LINES_MAX, include_str!("../../examples/kv.rs"));
    if let Err(error) = kv::main() {
        panic!("it ended with: {error}");
    }
}
