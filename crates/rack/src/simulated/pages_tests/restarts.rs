//! Switches that restart, channels that are reconnected, reports that arrive late.

use super::*;

/// The switch is restarted while homes cannot be read: the node that claims a page is asked.
fn in_doubt(bench: &mut Bench) -> control::Doubt {
    let state = bench.change(0, 5, 1);
    bench.rack.remove_target(NodeId(2));
    bench.rack.restart_switch().unwrap();
    let doubt = bench.doubt(0, 1).unwrap();
    assert_eq!((doubt.page, doubt.state), (page(5), state));
    assert!(doubt.version > state.version() + 1000, "{doubt:?}");
    doubt
}

#[test]
fn a_node_that_is_asked_publishes_its_page_above_all_versions_of_before() {
    let mut bench = Bench::new(PAGES, 0.0);
    let doubt = in_doubt(&mut bench);
    bench.void(1, 0);
    let fetch = fetch(5, Mode::Shared, 0);
    assert_eq!(bench.answers(1, &[fetch]), [Answer::Locked]);
    let own = Op::Own {
        page: page(5),
        frame: 1,
    };
    let replies = bench.run(0, &[own, own]);
    assert_eq!(
        [replies[0].answer, replies[1].answer],
        [Answer::Done, Answer::Superseded]
    );
    let latch = LatchWord::open(doubt.version + 1);
    assert_eq!(replies[0].latch, latch);
    let replies = bench.run(1, &[fetch]);
    assert_eq!(
        (replies[0].answer, replies[0].latch),
        (served(PageSource::Memory, true), latch)
    );
}

#[test]
fn a_node_is_asked_no_more_when_the_switch_restarts_once_more_and_homes_can_be_seen() {
    let mut bench = Bench::new(PAGES, 0.0);
    let doubt = in_doubt(&mut bench);
    // Without the target, the question is repeated.
    bench.rack.restart_switch().unwrap();
    let again = bench.doubt(0, 1).unwrap();
    assert!(again.version > doubt.version);
    let medium = bench.medium.clone();
    add_target(&mut bench.rack, &medium);
    bench.rack.restart_switch().unwrap();
    assert_eq!(bench.doubt(0, 1), None);
    bench.void(1, 0);
    let replies = bench.run(1, &[fetch(5, Mode::Shared, 0)]);
    assert_eq!(
        (replies[0].answer, replies[0].latch.version()),
        (served(PageSource::Memory, true), doubt.state.version())
    );
}

/// A question to a node is in a word of the buffer frame. The question about the frame's previous
/// page is withdrawn, and the new question stays.
#[test]
fn a_node_is_asked_about_the_page_that_has_taken_anothers_buffer_frame() {
    let mut bench = Bench::new(PAGES, 0.0);
    in_doubt(&mut bench);
    // The directory settles page 3 before page 5, and page 9 after it.
    for index in [3, 9] {
        let medium = bench.medium.clone();
        add_target(&mut bench.rack, &medium);
        bench.rack.reconnect_target(NodeId(2)).unwrap();
        let state = bench.change(0, index, 1);
        bench.rack.remove_target(NodeId(2));
        bench.rack.restart_switch().unwrap();
        let doubt = bench.doubt(0, 1).map(|doubt| (doubt.page, doubt.state));
        assert_eq!(doubt, Some((page(index), state)));
    }
}

#[test]
fn a_restart_finds_a_page_where_its_node_has_not_heard_that_it_was_published() {
    let mut bench = Bench::new(PAGES, 0.0);
    let version = bench.change(0, 5, 1).version();
    let under_way = FrameState::changed(version - 1);
    bench.set_word(0, LAYOUT.state_at(1), under_way.0);
    // Another node has fetched it from there, with its latch.
    bench.void(1, 0);
    bench.run(1, &[fetch(5, Mode::Exclusive, 0)]);
    let latched = FrameState::latched(version, false);
    bench.set_word(1, LAYOUT.state_at(0), latched.0);
    bench.rack.restart_switch().unwrap();
    bench.void(1, 0);
    let release = Op::Release { page: page(5) };
    let replies = bench.run(1, &[release, fetch(5, Mode::Shared, 0)]);
    assert_eq!(replies[0].answer, Answer::Done);
    assert_eq!(
        (replies[1].answer, replies[1].latch),
        (served(PageSource::Memory, true), LatchWord::open(version))
    );
}

