//! The ends of a measured flow.

use super::{wish, wish_to_finish};
use crate::items::verify::is_in_order;
use crate::items::{Manner, Sink, Source};
use crate::perf::amount::Amount;
use crate::programs::RealTime;
use rackweave_rack::hosted::{Job, RingName};
use serde::{Deserialize, Serialize};

/// Pushes stamped items into the rings of one producer. Asked to stop, it ends its streams.
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
    let rings = arguments.rings.iter().map(|ring| job.producer(ring));
    let rings = rings.collect::<Result<Vec<_>, String>>()?;
    let source = Source::measured(rings, index, manner, amount);
    let mut program = RealTime::of_job(job, false, source);
    let ran = program.run(|| wish_to_finish(job), |_, _| {});
    ran.map_err(|error| error.to_string())?;
    let source = program.into_program();
    match source.is_aborted() {
        true => Err(ABORTED.into()),
        false => Ok(ProduceFound {
            items: source.pushed().iter().sum(),
        }),
    }
}

/// The job [`CONSUME`].
///
/// # Errors
/// If the flow is broken off.
pub fn consume(arguments: &ConsumeArguments, job: &Job) -> Result<ConsumeFound, String> {
    check(arguments.manner)?;
    let consumer = job.consumer(&arguments.ring)?;
    let producers = usize::from(arguments.producers);
    let sink = Sink::measured(consumer, arguments.manner);
    let mut program = RealTime::of_job(job, false, sink);
    let ran = program.run(|| wish(job), |items, _| job.report(items));
    ran.map_err(|error| error.to_string())?;
    let sink = program.into_program();
    match sink.is_aborted() {
        true => Err(ABORTED.into()),
        false => Ok(ConsumeFound {
            items: sink.items(),
            nanos: sink.span(),
            is_sound: is_in_order(&sink, producers),
        }),
    }
}

const ABORTED: &str = "the flow was broken off";

fn check(manner: Manner) -> Result<(), String> {
    let has_items = manner.batch > 0;
    has_items
        .then_some(())
        .ok_or_else(|| "a batch needs an item at least".into())
}
