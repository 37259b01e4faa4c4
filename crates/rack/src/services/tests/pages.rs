//! Page services.

use super::{COMPUTE, rack, rack_with};
use crate::config::RackConfig;
use crate::services::{
    BLOCK, CommitError, PageError, PageOptions, PageService, PageServiceError, Prepare,
    StoreMedium, StoreState,
};
use crate::testing::Faults;
use core::task::{Context, Waker};
use core::time::Duration;
use rackweave_base::{Instant, NodeId};
use rackweave_controller::PageNode;
use rackweave_endpoint::page_store::{FixError, OpenError, RedoLog};
use rackweave_target::{Backend, FileBackend, FileOptions, Io, IoDone, MemoryBackend};
use rackweave_wire::fabric::page::PageId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHORT: Duration = Duration::from_millis(20);
/// Time limit of calls that end when it expires.
const LIMIT: Duration = Duration::from_millis(500);

fn medium(name: &str, node: u16, pages: u64) -> StoreMedium {
    StoreMedium {
        name: name.to_owned(),
        node: NodeId(node),
        backend: Box::new(MemoryBackend::new(BLOCK, pages)),
        page_size: None,
    }
}

/// A medium whose blocks the controller cannot read, as when its target is away.
#[derive(Debug)]
struct Unseen(MemoryBackend);

impl Backend for Unseen {
    fn block_size(&self) -> u32 {
        self.0.block_size()
    }
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io> {
        self.0.submit(now, io)
    }
    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        self.0.poll(now, done);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
}

/// The switch has lost the place of the newest version, and the thread that made it has ended.
#[test]
fn a_node_without_threads_is_asked_what_it_has() {
    let medium = StoreMedium {
        name: "unseen".to_owned(),
        node: NodeId(2),
        backend: Box::new(Unseen(MemoryBackend::new(BLOCK, 64))),
        page_size: None,
    };
    let options = PageOptions {
        time_limit: LIMIT,
        ..PageOptions::default()
    };
    let rack = rack();
    let pages = PageService::with_stores(&rack, &options, vec![medium]).expect("it is made");
    let here = pages.worker(COMPUTE[0]).expect("there are workers");
    let page = here.allocate().expect("a page is free");
    let written = here.change(page, |bytes| bytes[0] = 7);
    assert_eq!(written, Ok(()));
    drop(here);
    let there = pages.worker(COMPUTE[1]).expect("there are workers");
    rack.restart_switch().expect("it fits as before");
    assert_eq!(there.read(page).map(|guard| guard.data().array(0)), Ok([7]));
}

#[test]
fn a_map_that_goes_down_with_a_node_is_taken_from_home() {
    let rack = rack();
    let pages = PageService::new(&rack, &PageOptions::default()).expect("there is room");
    let [here, there] = COMPUTE.map(|node| pages.worker(node).expect("there are workers"));
    let live: Vec<_> = (0..3)
        .map(|_| there.allocate().expect("a page is free"))
        .collect();
    // The map is changed at the other node, and only there.
    let freed = here.allocate().expect("a page is free");
    assert_eq!(here.free(freed), Ok(()));
    assert_eq!(here.settle(), Ok(()));
    rack.crash_node(COMPUTE[0]);
    std::mem::forget(here);
    // The pages that it had set aside are used up before the map is needed.
    for _ in 0..100 {
        let page = there.allocate().expect("a page is free");
        assert!(!live.contains(&page));
    }
    assert_eq!(rack.lost_pages().as_deref(), Ok([].as_slice()));
}

