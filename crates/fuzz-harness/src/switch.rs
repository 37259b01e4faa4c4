//! A switch that runs a flow between four nodes, with faults, replays, and packets of wrong senders
//! and of forgers.
//!
//! As long as no packet is forged, every item arrives once and in order. A forger is a node that
//! sends arbitrary packets on its own connections. It may spoil the flow, but neither stop the
//! switch nor touch memory outside of the rings.

use crate::fixture;
use crate::input::Input;
use crate::packets::{self, RequestTarget};
use crate::rack::{self, FAULTS_HARMLESS, NODES, Rack, SWITCH, To, host};
use rackweave_base::{Duration, NodeId, PortId};
use rackweave_controller::{Controller, FlowId, FlowShape, FlowSpec, FlowState, Ring};
use rackweave_endpoint::flow::{Consumer, Producer, RingLayout, Taken};
use rackweave_switch::{Budget, Counters};
use rackweave_verbs::{Mtu, Region};
use rackweave_wire::fabric::ring::ByteOrder;
use rackweave_wire::{Headers, Rewrite, ethernet};

/// Maximum steps until a flow without further faults must have ended.
const STEPS_MAX: usize = 20_000;

struct Fuzzed {
    rack: Rack,
    controller: Controller,
    flow: FlowId,
    /// By consumer, then producer: the end, and items pushed and popped.
    producers: Vec<Vec<(Producer, u64, u64)>>,
    consumers: Vec<(Consumer, bool)>,
    /// Registered, but in no ring.
    guards: Vec<Region>,
    places: Vec<RequestTarget>,
    faults: u32,
    forged: bool,
}

/// Reads `data` as a sequence of steps: items pushed and popped, faults, packets that do not belong
/// to the flow.
///
/// # Panics
/// If the switch is wrong, or a NIC or the controller.
pub fn switch(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(mut fuzzed) = Fuzzed::new(&mut input) else {
        return;
    };
    while fuzzed.act(&mut input).is_some() {
        fuzzed.controller.handle_digests(&mut fuzzed.rack);
    }
    fuzzed.finish();
    fuzzed.check_guards();
}

fn layout(ring: &Ring) -> RingLayout {
    RingLayout {
        item_size: ring.item_size,
        slots: ring.slots,
        order: ring.order,
    }
}

fn spec(setup: u8, more: u8) -> FlowSpec {
    let shapes: [(&[u16], &[u16]); 4] = [
        (&[0], &[1]),
        (&[0, 1], &[2]),
        (&[0], &[0]),
        (&[0, 1], &[2, 3]),
    ];
    let (producers, consumers) = shapes[usize::from(setup & 3)];
    let nodes = |ids: &[u16]| ids.iter().map(|&id| NodeId(id)).collect();
    // With one consumer every shape gives the same guarantees.
    let shape = match (consumers.len(), more >> 1 & 3) {
        (1, 1) => FlowShape::Balance,
        (1, 2) => FlowShape::Replicate,
        _ => FlowShape::Shuffle,
    };
    FlowSpec {
        shape,
        producers: nodes(producers),
        consumers: nodes(consumers),
        item_size: [8, 600][usize::from(setup >> 2 & 1)],
        producer_slots: 8,
        consumer_slots: [2, 8][usize::from(setup >> 3 & 1)],
        batch_bytes: 2400,
        transfers: [1, 2, 4][usize::from(setup >> 4) % 3],
        mtu: [Mtu::B256, Mtu::B1024][usize::from(setup >> 6 & 1)],
        poll_interval_max: Duration::from_micros(40),
        ..FlowSpec::new(&[], &[], 8, 0)
    }
}

