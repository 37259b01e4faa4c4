//! Pages.

use super::AMPLE;
use core::time::Duration;
use rackweave_endpoint::page_store::{AllocateError, FixError};
use rackweave_rack::Rack;
use rackweave_rack::services::{
    CommitError, PageError, PageOptions, PageService, PageWorker, Prepare, StoreState,
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
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    let page = here.allocate().expect("a page is free");
    for round in 1..20u64 {
        let (writer, reader) = match round % 2 {
            0 => (&here, &there),
            _ => (&there, &here),
        };
        let changed = writer.change(page, |bytes| {
            bytes[..8].copy_from_slice(&round.to_le_bytes())
        });
        assert_eq!(changed, Ok(()));
        assert_eq!(reader.read(page).map(|it| it.data().u64_le(0)), Ok(round));
    }
    let old = there.read(page).expect("it is there");
    assert_eq!(here.change(page, |bytes| bytes[0] = 99), Ok(()));
    assert_eq!(old.is_newest(), Ok(false), "there is a newer one");
    assert_eq!(old.data().u64_le(0), 19, "a guard's page stays as it is");
    assert_eq!(rack.lost_pages().as_deref(), Ok([].as_slice()));
}

pub fn a_page_is_read_by_a_lease_until_another_node_changes_it(rack: &Rack) {
    let pages = service(rack);
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    let page = here.allocate().expect("a page is free");
    for round in 1..10u64 {
        let changed = here.change(page, |bytes| {
            bytes[..8].copy_from_slice(&round.to_le_bytes())
        });
        assert_eq!(changed, Ok(()));
        // Fetched, verified four times, then leased.
        for _ in 0..10 {
            assert_eq!(there.read(page).map(|it| it.data().u64_le(0)), Ok(round));
        }
    }
    // A lease expires if the thread sleeps for too long.
    assert!(there.statistics().leased_hits > 0);
}

pub fn several_pages_are_read_in_one_wait(rack: &Rack) {
    let pages = service(rack);
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    let table: Vec<_> = (0..20u8)
        .map(|number| {
            let page = here.allocate().expect("a page is free");
            assert_eq!(here.change(page, |bytes| bytes.fill(number)), Ok(()));
            page
        })
        .collect();
    for ahead in [0, 1, 7, 100] {
        let mut number = 0;
        for page in there.scan(table.iter().copied(), ahead) {
            assert!(page.expect("nobody changes it").data().is_all(number));
            number += 1;
        }
        assert_eq!(number, 20);
    }
    let twice = [table[3], table[5], table[3]];
    let guards = there.read_many(&twice).expect("nobody changes them");
    let numbers: Vec<u8> = guards
        .iter()
        .map(|guard| guard.data().u64_le(0) as u8)
        .collect();
    assert_eq!(numbers, [3, 5, 3]);
    drop(guards);
    // One that cannot be read is an error, and the others can be read.
    let held = there.write(table[1]).expect("it is free");
    let refused = there.read_many(&table[..3]).map(|guards| guards.len());
    assert_eq!(refused, Err(FixError::Conflict(table[1]).into()));
    let results = there.scan(table[..3].to_vec(), 2).map(|page| page.is_ok());
    assert_eq!(results.collect::<Vec<_>>(), [true, false, true]);
    drop(held);
    assert_eq!(there.settle(), Ok(()));
    // A scan that is dropped leaves nothing behind.
    let mut scan = there.scan(table.iter().copied(), 10);
    assert!(scan.next().is_some_and(|page| page.is_ok()));
    drop(scan);
    assert_eq!(here.change(table[2], |bytes| bytes[0] = 9), Ok(()));
    assert_eq!(
        there.read(table[2]).map(|it| it.data().u64_le(0) as u8),
        Ok(9)
    );
}

/// On a rack with a store of each of [`super::PAGE_SIZES`].
pub fn each_store_has_pages_of_its_size(rack: &Rack) {
    let pages = service(rack);
    let sizes: Vec<_> = pages.stores().iter().map(|it| it.page_size).collect();
    assert_eq!(sizes, super::PAGE_SIZES);
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    // More than the buffer frames of a size, so that pages are written home and come back.
    let stores = sizes.iter().zip(0..).zip([100u8, 30, 12]);
    let all: Vec<_> = stores
        .flat_map(|((&size, store), count)| {
            here.open(store).expect("it was formatted");
            (0..count)
                .map(|number| (size, here.allocate().expect("a page is free"), number))
                .collect::<Vec<_>>()
        })
        .collect();
    for &(size, page, number) in &all {
        let changed = here.change(page, |bytes| {
            assert_eq!(bytes.len(), size as usize - 48);
            bytes.fill(number);
        });
        assert_eq!(changed, Ok(()), "{page} of {size} bytes");
    }
    for reader in [&there, &here] {
        for &(size, page, number) in &all {
            let read = reader.read(page).expect("nobody changes it");
            assert_eq!(read.data().len(), size as usize - 48, "{page}");
            assert!(read.data().is_all(number), "{page} of {size} bytes");
        }
    }
    let statistics = here.statistics();
    assert!(statistics.evicted_dirty > 0, "{statistics:?}");
    assert!(here.flush().is_ok());
    drop((here, there));
    pages.close().expect("all workers are back");
}

