//! A cache, with the owner and the network played by hand.

use super::*;
use rackweave_base::memory::Memory;
use rackweave_base::packet::Pool;
use rackweave_base::{KeyRng, MacAddr, Rng};
use rackweave_nic::{Nic, NicConfig};
use rackweave_verbs::{Access, Verbs};

const PAGE_SIZE: u32 = 4096;
const READER: Waiter = Waiter {
    worker: 0,
    slot: 0,
    write: false,
};
const WRITER: Waiter = Waiter {
    worker: 1,
    slot: 1,
    write: true,
};

fn cache(frames: u32) -> Cache {
    let memory = Memory::new(1 << 20);
    let config = NicConfig::new([10, 0, 0, 1].into(), MacAddr([2, 0, 0, 0, 0, 1]));
    let mut nic = Nic::new(
        config,
        memory.clone(),
        Pool::new(1),
        KeyRng::seeded(Rng::new(1)),
    );
    let pd = nic.create_pd();
    let block = memory.allocate(Frames::bytes(frames, PAGE_SIZE)).unwrap();
    let region = nic.register(pd, block, Access::all()).unwrap();
    Cache::new(Frames::new(region, PAGE_SIZE), frames, 100, 2, 2)
}

/// What a fetch asks for: id, the id of what is kept, frame.
fn asked(attempt: Attempt) -> (u64, u64, u32) {
    match attempt {
        Attempt::Ask(Message::Fetch {
            id, kept, frame, ..
        }) => (id, kept, frame),
        other => panic!("{other:?}"),
    }
}

fn granted(dirty: bool) -> Message {
    Message::Granted {
        version: 1,
        dirty,
        from_home: true,
    }
}

/// Has `waiter` get a page from storage; returns its id.
fn bring(cache: &mut Cache, page: u64, waiter: Waiter) -> u64 {
    let (id, _, frame) = asked(cache.access(page, waiter).unwrap());
    cache
        .bytes()
        .write(frame, super::super::page::Stamp::fresh(page));
    let next = cache.handle_answer(waiter.worker, waiter.slot, &granted(false));
    assert_eq!(next, Ok(Next::Nothing));
    let event = cache.poll_event(waiter.worker);
    assert_eq!(event, Some(Event::Done(waiter.slot, Source::Home)));
    id
}

fn revoke(page: u64, id: u64, downgrade: bool, push: Option<Place>) -> Message {
    Message::Revoke {
        page,
        id,
        downgrade,
        push,
    }
}

fn complied(page: u64, had: bool, dirty: bool) -> Option<Chore> {
    let message = Message::Complied { page, had, dirty };
    Some(Chore::Comply { tag: 5, message })
}

const ELSEWHERE: Place = Place { node: 1, frame: 2 };

#[test]
fn a_page_is_fetched_once_and_then_read_without_asking() {
    let mut cache = cache(8);
    let (_, kept, frame) = asked(cache.access(7, READER).unwrap());
    assert_eq!(kept, 0);
    let other = Waiter {
        worker: 1,
        ..READER
    };
    assert_eq!(cache.access(7, other), Ok(Attempt::Waits));
    cache
        .bytes()
        .write(frame, super::super::page::Stamp::fresh(7));
    cache.handle_answer(0, 0, &granted(false)).unwrap();
    assert_eq!(cache.poll_event(0), Some(Event::Done(0, Source::Home)));
    assert_eq!(cache.poll_event(1), Some(Event::Done(0, Source::Joined)));
    assert_eq!(cache.access(7, READER), Ok(Attempt::Hit));
    let unasked = cache.handle_answer(0, 1, &granted(false));
    assert_eq!(unasked, Err(CacheError::Unasked));
}

#[test]
fn a_shared_copy_is_raised_in_its_frame() {
    let mut cache = cache(8);
    let id = bring(&mut cache, 7, READER);
    let (raised, kept, _) = asked(cache.access(7, WRITER).unwrap());
    assert_eq!(kept, id);
    assert_eq!(
        cache.access(7, READER),
        Ok(Attempt::Hit),
        "others still read"
    );
    // Somebody else was faster: the copy goes, the page comes anew into the same frame.
    cache.handle_order(5, &revoke(7, id, false, None)).unwrap();
    assert_eq!(cache.poll_chore(), complied(7, true, false));
    assert_eq!(cache.access(7, READER), Ok(Attempt::Waits));
    // The next revocation overtakes the answer that it is about.
    cache
        .handle_order(5, &revoke(7, raised, false, None))
        .unwrap();
    assert_eq!(cache.poll_chore(), None);
    cache.handle_answer(1, 1, &granted(true)).unwrap();
    assert_eq!(cache.poll_event(1), Some(Event::Done(1, Source::Home)));
    assert_eq!(cache.poll_event(0), Some(Event::Done(0, Source::Joined)));
    assert_eq!(cache.poll_chore(), complied(7, true, true));
    asked(cache.access(7, READER).unwrap());
}

#[test]
fn what_is_revoked_is_not_touched_while_it_is_written_elsewhere() {
    let mut cache = cache(8);
    let id = bring(&mut cache, 7, WRITER);
    let order = revoke(7, id, false, Some(ELSEWHERE));
    cache.handle_order(5, &order).unwrap();
    let push = cache.poll_chore();
    let Some(Chore::Push { frame, to, tag: 5 }) = push else {
        panic!("{push:?}");
    };
    assert_eq!(to, ELSEWHERE);
    assert_eq!(cache.access(7, READER), Ok(Attempt::Waits));
    cache.pushed(frame, 5);
    assert_eq!(cache.poll_chore(), complied(7, true, true));
    assert_eq!(cache.poll_event(0), Some(Event::Retry(0)));
    // What it had once, and what it never had, it has no more.
    for id in [id, 99] {
        cache.handle_order(5, &revoke(7, id, false, None)).unwrap();
        assert_eq!(cache.poll_chore(), complied(7, false, false));
    }
}

