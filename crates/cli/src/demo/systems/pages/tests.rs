//! Tests of `pages`.

use super::*;

#[test]
fn what_takes_longest_is_the_limit() {
    let counts = Statistics {
        memory_indexed: 1000,
        storage_indexed: 500,
        written: 100,
        ..Statistics::default()
    };
    let slow = MediumRates {
        reads: 1000.0,
        writes: 1000.0,
    };
    let (name, rate) = limit(&counts, 6000, (slow, 100_000.0));
    assert_eq!((name, rate.round()), ("store", 10_000.0));
    let (name, rate) = limit(&counts, 6000, (slow, 1000.0));
    assert_eq!((name, rate.round()), ("copies", 6000.0));
}

#[test]
fn a_heap_is_larger_than_the_pools_and_fits_the_store_that_there_is() {
    for (factor, capacity) in [
        (1.0, None),
        (0.001, None),
        (1.0, Some(400)),
        (0.1, Some(200)),
    ] {
        let mut options = PagesOptions::default();
        let needs =
            fit(&mut options, 2, Scale::new(factor), (0, capacity)).expect("there is capacity");
        assert!(options.check().is_ok(), "{options:?}");
        let heap = Heap::for_run(&options).expect("records fit pages");
        assert_eq!(needs, heap.store_pages(2));
        if let Some(capacity) = capacity {
            assert!(needs <= capacity, "{needs} {capacity}");
        } else {
            let pages = heap.layout.pages(options.load.ycsb.records);
            assert!(pages >= 2 * HEAP_TO_BUFFERS * u64::from(options.frames()));
        }
    }
    let mut options = PagesOptions::default();
    let refused = fit(&mut options, 2, Scale::new(1.0), (0, Some(3)));
    assert!(refused.is_err_and(|error| error.to_string().contains("store.bytes")));
}
