//! A consumer that takes stamped items and records what it saw.

use super::stamps::{Run, note};
use super::{ABORTED, Style, ring, stamps};
use crate::outcome::CliError;
use crate::programs::{Port, Program, Turn, WAITS};
use rackweave_endpoint::flow::{Consumer, Doorbell, Taken};

/// One consumer.
pub struct Sink {
    consumer: Consumer,
    bell: Option<Doorbell>,
    /// Its number, if items name their consumer.
    index: Option<u32>,
    style: Style,
    first: u64,
    /// When it took its last item, in nanoseconds since the start.
    pub last: u64,
    /// Number of items taken so far.
    pub items: u64,
    /// The runs of items, in the order in which it saw them.
    pub runs: Vec<Run>,
    /// The first wrong item.
    pub problem: Option<String>,
    /// The end of its stream.
    end: Option<&'static str>,
    hurries: bool,
    /// Whether the controller has removed it.
    pub removed: bool,
}

impl Sink {
    /// A consumer. If the items of a checked flow name their consumer, as in a shuffle, its number
    /// is `index`.
    pub fn new(
        consumer: Consumer,
        bell: Option<Doorbell>,
        index: Option<usize>,
        style: Style,
    ) -> Self {
        Self {
            consumer,
            bell,
            index: index.map(|index| index as u32),
            first: 0,
            last: style.begun,
            style,
            items: 0,
            runs: Vec::new(),
            problem: None,
            end: None,
            hurries: false,
            removed: false,
        }
    }

    /// Takes and checks a batch. Returns the number of items.
    fn take(&mut self) -> Taken<u64> {
        let size = self.consumer.item_size();
        let most = self.style.batch(size);
        let (runs, problem, first) = (&mut self.runs, &mut self.problem, self.items);
        let damaged = |at: u64| format!("the item taken as number {at} is damaged");
        let Some(manner) = self.style.measured else {
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

    /// From its start to the last item that it took, in nanoseconds.
    pub fn life(&self) -> u64 {
        self.last - self.style.begun
    }

    /// From the first item taken to the last, in nanoseconds.
    pub fn span(&self) -> u64 {
        self.last - self.first
    }

    /// Whether the flow was aborted.
    pub fn is_aborted(&self) -> bool {
        self.end == Some(ABORTED)
    }

    /// Its end, or that it is running.
    pub fn state(&self) -> &'static str {
        match (self.end, self.removed) {
            (Some(ABORTED), _) => ABORTED,
            (_, true) => "removed",
            (end, _) => end.unwrap_or("running"),
        }
    }
}

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

    /// Removes its rate limit.
    fn finish(&mut self) {
        self.hurries = true;
    }

    fn done(&self) -> u64 {
        self.items
    }
}
