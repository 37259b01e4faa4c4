//! Programs that join a running rack, of which one is killed with SIGKILL.
//!
//! The victim is this test's own program, which runs only [`victim`]: it joins the rack as
//! `compute1`, takes numbers, and changes pages, and prints each step once it is done.

use super::rack::{LIMIT, Process, RackFolder, kill, program};
use rackweave_base::NodeId;
use rackweave_rack::Rack;
use rackweave_rack::services::{
    PageOptions, PageService, PageWorker, SequencerService, wait_within,
};
use rackweave_wire::fabric::page::PageId;
use rustix::process::Signal;
use std::env;
use std::io::Write;
use std::process::Child;

const CONFIG: &str = "RACKWEAVE_TEST_PROGRAM";
const PAGES: u64 = 8;

/// The switch has capacity for all services, and storage0 a store in a file.
const RACK: &str = "
[switch]
budget = \"software\"
lanes = 2048
page_entries = 4096
page_workers = 16
page_slots = 256
page_stores = 2
sequencers = 4
sequencer_clients = 16

[[node]]
name = \"storage0\"
role = \"storage\"
[[node]]
name = \"compute0\"
role = \"compute\"
[[node]]
name = \"compute1\"
role = \"compute\"

[[store]]
name = \"disk\"
node = \"storage0\"
medium = \"file\"
path = \"store\"
bytes = 4194304
";

fn pages(rack: &Rack) -> PageService {
    let options = PageOptions {
        time_limit: LIMIT,
        ..PageOptions::default()
    };
    PageService::new(rack, &options).expect("there is capacity")
}

/// Not a test of its own.
#[test]
fn victim() {
    let Some(config) = env::var_os(CONFIG) else {
        return;
    };
    let rack = Rack::join(config, "compute1").expect("the rack runs");
    let sequencer = SequencerService::find(&rack, "numbers").expect("it is there");
    let mut numbers = sequencer.connect(NodeId(2)).expect("there is capacity");
    let worker = pages(&rack).worker(NodeId(2)).expect("there are workers");
    let mut out = std::io::stdout();
    for round in 0.. {
        let number = numbers.next(1).expect("it answers").start;
        let page = PageId::new(0, first_page() + round % PAGES).expect("a page");
        let change = |bytes: &mut [u8]| bytes[..8].copy_from_slice(&number.to_le_bytes());
        worker.change(page, change).expect("the page is there");
        writeln!(out, "took {number} for {}", page.index()).expect("the test listens");
    }
}

/// Page 0 is the superblock, and maps of pages in use follow.
fn first_page() -> u64 {
    16
}

/// Starts the victim, and returns it after it has printed so many steps, with its last number.
fn victim_after(place: &RackFolder, steps: usize) -> (Child, u64) {
    program("hosted::programs::victim", (CONFIG, place), steps)
}

/// Reads a page, or accepts that its newest version is lost.
fn read(rack: &Rack, worker: &PageWorker, page: PageId) -> u64 {
    let node = rack.any_node();
    let found = wait_within(&node, LIMIT, || match worker.read(page) {
        Ok(page) => Some(page.data().u64_le(0)),
        Err(_) => {
            rack.accept_loss(page);
            None
        }
    });
    found.expect("it can be read again")
}

#[test]
fn a_program_that_is_killed_takes_only_its_own_along() {
    let place = RackFolder::new("security = \"plain\"", RACK);
    let arguments = ["up", place.config(), "--without", "compute0,compute1"];
    let mut up = Process::start(&arguments);
    up.await_line("have joined");
    let rack = Rack::join(place.config(), "compute0").expect("the rack runs");
    let service = pages(&rack);
    let worker = service.worker(NodeId(1)).expect("there are workers");
    let pages: Vec<_> = (0..PAGES)
        .map(|at| PageId::new(0, first_page() + at).expect("a page"))
        .collect();
    while worker.allocate().expect("a page is free").index() < first_page() + PAGES {}
    for page in &pages {
        let zero = |bytes: &mut [u8]| bytes[..8].fill(0);
        assert_eq!(worker.change(*page, zero), Ok(()));
    }
    worker.flush().expect("the store is there");
    let sequencer = SequencerService::new(&rack, 1).expect("there is capacity");
    sequencer.share("numbers").expect("the name is free");
    let mut numbers = sequencer.connect(NodeId(1)).expect("there is capacity");

    let mut last = 0;
    for kills in 0..3 {
        let (mut victim, taken) = victim_after(&place, 50 + 20 * kills);
        victim.kill().expect("it runs");
        victim.wait().expect("it has ended");
        assert!(taken > last, "{taken} came after {last}");
        // Everything that it had goes, and what others have stays.
        for page in &pages {
            let value = read(&rack, &worker, *page);
            let next = numbers.next(1).expect("the sequencer is there").start;
            assert!(
                value < next,
                "{page} has {value}, and {next} is taken only now"
            );
            last = next;
        }
        assert!(taken < last, "{last} was not handed out before");
    }

    // The process with the store is killed; another one opens the file.
    let seven = |bytes: &mut [u8]| bytes[..8].fill(7);
    for page in &pages {
        assert_eq!(worker.change(*page, seven), Ok(()));
    }
    worker.flush().expect("the store is there");
    kill(up.child("storage0"), Signal::KILL);
    up.await_line("storage0 ended unexpectedly");
    let changed = wait_within(&rack.any_node(), LIMIT, || {
        let changed = pages
            .iter()
            .try_for_each(|page| worker.change(*page, seven));
        changed.and_then(|()| worker.flush()).ok()
    });
    assert!(changed.is_some(), "it is back");
    drop((numbers, sequencer, worker, service, rack));
    up.signal(Signal::INT);
    assert_eq!(up.await_end().code(), Some(0));
}
