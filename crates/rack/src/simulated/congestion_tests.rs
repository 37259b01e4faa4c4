//! Incast: two producers with links of 100 Gbit/s, one consumer with 25 (zero-sided RDMA, section
//! 6.2, "Congestion control"). With rate control the queue in front of the slow link neither
//! overflows nor runs empty; without it packets are lost and requested again, and still all arrive.

use super::*;
use crate::config::NodeConfig;
use crate::config::Role;
use core::cell::RefCell;
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_sim::world::{Context, Step};
use std::rc::Rc;

const ITEM_SIZE: usize = 4096;

/// The consumer: a DPU, whose link is slower than the hosts'.
const SLOW: NodeId = NodeId(2);

/// Payload bytes per second of the slow link at an MTU of 4096: 82 bytes of headers, preamble,
/// check sequences and gap for each packet.
const SLOW_BYTES_PER_SECOND: f64 = 25e9 / 8.0 * 4096.0 / (4096.0 + 82.0);

struct ItemSource(Producer, u64);

impl Actor for ItemSource {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        while self.1 > 0 {
            let most = u32::try_from(self.1).unwrap_or(u32::MAX);
            let mut slots = match self.0.reserve(most) {
                Ok(slots) => slots,
                Err(PushError::Full) => return Step::WaitForPacket,
                Err(_) => return Step::Done,
            };
            let count = slots.len() / ITEM_SIZE;
            for mut slot in slots.chunks_exact(ITEM_SIZE) {
                slot.write(0, &self.1.to_le_bytes());
                self.1 -= 1;
            }
            self.0.commit(count as u32);
        }
        self.0.finish();
        Step::Done
    }
}

/// Expects a given number of items, counting down; records when each arrived.
struct Sink(Consumer, u64, Rc<RefCell<Vec<Instant>>>);

impl Actor for Sink {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        loop {
            match self.0.peek(1) {
                Taken::Items(item) => {
                    assert_eq!(item.u64_le(0), self.1);
                    self.1 -= 1;
                    self.2.borrow_mut().push(context.now());
                    self.0.release(1);
                }
                Taken::Empty => return Step::WaitForPacket,
                Taken::Ended => {
                    assert_eq!(self.1, 0, "items are missing");
                    return Step::Done;
                }
                // A consumer that waits for all items will miss some.
                Taken::Aborted => return Step::Done,
            }
        }
    }
}

/// The results of an incast.
#[derive(Debug)]
struct Outcome {
    /// Items that arrived.
    delivered: u64,
    /// Packets lost in front of the slow link, and packets marked there.
    drops: u64,
    marks: u64,
    /// Maximum bytes queued there.
    queue_bytes_max: u64,
    /// Notifications that the slow node sent, and those that cut a producer's rate.
    notified: u64,
    cuts: u64,
    /// Payload bytes carried by the slow link, divided by those of the items.
    carried: f64,
    /// Goodput divided by the payload rate of the slow link, from the first to the last item of the
    /// flow that ends first.
    used: f64,
    /// Items of each flow until then.
    items: [usize; 2],
}

