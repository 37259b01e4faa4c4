//! Produces and consumes items of one flow after another.

use super::super::journal::{Event, FlowEvent, FlowKind, System};
use super::super::shared::{FLOW_FILE, FlowInUse, ITEM_BYTES, flow_name, peers, published};
use super::{AGAIN_AFTER, Phase, Program};
use rackweave_controller::FlowError;
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_rack::Flow;
use rackweave_sim::checkers::stamp;
use std::time::Duration;

/// Items of a ring, and how many are pushed and taken at a time.
const ITEMS: u64 = 1_000;
const BATCH: u32 = 8;

/// Pause between two batches.
const PAUSE: Duration = Duration::from_millis(1);

pub fn run(program: &Program) {
    let mut last = None;
    while program.phase() != Phase::Ends {
        std::thread::sleep(AGAIN_AFTER);
        let Ok(flow) = published::<FlowInUse>(&program.folder, FLOW_FILE) else {
            continue;
        };
        if last == Some(flow.number) {
            continue;
        }
        let found = program.rack.shared_flow(&flow_name(flow.number));
        let ends = found.and_then(|found| Ends::take(program, flow, &found));
        match ends {
            Ok(mut ends) => while ends.advance() && program.phase() != Phase::Ends {},
            Err(error) => {
                // It may have been aborted by now, or the controller does not answer.
                program.failed(System::Flows, &error);
                continue;
            }
        }
        last = Some(flow.number);
        if flow.is_last {
            program.done();
        }
    }
}

/// The program's ends of a flow.
struct Ends<'a> {
    program: &'a Program,
    flow: u32,
    rings: Vec<Ring>,
    /// `None` once its stream has ended.
    consumer: Option<Consumer>,
    /// Whether the end of all rings has been announced.
    has_finished: bool,
    /// Whether an end was aborted.
    is_aborted: bool,
}

/// A ring of the program's producer.
struct Ring {
    producer: Producer,
    destination: u16,
    /// Items of the batch that is being pushed, and the number of the first.
    pending: Vec<u8>,
    pushed: u64,
}

impl<'a> Ends<'a> {
    fn take(program: &'a Program, flow: FlowInUse, found: &Flow) -> Result<Self, FlowError> {
        let own = usize::from(program.number);
        let producers = match flow.kind {
            FlowKind::Shuffle => found.take_producers(own)?,
            FlowKind::Balanced | FlowKind::Replicated => vec![found.take_producer(own)?],
        };
        let rings = producers.into_iter().zip(peers());
        let rings = rings.map(|(producer, destination)| Ring {
            producer,
            destination,
            pending: Vec::new(),
            pushed: 0,
        });
        Ok(Self {
            program,
            flow: flow.number,
            rings: rings.collect(),
            consumer: Some(found.take_consumer(own)?),
            has_finished: false,
            is_aborted: false,
        })
    }

    /// Pushes and takes a batch. False once nothing is left to do.
    fn advance(&mut self) -> bool {
        for at in 0..self.rings.len() {
            self.push(at);
        }
        let pushed = |ring: &Ring| ring.pushed == ITEMS && ring.pending.is_empty();
        if !self.has_finished && self.rings.iter().all(pushed) {
            self.has_finished = true;
            self.note(FlowEvent::Finishes(self.program.number));
            self.rings
                .iter_mut()
                .for_each(|ring| ring.producer.finish());
        }
        self.consume();
        std::thread::sleep(PAUSE);
        let delivered = |ring: &mut Ring| ring.producer.is_delivered();
        let is_over =
            self.consumer.is_none() && self.has_finished && self.rings.iter_mut().all(delivered);
        let aborted = |ring: &mut Ring| ring.producer.is_aborted();
        if self.rings.iter_mut().any(aborted) {
            self.aborted();
        }
        !is_over && !self.is_aborted
    }

    fn push(&mut self, at: usize) {
        let (program, flow) = (self.program, self.flow);
        let ring = &mut self.rings[at];
        let item = ITEM_BYTES as usize;
        if ring.pending.is_empty() && ring.pushed < ITEMS {
            let count = u64::from(BATCH).min(ITEMS - ring.pushed);
            for sequence in ring.pushed..ring.pushed + count {
                let mut bytes = vec![0; item];
                let seed = program.seed ^ u64::from(flow);
                stamp::fill(&mut bytes, program.number, ring.destination, sequence, seed);
                ring.pending.extend(bytes);
            }
            let (own, to) = (program.number, ring.destination);
            let pushes = FlowEvent::Pushes(own, to, (ring.pushed, count));
            program.note(Event::Flow(flow, pushes));
            ring.pushed += count;
        }
        if ring.pending.is_empty() {
            return;
        }
        match ring.producer.push_batch(&ring.pending) {
            Ok(count) => drop(ring.pending.drain(..count as usize * item)),
            Err(PushError::Full) => {}
            Err(_) => self.aborted(),
        }
    }

    fn consume(&mut self) {
        let Some(consumer) = &mut self.consumer else {
            return;
        };
        let (program, flow, own) = (self.program, self.flow, self.program.number);
        let mut took = Vec::new();
        let taken = consumer.take_each(BATCH * 2, |item| {
            match stamp::check(item, program.seed ^ u64::from(flow)) {
                Ok(stamp) => took.push((stamp.producer, stamp.destination, stamp.sequence)),
                Err(error) => program.wrong(format!("flow {flow}, consumer {own}: {error}")),
            }
        });
        match taken {
            Taken::Items(_) => self.note(FlowEvent::Took(own, took)),
            Taken::Empty => {}
            Taken::Ended => {
                self.note(FlowEvent::Ended(own));
                self.consumer = None;
            }
            Taken::Aborted => self.aborted(),
        }
    }

    fn aborted(&mut self) {
        if !core::mem::replace(&mut self.is_aborted, true) {
            self.note(FlowEvent::Aborted);
        }
    }

    fn note(&self, event: FlowEvent) {
        self.program.note(Event::Flow(self.flow, event));
    }
}