#[test]
fn workers_go_back_whatever_they_had_under_way() {
    let options = PageOptions {
        workers: 1,
        ..PageOptions::default()
    };
    let pages = PageService::new(&rack(), &options).expect("there is room");
    let node = COMPUTE[0];
    let worker = pages.worker(node).expect("there is one");
    let page = worker.allocate().expect("a page is free");
    let there = pages.worker(COMPUTE[1]).expect("there is one");
    let latch = there.write(page).expect("nobody has it");
    // Its guard would stay forever if the fix were not abandoned.
    let mut never_taken = Box::pin(worker.write_async(page));
    let mut context = Context::from_waker(Waker::noop());
    assert!(never_taken.as_mut().poll(&mut context).is_pending());
    drop((never_taken, latch, there));
    let none = pages.worker(node).map(|_| ());
    let taken =
        |error| matches!(error, PageServiceError::AllTaken { node: of, workers: 1 } if of == node);
    assert!(none.is_err_and(taken));
    assert!(matches!(pages.close(), Err(PageServiceError::InUse(1))));
    drop(worker);
    let worker = pages.worker(node).expect("it is back");
    assert!(worker.write(page).is_ok());
    let storage = pages.worker(NodeId(0)).map(|_| ());
    assert!(matches!(
        storage,
        Err(PageServiceError::NoFrames(NodeId(0)))
    ));
}

#[test]
fn a_worker_goes_back_although_its_page_is_latched() {
    let options = PageOptions {
        time_limit: LIMIT,
        ..PageOptions::default()
    };
    let pages = PageService::new(&rack(), &options).expect("there is room");
    let [here, there] = COMPUTE.map(|node| pages.worker(node).expect("there are workers"));
    let page = here.allocate().expect("a page is free");
    let guard = here.write(page).expect("nobody has it");
    // One fix times out, and the results of the others are never taken.
    let late = there.read_within(page, SHORT).map(|_| ());
    assert_eq!(late, Err(PageError::TimedOut { page, after: SHORT }));
    there.prefetch(page);
    drop(there);
    let there = pages.worker(COMPUTE[1]).expect("it is back");
    assert!(there.is_idle());
    drop(guard);
}

#[test]
fn a_worker_whose_latch_cannot_go_back_does_and_another_gives_it_back() {
    struct Log(AtomicU64);
    impl RedoLog for Log {
        fn make_durable(&self, _: u64) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }
    let options = PageOptions {
        time_limit: LIMIT,
        ..PageOptions::default()
    };
    let pages = PageService::new(&rack(), &options).expect("there is room");
    let [here, there] = COMPUTE.map(|node| pages.worker(node).expect("there are workers"));
    let page = here.allocate().expect("a page is free");
    let log = Arc::new(Log(AtomicU64::new(0)));
    here.pool().set_log(log.clone());
    let mut guard = here.write(page).expect("nobody has it");
    guard.set_lsn(7);
    assert_eq!(guard.commit(), Err(CommitError::NotLogged(page)));
    drop(here);
    let late = there.read_within(page, SHORT).map(|_| ());
    assert_eq!(late, Err(PageError::TimedOut { page, after: SHORT }));
    log.0.store(7, Ordering::Relaxed);
    let here = pages.worker(COMPUTE[0]).expect("it is back");
    assert_eq!(here.settle(), Ok(()));
    assert_eq!(there.read(page).map(|guard| guard.lsn()), Ok(7));
}

/// In virtual time, which other programs of this machine cannot delay.
#[test]
fn calls_at_a_node_that_has_stopped_end_in_time() {
    let mut config = RackConfig::with_all_programs();
    config.switch.page_size = 4096;
    let mut rack = crate::SimulatedRack::new(&config).expect("it can be built");
    let options = PageOptions {
        time_limit: LIMIT,
        ..PageOptions::default()
    };
    let pages = PageService::new(&rack, &options).expect("there is room");
    let worker = pages.worker(COMPUTE[0]).expect("there is one");
    let page = worker.allocate().expect("a page is free");
    let other = worker.allocate().expect("a page is free");
    let mut first = worker.write(page).expect("nobody has it");
    first.data_mut().write(0, &[1]);
    let mut second = worker.write(other).expect("nobody has it");
    second.data_mut().write(0, &[1]);
    rack.crash_node_silently(COMPUTE[0]);
    let timed = |call: &mut dyn FnMut()| {
        let began = rack.now();
        call();
        Duration::from(rack.now().since(began))
    };
    // A waiting thread reads the clock between naps of a millisecond at most.
    let nap = Duration::from_millis(2);
    let late = Err(CommitError::TimedOut(page));
    let mut first = Some(first);
    let took = timed(&mut || {
        let guard = first.take().expect("once");
        assert_eq!(guard.commit_within(SHORT), late);
    });
    assert!(took >= SHORT && took < SHORT + nap, "{took:?}");
    let took = timed(&mut || assert!(worker.change(page, |_| ()).is_err()));
    assert!(took < LIMIT + nap, "{took:?}");
    let took = timed(&mut || assert!(worker.settle().is_err()));
    assert!(took >= LIMIT && took < LIMIT + nap, "{took:?}");
    let (mut second, mut worker) = (Some(second), Some(worker));
    let took = timed(&mut || drop((second.take(), worker.take())));
    assert!(took < LIMIT + nap, "{took:?}");
}

