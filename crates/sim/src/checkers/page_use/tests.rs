//! Each violation is found, and correct use is not.

use super::*;

const A: Who = Who { node: 0, worker: 0 };
const B: Who = Who { node: 1, worker: 0 };

fn check(act: impl FnOnce(&mut PageUse), expect: &[UseViolation]) {
    let mut pages = PageUse::new(2..10);
    act(&mut pages);
    let found = pages.finish().err().unwrap_or_default();
    assert_eq!(found, expect);
}

/// A map with these states of pages 2 and up.
fn map(states: [u8; 8]) -> Vec<u8> {
    let mut bytes = vec![0; MAP_HEAD + 2];
    for (at, state) in states.into_iter().enumerate() {
        bytes[MAP_HEAD + at / 4] |= state << (at % 4 * 2);
    }
    bytes
}

#[test]
fn a_page_in_use_is_handed_out_once() {
    let twice = UseViolation::HandedOutTwice {
        page: 4,
        who: B,
        owner: A,
    };
    check(
        |pages| {
            assert!(!pages.handed_out(A, 4));
            pages.free(4);
            assert!(pages.handed_out(A, 4), "not for the first time");
        },
        &[],
    );
    check(
        |pages| {
            pages.handed_out(A, 4);
            pages.handed_out(B, 4);
        },
        &[twice],
    );
    let no_page = UseViolation::NoSuchPage { page: 1, who: B };
    check(|pages| _ = pages.handed_out(B, 1), &[no_page]);
    let back = UseViolation::TakenBack { page: 4, who: B };
    check(|pages| pages.already_free(B, 4), &[back]);
}

#[test]
fn a_map_has_what_is_in_use() {
    let in_use = |pages: &mut PageUse| {
        pages.handed_out(A, 3);
        pages.handed_out(A, 4);
        pages.free(4);
    };
    check(
        |pages| {
            in_use(pages);
            assert_eq!(pages.judge_map(2, &map([0, 1, 2, 3, 0, 0, 0, 0])), 6);
        },
        &[],
    );
    let not_marked = UseViolation::NotMarked {
        page: 3,
        owner: A,
        state: 2,
    };
    check(
        |pages| {
            in_use(pages);
            pages.judge_map(2, &map([0, 2, 2, 0, 0, 0, 0, 0]));
        },
        &[not_marked],
    );
    let leaked = map([0, 1, 1, 0, 0, 1, 0, 0]);
    let pages = UseViolation::Leaked { pages: 2, first: 4 };
    check(
        |use_of| {
            in_use(use_of);
            use_of.judge_map(2, &leaked);
        },
        &[pages],
    );
    check(
        |use_of| {
            in_use(use_of);
            use_of.may_leak();
            use_of.judge_map(2, &leaked);
        },
        &[],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one history, step by step")]
fn a_store_says_whether_it_was_closed() {
    let open = |pages: &mut PageUse, closed, closings| {
        let asked = pages.ask_open(A);
        pages.opened(asked, closed, closings);
    };
    let found_closed = UseViolation::FoundClosed { who: A };
    let found_open = UseViolation::FoundOpen { who: A };
    check(
        |pages| {
            pages.formatted();
            open(pages, false, 0);
            pages.ask_close();
            pages.closed();
            open(pages, true, 1);
            open(pages, false, 1);
            open(pages, true, 1);
        },
        &[found_closed],
    );
    check(
        |pages| {
            pages.formatted();
            pages.ask_close();
            pages.closed();
            open(pages, false, 1);
        },
        &[found_open],
    );
    let closings = UseViolation::Closings {
        who: A,
        found: 0,
        least: 1,
        most: 1,
    };
    check(
        |pages| {
            pages.formatted();
            pages.ask_close();
            pages.closed();
            open(pages, true, 0);
        },
        &[closings],
    );
    // Two openings at once: the second may come before the mark of the first, or after it.
    for found in [false, true] {
        check(
            |pages| {
                pages.formatted();
                pages.ask_close();
                pages.closed();
                let (first, second) = (pages.ask_open(A), pages.ask_open(B));
                pages.opened(first, true, 1);
                pages.opened(second, found, 1);
            },
            &[],
        );
        check(
            |pages| {
                pages.formatted();
                pages.ask_close();
                pages.closed();
                let (first, second) = (pages.ask_open(A), pages.ask_open(B));
                pages.opened(first, found, 1);
                pages.opened(second, true, 1);
            },
            &[],
        );
    }
    // The closing worker died before it got the result.
    for found in [false, true] {
        check(
            |pages| {
                pages.formatted();
                pages.ask_close();
                open(pages, found, u64::from(found));
            },
            &[],
        );
    }
}
