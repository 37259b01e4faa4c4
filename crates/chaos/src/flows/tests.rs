//! A short campaign, and seeds of long ones that found a defect.

use crate::short::{more_than, repeats, sound};
use crate::{Options, System};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let reports = sound(System::Flows, Options::default(), 0..100);
    more_than(
        &reports,
        [
            ("items popped", 1000, |seed| seed.popped),
            ("packets disturbed", 1000, |seed| seed.packets_disturbed),
            ("restarts", 5, |seed| seed.restarts),
            ("crashes", 5, |seed| seed.crashes),
            ("changes", 50, |seed| seed.changes),
        ],
    );
}

#[test]
fn a_seed_repeats_its_run() {
    repeats(System::Flows, [3, 17, 99]);
}

/// Runs a seed that failed once. The name of the test tells what it checks.
#[track_caller]
fn replay(seed: u64) {
    sound(System::Flows, Options::default(), seed..seed + 1);
}

/// The last consumer crashes while the cable of a producer is cut for a short time. All actors are
/// done then, and the harness used to forget the cable: the producer was given up for a valid
/// reason.
#[test]
fn cables_are_mended_while_the_controller_finds_out_who_is_dead() {
    replay(7_007_917);
    replay(7_010_612);
    replay(41_014_096);
}

/// A cable of a source is restored just before the switch would give it up, and its first answers
/// are lost on the way to the targets. The engine counted the silence of the source against them.
#[test]
fn a_source_that_comes_back_late_does_not_cost_its_targets_their_time() {
    replay(7_004_946);
    replay(7_019_958);
    replay(41_015_157);
}

/// Many targets and many small packets: NAKs of a few losses used up all retries within
/// microseconds, although all targets answered.
#[test]
fn targets_that_say_what_they_miss_are_not_given_up() {
    replay(41_001_887);
    replay(41_022_878);
}

/// A consumer of a balanced flow leaves, or is cut off, and the others have seen the end by the
/// time the switch detects it: the flow is aborted, as `docs/flows.md` says of the last consumer.
/// The harness had judged by the consumers that waited when the disturbance began.
#[test]
fn a_flow_may_be_broken_off_when_only_a_lost_consumer_waits() {
    replay(41_013_071);
    replay(41_025_117);
    replay(41_037_529);
    replay(41_037_813);
}

/// A consumer joins a balanced flow while a task visits the threads in a circle to report published
/// items. The task ended one thread short, the next items of that producer were never published,
/// and the flow made no progress until a crash ended the run.
#[test]
fn a_consumer_that_joins_does_not_make_the_switch_forget_a_thread() {
    replay(7_013_127);
}

/// Three consumers of a balanced flow crash at once, one of them while its thread assembles a
/// batch. The controller took the tail of the previous batch, which was another producer's, for
/// that of the new one, and reported sixteen items to a producer as lost that had never existed.
#[test]
fn a_batch_that_is_put_together_when_its_consumer_dies_is_not_lost() {
    replay(45_013_912);
}

/// A balanced flow that redelivers is set up again. Its thread kept the list of consumers that it
/// had notified before the set-up: the next batch counted as consumed before its consumer was
/// notified, and was delivered twice.
#[test]
fn who_was_told_before_a_flow_was_set_up_again_is_forgotten() {
    replay(41_006_679);
}

/// The last consumer that has not seen the end leaves a replicated flow, and the items of all live
/// producers are delivered. A producer that had crashed before had left items, and the flow was
/// aborted.
#[test]
fn what_a_dead_producer_left_does_not_break_a_flow_off() {
    replay(46_001_350);
}

/// A reserved bit of a fragment flipped before the switch, which overwrote the header, and after
/// the switch the bit of the new header with the same weight in the ICRC: the damage was
/// undetectable. Links no longer damage a packet twice.
#[test]
fn damage_is_such_that_it_can_be_found() {
    replay(31_010_280);
}

/// The end of a flow was in its rings before the switch's report of it arrived. By then another
/// flow had the number of its thread, and the controller took the report for that flow's: it left
/// the thread out of the circle when the next consumer joined, and the flow made no progress.
#[test]
fn a_report_of_a_flow_that_had_the_number_before_is_ignored() {
    replay(45_019_105);
}

/// A consumer that was removed had announced that it leaves. When the controller read that, its
/// number belonged to another consumer on another node, whose flow was aborted.
#[test]
fn what_is_said_of_a_member_that_has_gone_is_not_about_the_next_one_with_its_number() {
    replay(96_019_737);
}

/// A replica is removed before it is connected, and its node has crashed unnoticed. It was reported
/// as a loss of the flow.
#[test]
fn a_replica_that_is_removed_before_it_is_connected_is_no_loss() {
    replay(150_006_284);
}

/// A consumer that is being removed is cut off while it is shown an item. No other consumer may get
/// the item, but the flow did not count it as lost.
#[test]
fn items_lost_with_a_consumer_that_is_being_removed_are_counted() {
    replay(150_018_919);
}

/// A replica that was about to join had died when the next one was added: that call returned the
/// error, and nobody took what the new one was given.
#[test]
fn a_replica_that_cannot_join_is_no_error_of_the_next_one() {
    replay(195_019_458);
}

/// A consumer of a flow that redelivers is removed, takes an item, and is cut off before it
/// acknowledges the head: the switch knows by its tail that it has the item. Another consumer got
/// the item again, although one that is removed keeps what it was shown.
#[test]
fn what_a_consumer_is_known_to_have_taken_goes_to_no_other() {
    replay(199_006_863);
}

/// A consumer was removed while the streams of all others were ending, which their rings did not
/// show yet: nobody took the items of producers that had joined.
#[test]
fn a_consumer_is_not_removed_if_the_streams_of_all_others_are_ending() {
    replay(207_319_753);
}

/// A consumer of a flow that is to be aborted had taken an item, and left while it was removed.
/// Its node died before it acknowledged the head, and another consumer got the item again.
#[test]
fn what_a_consumer_that_is_being_removed_has_taken_goes_to_no_other() {
    replay(207_310_465);
}

/// The same, but the switch does not know whether it has taken the items: the flow is aborted, so
/// that none is missing or taken twice.
#[test]
fn items_that_may_be_lost_with_a_consumer_that_is_being_removed_abort_the_flow() {
    replay(207_309_923);
}