impl Fuzzed {
    fn new(input: &mut Input<'_>) -> Option<Self> {
        let (setup, more) = (input.byte()?, input.byte()?);
        let rewrite = [Rewrite::Update, Rewrite::Balance][usize::from(setup >> 7)];
        let (mut rack, controller) = Rack::new(rack::pipeline_config(rewrite), Budget::Tofino1);
        if more & 1 != 0 {
            controller.set_byte_order(NodeId(1), ByteOrder::Big);
        }
        let guards = (0..NODES).map(|node| rack.guard(node)).collect();
        let created = controller.create_flow(&mut rack, spec(setup, more));
        let (flow, rings) = created.expect("the specification is sound and there is space");
        let block = |ring: &Ring| {
            let block = rack.regions.block(ring.node, ring.region.rkey);
            block.expect("just made")
        };
        let producer = |ring| {
            let end = Producer::new(&block(ring), layout(ring)).expect("a ring");
            (end, 0, 0)
        };
        let consumer = |ring| {
            let end = Consumer::new(&block(ring), layout(ring)).expect("a ring");
            (end, false)
        };
        let places = rings.all().map(|ring| RequestTarget {
            address: ring.region.address,
            rkey: ring.region.rkey,
        });
        Some(Self {
            flow,
            producers: rings
                .producers
                .iter()
                .map(|rings| rings.iter().map(producer).collect())
                .collect(),
            consumers: rings.consumers.iter().map(consumer).collect(),
            places: places.collect(),
            rack,
            controller,
            guards,
            faults: 0,
            forged: false,
        })
    }

    fn act(&mut self, input: &mut Input<'_>) -> Option<()> {
        let control = input.byte()?;
        let value = control >> 4;
        match control & 15 {
            0 | 1 => self.push(usize::from(value & 3), 1 + u64::from(value >> 2)),
            2 | 3 => self.pop(usize::from(value & 1), usize::from(value >> 1)),
            4..=6 => (0..=value).for_each(|_| self.rack.step()),
            7 | 8 => {
                self.faults += 1;
                self.rack.disturb(value, input)?;
            }
            9 => self.rack.replay(input.byte()?),
            10 | 11 => self.strange(usize::from(value), input)?,
            12 => self.forge_mutated(input)?,
            13 => self.forge_built(usize::from(value), input)?,
            14 => {
                let len = usize::from(input.half()?);
                let packet = packets::raw(input.bytes(len));
                self.forged = true;
                self.rack
                    .arrive(To::Switch(usize::from(value) % NODES), packet);
            }
            _ => match input.byte()? {
                0xd0..=0xd7 => {
                    self.rack.restart_switch();
                    let result = self.controller.switch_restarted(&mut self.rack);
                    result.expect("there was space before");
                }
                0xe0..=0xe3 => self.controller.close_flow(&mut self.rack, self.flow),
                at => self.finish_producer(usize::from(at)),
            },
        }
        Some(())
    }

    fn push(&mut self, which: usize, items: u64) {
        let ways = self.producers.len() * self.producers[0].len();
        let (which, senders) = (which % ways, self.producers[0].len());
        let (end, pushed, _) = &mut self.producers[which / senders][which % senders];
        for _ in 0..items {
            let item = item(which % senders, *pushed, end.item_size() as usize);
            if end.push(&item).is_err() {
                return;
            }
            *pushed += 1;
        }
    }

    fn finish_producer(&mut self, which: usize) {
        let senders = self.producers[0].len();
        for ends in &mut self.producers {
            ends[which % senders].0.finish();
        }
    }

    fn pop(&mut self, which: usize, items: usize) {
        let which = which % self.consumers.len();
        let (end, ended) = &mut self.consumers[which];
        let size = end.item_size() as usize;
        for _ in 0..items {
            match end.peek(1) {
                Taken::Items(bytes) if !self.forged => {
                    let bytes = bytes.to_vec();
                    let sender = usize::from(bytes[0]) % self.producers[which].len();
                    let (_, pushed, popped) = &mut self.producers[which][sender];
                    assert!(popped < pushed, "an item that was not pushed");
                    assert_eq!(bytes, item(sender, *popped, size), "producer {sender}");
                    *popped += 1;
                    end.release(1);
                }
                Taken::Items(_) => end.release(1),
                Taken::Empty => return,
                Taken::Ended | Taken::Aborted => {
                    *ended = true;
                    return;
                }
            }
        }
    }

