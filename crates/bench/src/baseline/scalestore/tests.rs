//! The baseline as a whole: nothing lost or damaged, by whatever way pages come.

use super::cache::{Cache, Witness};
use super::page::Disk;
use super::simulated::Run;
use super::*;
use rackweave_base::Rng;

/// Small pages and pools, so that pages are evicted all the time.
fn small(seed: u64) -> Config {
    Config {
        page_size: 8 << 10,
        pages: 64,
        frames_per_node: 16,
        workers: 3,
        depth: 3,
        handlers: 2,
        ssds: 2,
        seed,
        limit: Some(400),
        ..Config::default()
    }
}

/// Random accesses, of which the share `writes` change their page.
fn random(config: &Config, writes: f64) -> impl FnMut(usize) -> Accesses + use<> {
    let (pages, mut rng) = (config.pages, Rng::new(config.seed));
    move |worker| {
        let mut rng = rng.fork(&format!("worker {worker}"));
        Box::new(move || Access {
            page: rng.below(pages),
            write: rng.chance(writes),
        })
    }
}

/// How many changes all pages together have seen, wherever the newest copy of each is.
fn changes(config: &Config, caches: &[&Cache], disk: &Disk) -> u64 {
    let newest = |page: u64| {
        let dirty = |cache: &&Cache| Some((cache.dirty_frame(page)?, cache.bytes().clone()));
        let dirty: Vec<_> = caches.iter().filter_map(dirty).collect();
        assert!(dirty.len() <= 1, "page {page} was changed at two nodes");
        match dirty.first() {
            Some((frame, bytes)) => bytes.read(*frame).expect("whole").count,
            None => disk.stamp(page).count,
        }
    };
    (0..config.pages).map(newest).sum()
}

/// Runs to the end with writers; returns what came of it, having counted all changes.
fn count_changes(config: &Config, writes: f64) -> Outcome {
    eprintln!("seed {}", config.seed);
    let mut pages = random(config, writes);
    let written = std::sync::Arc::new(core::sync::atomic::AtomicU64::new(0));
    let counted = |worker| {
        let (mut next, written) = (pages(worker), written.clone());
        Box::new(move || {
            let access = next();
            written.fetch_add(access.write.into(), core::sync::atomic::Ordering::Relaxed);
            access
        }) as Accesses
    };
    let mut counted = counted;
    let mut run = Run::new(config, &mut counted).unwrap();
    // Every access finds the newest version there is, at whatever node it was made.
    let witness = Witness::new(vec![0; config.pages as usize].into());
    for cache in &run.caches {
        cache.borrow_mut().set_witness(&witness);
    }
    run.run().unwrap();
    let outcome = run.outcome();
    let server = run.server.borrow();
    assert!(server.directory().is_idle());
    let caches: Vec<_> = run.caches.iter().map(|cache| cache.borrow()).collect();
    let caches: Vec<&Cache> = caches.iter().map(|cache| &**cache).collect();
    let expected = written.load(core::sync::atomic::Ordering::Relaxed);
    assert_eq!(changes(config, &caches, server.disk()), expected);
    assert!(expected > 0);
    let workers = u64::from(config.workers) * u64::from(config.compute_nodes);
    let all = workers * config.limit.unwrap();
    assert_eq!(outcome.operations, all);
    outcome
}

#[test]
#[should_panic(expected = "is old")]
fn a_node_that_keeps_what_it_gave_up_is_found_out() {
    // Copies are given up, without being written elsewhere, when another node raises its own.
    let config = Config {
        pages: 8,
        ..small(1)
    };
    let mut run = Run::new(&config, &mut random(&config, 0.3)).unwrap();
    let witness = Witness::new(vec![0; config.pages as usize].into());
    for cache in &run.caches {
        cache.borrow_mut().set_witness(&witness);
    }
    run.caches[0].borrow_mut().lies = true;
    let _ = run.run();
}

