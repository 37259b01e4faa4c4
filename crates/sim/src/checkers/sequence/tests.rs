//! Correct and planted histories: the checker must distinguish them.

use super::*;

/// A step of a history of sequencer 1.
#[derive(Clone, Copy)]
enum Do {
    /// Call number, client, count.
    Begin(usize, u32, u64),
    /// Call number, first number.
    End(usize, u64),
    /// Call number, range.
    EndWith(usize, u64, u64),
    /// Position, maximum number of lost numbers.
    WentOn(u64, u64),
}

use Do::{Begin, End, EndWith, WentOn};

fn history(first: u64, steps: &[Do]) -> Result<SequenceSummary, Vec<SequenceViolation>> {
    let mut history = SequenceHistory::new();
    history.create(1, first);
    let mut calls = BTreeMap::new();
    for &step in steps {
        match step {
            Begin(call, client, count) => {
                calls.insert(call, (history.begin(1, client, count), count));
            }
            End(call, start) => {
                let (id, count) = calls[&call];
                history.end(id, start..start + count);
            }
            EndWith(call, start, end) => history.end(calls[&call].0, start..end),
            WentOn(at, lost_max) => history.went_on(1, at, lost_max),
        }
    }
    history.finish()
}

fn sound(first: u64, steps: &[Do]) -> SequenceSummary {
    history(first, steps).unwrap_or_else(|wrong| panic!("{wrong:#?}"))
}

/// The violations of a planted history, by the names of their kinds.
fn planted(first: u64, steps: &[Do]) -> Vec<String> {
    let wrong = history(first, steps).expect_err("the judge must see it");
    wrong
        .iter()
        .map(|wrong| {
            assert!(!wrong.to_string().is_empty());
            let name = format!("{wrong:?}");
            name.split(' ').next().unwrap_or_default().to_owned()
        })
        .collect()
}

#[test]
fn sound_histories_pass() {
    let steps = [
        Begin(0, 7, 3),
        Begin(1, 8, 2),
        // Concurrent calls may have any order.
        End(1, 10),
        End(0, 12),
        Begin(2, 7, 1),
        End(2, 15),
    ];
    let expect = SequenceSummary {
        ranges: 3,
        numbers: 6,
        unreturned: 0,
        missing: 0,
    };
    assert_eq!(sound(10, &steps), expect);
    assert_eq!(sound(0, &[]), SequenceSummary::default());
}

#[test]
fn a_call_without_result_may_have_used_its_numbers() {
    let steps = [
        Begin(0, 7, 4),
        Begin(1, 8, 2),
        End(1, 4),
        Begin(2, 8, 1),
        End(2, 6),
    ];
    assert_eq!(sound(0, &steps).missing, 4);
    let more = [Begin(0, 7, 3), Begin(1, 8, 2), End(1, 4)];
    assert_eq!(planted(0, &more), ["Missing"]);
}

#[test]
fn a_number_handed_out_twice_is_seen() {
    let steps = [
        Begin(0, 7, 3),
        Begin(1, 8, 2),
        Begin(2, 9, 4),
        End(0, 0),
        End(1, 2),
        End(2, 4),
    ];
    assert_eq!(planted(0, &steps), ["Twice"]);
    // A long range overlaps its neighbours.
    let steps = [
        Begin(0, 7, 9),
        Begin(1, 8, 1),
        Begin(2, 9, 1),
        End(0, 0),
        End(1, 3),
        End(2, 8),
    ];
    assert_eq!(planted(0, &steps), ["Twice", "Twice"]);
    let same = [Begin(0, 7, 1), Begin(1, 7, 1), End(0, 5), End(1, 5)];
    assert_eq!(planted(5, &same), ["Twice"]);
}

#[test]
fn real_time_order_is_seen() {
    let steps = [Begin(0, 7, 2), End(0, 3), Begin(1, 8, 3), End(1, 0)];
    assert_eq!(planted(0, &steps), ["Order"]);
    // It holds for one client as for two.
    let steps = [Begin(0, 7, 2), End(0, 1), Begin(1, 7, 1), End(1, 0)];
    assert_eq!(planted(0, &steps), ["Order"]);
    // A call in between that got high numbers and ended late proves nothing.
    let steps = [Begin(0, 7, 2), Begin(1, 8, 3), End(1, 0), End(0, 3)];
    sound(0, &steps);
}

#[test]
fn wrong_shapes_are_seen() {
    let short = [Begin(0, 7, 2), EndWith(0, 0, 1), Begin(1, 7, 1), End(1, 1)];
    assert_eq!(planted(0, &short), ["Length"]);
    let turned = [Begin(0, 7, 2), EndWith(0, 2, 0)];
    assert!(planted(0, &turned).contains(&"Length".to_owned()));
    let below = [Begin(0, 7, 2), End(0, 4)];
    assert!(planted(5, &below).contains(&"BelowFirst".to_owned()));
    let mut history = SequenceHistory::new();
    let call = history.begin(9, 1, 1);
    history.end(call, 0..1);
    let wrong = history.finish().unwrap_err();
    assert!(matches!(
        wrong[0],
        SequenceViolation::NoSequencer { sequencer: 9, .. }
    ));
}

#[test]
fn numbers_missing_without_a_reason_are_seen() {
    let steps = [Begin(0, 7, 1), End(0, 0), Begin(1, 7, 1), End(1, 2)];
    assert_eq!(planted(0, &steps), ["Missing"]);
    let late = [Begin(0, 7, 1), End(0, 1)];
    assert_eq!(
        planted(0, &late),
        ["Missing"],
        "the first number is missing"
    );
}

#[test]
fn stated_gaps_are_allowed_up_to_what_was_stated() {
    let steps = [
        Begin(0, 7, 5),
        End(0, 0),
        WentOn(16, 24),
        Begin(1, 7, 2),
        End(1, 16),
    ];
    assert_eq!(sound(0, &steps).missing, 11);
    let more = [
        Begin(0, 7, 5),
        End(0, 0),
        WentOn(16, 10),
        Begin(1, 7, 2),
        End(1, 16),
    ];
    assert_eq!(planted(0, &more), ["Missing"]);
    let beyond = [
        Begin(0, 7, 5),
        End(0, 0),
        WentOn(16, 11),
        Begin(1, 7, 2),
        End(1, 17),
    ];
    assert_eq!(planted(0, &beyond), ["Missing"]);
    // Twice in a row, with nothing in between.
    let twice = [WentOn(16, 16), WentOn(32, 16), Begin(1, 7, 2), End(1, 32)];
    assert_eq!(sound(0, &twice).missing, 32);
}

#[test]
fn going_back_is_seen() {
    let steps = [Begin(0, 7, 5), End(0, 14), WentOn(16, 16)];
    assert!(planted(14, &steps).contains(&"WentBack".to_owned()));
    let lost = [
        Begin(0, 7, 1),
        End(0, 0),
        WentOn(16, 15),
        Begin(1, 7, 1),
        End(1, 1),
    ];
    assert_eq!(planted(0, &lost), ["Lost"]);
    // An earlier call may end after it, with an earlier number.
    let late = [Begin(0, 7, 1), WentOn(16, 16), End(0, 0)];
    sound(0, &late);
}
