//! The flows program without nodes: that it fits in a switch, and how it handles words of nodes.
//! Whole flows, with software NICs at both ends, are tested in `controller/tests`.

use super::*;
use crate::{Digest, Pipeline, PipelineConfig};
use rackweave_base::{Duration, Instant, MacAddr, Memory, PortId, Rkey};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_wire::Rewrite;
use rackweave_wire::fabric::ring::{ByteOrder, MAGIC, NodeState, NodeWord};
use std::net::Ipv4Addr;

fn config(lanes: u16, threads: u16, producers: u16) -> PipelineConfig {
    PipelineConfig {
        ip: Ipv4Addr::new(10, 0, 0, 9),
        engine: EngineConfig {
            lanes,
            timeout: Duration::from_micros(100),
            retries: 3,
            acknowledge_every: 32,
            check: false,
            rewrite: Rewrite::Update,
            mac: MacAddr([9; 6]),
        },
        flows: FlowConfig { threads, producers },
        pages: crate::pages::PagesConfig::NONE,
        sequencer: crate::sequencer::SequencerConfig::NONE,
        index: crate::index::IndexConfig::NONE,
        hosts: 256,
        routes: 256,
    }
}

fn load(config: &PipelineConfig, budget: Budget) -> Result<Switch<Pipeline>, String> {
    let pipeline = Pipeline::new(config, Memory::new(1 << 20));
    Switch::load(pipeline, budget, SwitchConfig::default()).map_err(|error| error.to_string())
}

#[test]
fn fifteen_hundred_flows_fit_the_first_tofino() {
    // Zero-sided RDMA, section 4, states that more than 1500 fit. Each has a producer and a
    // consumer ring of two word lanes and one data lane.
    let switch = load(&config(9000, 1500, 1500), Budget::Tofino1).unwrap();
    assert_eq!(switch.ledger().stages().len(), 12);
}

#[test]
fn more_than_fits_is_refused_with_what_is_missing() {
    let refusal = load(&config(60_000, 1500, 1500), Budget::Tofino1)
        .err()
        .unwrap();
    assert!(refusal.contains("SRAM blocks; tofino1 has 80"), "{refusal}");
    assert!(
        load(
            &config(60_000, 1500, 1500),
            Budget::Software { bytes: 1 << 30 }
        )
        .is_ok()
    );
}

fn thread_entry() -> ThreadEntry {
    ThreadEntry {
        pause_at: None,
        lanes_first: LaneId(6),
        lanes: 2,
        items: 0,
        rkey: Rkey(1),
        slots: 8,
        first_consumer: ConsumerId(0),
        consumers: 1,
        members: 1,
        item_size: 64,
        batch_items: 4,
        first_producer: ProducerId(0),
        producers: 1,
        next: ThreadId(0),
        threads: 1,
        group: ThreadId(0),
        retain: false,
        weight: None,
        poll_interval: Duration::from_micros(5),
        poll_interval_max: Duration::from_micros(100),
    }
}

/// A switch with one thread over one producer. Its lanes are not connected, so nothing is sent.
fn one_flow() -> Switch<Pipeline> {
    let mut switch = load(&config(16, 4, 4), Budget::Tofino1).unwrap();
    let ring = |first: u16| RingPlace {
        items: 0,
        rkey: Rkey(1),
        slots: 8,
        order: ByteOrder::Little,
        poll: LaneId(first),
        publish: LaneId(first + 1),
        bell: None,
        lanes_first: LaneId(first + 2),
        lanes: 2,
    };
    let flows = &mut switch.program_mut().flows;
    let producer = ProducerEntry {
        leaves: false,
        ring: ring(0),
        group: ThreadId(0),
        thread: ThreadId(0),
        next: ProducerId(0),
        place: 1,
    };
    let counters = Counters::default();
    flows
        .set_producer(ProducerId(0), producer, counters)
        .unwrap();
    let consumer = ConsumerEntry {
        ring: ring(4),
        thread: ThreadId(0),
        bit: 0,
        next: ConsumerId(0),
    };
    flows.set_consumer(ConsumerId(0), consumer, 0).unwrap();
    flows
        .set_thread(ThreadId(0), thread_entry(), Some(0))
        .unwrap();
    switch
}

