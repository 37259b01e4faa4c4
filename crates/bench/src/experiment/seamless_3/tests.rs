//! A small run of each system.

use super::*;
use crate::harness::Run;

fn small(depth: u16) -> Load {
    Load {
        pages: 512,
        frames_per_node: 256,
        workers: 4,
        warm_up: Duration::from_millis(6),
        window: Duration::from_millis(2),
        ..load(Scale::Quick, Panel { depth, ssds: SSDS })
    }
}

fn measured(load: &Load, system: System, skew: f64) -> Seen {
    let mut run = Run::quick(7);
    let seen = measure(&mut run, load, system, skew);
    seen.unwrap_or_else(|error| panic!("{system:?}, skew {skew}, seed 7: {error}"))
}

#[test]
fn every_lookup_finds_its_page_somewhere() {
    for (system, _) in SYSTEMS {
        let seen = measured(&small(2), system, 0.0);
        let parts = seen.local + seen.remote + seen.storage;
        // A lookup in flight when the window begins counts in one place only.
        assert!((parts - 1.0).abs() < 0.02, "{system:?}: {seen:?}");
        assert!(
            seen.storage > 0.1 && seen.remote > 0.02,
            "{system:?}: {seen:?}"
        );
        let link = link_pages_per_second();
        assert!(
            seen.per_second * seen.storage < 1.05 * link,
            "{system:?}: {seen:?}"
        );
    }
}

#[test]
fn skew_makes_lookups_local() {
    for (system, _) in SYSTEMS {
        let (even, skewed) = (
            measured(&small(2), system, 0.0),
            measured(&small(2), system, 1.3),
        );
        assert!(
            skewed.local > even.local + 0.2,
            "{system:?}: {even:?} {skewed:?}"
        );
        assert!(skewed.per_second > 2.0 * even.per_second, "{system:?}");
    }
}

/// A thread that waits for each page gets it at the latency of an SSD, even if other threads drop
/// pages meanwhile: invalid buffer frames cost a detour, and cause no error.
#[test]
fn dropped_pages_hold_nobody_up() {
    let load = small(1);
    let threads = f64::from(load.compute_nodes) * f64::from(load.workers);
    for system in [System::Whole, System::Part] {
        let seen = measured(&load, system, 0.0);
        let mean_us = threads / seen.per_second * 1e6;
        assert!(
            mean_us < 120.0,
            "{system:?}: {mean_us} us a lookup, {seen:?}"
        );
    }
}
