//! The baseline as a whole: no page is lost or damaged, whatever its source.

use super::frames::{SECTOR, read_page, write_page};
use super::*;
use rackweave_base::{Memory, Rng};

/// Small pages and pools, so that pages are evicted all the time.
fn small() -> Config {
    Config {
        page_size: 8 << 10,
        pages: 64,
        frames_per_node: 16,
        compute_nodes: 2,
        workers: 3,
        depth: 3,
        handlers: 2,
        message_handlers: None,
        ssds: 2,
        congestion_control: true,
        work: Duration::from_nanos(500),
        warm_up: Duration::ZERO,
        window: Duration::from_secs(20),
    }
}

/// This many random pages for each worker.
fn random(config: &Config, seed: u64, each: u64) -> impl FnMut(usize) -> Pages + use<> {
    let (pages, mut rng) = (config.pages, Rng::new(seed));
    move |worker| {
        let mut rng = rng.fork(&format!("worker {worker}"));
        let mut left = each;
        Box::new(move || {
            left = left.checked_sub(1)?;
            Some(rng.below(pages))
        })
    }
}

/// Has every worker read `each` pages, checks every page, and compares the frames of the nodes with
/// the owner's directory at the end. Returns where the pages were found, how many redirections were
/// outdated, and the trace's hash.
fn read(config: &Config, seed: u64, each: u64) -> (Found, u64, u64) {
    eprintln!("seed {seed}");
    let mut store = Store::new(config, seed, &mut random(config, seed, each)).unwrap();
    let until = Until::Done(config.window);
    store.rack.drive(&mut Run::quick(seed), until).unwrap();
    // The last drops are still in flight.
    let settled = store.rack.now() + Duration::from_millis(1);
    store.rack.run(settled);
    assert_eq!(store.rack.failure(), None);
    let owner = store.owner.borrow();
    assert!(owner.is_idle());
    let mut redirects_stale = 0;
    for (node, cache) in (0..).zip(&store.caches) {
        let mut held = cache.borrow().held();
        let mut known = match config.message_handlers {
            None => owner.directory.held(node),
            Some(_) => {
                held.retain(|(page, ..)| page % u64::from(config.compute_nodes) != u64::from(node));
                let known = store
                    .page_owners
                    .iter()
                    .map(|page_owner| page_owner.borrow().known(node));
                known.flatten().collect()
            }
        };
        held.sort_unstable();
        known.sort_unstable();
        assert_eq!(held, known, "node {node}");
        redirects_stale += cache.borrow().redirects_stale;
    }
    let found = store.found.get();
    let workers = u64::from(config.workers) * u64::from(config.compute_nodes);
    assert_eq!(found.iter().sum::<u64>(), workers * each);
    (found, redirects_stale, store.rack.trace_hash())
}

#[test]
fn no_page_is_lost_or_damaged_whatever_the_seed() {
    for seed in 0..8 {
        let ([local, _, remote, storage], ..) = read(&small(), seed, 400);
        assert!(remote > 0 && storage > 0 && local > 0);
    }
}

/// [`small`], with pages that the compute nodes own.
fn owned(compute_nodes: u16) -> Config {
    Config {
        compute_nodes,
        message_handlers: Some(2),
        ..small()
    }
}

#[test]
fn compute_nodes_that_own_pages_lose_and_damage_none() {
    for (seed, nodes) in (0..9).zip([2, 3, 4].into_iter().cycle()) {
        let ([local, _, remote, storage], stale, _) = read(&owned(nodes), seed, 400);
        assert!(remote > 0 && storage > 0 && local > 0);
        // With two nodes only the owner asks a holder, and knows what it has dropped soon after.
        assert!(nodes == 2 || stale > 0, "{nodes} nodes: some ask too late");
    }
}