/// The node behind a poll lane answers with `word`.
fn answer(switch: &mut Switch<Pipeline>, lane: LaneId, word: u64) -> Option<FlowDigest> {
    let event = EngineEvent::Word {
        lane,
        bytes: word.to_le_bytes(),
    };
    switch.inject(Instant::ZERO, event.into());
    switch.poll_digest().map(|digest| match digest {
        Digest::Flow(digest) => digest,
        Digest::Page(_) | Digest::Sequencer(_) => panic!("{digest:?}"),
    })
}

#[test]
fn a_word_that_makes_no_sense_is_reported() {
    let (producer, consumer) = (LaneId(0), LaneId(4));
    let bad = |whose| {
        let (thread, ring) = (ThreadId(0), Rkey(1));
        Some(FlowDigest::BadRingWord {
            thread,
            whose,
            ring,
        })
    };
    let bad_producer = bad(Whose::Producer(ProducerId(0)));
    let bad_consumer = bad(Whose::Consumer(ConsumerId(0)));
    let word = |counter, state| u64::from(NodeWord { counter, state });
    assert_eq!(
        answer(&mut one_flow(), producer, 0),
        bad_producer,
        "no magic"
    );
    assert_eq!(
        answer(&mut one_flow(), producer, u64::from(MAGIC) << 16 | 9),
        bad_producer,
        "no state"
    );
    assert_eq!(
        answer(&mut one_flow(), producer, word(9, NodeState::Open)),
        bad_producer,
        "eight slots"
    );
    assert_eq!(
        answer(&mut one_flow(), consumer, word(1, NodeState::Open)),
        bad_consumer,
        "none was given"
    );
    assert_eq!(
        answer(&mut one_flow(), producer, word(8, NodeState::Open)),
        None
    );
    assert_eq!(
        answer(&mut one_flow(), consumer, word(0, NodeState::Open)),
        None
    );
}

#[test]
fn a_consumer_that_leaves_is_reported() {
    let left = NodeWord {
        counter: 0,
        state: NodeState::Finished,
    };
    let digest = answer(&mut one_flow(), LaneId(4), left.into());
    let left = FlowDigest::ConsumerLeft {
        thread: ThreadId(0),
        consumer: ConsumerId(0),
        ring: Rkey(1),
    };
    assert_eq!(digest, Some(left));
}

#[test]
fn a_failed_lane_ends_its_thread_once() {
    let mut switch = one_flow();
    let reason = FailReason::Unreachable;
    for lane in [LaneId(2), LaneId(5)] {
        let failed = EngineEvent::Failed {
            lane,
            cookie: 0,
            blame: lane,
            reason,
        };
        switch.inject(Instant::ZERO, failed.into());
    }
    let failed = FlowDigest::ThreadFailed {
        thread: ThreadId(0),
        whose: Whose::Producer(ProducerId(0)),
        ring: Rkey(1),
        reason,
    };
    assert_eq!(switch.poll_digest(), Some(failed.into()));
    assert_eq!(switch.poll_digest(), None);
}

#[test]
fn events_of_a_removed_thread_come_to_nothing() {
    let mut switch = one_flow();
    let flows = &mut switch.program_mut().flows;
    flows.remove_thread(ThreadId(0));
    flows.remove_consumer(ConsumerId(0));
    flows.remove_producer(ProducerId(0));
    let reason = FailReason::Unreachable;
    for lane in 0..8 {
        switch.inject(
            Instant::ZERO,
            EngineEvent::Failed {
                lane: LaneId(lane),
                cookie: 0,
                blame: LaneId(lane),
                reason,
            }
            .into(),
        );
    }
    for task in [
        FlowTask::Wake(ThreadId(0)),
        FlowTask::TryEnd(ThreadId(0)),
        FlowTask::CommitEnd {
            thread: ThreadId(0),
            slots: 1,
        },
        FlowTask::Poll(LaneId(0)),
    ] {
        switch.inject(Instant::ZERO, task.into());
    }
    assert_eq!(switch.poll_digest(), None);
    assert!(switch.poll_transmit(PortId(0)).is_none());
}

#[test]
fn quiet_rings_are_polled_less_and_less_often() {
    let thread = thread_entry();
    let micros = |polls| thread.interval_after(polls).as_nanos() / 1000;
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 99].map(micros),
        [5, 10, 20, 40, 80, 100, 100]
    );
}