#[test]
fn a_downgraded_page_can_be_read_and_is_still_to_be_stored() {
    let mut cache = cache(4);
    let id = bring(&mut cache, 7, WRITER);
    cache
        .handle_order(5, &revoke(7, id, true, Some(ELSEWHERE)))
        .unwrap();
    let Some(Chore::Push { frame, .. }) = cache.poll_chore() else {
        panic!("it is to be written");
    };
    assert_eq!(cache.access(7, READER), Ok(Attempt::Hit));
    cache.pushed(frame, 5);
    assert_eq!(cache.poll_chore(), complied(7, true, true));
    assert_eq!(asked(cache.access(7, WRITER).unwrap()).1, id);
}

#[test]
fn a_redirection_that_came_too_late_is_asked_about_again() {
    let mut cache = cache(8);
    let (id, _, frame) = asked(cache.access(7, READER).unwrap());
    let redirect = Message::Redirect {
        version: 1,
        place: ELSEWHERE,
        id: 40,
    };
    let from = ELSEWHERE;
    let next = cache.handle_answer(0, 0, &redirect);
    assert_eq!(next, Ok(Next::Read { from, frame }));
    // A revocation waits for the page, and is told when it does not come.
    cache.handle_order(5, &revoke(7, id, false, None)).unwrap();
    assert_eq!(cache.poll_chore(), None);
    let next = cache.handle_read(0, 0, [7, 40], [7, 0]).unwrap();
    assert!(
        matches!(
            next,
            Next::Ask(Message::Fetch {
                from_home: true,
                ..
            })
        ),
        "{next:?}"
    );
    assert_eq!(cache.poll_chore(), complied(7, false, false));
    assert_eq!(cache.counters().redirects_stale, 1);
    cache.handle_answer(0, 0, &redirect).unwrap();
    cache
        .bytes()
        .write(frame, super::super::page::Stamp::fresh(7));
    let next = cache.handle_read(0, 0, [7, 40], [7, 40]);
    assert_eq!(next, Ok(Next::Nothing));
    assert_eq!(cache.poll_event(0), Some(Event::Done(0, Source::Remote)));
}

#[test]
fn a_page_that_is_not_what_it_should_be_is_an_error() {
    let mut cache = cache(8);
    let (_, _, frame) = asked(cache.access(7, READER).unwrap());
    cache
        .bytes()
        .write(frame, super::super::page::Stamp::fresh(8));
    let result = cache.handle_answer(0, 0, &granted(false));
    assert_eq!(result, Err(CacheError::Damaged(7)));
}

#[test]
fn frames_are_freed_before_they_run_out() {
    let mut cache = cache(4);
    bring(&mut cache, 1, READER);
    let written = bring(&mut cache, 2, WRITER);
    bring(&mut cache, 3, READER);
    assert_eq!(cache.evict(), 0, "one frame is free");
    bring(&mut cache, 4, READER);
    let full = cache.access(5, READER);
    assert_eq!(full, Ok(Attempt::NoFrame));
    // All were used: the hand goes round once before it takes the first, which is clean.
    assert_eq!(cache.evict(), 5);
    let dropped = cache.poll_chore();
    let is_first = |chore: &Chore| match chore {
        Chore::Tell {
            frame: None,
            message: Message::Drop(pages),
        } => pages[0].0 == 1,
        _ => false,
    };
    assert!(dropped.as_ref().is_some_and(is_first), "{dropped:?}");
    bring(&mut cache, 5, READER);
    // The next one was changed: it stays until the owner has it.
    cache.evict();
    let told = cache.poll_chore();
    let message = Message::WriteBack {
        page: 2,
        id: written,
        frame: 1,
    };
    let frame = Some(1);
    assert_eq!(told, Some(Chore::Tell { frame, message }));
    assert_eq!(cache.access(2, READER), Ok(Attempt::Waits));
    assert_eq!(cache.written_back(1, false), Err(CacheError::Unasked));
    cache.written_back(1, true).unwrap();
    assert_eq!(cache.poll_event(0), Some(Event::Retry(0)));
    assert!(cache.has_room());
}

#[test]
fn a_revocation_overtakes_a_write_back() {
    let mut cache = cache(4);
    let id = bring(&mut cache, 1, WRITER);
    (2..5).for_each(|page| {
        bring(&mut cache, page, WRITER);
    });
    cache.evict();
    assert!(matches!(
        cache.poll_chore(),
        Some(Chore::Tell { frame: Some(0), .. })
    ));
    cache
        .handle_order(5, &revoke(1, id, false, Some(ELSEWHERE)))
        .unwrap();
    assert!(matches!(
        cache.poll_chore(),
        Some(Chore::Push { frame: 0, .. })
    ));
    cache.pushed(0, 5);
    assert_eq!(cache.poll_chore(), complied(1, true, true));
    assert!(!cache.has_room(), "the owner has still to answer");
    cache.written_back(0, false).unwrap();
    assert!(cache.has_room());
    assert_eq!(cache.counters().write_backs, 0);
}
