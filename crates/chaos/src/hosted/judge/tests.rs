//! What the judge takes for a violation, and what for the consequence of a fault.

use super::super::journal::{
    Ending, IndexEvent, MessageEvent, PageEvent, Point, SequencerEvent, Version,
};
use super::super::plan::HostedPlan;
use super::*;

/// The violations in a history of events: milliseconds, the process, the event.
fn violations(events: &[(u64, Life, Event)]) -> Vec<String> {
    let mut entries: Vec<Entry> = events
        .iter()
        .map(|(at, life, event)| Entry {
            at: Instant::from_nanos((1000 + at) * 1_000_000),
            life: *life,
            event: event.clone(),
        })
        .collect();
    entries.sort_by_key(|entry| entry.at);
    let mut report = SeedReport::new(&HostedPlan::new(1, None, true));
    Journals(entries).judge(1, &mut report);
    report.violations
}

/// The events, and this fault at that time.
fn with(events: &[(u64, Life, Event)], at: u64, fault: FaultEvent) -> Vec<String> {
    let fault = (at, CAMPAIGN, Event::Fault(fault));
    violations(&[events, &[fault]].concat())
}

#[track_caller]
fn expect(found: &[String], words: &str) {
    assert!(
        found.len() == 1 && found[0].contains(words),
        "{words}: {found:?}"
    );
}

