//! Two compute nodes share pages on a storage node's SSD: `cargo run --example page_store`.
//!
//! The first changes a page, and the change stays in its memory. The second fixes the page: the
//! switch knows where the newest version is and moves it from there without the first node's cores.

use rackweave::pages::{PageError, PageOptions, PageService, ReadGuard};
use rackweave::{Rack, RackBuilder};
use std::{error::Error, time::Duration};

/// A rack in this process. `Rack::builder().simulated()` builds one in virtual time.
pub fn main() -> Result<(), Box<dyn Error>> {
    run(Rack::builder())
}

/// Runs the example on the given rack.
pub fn run(builder: RackBuilder) -> Result<(), Box<dyn Error>> {
    let rack = builder.build()?; // storage0, storage1, compute0, compute1, memory0 and a switch
    // With no store configured, one is made in memory, behind storage0's NVMe target.
    let pages = PageService::new(&rack, &PageOptions::default())?;
    let here = pages.worker(&rack.node("compute0")?)?;
    let there = pages.worker(&rack.node("compute1")?)?;

    // A write guard is a latch for the whole rack. Once committed, its change is the newest.
    let page = here.allocate()?;
    let mut guard = here.write(page)?;
    guard.data_mut().write(0, b"an old tuple");
    guard.commit()?;

    // A read guard is a complete version, which stays unchanged while the page changes.
    let old = there.read(page)?;
    here.change(page, |bytes| bytes[..12].copy_from_slice(b"a new tuple!"))?;
    println!("{} is the newest: {}", text(&old), old.is_newest()?);
    let new = there.read(page)?;
    println!("{} came from compute0", text(&new));
    drop((old, new));

    // Every call that waits has a time limit.
    let latch = here.write(page)?;
    match there.write_within(page, Duration::from_millis(5)) {
        Err(error @ PageError::TimedOut { .. }) => println!("while compute0 has it: {error}"),
        other => return Err(format!("a page with two latches: {other:?}").into()),
    }
    drop((latch, here, there)); // Workers are returned, and all changes are written home.
    Ok(pages.close()?)
}

fn text(page: &ReadGuard) -> String {
    String::from_utf8_lossy(&page.data().array::<12>(0)).into_owned()
}