fn incast(congestion_control: bool, items: u64, batch_bytes: u32, seed: u64) -> Outcome {
    let mut config = RackConfig {
        seed,
        node: vec![
            NodeConfig::new("storage0", Role::Storage),
            NodeConfig::new("storage1", Role::Storage),
            NodeConfig::new("dpu0", Role::Dpu),
        ],
        ..RackConfig::default()
    };
    config.nic.congestion_control = congestion_control;
    let mut rack = SimulatedRack::new(&config).unwrap();
    let mut seen = Vec::new();
    for producer in [NodeId(0), NodeId(1)] {
        let mut spec = rack
            .flow(&[producer], &[SLOW])
            .item_bytes(ITEM_SIZE as u32)
            .ring_bytes(16 * batch_bytes)
            .spec()
            .unwrap();
        spec.batch_bytes = batch_bytes;
        let flow = rack.create_flow(spec).unwrap();
        let times = Rc::new(RefCell::new(Vec::new()));
        let source = ItemSource(flow.take_producer(0).unwrap(), items);
        rack.spawn(producer, Box::new(source));
        let sink = Sink(flow.take_consumer(0).unwrap(), items, times.clone());
        rack.spawn(SLOW, Box::new(sink));
        seen.push((times, flow));
    }
    let end = rack.run(Instant::from_nanos(2_000_000_000));
    assert_eq!(end, RunEnd::Done, "seed {seed}: the run comes to its end");
    let link = rack.link_report(SLOW).unwrap().from_switch.link;
    let counter = |node, name: &str| {
        let nic = rack.nic_mut(node).unwrap();
        let counters = nic.counters();
        let mut found = counters.iter().filter(|(known, _)| *known == name);
        found.next().expect("there is such a counter").1
    };
    let cuts = [NodeId(0), NodeId(1)].map(|node| counter(node, "rp_cnp_handled"));
    let cuts = cuts.into_iter().sum();
    let notified = counter(SLOW, "np_cnp_sent");
    let seen: Vec<Vec<Instant>> = seen
        .iter()
        .map(|(times, _)| times.borrow().clone())
        .collect();
    let delivered = seen.iter().map(Vec::len).sum::<usize>() as u64;
    let last = seen.iter().map(|times| times.last().copied());
    let both_run = last.map(|at| at.unwrap_or(Instant::ZERO)).min().unwrap();
    let items_of = |at: usize| seen[at].iter().filter(|&&time| time <= both_run).count();
    let items_until = [items_of(0), items_of(1)];
    let bytes = (items_until[0] + items_until[1]) * ITEM_SIZE;
    let goodput = bytes as f64 / both_run.since(Instant::ZERO).as_secs_f64();
    Outcome {
        delivered,
        drops: link.drops,
        marks: link.marks,
        queue_bytes_max: link.queue_bytes_max,
        notified,
        cuts,
        carried: link.payload_bytes as f64 / (2 * items * ITEM_SIZE as u64) as f64,
        used: goodput / SLOW_BYTES_PER_SECOND,
        items: items_until,
    }
}

/// Items of each producer.
const ITEMS: u64 = 8192;

#[test]
fn rate_control_keeps_the_queue_from_overflowing_and_the_slow_link_busy() {
    for seed in 1..4 {
        let free = incast(false, ITEMS, 256 << 10, seed);
        let controlled = incast(true, ITEMS, 256 << 10, seed);
        let both = format!("seed {seed}: without {free:?}, with {controlled:?}");
        // Eight transfers of 256 KiB are twice the queue's capacity: packets are lost and requested
        // again, and all arrive.
        assert_eq!(free.delivered, 2 * ITEMS, "{both}");
        assert!(free.drops > ITEMS && free.carried > 1.2, "{both}");
        assert_eq!((free.notified, free.cuts), (0, 0), "{both}");
        assert!(
            free.marks > 0,
            "switches mark whether or not anybody listens: {both}"
        );

        assert_eq!(controlled.delivered, 2 * ITEMS, "{both}");
        assert!(controlled.notified > 0 && controlled.cuts > 0, "{both}");
        assert!(controlled.cuts <= controlled.notified, "{both}");
        assert!(controlled.drops * 20 < free.drops, "{both}");
        assert!(controlled.carried < 1.05, "{both}");
        assert!(
            controlled.used > 0.8 && controlled.used > free.used,
            "{both}"
        );
        let [first, second] = controlled.items.map(|items| items as f64);
        assert!(
            (0.85..1.18).contains(&(first / second)),
            "fair shares: {both}"
        );
    }
}

#[test]
fn large_batches_arrive_where_rates_are_controlled() {
    let outcome = incast(true, ITEMS, 1 << 20, 1);
    assert_eq!(outcome.delivered, 2 * ITEMS, "{outcome:?}");
    assert!(outcome.cuts > 0 && outcome.carried < 1.1, "{outcome:?}");
    assert!(outcome.used > 0.6, "{outcome:?}");
}

#[test]
fn batches_that_the_queue_holds_need_no_control() {
    for congestion_control in [false, true] {
        let outcome = incast(congestion_control, ITEMS, 64 << 10, 1);
        assert_eq!(outcome.delivered, 2 * ITEMS, "{outcome:?}");
        assert_eq!(outcome.drops, 0, "{outcome:?}");
        assert!(outcome.queue_bytes_max <= 9 * (64 << 10), "{outcome:?}");
        assert!(outcome.used > 0.95, "{outcome:?}");
        // Marks below the queue's limit slow one down before the other; without control both take
        // turns.
        let [first, second] = outcome.items.map(|items| items as f64);
        let least = if congestion_control { 0.7 } else { 0.99 };
        assert!(
            (least..1.0 / least).contains(&(first / second)),
            "fair shares: {outcome:?}"
        );
    }
}
