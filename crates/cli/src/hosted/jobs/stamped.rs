//! A flow under chaos: items that say who they are, and a judge at each consumer who knows every
//! byte that should come.

use crate::patience::Patience;
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use rackweave_rack::hosted::{Job, RingName};
use rackweave_sim::checkers::{FlowHistory, Shape, stamp};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// Pushes stamped items into the rings of one producer and waits until all are delivered. It
/// reports items.
pub const PRODUCE: &str = "stamped-produce";

/// Takes the items of one consumer and judges them. It reports items.
pub const CONSUME: &str = "stamped-consume";

/// What a judge's line on standard error begins with: it tells of violations even if the rack is
/// lost before the job's result can travel.
pub const VIOLATION_MARK: &str = "violation: ";

/// Items per reserve and commit, peek and release, at most.
const BATCH: u32 = 32;

/// Items per ring at most: the judge remembers each.
const ITEMS_MAX: u64 = 1 << 20;

/// What producers and consumers of one flow agree on.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// From which the bytes of all items follow.
    pub seed: u64,
    /// Items of each producer for each consumer.
    pub items: u64,
    pub producers: u16,
    pub consumers: u16,
}

/// The arguments of [`PRODUCE`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProduceArguments {
    pub agreement: Agreement,
    /// Which producer of the flow.
    pub index: u16,
    /// One per consumer.
    pub rings: Vec<RingName>,
}

/// The arguments of [`CONSUME`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ConsumeArguments {
    pub agreement: Agreement,
    /// Which consumer of the flow.
    pub index: u16,
    pub ring: RingName,
}

/// How a stream ended.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// Every item went through.
    Ended,
    /// The flow was broken off.
    Aborted,
    /// The job was asked to stop, or the node lost the rack.
    Stopped,
}

/// What both jobs return.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Found {
    pub end: StreamEnd,
    /// Items pushed or taken.
    pub items: u64,
    /// What must not be.
    pub violations: Vec<String>,
}

/// The job [`PRODUCE`].
///
/// # Errors
/// If a ring is not here, or the arguments make no sense.
pub fn produce(arguments: &ProduceArguments, job: &Job) -> Result<Found, String> {
    let agreement = arguments.agreement;
    check(agreement)?;
    let open = |ring| -> Result<Source, String> {
        Ok(Source {
            ring: job.producer(ring)?,
            pushed: 0,
            finished: false,
        })
    };
    let opened: Result<Vec<Source>, String> = arguments.rings.iter().map(open).collect();
    let mut sources = opened?;
    let mut patience = Patience::new(job.progress());
    let end = loop {
        if job.is_stopped() {
            break StreamEnd::Stopped;
        }
        let (mut moved, mut delivered) = (false, true);
        for (to, source) in sources.iter_mut().enumerate() {
            moved |= source.push(arguments.index, to as u16, agreement);
            delivered &= source.finished && source.ring.is_delivered();
        }
        job.report(sources.iter().map(|source| source.pushed).sum());
        if sources.iter_mut().any(|source| source.ring.is_aborted()) {
            break StreamEnd::Aborted;
        }
        if delivered {
            break StreamEnd::Ended;
        }
        patience.wait(moved);
    };
    Ok(Found {
        end,
        items: sources.iter().map(|source| source.pushed).sum(),
        violations: Vec::new(),
    })
}

/// One ring of a producer.
struct Source {
    ring: Producer,
    pushed: u64,
    finished: bool,
}

impl Source {
    /// Pushes what there is room for. True if anything was done.
    fn push(&mut self, from: u16, to: u16, agreement: Agreement) -> bool {
        let left = agreement.items - self.pushed;
        if left == 0 {
            if !self.finished {
                self.ring.finish();
            }
            return !std::mem::replace(&mut self.finished, true);
        }
        let number = &mut self.pushed;
        let filled = self.ring.push_each(BATCH.min(left as u32), |slot| {
            stamp::fill(slot, from, to, *number, agreement.seed);
            *number += 1;
        });
        match filled {
            Ok(_) => true,
            Err(PushError::Full | PushError::Aborted) => false,
            Err(error) => unreachable!("slots are filled before the end: {error}"),
        }
    }
}

