//! The two-sided baseline: contents, orders, and the effect of losses.

use super::*;

fn plan(producers: u32, consumers: u32, ordered: bool, fanout: Fanout) -> TwoSidedPlan {
    TwoSidedPlan {
        producers,
        fanout,
        messages: 300,
        ..TwoSidedPlan::new(consumers, ordered, Scale::Quick)
    }
}

fn run(run: &mut Run<'_>, plan: &TwoSidedPlan) -> Result<Outcome> {
    super::run(run, plan, FaultSection::default())
}

#[test]
fn everybody_gets_everything_whatever_the_way() {
    for fanout in [Fanout::Each, Fanout::Chain] {
        for ordered in [false, true] {
            for (producers, consumers) in [(1, 1), (1, 4), (2, 3)] {
                let plan = plan(producers, consumers, ordered, fanout);
                let outcome = run(&mut Run::quick(11), &plan);
                let outcome = outcome.unwrap_or_else(|error| panic!("{plan:?}: {error}"));
                assert_eq!(outcome.consumers.len(), consumers as usize);
                assert!(outcome.consumers.iter().all(|&rate| rate > 0.0), "{plan:?}");
            }
        }
    }
}

#[test]
fn only_a_sequencer_makes_two_producers_orders_the_same() {
    // Without losses the two producers and their consumers are too alike for orders to differ.
    let faults = FaultSection {
        loss: 0.005,
        ..FaultSection::default()
    };
    let order = |ordered| {
        let plan = plan(2, 3, ordered, Fanout::Each);
        let outcome = super::run(&mut Run::quick(5), &plan, faults);
        outcome.unwrap().same_order
    };
    assert!(order(true));
    assert!(
        !order(false),
        "if orders agree by themselves, the test above shows nothing"
    );
}

#[test]
fn what_the_links_carry_bounds_what_arrives() {
    // 8 KiB are two packets; 100 Gbit/s less their headers.
    let link = 12.5e9;
    let rate = |consumers, fanout| {
        let plan = plan(1, consumers, false, fanout);
        let outcome = run(&mut Run::quick(1), &plan).unwrap();
        outcome.consumers.into_iter().fold(f64::MAX, f64::min)
    };
    let (alone, four) = (rate(1, Fanout::Each), rate(4, Fanout::Each));
    assert!(alone < link && four < link / 4.0, "{alone} {four}");
    assert!(
        four > 0.8 * link / 4.0,
        "the producer's link is full: {four}"
    );
    assert!(
        rate(4, Fanout::Chain) > 1.5 * four,
        "a chain spares that link"
    );
}

#[test]
fn the_cpus_work_is_charged() {
    let plan = plan(1, 2, true, Fanout::Each);
    let outcome = run(&mut Run::quick(1), &plan).unwrap();
    let cpu = rackweave_sim::CpuModel::default();
    // Two SENDs and a fetch-and-add per message, and their completions.
    let least = (cpu.post_cost + cpu.poll_cost) * (3 * plan.messages);
    assert!(outcome.producer_cpus[0].communication >= least);
    for consumer in &outcome.consumer_cpus {
        assert!(consumer.communication >= (cpu.post_cost + cpu.poll_cost) * plan.messages);
    }
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    let good = plan(1, 1, false, Fanout::Each);
    for (bad, says) in [
        (
            TwoSidedPlan {
                consumers: 0,
                ..good
            },
            "consumers is 0",
        ),
        (
            TwoSidedPlan {
                producers: 17,
                ..good
            },
            "producers is 17",
        ),
        (
            TwoSidedPlan {
                message_bytes: 20,
                ..good
            },
            "message is 20",
        ),
        (
            TwoSidedPlan {
                message_bytes: 25,
                ..good
            },
            "message is 25",
        ),
    ] {
        let error = run(&mut Run::quick(1), &bad).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
