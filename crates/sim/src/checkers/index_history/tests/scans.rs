//! Scans.

use super::*;

/// Keys 1 to 5 with the values 1 to 5; the result of a scan of 1 to 5, and its violations.
fn scan(order: ScanOrder, entries: &[(u64, u32)], whole: bool) -> Result<IndexCounts, String> {
    let mut story = Story::default();
    for key in 1..=5 {
        story.history.load(key, value(key as u32));
    }
    let now = story.now();
    let id = story.history.begin_scan(now, 3, 1..=5, order);
    let entries = entries.iter().map(|&(key, stamp)| (key, value(stamp)));
    let entries = entries.collect();
    let now = story.now();
    story.history.end_scan(now, id, Scanned { entries, whole });
    let judged = story.history.finish();
    judged.map_err(|violations| {
        let reported: Vec<_> = violations.iter().map(ToString::to_string).collect();
        reported.join("\n")
    })
}

const ALL: [(u64, u32); 5] = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)];

fn backwards() -> Vec<(u64, u32)> {
    ALL.iter().rev().copied().collect()
}

#[test]
fn a_whole_scan_both_ways() {
    let counts = scan(ScanOrder::Ascending, &ALL, true).unwrap();
    assert_eq!((counts.scans, counts.scanned), (1, 5));
    scan(ScanOrder::Descending, &backwards(), true).unwrap();
}

#[test]
fn a_scan_that_stops_says_nothing_of_the_rest() {
    scan(ScanOrder::Ascending, &ALL[..3], false).unwrap();
    scan(ScanOrder::Ascending, &[], false).unwrap();
    scan(ScanOrder::Descending, &backwards()[..2], false).unwrap();
    let wrong = scan(ScanOrder::Descending, &[(5, 5), (3, 3)], false).unwrap_err();
    assert!(wrong.starts_with("key 0x4: left out by a scan"), "{wrong}");
}

#[test]
fn a_key_left_out() {
    let wrong = scan(ScanOrder::Ascending, &ALL[..4], true).unwrap_err();
    assert!(wrong.starts_with("key 0x5: left out by a scan"), "{wrong}");
    let wrong = scan(ScanOrder::Ascending, &ALL[1..], true).unwrap_err();
    assert!(wrong.starts_with("key 0x1: left out by a scan"), "{wrong}");
    let wrong = scan(ScanOrder::Descending, &[], true).unwrap_err();
    assert_eq!(wrong.lines().count(), 5, "{wrong}");
}

#[test]
fn a_key_twice_or_out_of_order() {
    let twice = [(1, 1), (2, 2), (2, 2), (3, 3), (4, 4), (5, 5)];
    let wrong = scan(ScanOrder::Ascending, &twice, true).unwrap_err();
    assert!(wrong.contains("returned key 0x2 after 0x2"), "{wrong}");
    let mixed = [(1, 1), (3, 3), (2, 2), (4, 4), (5, 5)];
    let wrong = scan(ScanOrder::Ascending, &mixed, true).unwrap_err();
    assert!(wrong.contains("returned key 0x2 after 0x3"), "{wrong}");
    let wrong = scan(ScanOrder::Descending, &ALL, true).unwrap_err();
    assert!(wrong.contains("returned key 0x2 after 0x1"), "{wrong}");
}

#[test]
fn a_key_outside() {
    let more = [ALL.as_slice(), &[(6, 6)]].concat();
    let wrong = scan(ScanOrder::Ascending, &more, true).unwrap_err();
    assert!(
        wrong.contains("returned key 0x6, which is outside"),
        "{wrong}"
    );
}

#[test]
fn a_value_of_another_key_or_time() {
    let mut wrong = ALL;
    wrong[2].1 = 4;
    let wrong = scan(ScanOrder::Ascending, &wrong, true).unwrap_err();
    assert!(
        wrong.starts_with("key 0x3: a scan") && wrong.contains("nobody ever wrote"),
        "{wrong}"
    );

    let mut story = Story::default();
    story.done(Operation::Put(value(1)), Outcome::Done(true));
    story.done(Operation::Put(value(2)), Outcome::Done(false));
    let now = story.now();
    let id = story
        .history
        .begin_scan(now, 3, 0..=9, ScanOrder::Ascending);
    let entries = vec![(KEY, value(1))];
    let whole = true;
    story.history.end_scan(now, id, Scanned { entries, whole });
    assert!(
        matches!(story.wrong(), IndexViolation::ScannedWrong { stamp, .. } if stamp == value(1))
    );
}

/// A key that comes, goes or changes while a scan runs.
#[test]
fn what_changes_meanwhile_may_be_seen_either_way() {
    for removed in [false, true] {
        for seen in [None, Some(1), Some(2)] {
            let mut story = Story::default();
            story.done(Operation::Put(value(1)), Outcome::Done(true));
            let now = story.now();
            let id = story
                .history
                .begin_scan(now, 3, 0..=9, ScanOrder::Ascending);
            if removed {
                story.done(Operation::Remove, Outcome::Done(true));
            }
            story.done(Operation::Put(value(2)), Outcome::Done(removed));
            let now = story.now();
            let entries = seen.map(|seen| (KEY, value(seen)));
            let entries = entries.into_iter().collect();
            let whole = true;
            story.history.end_scan(now, id, Scanned { entries, whole });
            let right = seen.is_some() || removed;
            let judged = story.history.finish();
            assert_eq!(judged.is_ok(), right, "{removed} {seen:?}: {judged:?}");
        }
    }
}

#[test]
fn a_scan_sees_what_an_earlier_read_saw() {
    let mut story = Story::default();
    story.done(Operation::Put(value(1)), Outcome::Done(true));
    let update = story.begin(1, Operation::Update(value(2)));
    story.found(Some(2));
    let now = story.now();
    let id = story
        .history
        .begin_scan(now, 3, 0..=9, ScanOrder::Descending);
    let entries = vec![(KEY, value(1))];
    let whole = true;
    story.history.end_scan(now, id, Scanned { entries, whole });
    story.end(update, Outcome::Done(true));
    assert!(matches!(story.wrong(), IndexViolation::ScannedWrong { .. }));
}

#[test]
fn a_scan_without_a_result_says_nothing() {
    let mut story = Story::default();
    story.done(Operation::Put(value(1)), Outcome::Done(true));
    let now = story.now();
    let id = story
        .history
        .begin_scan(now, 3, 0..=9, ScanOrder::Descending);
    let error = check_value(&[1; 9], KEY, 3).expect_err("no value");
    assert_eq!(story.history.scans[id.0].ended, None);
    assert_eq!(story.history.violation_count(), 0);
    story.history.torn_in_scan(id, KEY, error);
    assert!(matches!(story.wrong(), IndexViolation::Torn { .. }));
}
