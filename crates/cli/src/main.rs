//! The `rackweave` command.
fn main() {}