#[test]
fn owners_read_pages_into_their_own_frames_for_others() {
    let config = Config {
        workers: 1,
        depth: 1,
        frames_per_node: 32,
        ..owned(2)
    };
    // Only node 0 reads, and only pages that node 1 owns.
    let mut reads = |worker: usize| -> Pages {
        let mut left = if worker == 0 {
            vec![1, 3, 5]
        } else {
            Vec::new()
        };
        Box::new(move || left.pop())
    };
    let mut store = Store::new(&config, 1, &mut reads).unwrap();
    store
        .rack
        .drive(&mut Run::quick(1), Until::Done(config.window))
        .unwrap();
    let pages = |node: usize| {
        let held = store.caches[node].borrow().held();
        let mut pages: Vec<u64> = held.into_iter().map(|(page, ..)| page).collect();
        pages.sort_unstable();
        pages
    };
    assert_eq!((pages(0), pages(1)), (vec![1, 3, 5], vec![1, 3, 5]));
    assert_eq!(store.found.get(), [0, 0, 0, 3]);
}

#[test]
fn readers_are_redirected_and_read_again_where_a_page_has_gone() {
    let ([_, _, remote, storage], redirects_stale, _) = read(&small(), 3, 2000);
    assert!(remote > 0 && storage > 0);
    assert!(redirects_stale > 0, "some come too late");
}

#[test]
fn nodes_with_hardly_any_frames_get_on() {
    let config = Config {
        frames_per_node: 4,
        compute_nodes: 3,
        ..small()
    };
    read(&config, 21, 100);
}

#[test]
fn few_pages_are_read_once_and_then_found_at_home() {
    let config = Config {
        pages: 8,
        ..small()
    };
    let (found, ..) = read(&config, 5, 400);
    let [local, joined, remote, storage] = found;
    assert!(local > joined + remote + storage);
    assert!(storage + remote <= 16, "{found:?}");
}

#[test]
fn a_seed_gives_the_same_run() {
    for config in [small(), owned(3)] {
        let hash = |seed| read(&config, seed, 400).2;
        assert_eq!(hash(9), hash(9));
        assert_ne!(hash(9), hash(10));
    }
}

#[test]
fn a_page_that_is_not_what_it_should_be_ends_the_run() {
    let config = small();
    let mut store = Store::new(&config, 1, &mut random(&config, 1, 400)).unwrap();
    let failure = (1..1000).find_map(|slice| {
        store
            .rack
            .run(Instant::ZERO + Duration::from_micros(50) * slice);
        // Overwrites a frame behind the cache's back with a page that no worker requests.
        store.caches[0].borrow().bytes.write(0, config.pages);
        store.rack.failure()
    });
    assert!(
        failure
            .as_ref()
            .is_some_and(|failure| failure.contains("is damaged")),
        "{failure:?}"
    );
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let check = |change: fn(&mut Config), says: &str| {
        let mut bad = small();
        change(&mut bad);
        let pages = &mut random(&bad, 1, 1);
        let error = run(&mut Run::quick(1), &bad, pages).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    };
    check(|bad| bad.page_size = 5000, "size of a page is 5000");
    check(|bad| bad.page_size = 2048, "size of a page is 2048");
    check(|bad| bad.pages = 0, "pages is 0");
    check(|bad| bad.depth = 0, "depth is 0");
    check(|bad| bad.frames_per_node = 3, "frames is 3");
}

#[test]
fn a_page_of_two_parts_is_noticed() {
    let block = Memory::new(1 << 20).allocate(5 * SECTOR).unwrap();
    let bytes = 2 * SECTOR;
    let (here, there) = (64, 64 + bytes);
    write_page(&block, here, bytes, 9);
    assert_eq!(read_page(&block, here, bytes), Some(9));
    // The second sector is that of another page.
    write_page(&block, there, bytes, 10);
    let mut sector = vec![0; SECTOR];
    block.read(there + SECTOR, &mut sector);
    block.write(here + SECTOR, &sector);
    assert_eq!(read_page(&block, here, bytes), None);
}
