//! A cache; the tests act as owner and network.

use super::*;
use crate::baseline::tests::two_nics::TwoNics;

impl Cache {
    /// The cached pages, with their frames and ids. All other frames are free.
    pub fn held(&self) -> Vec<(u64, u32, u64)> {
        let frames = (0..).zip(&self.frames);
        let here = frames.filter(|(_, frame)| frame.state == State::Here);
        let held: Vec<_> = here.map(|(at, frame)| (frame.page, at, frame.id)).collect();
        assert_eq!(held.len() + self.free.len(), self.frames.len());
        assert!(
            held.iter()
                .all(|&(page, at, _)| self.table[page as usize] == at)
        );
        held
    }
}

const PAGE_SIZE: u32 = 4096;
const FIRST: Waiter = Waiter { worker: 0, slot: 0 };
const SECOND: Waiter = Waiter { worker: 1, slot: 1 };

fn cache(frames: u32) -> Cache {
    let bytes = Frames::bytes(frames, PAGE_SIZE);
    let [end, _] = TwoNics::new(1).pair(bytes, 1);
    Cache::new(Frames::new(end.region, PAGE_SIZE), frames, 100, 2)
}

fn asked(attempt: Result<Attempt, Failure>) -> Fetch {
    match attempt {
        Ok(Attempt::Ask(fetch)) => fetch,
        other => panic!("{other:?}"),
    }
}

/// Fetches a page from storage; returns its id.
fn bring(cache: &mut Cache, page: u64) -> u64 {
    let fetch = asked(cache.access(page, FIRST));
    cache.bytes.write(fetch.frame, page);
    cache
        .handle_loaded(fetch.frame, Some(FIRST.worker), PageSource::Storage)
        .unwrap();
    assert_eq!(cache.done[0].pop_front(), Some((0, PageSource::Storage)));
    fetch.id
}

#[test]
fn a_page_is_fetched_once_and_then_read_without_asking() {
    let mut cache = cache(8);
    let fetch = asked(cache.access(7, FIRST));
    assert!(!fetch.from_storage);
    assert_eq!(cache.access(7, SECOND), Ok(Attempt::Waits));
    cache.bytes.write(fetch.frame, 7);
    cache
        .handle_loaded(fetch.frame, Some(0), PageSource::Storage)
        .unwrap();
    assert_eq!(cache.done[0].pop_front(), Some((0, PageSource::Storage)));
    assert_eq!(cache.done[1].pop_front(), Some((1, PageSource::Joined)));
    assert_eq!(cache.access(7, SECOND), Ok(Attempt::Hit));
    assert!(
        cache
            .handle_loaded(fetch.frame, Some(0), PageSource::Storage)
            .is_err(),
        "nobody asked"
    );
    assert_eq!(cache.held(), [(7, fetch.frame, fetch.id)]);
}

#[test]
fn a_redirection_that_came_too_late_is_asked_about_again() {
    let mut cache = cache(8);
    let fetch = asked(cache.access(7, FIRST));
    cache.handle_redirect(fetch.frame, 40).unwrap();
    // The header was voided, or the frame given to another page, while it was read.
    for after in [[7, 0], [8, 41]] {
        let again = cache.handle_read(fetch.frame, 0, [[7, 40], after]).unwrap();
        let again = again.expect("it has to be asked for again");
        assert!(again.from_storage && again.id > fetch.id && again.frame == fetch.frame);
        assert_eq!(cache.access(7, SECOND), Ok(Attempt::Waits));
        cache.handle_redirect(fetch.frame, 40).unwrap();
    }
    assert_eq!(cache.redirects_stale, 2);
    cache.bytes.write(fetch.frame, 7);
    let next = cache.handle_read(fetch.frame, 0, [[7, 40], [7, 40]]);
    assert_eq!(next, Ok(None));
    assert_eq!(cache.done[0].pop_front(), Some((0, PageSource::Remote)));
}

#[test]
fn a_page_that_is_not_what_it_should_be_is_an_error() {
    let mut cache = cache(8);
    let fetch = asked(cache.access(7, FIRST));
    cache.bytes.write(fetch.frame, 8);
    let result = cache
        .handle_loaded(fetch.frame, Some(0), PageSource::Storage)
        .unwrap_err();
    assert!(result.contains("page 7 is damaged"), "{result}");
}

#[test]
fn frames_are_freed_before_they_run_out() {
    let mut cache = cache(4);
    let first = bring(&mut cache, 1);
    bring(&mut cache, 2);
    bring(&mut cache, 3);
    assert_eq!(cache.evict(), (0, Vec::new()), "one frame is free");
    bring(&mut cache, 4);
    assert_eq!(cache.access(5, FIRST), Ok(Attempt::NoFrame));
    // All were used: the hand passes all frames once before it takes the first.
    assert_eq!(cache.evict(), (5, vec![(1, first)]));
    assert!(!cache.free.is_empty() && cache.held().len() == 3);
    // A page used since then has a second chance.
    cache.access(2, FIRST).unwrap();
    bring(&mut cache, 5);
    let (looks, dropped) = cache.evict();
    assert!(looks == 2 && dropped[0].0 == 3);
    // A frame that is being sent stays, and is dropped in its turn after that.
    let Presence::Here(at) = cache.presence(4) else {
        panic!("page 4 is there");
    };
    let mut pages = 10..;
    let mut renew = |cache: &mut Cache| {
        for page in pages.by_ref().take(12) {
            cache.evict();
            bring(cache, page);
        }
    };
    cache.pin(at);
    renew(&mut cache);
    assert_eq!(cache.presence(4), Presence::Here(at));
    cache.unpin(at);
    renew(&mut cache);
    assert_eq!(cache.presence(4), Presence::Absent);
}
