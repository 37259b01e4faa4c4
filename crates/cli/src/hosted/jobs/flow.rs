//! The ends of a flow, measured or checked.

use super::run;
use crate::amount::Amount;
use crate::items::verify::judge_one;
use crate::items::{ItemSource, Manner, Sink};
use crate::patience::Wish;
use rackweave_rack::hosted::{Job, RingName};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// Pushes items into the rings of one producer and reports progress in items. If stopped, it ends
/// the streams of measured items.
pub const PRODUCE: &str = "flow-produce";

/// Takes the items of one consumer and checks them. It reports progress in items.
pub const CONSUME: &str = "flow-consume";

/// Prefix of a line on standard error about a wrong checked item: it reports violations even if the
/// rack is lost before the job's result can be sent.
pub const VIOLATION_MARK: &str = "violation: ";

/// The contents of items.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// A stamp. An aborted flow is an error.
    Measured(Manner),
    /// Bytes that are all derived from the stamp and this number. Producers wait until everything
    /// is delivered, and an aborted flow is a valid result.
    Checked(u64),
}

/// The arguments of [`PRODUCE`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProduceArguments {
    /// One ring per consumer.
    pub rings: Vec<RingName>,
    /// The number of the producer in the flow.
    pub index: u16,
    pub contents: Contents,
    /// Number of items for each consumer, or how long.
    pub amount: Amount,
}

/// The arguments of [`CONSUME`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ConsumeArguments {
    /// Its ring.
    pub ring: RingName,
    /// The number of the consumer in the flow.
    pub index: u16,
    /// Number of producers that fill the ring.
    pub producers: u16,
    /// Items of each producer, if known.
    pub items: Option<u64>,
    pub contents: Contents,
}

/// The end of a stream.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// Every item went through.
    Ended,
    /// The flow was aborted.
    Aborted,
    /// The job was stopped, or the node lost the rack.
    Stopped,
}

/// The result of both jobs.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct StreamFound {
    pub end: StreamEnd,
    /// Items pushed or taken.
    pub items: u64,
    /// Nanoseconds from the first item taken to the last.
    pub nanos: u64,
    /// Violations: items that are damaged, lost, duplicated or out of order.
    pub violations: Vec<String>,
}

/// The job [`PRODUCE`].
///
/// # Errors
/// If this node lacks a ring, or a measured flow is aborted.
pub fn produce(arguments: &ProduceArguments, job: &Job) -> Result<StreamFound, String> {
    let (index, amount) = (usize::from(arguments.index), arguments.amount);
    let rings = arguments.rings.iter().map(|ring| job.producer(ring));
    let rings = rings.collect::<Result<Vec<_>, String>>()?;
    let (source, if_stopped) = match arguments.contents {
        Contents::Measured(manner) => {
            check(manner)?;
            let source = ItemSource::measured(rings, index, manner, amount);
            (source, Wish::Finish)
        }
        Contents::Checked(salt) => {
            let source = ItemSource::checked(rings, None, index, (amount, None), 0);
            (source.delivering(salt), Wish::Stop)
        }
    };
    let (source, is_over) = run(source, job, false, if_stopped);
    Ok(StreamFound {
        end: ended(source.is_aborted(), is_over?, arguments.contents)?,
        items: source.pushed().iter().sum(),
        nanos: 0,
        violations: Vec::new(),
    })
}

/// The job [`CONSUME`].
///
/// # Errors
/// As for [`produce`].
pub fn consume(arguments: &ConsumeArguments, job: &Job) -> Result<StreamFound, String> {
    let consumer = job.consumer(&arguments.ring)?;
    let index = usize::from(arguments.index);
    let sink = match arguments.contents {
        Contents::Measured(manner) => {
            check(manner)?;
            Sink::measured(consumer, manner)
        }
        Contents::Checked(salt) => Sink::checked(consumer, None, Some(index), None, 0).salted(salt),
    };
    let (sink, is_over) = run(sink, job, false, Wish::Stop);
    let end = ended(sink.is_aborted(), is_over?, arguments.contents)?;
    let pushed = vec![arguments.items.unwrap_or(u64::MAX); arguments.producers.into()];
    let is_cut = end != StreamEnd::Ended || arguments.items.is_none();
    let violations = judge_one(&sink, index, &pushed, is_cut);
    if matches!(arguments.contents, Contents::Checked(_)) {
        for violation in &violations {
            let _ = writeln!(std::io::stderr(), "{VIOLATION_MARK}{violation}");
        }
    }
    Ok(StreamFound {
        end,
        items: sink.items(),
        nanos: sink.span(),
        violations,
    })
}

fn ended(is_aborted: bool, is_over: bool, contents: Contents) -> Result<StreamEnd, String> {
    match (is_aborted, contents) {
        (true, Contents::Measured(_)) => Err("the flow was broken off".into()),
        (true, Contents::Checked(_)) => Ok(StreamEnd::Aborted),
        (false, _) if is_over => Ok(StreamEnd::Ended),
        (false, _) => Ok(StreamEnd::Stopped),
    }
}

fn check(manner: Manner) -> Result<(), String> {
    let has_items = manner.batch > 0;
    has_items
        .then_some(())
        .ok_or_else(|| "a batch needs an item at least".into())
}