#[test]
fn a_node_taken_for_dead_comes_back_with_a_new_pool() {
    struct Log;
    impl RedoLog for Log {
        fn make_durable(&self, lsn: u64) -> u64 {
            lsn
        }
    }
    let options = PageOptions {
        workers: 1,
        ..PageOptions::default()
    };
    let pages = PageService::new(&rack(), &options).expect("there is room");
    let node = COMPUTE[0];
    let old = pages.worker(node).expect("there is one");
    old.pool().set_log(Arc::new(Log));
    let page = old.allocate().expect("a page is free");
    assert_eq!(old.change(page, |bytes| bytes[0] = 1), Ok(()));
    assert!(old.flush().is_ok());
    let mut guard = old.write(page).expect("nobody has it");
    guard.data_mut().write(0, &[2]);
    pages.rack().declare_dead(node);
    assert_eq!(guard.commit(), Err(CommitError::Fenced(page)));
    let fenced = old.read(page).map(|_| ());
    assert_eq!(fenced, Err(PageError::Fix(FixError::Fenced)));
    // The old one need not be dropped first.
    let new = pages.worker(node).expect("the node comes back");
    assert_eq!(new.read(page).map(|guard| guard.data().array(0)), Ok([1]));
    assert!(new.pool().log().is_some());
    drop(old);
    let none = pages.worker(node).map(|_| ());
    let taken =
        |error| matches!(error, PageServiceError::AllTaken { node: of, workers: 1 } if of == node);
    assert!(none.is_err_and(taken));
    assert_eq!(new.change(page, |bytes| bytes[0] = 3), Ok(()));
    drop(new);
    let there = pages.worker(COMPUTE[1]).expect("there is one");
    assert_eq!(there.read(page).map(|guard| guard.data().array(0)), Ok([3]));
    drop(there);
    pages.close().expect("all workers are back");
}