#[test]
fn no_change_is_lost_whatever_the_seed() {
    for seed in 0..8 {
        let outcome = count_changes(&small(seed), 0.3);
        let caches = outcome.caches;
        assert!(caches.write_backs > 0 && caches.drops > 0 && caches.revocations > 0);
        assert!(outcome.remote_hits > 0 && outcome.ssd_reads > 0 && outcome.local_hits > 0);
    }
}

#[test]
fn everybody_may_change_the_same_few_pages() {
    for seed in 0..4 {
        let config = Config {
            pages: 3,
            compute_nodes: 3,
            ..small(seed)
        };
        let outcome = count_changes(&config, 0.8);
        assert!(outcome.caches.revocations > 0);
    }
}

#[test]
fn nodes_with_hardly_any_frames_get_on() {
    let config = Config {
        frames_per_node: 4,
        compute_nodes: 3,
        limit: Some(100),
        ..small(21)
    };
    count_changes(&config, 0.5);
}

#[test]
fn upgrades_keep_the_page() {
    // Few pages, room for all: after a while everybody reads his own copy and only writers ask.
    let config = Config {
        pages: 8,
        ..small(5)
    };
    let outcome = count_changes(&config, 0.1);
    assert!(outcome.upgrades > 0 && outcome.local_hits > outcome.operations / 2);
}

#[test]
fn readers_are_redirected_and_read_again_where_a_page_has_gone() {
    let config = Config {
        limit: Some(2000),
        ..small(3)
    };
    let mut run = Run::new(&config, &mut random(&config, 0.0)).unwrap();
    run.run().unwrap();
    let outcome = run.outcome();
    assert_eq!(outcome.caches.write_backs + outcome.caches.revocations, 0);
    let found = outcome.local_hits + outcome.joined + outcome.remote_hits + outcome.ssd_reads;
    assert_eq!((found, outcome.operations), (12_000, 12_000));
    assert!(outcome.remote_hits > 0 && outcome.ssd_reads > 0);
    assert!(outcome.caches.redirects_stale > 0, "some come too late");
    assert_eq!(outcome.latency.count(), outcome.operations);
}

#[test]
fn a_seed_gives_the_same_run() {
    let hash = |seed| {
        let config = small(seed);
        let mut run = Run::new(&config, &mut random(&config, 0.2)).unwrap();
        run.run().unwrap();
        (run.rack.trace_hash(), run.outcome().messages)
    };
    assert_eq!(hash(9), hash(9));
    assert_ne!(hash(9), hash(10));
}

#[test]
fn the_embedded_rack_loses_no_change_either() {
    let config = Config {
        workers: 2,
        handlers: 1,
        limit: Some(200),
        ..small(11)
    };
    eprintln!("seed {}", config.seed);
    let mut pages = random(&config, 0.3);
    let written = std::sync::Arc::new(core::sync::atomic::AtomicU64::new(0));
    let mut counted = |worker| {
        let (mut next, written) = (pages(worker), written.clone());
        Box::new(move || {
            let access = next();
            written.fetch_add(access.write.into(), core::sync::atomic::Ordering::Relaxed);
            access
        }) as Accesses
    };
    let remains = embedded::run(&config, &mut counted).unwrap();
    assert_eq!(remains.outcome.operations, 800);
    let caches: Vec<&Cache> = remains.caches.iter().collect();
    let expected = written.load(core::sync::atomic::Ordering::Relaxed);
    assert_eq!(changes(&config, &caches, remains.server.disk()), expected);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let good = small(1);
    for (bad, says) in [
        (
            Config {
                page_size: 5000,
                ..good.clone()
            },
            "size of a page is 5000",
        ),
        (
            Config {
                pages: 0,
                ..good.clone()
            },
            "pages is 0",
        ),
        (
            Config {
                depth: 0,
                ..good.clone()
            },
            "depth is 0",
        ),
        (
            Config {
                frames_per_node: 3,
                ..good
            },
            "frames is 3",
        ),
    ] {
        let error = run_simulated(&bad, &mut random(&bad, 0.0)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