/// Whenever the channel is reconnected: nothing of the first attempt ends the second one, whose
/// data would otherwise arrive when the node has the page already.
#[test]
fn a_fetch_that_is_repeated_brings_nothing_after_its_end() {
    let mut renewed = 0;
    for delay in (0..8000).step_by(50) {
        let mut bench = Bench::new(PAGES, 0.0);
        bench.change(0, 5, 1);
        bench.void(1, 0);
        let replies = bench.begin(1, &[fetch(5, Mode::Exclusive, 0)]);
        bench
            .rack
            .run(bench.rack.now() + Duration::from_nanos(delay));
        let channel = bench.rack.page_ends(NodeId(1)).unwrap().channels[0].clone();
        let plea = control::generation(0, 1).to_le_bytes();
        let at = control::plea_at(channel.slots) as usize;
        channel.control.write(at, &plea);
        if !replies.lock().unwrap().is_empty() {
            break;
        }
        let pleads = bench
            .rack
            .control(|controller, site| controller.page_pleas(site));
        assert!(pleads);
        bench.rack.get_mut().wake_all();
        renewed += 1;
        let end = bench.rack.now() + Duration::from_millis(100);
        assert_eq!(bench.rack.run(end), RunEnd::Done, "after {delay} ns");
        let answer = replies.lock().unwrap()[0].answer;
        assert_eq!(answer, served(PageSource::Memory, true), "after {delay} ns");
        bench.fill(1, 0, page(5), 0x77);
        bench.rack.run(bench.rack.now() + Duration::from_millis(1));
        assert_eq!(bench.byte(1, 0), 0x77, "after {delay} ns");
    }
    assert!(renewed > 50, "{renewed}");
}

/// The node that had the page has dropped it, so the switch reads the home. If the channel is
/// reconnected when the switch has just found that out, the result counts for the old request, and
/// for no other.
#[test]
fn a_fetch_that_is_repeated_reads_the_home_once() {
    let mut refused = 0;
    for delay in (0..12_000).step_by(20) {
        let mut bench = Bench::new(PAGES, 0.0);
        assert_eq!(
            bench.answers(0, &[fetch(5, Mode::Shared, 1)]),
            [served(PageSource::Storage, true)]
        );
        bench.void(0, 1);
        bench.void(1, 0);
        let replies = bench.begin(1, &[fetch(5, Mode::Shared, 0)]);
        bench
            .rack
            .run(bench.rack.now() + Duration::from_nanos(delay));
        if !replies.lock().unwrap().is_empty() {
            break;
        }
        let channel = bench.rack.page_ends(NodeId(1)).unwrap().channels[0].clone();
        let plea = control::generation(0, 1).to_le_bytes();
        channel
            .control
            .write(control::plea_at(channel.slots) as usize, &plea);
        bench
            .rack
            .control(|controller, site| controller.page_pleas(site));
        // The node retries at once, and the source reports again that it does not have the page.
        bench.rack.get_mut().wake_all();
        let end = bench.rack.now() + Duration::from_millis(100);
        assert_eq!(bench.rack.run(end), RunEnd::Done, "after {delay} ns");
        let answer = replies.lock().unwrap()[0].answer;
        assert_eq!(
            answer,
            served(PageSource::Storage, true),
            "after {delay} ns"
        );
        refused += 1;
    }
    assert!(refused > 50, "{refused}");
}

/// Its lane was relinked since, and carries a page that another slot waits for.
#[test]
fn a_late_report_of_a_movement_that_failed_harms_no_other() {
    let mut bench = Bench::new(PAGES, 0.0);
    bench.change(0, 5, 1);
    bench.void(1, 0);
    let replies = bench.begin(1, &[fetch(5, Mode::Exclusive, 0)]);
    let source = loop {
        let next = bench.rack.now() + Duration::from_nanos(50);
        bench.rack.run(next);
        assert!(replies.lock().unwrap().is_empty(), "it did not go that way");
        let moving = bench.rack.control(|_, site| {
            let mut moving = None;
            site.switch(&mut |_, switch| {
                let program = switch.program();
                let lanes = (0..512).map(LaneId);
                let sources = |lane: &LaneId| {
                    matches!(program.pages.role(*lane), Some(PageRole::Source { .. }))
                };
                let is_moving = |lane: &LaneId| program.engine.cargo(*lane).is_some();
                moving = lanes.filter(sources).find(is_moving);
            });
            moving
        });
        if let Some(source) = moving {
            break source;
        }
    };
    let late = PageDigest::MoveFailed {
        slot: 0,
        source,
        command: Psn::new(1),
    };
    bench
        .rack
        .control(|controller, site| controller.handle_digest(site, late.into()));
    let end = bench.rack.now() + Duration::from_millis(100);
    assert_eq!(bench.rack.run(end), RunEnd::Done);
    let answer = replies.lock().unwrap()[0].answer;
    assert_eq!(answer, served(PageSource::Memory, true));
}

