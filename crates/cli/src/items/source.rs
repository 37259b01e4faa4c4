//! A producer that pushes stamped items.

use super::{ABORTED, Style, ring, stamps};
use crate::measure::Amount;
use crate::outcome::CliError;
use crate::programs::{Port, Program, Turn, WAITS};
use rackweave_endpoint::flow::{Doorbell, Producer, PushError};

/// One producer with all its rings.
pub struct ItemSource {
    rings: Vec<Producer>,
    bells: Option<Vec<Doorbell>>,
    producer: u32,
    amount: Amount,
    style: Style,
    last: u64,
    /// Number of items pushed so far, by ring.
    pub pushed: Vec<u64>,
    /// Rings whose end of stream has been announced.
    ended: Vec<bool>,
    /// Whether the flow was aborted.
    pub aborted: bool,
}

impl ItemSource {
    /// Producer `producer` of a flow.
    pub fn new(
        rings: Vec<Producer>,
        bells: Option<Vec<Doorbell>>,
        producer: usize,
        amount: Amount,
        style: Style,
    ) -> Self {
        Self {
            pushed: vec![0; rings.len()],
            ended: vec![false; rings.len()],
            rings,
            bells,
            producer: producer as u32,
            amount,
            last: style.begun,
            style,
            aborted: false,
        }
    }

    /// Pushes up to `left` items into a ring. Returns their number.
    fn push(&mut self, at: usize, left: u64) -> Result<u64, PushError> {
        let producer = &mut self.rings[at];
        let size = producer.item_size();
        let most = left.min(u64::from(self.style.batch(size))) as u32;
        let (name, number) = (self.producer, &mut self.pushed[at]);
        let Some(manner) = self.style.measured else {
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

    /// The completed fraction of its work.
    pub fn fraction(&self, now: u64) -> f64 {
        let least = self.pushed.iter().copied().min().unwrap_or(0);
        let since = now.saturating_sub(self.style.begun);
        match self.has_finished() || self.aborted {
            true => 1.0,
            false => self.amount.fraction(least, since).min(1.0),
        }
    }

    /// From its start to the last item that it pushed, in nanoseconds.
    pub fn life(&self) -> u64 {
        self.last - self.style.begun
    }

    /// Its end, or that it is running.
    pub fn state(&self) -> &'static str {
        match (self.aborted, self.has_finished()) {
            (true, _) => ABORTED,
            (_, true) => "finished",
            _ => "running",
        }
    }
}

impl Program for ItemSource {
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
                Amount::Nanos(nanos) if now < self.style.begun + nanos => u64::MAX,
                // A thread that first runs when the time is over pushes one item, not none.
                Amount::Nanos(_) => u64::from(self.pushed[at] == 0),
            };
            if left == 0 {
                // The streams of a checked producer end together.
                if self.style.measured.is_some() {
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

    fn done(&self) -> u64 {
        self.pushed.iter().sum()
    }
}