/// The job [`CONSUME`].
///
/// # Errors
/// If the ring is not here, or the arguments make no sense.
pub fn consume(arguments: &ConsumeArguments, job: &Job) -> Result<Found, String> {
    let (agreement, index) = (arguments.agreement, arguments.index);
    check(agreement)?;
    let mut ring = job.consumer(&arguments.ring)?;
    let mut history = judge(agreement, index, ring.item_size() as usize);
    let end = take(&mut ring, index, &mut history, job);
    match end {
        StreamEnd::Ended => history.end(index),
        StreamEnd::Aborted | StreamEnd::Stopped => history.abort(),
    }
    let items = history.popped();
    let violations = history.finish().err().unwrap_or_default();
    let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
    for violation in &violations {
        let _ = writeln!(std::io::stderr(), "{VIOLATION_MARK}{violation}");
    }
    Ok(Found {
        end,
        items,
        violations,
    })
}

/// A judge who has been told of everything that should come to consumer `index`.
fn judge(agreement: Agreement, index: u16, item_size: usize) -> FlowHistory {
    let mut history = FlowHistory::new(Shape::Routed, agreement.consumers, agreement.seed);
    let mut item = vec![0; item_size];
    for producer in 0..agreement.producers {
        for sequence in 0..agreement.items {
            stamp::fill(&mut item, producer, index, sequence, agreement.seed);
            history.push(producer, index, sequence, FlowHistory::item_hash(&item));
        }
        history.close(producer);
    }
    // The others have judges of their own.
    for other in (0..agreement.consumers).filter(|&other| other != index) {
        history.abandon_consumer(other);
    }
    history
}

/// Takes items until the stream ends, or the judge has seen enough.
fn take(ring: &mut Consumer, index: u16, history: &mut FlowHistory, job: &Job) -> StreamEnd {
    let mut patience = Patience::new(job.progress());
    loop {
        match ring.take_each(BATCH, |item| history.pop(index, item)) {
            Taken::Items(_) => {
                job.report(history.popped());
                patience.reset();
                if history.violation_count() > 0 {
                    return StreamEnd::Stopped;
                }
            }
            Taken::Ended => return StreamEnd::Ended,
            Taken::Aborted => return StreamEnd::Aborted,
            Taken::Empty if job.is_stopped() => return StreamEnd::Stopped,
            Taken::Empty => patience.wait(false),
        }
    }
}

fn check(agreement: Agreement) -> Result<(), String> {
    if (1..=ITEMS_MAX).contains(&agreement.items) {
        Ok(())
    } else {
        Err(format!("1 to {ITEMS_MAX} items per ring are possible"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGREEMENT: Agreement = Agreement {
        seed: 7,
        items: 3,
        producers: 2,
        consumers: 2,
    };

    fn item(producer: u16, sequence: u64) -> Vec<u8> {
        let mut item = vec![0; 64];
        stamp::fill(&mut item, producer, 1, sequence, AGREEMENT.seed);
        item
    }

    #[test]
    fn the_judge_knows_what_should_come() {
        let mut good = judge(AGREEMENT, 1, 64);
        for sequence in 0..AGREEMENT.items {
            good.pop(1, &item(0, sequence));
            good.pop(1, &item(1, sequence));
        }
        good.end(1);
        good.finish().unwrap();
    }

    #[test]
    fn the_judge_misses_what_does_not_come() {
        let mut short = judge(AGREEMENT, 1, 64);
        short.pop(1, &item(0, 0));
        short.end(1);
        assert!(short.finish().is_err());
        // Of a flow that was broken off, a prefix is enough, but nothing else.
        let mut broken = judge(AGREEMENT, 1, 64);
        broken.pop(1, &item(0, 0));
        broken.abort();
        broken.finish().unwrap();
        let mut gap = judge(AGREEMENT, 1, 64);
        gap.pop(1, &item(0, 1));
        gap.abort();
        assert!(gap.finish().is_err());
    }
}