#[track_caller]
fn expect_none(found: &[String]) {
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn before_the_first_fault_nothing_fails() {
    for system in [System::Pages, System::Index, System::Sequencer] {
        let failed = [(5, 1, Event::Failed(system, "refused".into()))];
        expect(&violations(&failed), "failed before the first fault");
        expect_none(&with(&failed, 4, FaultEvent::SwitchStops));
        expect(
            &with(&failed, 6, FaultEvent::SwitchStops),
            "before the first",
        );
    }
    expect(
        &violations(&[(0, 2, Event::Wrong("bytes differ".into()))]),
        "process 2: bytes differ",
    );
}

#[test]
fn nobody_is_declared_dead_without_a_fault() {
    let declared = [(5, CAMPAIGN, Event::Fault(FaultEvent::NodeDeclared(3)))];
    expect(&violations(&declared), "node3 was declared dead");
    expect(&with(&declared, 1, FaultEvent::Node(2)), "node3");
    expect(&with(&declared, 9, FaultEvent::Node(3)), "node3");
    expect_none(&with(&declared, 1, FaultEvent::Node(3)));
    let declared = [(5, CAMPAIGN, Event::Fault(FaultEvent::Declared(9)))];
    expect(&violations(&declared), "declared dead 1 times");
    expect(&with(&declared, 1, FaultEvent::Pause(1)), "declared dead 1");
    // The switch may notice a death before it is recorded.
    expect_none(&with(&declared, 6, FaultEvent::Death(1)));
}

#[test]
fn calls_end_unless_their_process_dies() {
    let limit = CALL_LIMIT.as_nanos() / 1_000_000;
    let begins = |at| (at, 1, Event::Index(7, IndexEvent::Asked(1, Point::Get)));
    let ends = |at| (at, 1, Event::Index(7, IndexEvent::Unknown));
    expect_none(&violations(&[begins(0), ends(limit)]));
    expect(
        &violations(&[begins(0), ends(limit + 1)]),
        "Index: call 7 of process 1",
    );
    expect_none(&with(&[begins(0)], limit, FaultEvent::Death(1)));
    expect(
        &with(&[begins(0)], limit + 1, FaultEvent::Death(1)),
        "did not end",
    );
}

#[test]
fn a_connection_breaks_only_if_an_end_or_the_switch_was_hit() {
    let ends = |at, how| {
        let ends = [(true, true), (true, false), (false, true), (false, false)];
        ends.map(|(dials, sends)| {
            let life = if dials { 1 } else { 2 };
            let event = MessageEvent::Ended(sends, how);
            (at, life, Event::Message(4, dials, event))
        })
    };
    let opened = |dials| Event::Message(4, dials, MessageEvent::Opened);
    let life = [(0, 1, opened(true)), (1, 2, opened(false))];
    let broken = [&life[..], &ends(100, Ending::Broken)].concat();
    let refused = |found: Vec<String>| {
        assert!(!found.is_empty(), "the connection broke by itself");
        assert!(found.iter().all(|text| text.starts_with("Messages: ")));
    };
    refused(violations(&broken));
    // Another program, a pause that is too short to break anything, and what came too late.
    refused(with(&broken, 50, FaultEvent::Death(3)));
    refused(with(&broken, 50, FaultEvent::Pause(1)));
    refused(with(&broken, 101, FaultEvent::Death(2)));
    for cause in [
        FaultEvent::Death(2),
        FaultEvent::SwitchStops,
        FaultEvent::SwitchDies,
    ] {
        expect_none(&with(&broken, 50, cause));
    }
}

/// A page of program 1 that it has changed to version 2, and that the directory has.
fn changed_page() -> Vec<(u64, Life, Event)> {
    let pages = |at, call, event| (at, 1, Event::Pages(call, event));
    vec![
        pages(0, 0, PageEvent::Created(9)),
        pages(1, 1, PageEvent::Asked(9)),
        pages(2, 1, PageEvent::Exclusive(Version(1, None))),
        pages(3, 2, PageEvent::Released(9, Some(2))),
        pages(4, 2, PageEvent::Committed(9)),
    ]
}

#[test]
fn pages_are_lost_only_with_a_node_or_while_a_directory_is_rebuilt() {
    let lost = |at| {
        (
            at,
            CAMPAIGN,
            Event::Pages(0, PageEvent::LostPages(vec![(9, 2)])),
        )
    };
    let fault = |at, fault| (at, CAMPAIGN, Event::Fault(fault));
    let judge = |more: &[_]| violations(&[&changed_page()[..], more].concat());
    expect_none(&judge(&[]));
    expect(&judge(&[lost(50)]), "Pages: ");
    expect_none(&judge(&[fault(10, FaultEvent::Death(1)), lost(50)]));
    // A storage node alone takes no page with it, nor does a switch.
    expect(
        &judge(&[fault(10, FaultEvent::Node(0)), lost(50)]),
        "Pages: ",
    );
    expect(
        &judge(&[fault(10, FaultEvent::SwitchDies), lost(50)]),
        "Pages: ",
    );
    // What a node knew that dies while the directory is rebuilt is unknown, until that has ended.
    let restored = fault(100, FaultEvent::Restored);
    let rebuilt = [fault(10, FaultEvent::SwitchDies), restored];
    let settled = 100 + pages::SETTLED_AFTER.as_nanos() / 1_000_000;
    let dies_at = |at| {
        [
            &rebuilt[..],
            &[fault(at, FaultEvent::Node(0)), lost(at + 1)],
        ]
        .concat()
    };
    expect_none(&judge(&dies_at(settled)));
    expect(&judge(&dies_at(settled + 1)), "Pages: ");
}

#[test]
fn a_dead_program_gets_nothing_to_change() {
    let pages = |at, call, event| (at, 1, Event::Pages(call, event));
    let late = |call| pages(30, call, PageEvent::Exclusive(Version(2, None)));
    let asked = |at| pages(at, 3, PageEvent::Asked(9));
    let judge = |more: &[_]| {
        with(
            &[&changed_page()[..], more].concat(),
            10,
            FaultEvent::Death(1),
        )
    };
    // Got before, recorded late.
    expect_none(&judge(&[asked(5), late(3)]));
    expect(&judge(&[asked(20), late(3)]), "was dead, and got");
    // Its next worker gets it again, but never what the one before had changed in vain.
    let worker = pages(15, 0, PageEvent::Worker(2));
    let gets = |version| {
        let found = Version(version, Some((9, version, 1)));
        [asked(20), pages(30, 3, PageEvent::Exclusive(found))]
    };
    expect(&judge(&gets(2)), "was dead, and got");
    expect_none(&judge(&[&[worker.clone()][..], &gets(2)].concat()));
    let in_vain = [pages(12, 2, PageEvent::Released(9, Some(3))), worker];
    assert!(!judge(&[&in_vain[..], &gets(3)].concat()).is_empty());
}

#[test]
fn no_number_is_handed_out_twice() {
    let event = |at, life, call, event| (at, life, Event::Sequencer(call, event));
    let asked = |at, life| event(at, life, 1, SequencerEvent::Asked(1, 2));
    let got = |at, life, first| event(at, life, 1, SequencerEvent::Got(first, first + 2));
    let made = event(0, CAMPAIGN, 0, SequencerEvent::Made(1, 0));
    let judge = |first| {
        violations(&[
            made.clone(),
            asked(1, 1),
            got(2, 1, 0),
            asked(3, 2),
            got(4, 2, first),
        ])
    };
    expect_none(&judge(2));
    for wrong in [0, 1, 3] {
        assert!(!judge(wrong).is_empty(), "{wrong} is twice, or skips one");
    }
    // A call that asked twice leaves a gap as large as its count, and no larger.
    let repeated = |first| {
        let again = event(2, 1, 1, SequencerEvent::Repeated);
        violations(&[made.clone(), asked(1, 1), again, got(3, 1, first)])
    };
    expect_none(&repeated(2));
    assert!(!repeated(3).is_empty());
}
