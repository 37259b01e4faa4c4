//! The two ends of a flow: stamped items, and what a consumer saw of them. They read no clock and
//! run as programs in real and in virtual time.
//!
//! Measured ends (`perf`) write and read eight bytes of an item, or every byte, in batches of a
//! given size. Checked ends (`flow`) have every byte follow from the stamp, may be bound to a rate
//! and ring doorbells. `stamps` has what items contain, `verify` judges what was pushed and seen.

pub mod stamps;
pub mod verify;

use crate::outcome::CliError;
use crate::perf::amount::Amount;
use crate::programs::{Port, Program, Turn};
use rackweave_endpoint::flow::{Consumer, Doorbell, Producer, PushError, Taken};
use serde::{Deserialize, Serialize};
use stamps::{NUMBER_BITS, Run, note};

/// Items of a ring at most.
pub const ITEMS_MAX: u64 = 1 << NUMBER_BITS;

/// Bytes of items that a checked end pushes or takes at once.
const BATCH_BYTES: u32 = 64 << 10;

/// Nanoseconds for which an end with a rate works on what it takes at once.
const WORK_NANOS: f64 = 100_000.0;

/// Nothing moved, and nothing will before something arrives.
const WAITS: Turn = Turn::Waits { moved: false };

/// How items of a measured flow are written and read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manner {
    /// Items per reserve and commit, peek and release.
    pub batch: u32,
    /// Whether every byte is written and read, not the stamp alone.
    pub touch: bool,
}

/// How fast a checked end works.
#[derive(Debug)]
struct Pace {
    /// Bytes per second at most.
    rate: Option<f64>,
    /// Busy until so many nanoseconds since the start.
    busy_until: f64,
}

impl Pace {
    /// Until when it is busy.
    fn is_busy(&self, now: u64) -> Option<Turn> {
        let until = self.busy_until.ceil() as u64;
        (self.rate.is_some() && until > now).then_some(Turn::Sleeps(until))
    }

    /// Items that are worked on at once.
    fn batch(&self, item_size: u32) -> u32 {
        let bytes = match self.rate {
            Some(rate) => (rate * WORK_NANOS / 1e9).min(f64::from(BATCH_BYTES)) as u32,
            None => BATCH_BYTES,
        };
        (bytes / item_size).max(1)
    }

    fn work(&mut self, bytes: u64, now: u64) {
        if let Some(rate) = self.rate {
            // Late wake-ups are caught up with, idle times are not.
            let since = self.busy_until.max(now as f64 - WORK_NANOS);
            self.busy_until = since + bytes as f64 * 1e9 / rate;
        }
    }
}

/// What an end does with items, and how fast.
enum Style {
    Measured(Manner),
    Checked(Pace),
}

impl Style {
    fn checked(rate: Option<f64>, now: u64) -> Self {
        let busy_until = now as f64;
        Self::Checked(Pace { rate, busy_until })
    }

    fn is_busy(&self, now: u64) -> Option<Turn> {
        match self {
            Self::Measured(_) => None,
            Self::Checked(pace) => pace.is_busy(now),
        }
    }

    fn batch(&self, item_size: u32) -> u32 {
        match self {
            Self::Measured(manner) => manner.batch,
            Self::Checked(pace) => pace.batch(item_size),
        }
    }

    fn work(&mut self, bytes: u64, now: u64) {
        if let Self::Checked(pace) = self {
            pace.work(bytes, now);
        }
    }
}

/// Rings a doorbell. One that does not fit the send queue is not missed: those in it will say the
/// same.
fn ring(port: &mut Port<'_, '_>, bell: &Doorbell) {
    let _ = port.act(|queue| Ok(queue.post_send(bell.qpn(), bell.request())?));
}

/// One producer with all its rings.
pub struct Source {
    rings: Vec<Producer>,
    bells: Option<Vec<Doorbell>>,
    producer: u32,
    amount: Amount,
    style: Style,
    begun: u64,
    last: u64,
    pushed: Vec<u64>,
    /// Rings whose end of stream is announced.
    ended: Vec<bool>,
    aborted: bool,
}

impl Source {
    /// Producer `producer` of a measured flow.
    pub fn measured(rings: Vec<Producer>, producer: usize, manner: Manner, amount: Amount) -> Self {
        Self {
            pushed: vec![0; rings.len()],
            ended: vec![false; rings.len()],
            rings,
            bells: None,
            producer: producer as u32,
            amount,
            style: Style::Measured(manner),
            begun: 0,
            last: 0,
            aborted: false,
        }
    }