/// The home may have been newer than the version that a node claims: that version must not be taken
/// for the newest, nor a late write to the home.
#[test]
fn a_restart_believes_no_node_whose_page_has_a_damaged_home() {
    for zeroed in [false, true] {
        let mut bench = Bench::new(PAGES, 0.0);
        bench.change(0, 5, 1);
        let first = u64::from(5 * PAGE / BLOCK);
        for seed in 0..20 {
            bench.medium.tear_block(first, &mut Rng::new(seed));
        }
        if zeroed {
            // The next block shows that the page was written.
            bench.medium.tear_block(first + 1, &mut Rng::new(1));
            bench.medium.zero_block(first);
        }
        bench.rack.restart_switch().unwrap();
        bench.void(1, 0);
        let answers = bench.answers(1, &[fetch(5, Mode::Shared, 0)]);
        assert_eq!(answers, [Answer::Lost], "{zeroed}");
        assert!(
            bench
                .rack
                .lost_pages()
                .unwrap()
                .iter()
                .any(|lost| lost.page == page(5))
        );
        assert!(bench.rack.accept_loss(page(5)));
        let answers = bench.answers(1, &[fetch(5, Mode::Shared, 0)]);
        assert_eq!(answers, [served(PageSource::Storage, true)], "{zeroed}");
    }
}

/// The versions that it had are unknown: the one at home may be older, though the node had written
/// it.
#[test]
fn what_a_silent_node_may_have_had_stays_lost_when_the_switch_restarts_again() {
    let mut bench = Bench::new(PAGES, 0.0);
    bench.change(0, 5, 1);
    let evict = Op::Evict {
        page: page(5),
        frame: 1,
        keep: true,
    };
    assert_eq!(bench.answers(0, &[evict]), [Answer::Done]);
    bench.change(0, 5, 2);
    bench.rack.crash_node_silently(NodeId(0));
    for _ in 0..2 {
        bench.rack.restart_switch().unwrap();
        bench.void(1, 0);
        let answers = bench.answers(1, &[fetch(5, Mode::Shared, 0)]);
        assert_eq!(answers, [Answer::Lost]);
    }
    assert!(bench.rack.accept_loss(page(5)));
    let answers = bench.answers(1, &[fetch(5, Mode::Shared, 0)]);
    assert_eq!(answers, [served(PageSource::Storage, true)]);
}

/// A node had the latch when the newest version was lost with another node, and gave the page back
/// changed; that version was written home.
#[test]
fn a_loss_that_was_undone_does_not_come_back_with_a_restart() {
    let mut bench = Bench::new(PAGES, 0.0);
    bench.change(0, 5, 1);
    bench.void(1, 0);
    let fetched = bench.run(1, &[fetch(5, Mode::Exclusive, 0)]);
    bench.rack.crash_node(NodeId(0));
    assert_eq!(bench.rack.lost_pages().unwrap().len(), 1);
    let version = fetched[0].latch.version() + 1;
    bench.set_word(1, 8, version);
    let page = page(5);
    let write = Op::Evict {
        page,
        frame: 0,
        keep: false,
    };
    let unfix = Op::Unfix { page, frame: 0 };
    assert_eq!(bench.answers(1, &[unfix]), [Answer::Done]);
    assert_eq!(bench.rack.lost_pages().unwrap(), []);
    assert_eq!(bench.answers(1, &[write]), [Answer::Done]);
    bench.rack.remove_target(NodeId(2));
    assert_eq!(bench.rack.lost_pages().unwrap(), []);
    bench.rack.restart_switch().unwrap();
    let medium = bench.medium.clone();
    add_target(&mut bench.rack, &medium);
    bench.rack.reconnect_target(NodeId(2)).unwrap();
    bench.void(1, 0);
    let answers = bench.answers(1, &[fetch(5, Mode::Shared, 0)]);
    assert_eq!(answers, [served(PageSource::Storage, true)]);
}
