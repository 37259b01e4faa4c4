//! The two ends of a scripted flow: stamped items, made at a rate and taken at a rate. They read
//! no clock: the same code runs in real and in virtual time.

use super::stamps::{Run, note, read, stamp};
use crate::perf::amount::Amount;
use crate::programs::{Port, Turn};
use rackweave_endpoint::flow::{Consumer, Doorbell, Producer, PushError, Taken};

/// Items of a ring at most.
pub const ITEMS_MAX: u64 = 1 << 40;

/// Bytes of items that are pushed or taken at once.
const BATCH_BYTES: u32 = 64 << 10;

/// Nanoseconds for which an end with a rate works on what it takes at once.
const WORK_NANOS: f64 = 100_000.0;

/// How fast an end works.
#[derive(Debug)]
struct Pace {
    /// Bytes per second at most.
    rate: Option<f64>,
    /// Busy until so many nanoseconds since the start.
    busy_until: f64,
}

impl Pace {
    fn new(rate: Option<f64>, now: u64) -> Self {
        Self {
            rate,
            busy_until: now as f64,
        }
    }

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

    fn work(&mut self, bytes: usize, now: u64) {
        if let Some(rate) = self.rate {
            // Late wake-ups are caught up with, idle times are not.
            let since = self.busy_until.max(now as f64 - WORK_NANOS);
            self.busy_until = since + bytes as f64 * 1e9 / rate;
        }
    }
}

/// Nothing moved, and nothing will before something arrives.
const WAITS: Turn = Turn::Waits { moved: false };

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
    pace: Pace,
    begun: u64,
    last: u64,
    pushed: Vec<u64>,
    finished: bool,
    aborted: bool,
}

impl Source {
    /// Producer `producer` of a flow, which begins now.
    pub fn new(
        rings: Vec<Producer>,
        bells: Option<Vec<Doorbell>>,
        producer: usize,
        (amount, rate): (Amount, Option<f64>),
        now: u64,
    ) -> Self {
        Self {
            pushed: vec![0; rings.len()],
            rings,
            bells,
            producer: producer as u32,
            amount,
            pace: Pace::new(rate, now),
            begun: now,
            last: now,
            finished: false,
            aborted: false,
        }
    }

    /// Pushes a batch into every ring that has room.
    pub fn turn(&mut self, port: &mut Port<'_, '_>) -> Turn {
        let now = port.now();
        if self.aborted {
            return Turn::Ended;
        }
        if let Some(wait) = self.pace.is_busy(now).filter(|_| !self.finished) {
            return wait;
        }
        let (mut moved, mut left_over) = (0, false);
        for at in 0..self.rings.len() {
            let left = match self.amount {
                _ if self.finished => 0,
                Amount::Count(count) => count - self.pushed[at],
                Amount::Nanos(nanos) if now < self.begun + nanos => u64::MAX,
                Amount::Nanos(_) => 0,
            };
            if left == 0 {
                continue;
            }
            left_over = true;
            match self.push(at, left) {
                Ok(0) => {}
                Ok(bytes) => {
                    moved += bytes;
                    if let Some(bells) = &self.bells {
                        ring(port, &bells[at]);
                    }
                }
                Err(()) => {
                    self.aborted = true;
                    return Turn::Ended;
                }
            }
        }
        if moved > 0 {
            self.last = now;
            self.pace.work(moved, now);
            return Turn::Moved;
        }
        if left_over {
            return WAITS;
        }
        self.finish();
        for bell in self.bells.iter().flatten() {
            ring(port, bell);
        }
        Turn::Ended
    }

    /// Pushes up to `left` items into a ring; their bytes.
    fn push(&mut self, at: usize, left: u64) -> Result<usize, ()> {
        let producer = &mut self.rings[at];
        let size = producer.item_size();
        let most = left.min(u64::from(self.pace.batch(size))) as u32;
        let (name, number) = (self.producer, &mut self.pushed[at]);
        let pushed = producer.push_each(most, |item| {
            stamp(item, name, at as u32, *number);
            *number += 1;
        });
        match pushed {
            Ok(items) => Ok((items * size) as usize),
            Err(PushError::Full) => Ok(0),
            Err(_) => Err(()),
        }
    }