    /// Producer `producer` of a checked flow, which begins now.
    pub fn checked(
        rings: Vec<Producer>,
        bells: Option<Vec<Doorbell>>,
        producer: usize,
        (amount, rate): (Amount, Option<f64>),
        now: u64,
    ) -> Self {
        let manner = Manner {
            batch: 1,
            touch: true,
        };
        Self {
            bells,
            style: Style::checked(rate, now),
            begun: now,
            last: now,
            ..Self::measured(rings, producer, manner, amount)
        }
    }

    /// Pushes up to `left` items into a ring; how many.
    fn push(&mut self, at: usize, left: u64) -> Result<u64, PushError> {
        let producer = &mut self.rings[at];
        let size = producer.item_size();
        let most = left.min(u64::from(self.style.batch(size))) as u32;
        let (name, number) = (self.producer, &mut self.pushed[at]);
        let Style::Measured(manner) = &self.style else {
            let pushed = producer.push_each(most, |item| {
                stamps::fill(item, name, at as u32, *number);
                *number += 1;
            });
            return pushed.map(u64::from);
        };
        let mut bytes = producer.reserve(most)?;
        let first = stamps::stamp(name, *number);
        for (stamp, mut item) in (first..).zip(bytes.chunks_exact(size as usize)) {
            item.write(0, &stamps::marked(stamp).to_le_bytes());
            if manner.touch {
                item.slice(8..).fill(stamp as u8);
            }
        }
        let items = (bytes.len() / size as usize) as u32;
        producer.commit(items);
        *number += u64::from(items);
        Ok(items.into())
    }

    fn end(&mut self, at: usize) {
        if !self.ended[at] {
            self.ended[at] = true;
            self.rings[at].finish();
        }
    }

    fn has_finished(&self) -> bool {
        self.ended.iter().all(|&ended| ended)
    }

    /// Items pushed so far, by ring.
    pub fn pushed(&self) -> &[u64] {
        &self.pushed
    }

    /// Which part of its work is done.
    pub fn fraction(&self, now: u64) -> f64 {
        let least = self.pushed.iter().copied().min().unwrap_or(0);
        let since = now.saturating_sub(self.begun);
        match self.has_finished() || self.aborted {
            true => 1.0,
            false => self.amount.fraction(least, since).min(1.0),
        }
    }

    /// From its beginning to the last item that it pushed, in nanoseconds.
    pub fn life(&self) -> u64 {
        self.last - self.begun
    }

    /// Whether the flow was broken off.
    pub fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// How it ended, or that it runs.
    pub fn state(&self) -> &'static str {
        match (self.aborted, self.has_finished()) {
            (true, _) => "broken off",
            (_, true) => "finished",
            _ => "running",
        }
    }
}

impl Program for Source {
    /// Pushes a batch into every ring that has space.
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let now = port.now();
        if self.aborted {
            return Ok(Turn::Ended);
        }
        if let Some(busy) = self.style.is_busy(now).filter(|_| !self.has_finished()) {
            return Ok(busy);
        }
        let (mut moved, mut left_over) = (0, false);
        for at in 0..self.rings.len() {
            let left = match self.amount {
                _ if self.ended[at] => 0,
                Amount::Count(count) => count - self.pushed[at],
                Amount::Nanos(nanos) if now < self.begun + nanos => u64::MAX,
                Amount::Nanos(_) => 0,
            };
            if left == 0 {
                // The streams of a checked producer end together.
                if matches!(self.style, Style::Measured(_)) {
                    self.end(at);
                }
                continue;
            }
            left_over = true;
            match self.push(at, left) {
                Ok(items) => moved += items * u64::from(self.rings[at].item_size()),
                Err(PushError::Full) => continue,
                Err(_) => {
                    self.aborted = true;
                    return Ok(Turn::Ended);
                }
            }
            if let Some(bells) = &self.bells {
                ring(port, &bells[at]);
            }
        }
        if moved > 0 {
            self.last = now;
            self.style.work(moved, now);
            return Ok(Turn::Moved);
        }
        if left_over {
            return Ok(WAITS);
        }
        self.finish();
        for bell in self.bells.iter().flatten() {
            ring(port, bell);
        }
        Ok(Turn::Ended)
    }

    fn finish(&mut self) {
        (0..self.rings.len()).for_each(|at| self.end(at));
    }
}

/// One consumer.
pub struct Sink {
    consumer: Consumer,
    bell: Option<Doorbell>,
    /// Its number, if items name their consumer.
    index: Option<u32>,
    style: Style,
    begun: u64,
    first: u64,
    last: u64,
    items: u64,
    runs: Vec<Run>,
    problem: Option<String>,
    /// How its stream ended.
    end: Option<&'static str>,
    hurries: bool,
    removed: bool,
}