/// In virtual time.
#[test]
fn a_scan_overlaps_the_reads_of_its_pages() {
    let rack = &super::simulated();
    let pages = service(rack);
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    let table: Vec<_> = (0..32)
        .map(|_| here.allocate().expect("a page is free"))
        .collect();
    let node = rack.node("compute1").expect("it is here");
    let scanned = |pages: &[_], ahead| {
        let began = node.now();
        for page in there.scan(pages.iter().copied(), ahead) {
            assert!(page.expect("nobody changes it").data().is_all(0));
        }
        node.now().since(began).as_nanos()
    };
    let (alone, ahead) = (scanned(&table[..16], 0), scanned(&table[16..], 8));
    assert!(ahead * 2 < alone, "{ahead} and {alone} ns");
}

pub fn a_latch_keeps_others_out_for_as_long_as_they_wait(rack: &Rack) {
    let pages = service(rack);
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    let page = here.allocate().expect("a page is free");
    let latch = here.write(page).expect("nobody has it");
    let after = Duration::from_millis(5);
    let late = there.write_within(page, after);
    let Err(error) = late else {
        panic!("two have the latch");
    };
    assert_eq!(error, PageError::TimedOut { page, after });
    drop(latch);
    here.settle().expect("the directory answers");
    let latch = there.write(page).expect("it is free");
    assert_eq!(latch.commit(), Ok(()));
}

pub fn pages_are_allocated_and_freed(rack: &Rack) {
    let pages = service(rack);
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    let first = here.allocate().expect("a page is free");
    let second = there.allocate().expect("a page is free");
    assert_ne!(first, second);
    assert_eq!(here.change(first, |bytes| bytes[0] = 1), Ok(()));
    assert_eq!(there.free(first), Ok(()));
    let again = there.free(first);
    assert_eq!(again, Err(AllocateError::NotInUse(first).into()));
    let next = there.allocate().expect("a page is free");
    assert_eq!(there.read(next).map(|it| it.data().is_all(0)), Ok(true));
}

pub fn a_closed_store_is_found_closed(rack: &Rack) {
    let options = PageOptions {
        prepare: Prepare::Format,
        time_limit: AMPLE,
        ..PageOptions::default()
    };
    let pages = PageService::new(rack, &options).expect("there is room");
    assert_eq!(pages.stores()[0].found, StoreState::Formatted);
    let here = worker(rack, &pages, "compute0");
    let page = here.allocate().expect("a page is free");
    assert_eq!(here.change(page, |bytes| bytes[0] = 5), Ok(()));
    assert!(pages.close().is_err(), "a worker is in use");
    drop(here);
    pages.close().expect("all workers are back");
    let there = worker(rack, &pages, "compute1");
    assert_eq!(there.read(page).map(|it| it.data().array(0)), Ok([5]));
    let second = PageService::new(rack, &options);
    assert!(second.is_err(), "a rack has its pages once");
}

pub fn a_change_that_was_not_taken_is_an_error(rack: &Rack) {
    let pages = service(rack);
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    let [committed, dropped] = [(); 2].map(|()| there.allocate().expect("a page is free"));
    let mut guard = here.write(committed).expect("nobody has it");
    guard.data_mut().write(0, &[1]);
    let mut forgotten = here.write(dropped).expect("nobody has it");
    forgotten.data_mut().write(0, &[1]);
    // Its latches have been opened, and it has not noticed that yet.
    rack.declare_dead(here.node());
    assert_eq!(there.change(committed, |bytes| bytes[0] = 2), Ok(()));
    let error = guard.commit().expect_err("another node has the latch");
    assert!(matches!(
        error,
        CommitError::Superseded(_) | CommitError::Fenced(_)
    ));
    assert_eq!(here.losses(), [], "who commits is told");
    drop(forgotten);
    assert_eq!(here.settle(), Ok(()));
    let losses: Vec<_> = here.losses().iter().map(|loss| loss.page).collect();
    assert_eq!(losses, [dropped]);
    let data = |page| there.read(page).map(|it| it.data().array(0));
    assert_eq!((data(committed), data(dropped)), (Ok([2]), Ok([0])));
}

pub fn a_guard_that_is_dropped_publishes_its_change(rack: &Rack) {
    let pages = service(rack);
    let here = worker(rack, &pages, "compute0");
    let there = worker(rack, &pages, "compute1");
    let page = here.allocate().expect("a page is free");
    let mut guard = here.write(page).expect("nobody has it");
    guard.data_mut().write(0, &[7]);
    let version = guard.version();
    drop(guard);
    assert_eq!(here.settle(), Ok(()));
    let read = there.read(page).expect("the latch is open");
    assert_eq!((read.data().u64_le(0), read.version()), (7, version + 1));
    drop(read);
    // A page that was not changed gets no new version.
    let guard = here.write(page).expect("nobody has it");
    assert_eq!(guard.commit(), Ok(()));
    assert_eq!(there.read(page).map(|it| it.version()), Ok(version + 1));
    assert_eq!(here.losses(), []);
}

pub fn a_worker_does_not_wait_for_itself(rack: &Rack) {
    let pages = service(rack);
    let here = worker(rack, &pages, "compute0");
    let page = here.allocate().expect("a page is free");
    let conflict = || Err(PageError::Fix(FixError::Conflict(page)));
    let latch = here.write(page).expect("nobody has it");
    assert_eq!(here.read(page).map(drop), conflict());
    assert_eq!(here.write(page).map(drop), conflict());
    assert_eq!(latch.commit(), Ok(()));
    let (first, second) = (here.read(page), here.read(page));
    assert!(first.is_ok() && second.is_ok(), "many may read");
    assert_eq!(here.restore(page).map(drop), conflict());
}