    /// Begins nothing new.
    pub fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            self.rings.iter_mut().for_each(Producer::finish);
        }
    }

    /// Items pushed so far, by ring.
    pub fn pushed(&self) -> &[u64] {
        &self.pushed
    }

    /// Which part of its work is done.
    pub fn fraction(&self, now: u64) -> f64 {
        let least = self.pushed.iter().copied().min().unwrap_or(0);
        let since = now.saturating_sub(self.begun);
        match self.finished || self.aborted {
            true => 1.0,
            false => self.amount.fraction(least, since).min(1.0),
        }
    }

    /// From its beginning to the last item that it pushed, in nanoseconds.
    pub fn life(&self) -> u64 {
        self.last - self.begun
    }

    /// How it ended, or that it runs.
    pub fn state(&self) -> &'static str {
        match (self.aborted, self.finished) {
            (true, _) => "broken off",
            (_, true) => "finished",
            _ => "running",
        }
    }
}

/// One consumer.
pub struct Sink {
    consumer: Consumer,
    bell: Option<Doorbell>,
    index: u32,
    /// Whether items name their consumer.
    is_chosen: bool,
    pace: Pace,
    begun: u64,
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
    /// Consumer `index` of a flow, which begins now. In a shuffle an item names its consumer.
    pub fn new(
        consumer: Consumer,
        bell: Option<Doorbell>,
        (index, is_shuffle): (usize, bool),
        rate: Option<f64>,
        now: u64,
    ) -> Self {
        Self {
            consumer,
            bell,
            index: index as u32,
            is_chosen: is_shuffle,
            pace: Pace::new(rate, now),
            begun: now,
            last: now,
            items: 0,
            runs: Vec::new(),
            problem: None,
            end: None,
            hurries: false,
            removed: false,
        }
    }

    /// Takes a batch and looks at every byte.
    pub fn turn(&mut self, port: &mut Port<'_, '_>) -> Turn {
        let now = port.now();
        if self.end.is_some() {
            return Turn::Ended;
        }
        if let Some(wait) = self.pace.is_busy(now).filter(|_| !self.hurries) {
            return wait;
        }
        let size = self.consumer.item_size();
        let (runs, items, problem) = (&mut self.runs, &mut self.items, &mut self.problem);
        let (is_chosen, index) = (self.is_chosen, self.index);
        let look = |item: &[u8]| {
            match read(item) {
                Some((producer, destination, number)) if !is_chosen || destination == index => {
                    note(runs, producer, number);
                }
                Some((producer, destination, number)) => {
                    problem.get_or_insert_with(|| {
                        format!(
                            "item {number} of producer {producer} was for consumer {destination}"
                        )
                    });
                }
                None => {
                    problem.get_or_insert_with(|| {
                        format!("the item taken as number {items} is damaged")
                    });
                }
            }
            *items += 1;
        };
        let bytes = match self.consumer.take_each(self.pace.batch(size), look) {
            Taken::Items(count) => (count * size) as usize,
            Taken::Empty => return WAITS,
            Taken::Ended => return self.ended("ended"),
            Taken::Aborted => return self.ended("broken off"),
        };
        if let Some(bell) = &self.bell {
            ring(port, bell);
        }
        self.last = now;
        self.pace.work(bytes, now);
        Turn::Moved
    }

    fn ended(&mut self, how: &'static str) -> Turn {
        self.end = Some(how);
        Turn::Ended
    }

    /// Forgets its rate from now on.
    pub fn hurry(&mut self) {
        self.hurries = true;
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

    /// How it ended, or that it runs.
    pub fn state(&self) -> &'static str {
        match (self.end, self.removed) {
            (Some("broken off"), _) => "broken off",
            (_, true) => "removed",
            (end, _) => end.unwrap_or("running"),
        }
    }
}
