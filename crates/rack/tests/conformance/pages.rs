//! Pages.

use crate::AMPLE;
use rackweave_base::Duration;
use rackweave_endpoint::page_store::{AllocateError, Mode};
use rackweave_rack::Rack;
use rackweave_rack::services::{
    PageError, PageOptions, PageService, PageWorker, Prepare, StoreState,
};

fn service(rack: &Rack) -> PageService {
    let options = PageOptions {
        time_limit: AMPLE,
        ..PageOptions::default()
    };
    PageService::new(rack, &options).expect("there is room")
}

fn worker(rack: &Rack, pages: &PageService, name: &str) -> PageWorker {
    let node = rack.node(name).expect("it is here");
    pages.worker(&node).expect("there are workers")
}

pub fn what_one_node_changes_another_reads(rack: &Rack) {
    let pages = service(rack);
    let mut here = worker(rack, &pages, "compute0");
    let mut there = worker(rack, &pages, "compute1");
    let page = here.allocate().expect("a page is free");
    for round in 1..20u64 {
        let (writer, reader) = match round % 2 {
            0 => (&mut here, &mut there),
            _ => (&mut there, &mut here),
        };
        let changed = writer.change(page, |bytes| {
            bytes[..8].copy_from_slice(&round.to_le_bytes())
        });
        assert_eq!(changed, Ok(()));
        assert_eq!(reader.read(page, |bytes| bytes.u64_le(0)), Ok(round));
    }
    let old = there.fix(page, Mode::Shared).expect("it is there");
    assert_eq!(here.change(page, |bytes| bytes[0] = 99), Ok(()));
    assert_eq!(there.validate(&old), Ok(false), "there is a newer one");
    assert_eq!(old.data().u64_le(0), 19, "a guard's page stays as it is");
    assert_eq!(rack.lost_pages(), []);
}

pub fn a_latch_keeps_others_out_for_as_long_as_they_wait(rack: &Rack) {
    let pages = service(rack);
    let mut here = worker(rack, &pages, "compute0");
    let mut there = worker(rack, &pages, "compute1");
    let page = here.allocate().expect("a page is free");
    let latch = here.fix(page, Mode::Exclusive).expect("nobody has it");
    let after = Duration::from_millis(5);
    let late = there.fix_within(page, Mode::Exclusive, after);
    let Err(error) = late else {
        panic!("two have the latch");
    };
    assert_eq!(error, PageError::TimedOut { page, after });
    drop(latch);
    here.settle().expect("the directory answers");
    let latch = there.fix(page, Mode::Exclusive).expect("it is free");
    assert_eq!(there.unfix(latch), Ok(()));
}

pub fn pages_are_allocated_and_freed(rack: &Rack) {
    let pages = service(rack);
    let mut here = worker(rack, &pages, "compute0");
    let mut there = worker(rack, &pages, "compute1");
    let first = here.allocate().expect("a page is free");
    let second = there.allocate().expect("a page is free");
    assert_ne!(first, second);
    assert_eq!(here.change(first, |bytes| bytes[0] = 1), Ok(()));
    assert_eq!(there.free(first), Ok(()));
    let again = there.free(first);
    assert_eq!(again, Err(AllocateError::NotInUse(first)));
    let next = there.allocate().expect("a page is free");
    assert_eq!(there.read(next, |bytes| bytes.is_all(0)), Ok(true));
}

pub fn a_closed_store_is_found_closed(rack: &Rack) {
    let options = PageOptions {
        prepare: Prepare::Format,
        time_limit: AMPLE,
        ..PageOptions::default()
    };
    let pages = PageService::new(rack, &options).expect("there is room");
    assert_eq!(pages.stores()[0].found, StoreState::Formatted);
    let mut here = worker(rack, &pages, "compute0");
    let page = here.allocate().expect("a page is free");
    assert_eq!(here.change(page, |bytes| bytes[0] = 5), Ok(()));
    assert!(pages.close().is_err(), "a worker is in use");
    drop(here);
    assert_eq!(pages.close(), Ok(()));
    let mut there = worker(rack, &pages, "compute1");
    assert_eq!(there.read(page, |bytes| bytes.array(0)), Ok([5]));
    let second = PageService::new(rack, &options);
    assert!(second.is_err(), "a rack has its pages once");
}
