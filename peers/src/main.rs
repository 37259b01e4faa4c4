//! Measures what a user might choose instead, where that is a crate; `cargo xtask peers` runs it.
//!
//! [`maps`] looks keys up in ordered maps, ours among them; [`calls`] has empty calls of tonic;
//! [`memcpy`] copies memory. Each prints one JSON object on standard output.

mod calls;
mod maps;
mod memcpy;

use serde_json::Value;

const USAGE: &str = "usage: rackweave-peers maps | calls | memcpy CHUNK_BYTES BUFFER_BYTES";

fn measure(arguments: &[String]) -> Option<Value> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["maps"] => Some(maps::measure()),
        ["calls"] => Some(calls::measure()),
        ["memcpy", chunk, buffer] => {
            Some(memcpy::measure(chunk.parse().ok()?, buffer.parse().ok()?))
        }
        _ => None,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measure(&arguments) {
        Some(value) => println!("{value}"),
        None => {
            eprintln!("{USAGE}");
            std::process::exit(2);
        }
    }
}