#[test]
fn a_store_in_a_file_is_there_again_in_the_next_rack() {
    let name = format!("rackweave-services-{}.pages", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = |path: &std::path::Path| {
        let options = FileOptions::default();
        let opened = match path.exists() {
            true => FileBackend::open(path, BLOCK, None, &options),
            false => FileBackend::create(path, BLOCK, 64, &options),
        };
        vec![StoreMedium {
            name: "file".to_owned(),
            node: NodeId(0),
            backend: Box::new(opened.expect("the folder can be written")),
            page_size: None,
        }]
    };
    let options = PageOptions::default();
    let pages = PageService::with_stores(&rack(), &options, file(&path)).expect("it is made");
    assert_eq!(pages.stores()[0].found, StoreState::Formatted);
    let worker = pages.worker(COMPUTE[0]).expect("there is one");
    let page = worker.allocate().expect("a page is free");
    assert_eq!(worker.change(page, |bytes| bytes[0] = 7), Ok(()));
    drop(worker);
    pages.close().expect("all workers are back");
    drop(pages);
    let options = PageOptions {
        prepare: Prepare::Open,
        ..options
    };
    let pages = PageService::with_stores(&rack(), &options, file(&path)).expect("it is opened");
    assert_eq!(pages.stores()[0].found, StoreState::Closed);
    let worker = pages.worker(COMPUTE[1]).expect("there is one");
    assert_eq!(
        worker.read(page).map(|guard| guard.data().array(0)),
        Ok([7])
    );
    let next = worker.allocate().expect("a page is free");
    assert_ne!(next, page, "what is in use is not given out again");
    // As after a power failure.
    std::mem::forget(worker);
    drop(pages);
    let pages = PageService::with_stores(&rack(), &options, file(&path)).expect("it is opened");
    assert_eq!(pages.stores()[0].found, StoreState::NotClosed);
    let worker = pages.worker(COMPUTE[1]).expect("there is one");
    let third = worker.allocate().expect("a page is free");
    assert!(third != page && third != next, "nor what was not flushed");
    drop(worker);
    pages.close().expect("all workers are back");
    // The service continues, and with it the store is open again.
    drop(pages.worker(COMPUTE[1]).expect("there is one"));
    drop(pages);
    let pages = PageService::with_stores(&rack(), &options, file(&path)).expect("it is opened");
    assert_eq!(pages.stores()[0].found, StoreState::NotClosed);
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn stores_of_the_configuration_have_numbers_in_its_order() {
    let text = RackConfig::with_all_programs().to_toml();
    let stores = "[[store]]\nname = \"tables\"\nnode = \"storage1\"\nbytes = 1048576\n\
                  [[store]]\nname = \"indexes\"\nnode = \"storage1\"\nbytes = 524288\n";
    let text = text.replace("page_stores = 1", "page_stores = 2") + stores;
    let mut config = RackConfig::parse(&text, "test").expect("it makes sense");
    config.driver_threads = 0;
    let rack = Arc::new(crate::EmbeddedRack::new(&config).expect("it can be built"));
    let pages = PageService::new(&rack, &PageOptions::default()).expect("there is room");
    let stores = pages.stores().iter();
    let stores: Vec<_> = stores
        .map(|s| (s.number, &*s.name, s.node, s.pages))
        .collect();
    // Pages of 64 KiB.
    assert_eq!(
        stores,
        [(0, "tables", NodeId(1), 16), (1, "indexes", NodeId(1), 8)]
    );
    let worker = pages.worker(COMPUTE[0]).expect("there is one");
    assert_eq!(worker.allocate().map(PageId::store), Ok(0));
    assert!(worker.open(1).is_ok());
    assert_eq!(worker.allocate().map(PageId::store), Ok(1));
    drop(worker);
    pages.close().expect("all workers are back");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let rack = rack();
    let options = PageOptions::default();
    let refused = |options: &PageOptions, stores| {
        let made = PageService::with_stores(&rack, options, stores);
        made.expect_err("it makes no sense").to_string()
    };
    assert!(refused(&options, vec![]).contains("0 stores"));
    assert!(refused(&options, vec![medium("tiny", 0, 2)]).contains("store tiny: 2 blocks"));
    let unknown = PageOptions {
        nodes: vec![PageNode {
            node: NodeId(77),
            frames: 8,
            workers: 1,
            slots: 4,
        }],
        ..options.clone()
    };
    assert!(refused(&unknown, vec![medium("a", 0, 8)]).contains("node77"));
    assert!(refused(&options, vec![medium("a", 77, 8)]).contains("node77"));
    let made = PageService::with_stores(&rack, &options, vec![medium("a", 0, 8)]);
    let first = made.expect("nothing of before is in the way");
    let second = PageService::new(&rack, &options);
    assert!(matches!(second, Err(PageServiceError::Exists)));
    drop(first);
    let none = rack_with(|config| config.switch.page_entries = 0);
    let none = PageService::new(&none, &options);
    assert!(matches!(none, Err(PageServiceError::NoDirectory)));
}

#[test]
fn a_blank_medium_is_formatted_only_if_that_was_said() {
    let options = PageOptions {
        prepare: Prepare::Open,
        ..PageOptions::default()
    };
    let blank = PageService::new(&rack(), &options);
    let blank = blank.expect_err("there is no store");
    let expected = matches!(
        &blank,
        PageServiceError::AtStore { name, error: PageError::Open(OpenError::Blank(0)) } if name == "memory"
    );
    assert!(expected, "{blank}");
}