    /// A node sends a packet in the name of another one to the switch. It changes nothing.
    fn strange(&mut self, port: usize, input: &mut Input<'_>) -> Option<()> {
        let Some((node, packet)) = self.rack.mutated(input) else {
            return Some(());
        };
        let port = port % NODES;
        let for_switch = ethernet::target(packet.header()) == Some(SWITCH.mac);
        if port == node || !for_switch {
            return Some(());
        }
        if Headers::of(&packet).is_ok_and(|headers| headers.ipv4.source == host(port).ip) {
            // The change made it a packet of the sender's own connection.
            return Some(());
        }
        let before = self.rack.switch.counters().clone();
        self.rack.arrive(To::Switch(port), packet);
        let after = self.rack.switch.counters();
        let drops = |counters: &Counters| -> u64 {
            let drops = fixture::drops(counters).into_iter();
            drops.map(|(_, count)| count).sum()
        };
        let expected = drops(&before) + 1;
        assert_eq!(drops(after), expected, "a stranger's packet is dropped");
        assert_eq!(after.packets_out, before.packets_out);
        assert_eq!(after.recirculations, before.recirculations);
        Some(())
    }

    /// A node sends a forged packet on a connection of its own.
    fn forge_mutated(&mut self, input: &mut Input<'_>) -> Option<()> {
        if let Some((node, packet)) = self.rack.mutated(input) {
            self.forged = true;
            self.rack.arrive(To::Switch(node), packet);
        }
        Some(())
    }

    fn forge_built(&mut self, node: usize, input: &mut Input<'_>) -> Option<()> {
        let node = node % NODES;
        let packet = self.rack.forged(node, &self.places, input)?;
        self.forged = true;
        self.rack.arrive(To::Switch(node), packet);
        Some(())
    }

    /// Without further faults the flow ends, with every item delivered.
    fn finish(&mut self) {
        self.rack.fates.clear();
        (0..self.producers[0].len()).for_each(|at| self.finish_producer(at));
        let steps = STEPS_MAX / if self.forged { 20 } else { 1 };
        for _ in 0..steps {
            (0..self.consumers.len()).for_each(|at| self.pop(at, 8));
            self.rack.step();
            self.controller.handle_digests(&mut self.rack);
            // The consumers may know of the end before the controller does.
            let running = self.controller.flow_state(self.flow) == Some(FlowState::Running);
            if !running && self.consumers.iter().all(|(_, ended)| *ended) {
                break;
            }
        }
        if self.forged {
            return;
        }
        let state = self.controller.flow_state(self.flow);
        match state {
            Some(FlowState::Ended) => {}
            Some(FlowState::Aborted(reason)) => {
                let closed = reason == rackweave_controller::flows::AbortReason::Closed;
                let excused = closed || self.faults > FAULTS_HARMLESS;
                assert!(excused, "broken off: {reason}");
                return;
            }
            _ => panic!("the flow stalls: {:?}", self.rack.switch.counters()),
        }
        for (_, pushed, popped) in self.producers.iter().flatten() {
            assert_eq!(pushed, popped, "items are missing at the end");
        }
    }

    fn check_guards(&self) {
        let untouched = self.guards.iter().all(rack::is_untouched);
        assert!(untouched, "memory outside every ring has changed");
        for port in 0..NODES {
            assert!(self.rack.switch.egress_len(PortId(port as u16)) <= 256);
        }
    }
}

/// Item number `number` of producer `sender`. All bytes but the first depend on the number.
fn item(sender: usize, number: u64, size: usize) -> Vec<u8> {
    let mut bytes: Vec<_> = (0..size)
        .map(|at| (number.wrapping_mul(31) as usize + at) as u8)
        .collect();
    bytes[0] = sender as u8;
    bytes[1..5].copy_from_slice(&(number as u32).to_le_bytes());
    bytes
}
