//! The ends of a flow: programs that load and store in their own memory, in guests and in this
//! process.

use super::rack::RackSite;
use crate::failure::{Failure, FailureContext, Outcome, expect, expect_eq};
use crate::guest::Guest;
use crate::guest_node::GuestNode;
use crate::pattern::item;
use rackweave_base::NodeId;
use rackweave_controller::Ring;
use rackweave_endpoint::flow::{Consumer, Producer, PushError, RingLayout, Taken};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for which an end works.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an end sleeps when it can do nothing.
const REST: Duration = Duration::from_micros(100);

/// One end of a flow, ready to run on its own thread.
pub enum End {
    /// A producer in this process, with a ring per consumer.
    OurProducer(u32, Vec<Producer>),
    /// A consumer in this process, and how many producers send to it.
    OurConsumer(Consumer, usize),
    /// An end in a guest: a connection of its own, and the request.
    Guest(GuestNode, String),
}

/// Makes ends, for flows that send `count` items from every producer to every consumer.
pub struct Ends<'a> {
    /// The guests, by node.
    pub guests: &'a [Guest; 2],
    /// The rack.
    pub site: &'a mut RackSite,
    /// Items for each ring of a producer.
    pub count: u64,
}

impl Ends<'_> {
    /// The producer with the number `producer` and these rings.
    pub fn producer(&mut self, producer: u32, rings: &[Ring]) -> Outcome<End> {
        let ring = &rings[0];
        let count = self.count;
        if let Some(node) = self.guest_node(ring.node)? {
            let numbers: Outcome<Vec<String>> = rings.iter().map(|r| self.number(r)).collect();
            let (size, slots, regions) = (ring.item_size, ring.slots, numbers?.join(" "));
            let seconds = PATIENCE.as_secs();
            let request = format!("produce {size} {slots} {count} {producer} {seconds} {regions}");
            return Ok(End::Guest(node, request));
        }
        let make = |ring: &Ring| {
            let block = self.site.regions().block(ring.node, ring.region.rkey);
            let block = block.ok_or_else(|| no_region(ring))?;
            let made = Producer::new(&block, layout(ring));
            made.map_err(|error| Failure::refused("a producer's ring", error))
        };
        let rings: Outcome<Vec<Producer>> = rings.iter().map(make).collect();
        Ok(End::OurProducer(producer, rings?))
    }

    /// The consumer of `ring`, to which this many producers send.
    pub fn consumer(&mut self, ring: &Ring, producers: usize) -> Outcome<End> {
        let count = self.count;
        if let Some(node) = self.guest_node(ring.node)? {
            let (size, slots, region) = (ring.item_size, ring.slots, self.number(ring)?);
            let seconds = PATIENCE.as_secs();
            let request = format!("consume {size} {slots} {count} {producers} {seconds} {region}");
            return Ok(End::Guest(node, request));
        }
        let block = self.site.regions().block(ring.node, ring.region.rkey);
        let block = block.ok_or_else(|| no_region(ring))?;
        let made = Consumer::new(&block, layout(ring));
        let consumer = made.map_err(|error| Failure::refused("a consumer's ring", error))?;
        Ok(End::OurConsumer(consumer, producers))
    }

    fn guest_node(&self, node: NodeId) -> Outcome<Option<GuestNode>> {
        let guest = self.guests.get(usize::from(node.0));
        guest.map(Guest::node).transpose()
    }

    fn number(&mut self, ring: &Ring) -> Outcome<String> {
        let proxy = self.site.guest(ring.node);
        let number = proxy.and_then(|proxy| proxy.region(ring.region.rkey));
        let number = number.ok_or_else(|| no_region(ring))?;
        Ok(number.to_string())
    }
}

fn no_region(ring: &Ring) -> Failure {
    Failure::Wrong(format!("{:?} has no such region", ring.node))
}

fn layout(ring: &Ring) -> RingLayout {
    RingLayout {
        item_size: ring.item_size,
        slots: ring.slots,
        order: ring.order,
    }
}

impl End {
    /// Works to the end of the flow and checks every item that arrives.
    pub fn run(self, count: u64) -> Outcome {
        match self {
            End::OurProducer(producer, rings) => produce(producer, rings, count),
            End::OurConsumer(consumer, producers) => consume(consumer, producers, count),
            End::Guest(mut node, request) => node.ask(&request).map(drop),
        }
    }
}

fn produce(producer: u32, mut rings: Vec<Producer>, count: u64) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    let mut pushed = vec![0; rings.len()];
    while rings.iter_mut().any(|ring| !ring.is_delivered()) || pushed.iter().any(|&n| n < count) {
        for (ring, pushed) in rings.iter_mut().zip(&mut pushed) {
            let size = ring.item_size() as usize;
            while *pushed < count {
                match ring.push(&item(producer, *pushed, size)) {
                    Ok(()) => *pushed += 1,
                    Err(PushError::Full) => break,
                    Err(error) => return Err(Failure::refused("pushing", error)),
                }
                if *pushed == count {
                    ring.finish();
                }
            }
        }
        rest(deadline, || {
            format!("our producer: {pushed:?} of {count} pushed")
        })?;
    }
    Ok(())
}

fn consume(mut consumer: Consumer, producers: usize, count: u64) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    let size = consumer.item_size() as usize;
    let mut taken = vec![0; producers];
    loop {
        let mut checked = Ok(());
        let end = consumer.take_each(1, |bytes| checked = check(bytes, size, &mut taken));
        checked.at("our consumer")?;
        match end {
            Taken::Items(_) => {}
            Taken::Empty => rest(deadline, || format!("our consumer: {taken:?} of {count}"))?,
            Taken::Ended => break,
            Taken::Aborted => return Err(Failure::Wrong("the flow was broken off".to_owned())),
        }
    }
    expect_eq("items taken", taken, vec![count; producers])
}

/// Checks that the bytes are the complete next item of its producer.
fn check(bytes: &[u8], size: usize, taken: &mut [u64]) -> Outcome {
    let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let (producer, low) = (word(4), word(8));
    let next = taken.get_mut(producer as usize);
    let next = next.ok_or_else(|| Failure::Wrong(format!("an item of producer {producer}")))?;
    expect(bytes == item(producer, *next, size), || {
        format!("producer {producer}: item {low} or a damaged one, where {next} was due")
    })?;
    *next += 1;
    Ok(())
}

fn rest(deadline: Instant, progress: impl FnOnce() -> String) -> Outcome {
    if Instant::now() > deadline {
        return Err(Failure::Timeout(progress()));
    }
    thread::sleep(REST);
    Ok(())
}
