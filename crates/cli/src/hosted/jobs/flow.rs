//! The ends of a measured flow.

use super::wish;
use crate::patience::Wish;
use crate::perf::amount::Amount;
use crate::perf::ends::{Manner, Sink, Source};
use crate::perf::loops;
use rackweave_rack::hosted::{Job, RingName};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Pushes stamped items into the rings of one producer. Asked to stop, it ends its streams. It
/// reports items.
pub const PRODUCE: &str = "flow-produce";

/// Takes the items of one consumer and checks their stamps. It reports items.
pub const CONSUME: &str = "flow-consume";

/// The arguments of [`PRODUCE`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProduceArguments {
    /// One per consumer.
    pub rings: Vec<RingName>,
    /// Which producer of the flow.
    pub index: u16,
    /// How items are written.
    pub manner: Manner,
    /// How many for each consumer, or how long.
    pub amount: Amount,
}

/// What [`PRODUCE`] returns.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProduceFound {
    /// Items pushed.
    pub items: u64,
}

/// The arguments of [`CONSUME`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ConsumeArguments {
    /// Its ring.
    pub ring: RingName,
    /// Producers that fill it.
    pub producers: u16,
    /// How items are read.
    pub manner: Manner,
}

/// What [`CONSUME`] returns.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ConsumeFound {
    /// Items taken.
    pub items: u64,
    /// Nanoseconds from the first to the last.
    pub nanos: u64,
    /// Whether every item came in the order of its producer.
    pub is_sound: bool,
}

/// The job [`PRODUCE`].
///
/// # Errors
/// If the flow is broken off.
pub fn produce(arguments: &ProduceArguments, job: &Job) -> Result<ProduceFound, String> {
    check(arguments.manner)?;
    let (index, manner, amount) = (
        usize::from(arguments.index),
        arguments.manner,
        arguments.amount,
    );
    let source = |ring| -> Result<Source, String> {
        Ok(Source::new(job.producer(ring)?, index, manner, amount))
    };
    let sources: Result<Vec<Source>, String> = arguments.rings.iter().map(source).collect();
    let mut sources = [sources?];
    let finish = || match wish(job) {
        Wish::Stop => Wish::Finish,
        wish => wish,
    };
    let report = |items| job.report(items);
    loops::push_all(&mut sources, job.progress(), Instant::now(), finish, report)
        .map_err(|error| error.to_string())?;
    Ok(ProduceFound {
        items: sources.iter().flatten().map(Source::pushed).sum(),
    })
}

/// The job [`CONSUME`].
///
/// # Errors
/// If the flow is broken off.
pub fn consume(arguments: &ConsumeArguments, job: &Job) -> Result<ConsumeFound, String> {
    check(arguments.manner)?;
    let consumer = job.consumer(&arguments.ring)?;
    let producers = usize::from(arguments.producers);
    let mut sinks = [Sink::new(consumer, producers, arguments.manner)];
    let report = |items, _| job.report(items);
    let wish = || wish(job);
    loops::take_all(&mut sinks, job.progress(), Instant::now(), wish, report)
        .map_err(|error| error.to_string())?;
    let [sink] = &sinks;
    Ok(ConsumeFound {
        items: sink.popped(),
        nanos: sink.span(),
        is_sound: sink.is_sound(),
    })
}

fn check(manner: Manner) -> Result<(), String> {
    let has_items = manner.batch > 0;
    has_items
        .then_some(())
        .ok_or_else(|| "a batch needs an item at least".into())
}