impl Sink {
    /// A consumer of a measured flow.
    pub fn measured(consumer: Consumer, manner: Manner) -> Self {
        Self {
            consumer,
            bell: None,
            index: None,
            style: Style::Measured(manner),
            begun: 0,
            first: 0,
            last: 0,
            items: 0,
            runs: Vec::new(),
            problem: None,
            end: None,
            hurries: false,
            removed: false,
        }
    }

    /// A consumer of a checked flow, which begins now. In a shuffle an item names its consumer, who
    /// is `index`.
    pub fn checked(
        consumer: Consumer,
        bell: Option<Doorbell>,
        index: Option<usize>,
        rate: Option<f64>,
        now: u64,
    ) -> Self {
        let manner = Manner {
            batch: 1,
            touch: true,
        };
        Self {
            bell,
            index: index.map(|index| index as u32),
            style: Style::checked(rate, now),
            begun: now,
            last: now,
            ..Self::measured(consumer, manner)
        }
    }

    /// Takes a batch and looks at it; how many items.
    fn take(&mut self) -> Taken<u64> {
        let size = self.consumer.item_size();
        let most = self.style.batch(size);
        let (runs, problem, first) = (&mut self.runs, &mut self.problem, self.items);
        let damaged = |at: u64| format!("the item taken as number {at} is damaged");
        let Style::Measured(manner) = &self.style else {
            let (mut at, index) = (first, self.index);
            let look = |item: &[u8]| {
                match stamps::read(item) {
                    Some((producer, to, number)) if index.is_none_or(|index| to == index) => {
                        note(runs, producer, number);
                    }
                    Some((producer, to, number)) => {
                        problem.get_or_insert_with(|| {
                            format!("item {number} of producer {producer} was for consumer {to}")
                        });
                    }
                    None => {
                        problem.get_or_insert_with(|| damaged(at));
                    }
                }
                at += 1;
            };
            return self.consumer.take_each(most, look).map(u64::from);
        };
        let bytes = match self.consumer.peek(most) {
            Taken::Items(bytes) => bytes,
            other => return other.map(|_| 0),
        };
        for (at, item) in (first..).zip(bytes.chunks_exact(size as usize)) {
            let stamp = stamps::marked(item.u64_le(0));
            note(runs, stamps::producer_of(stamp), stamps::number_of(stamp));
            if manner.touch && !item.slice(8..).is_all(stamp as u8) {
                problem.get_or_insert_with(|| damaged(at));
            }
        }
        let items = (bytes.len() / size as usize) as u32;
        self.consumer.release(items);
        Taken::Items(items.into())
    }

    /// The controller has let it go.
    pub fn set_removed(&mut self) {
        self.removed = true;
    }

    /// Whether the controller has let it go.
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    /// Items taken so far.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// What it saw, in its order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The first item that was not as it should be.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// When it took its last item, in nanoseconds since the start.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// From its beginning to the last item that it took, in nanoseconds.
    pub fn life(&self) -> u64 {
        self.last - self.begun
    }

    /// From the first item taken to the last, in nanoseconds.
    pub fn span(&self) -> u64 {
        self.last - self.first
    }

    /// Whether the flow was broken off.
    pub fn is_aborted(&self) -> bool {
        self.end == Some(ABORTED)
    }

    /// How it ended, or that it runs.
    pub fn state(&self) -> &'static str {
        match (self.end, self.removed) {
            (Some(ABORTED), _) => ABORTED,
            (_, true) => "removed",
            (end, _) => end.unwrap_or("running"),
        }
    }
}

const ABORTED: &str = "broken off";

impl Program for Sink {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let now = port.now();
        if self.end.is_some() {
            return Ok(Turn::Ended);
        }
        if let Some(busy) = self.style.is_busy(now).filter(|_| !self.hurries) {
            return Ok(busy);
        }
        let items = match self.take() {
            Taken::Items(items) => items,
            Taken::Empty => return Ok(WAITS),
            Taken::Ended => {
                self.end = Some("ended");
                return Ok(Turn::Ended);
            }
            Taken::Aborted => {
                self.end = Some(ABORTED);
                return Ok(Turn::Ended);
            }
        };
        if let Some(bell) = &self.bell {
            ring(port, bell);
        }
        if self.items == 0 {
            self.first = now;
        }
        self.items += items;
        self.last = now;
        let bytes = items * u64::from(self.consumer.item_size());
        self.style.work(bytes, now);
        Ok(Turn::Moved)
    }

    /// Forgets its rate.
    fn finish(&mut self) {
        self.hurries = true;
    }

    fn done(&self) -> u64 {
        self.items
    }
}
