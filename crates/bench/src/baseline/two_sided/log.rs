//! The messages that a consumer delivered, and when; the same log for every system that replicates.

use crate::harness::prelude::*;
use rackweave_sim::checkers::stamp::Stamp;

/// The messages that a consumer delivered, in its order.
#[derive(Clone, Default, Debug)]
pub struct Log {
    order: Vec<Stamp>,
    times: Vec<Instant>,
}

impl Log {
    pub fn note(&mut self, at: Instant, stamp: Stamp) {
        self.order.push(stamp);
        self.times.push(at);
    }

    pub fn count(&self) -> u64 {
        self.order.len() as u64
    }

    pub fn last(&self) -> Instant {
        self.times.last().copied().unwrap_or(Instant::ZERO)
    }

    /// Bytes per second after the first fifth of all messages: by then all buffers have been full
    /// once.
    pub fn goodput(&self, message_bytes: u32) -> f64 {
        let steady = &self.times[self.times.len() / 5..];
        per_second(steady) * f64::from(message_bytes)
    }

    /// Bytes per second of each of `producers` producers while all of them sent: after the first
    /// fifth of all messages and until the first producer's last.
    pub fn shares(&self, message_bytes: u32, producers: u32) -> Vec<f64> {
        let mut last = vec![0; producers as usize];
        for (at, stamp) in self.order.iter().enumerate() {
            if let Some(last) = last.get_mut(usize::from(stamp.producer)) {
                *last = at;
            }
        }
        let begin = self.order.len() / 5;
        let end = last.iter().copied().min().unwrap_or(0);
        if end <= begin {
            return vec![0.0; producers as usize];
        }
        let rate = |producer| {
            let those = begin + 1..=end;
            let those = those.filter(|&at| self.order[at].producer == producer);
            let times: Vec<Instant> = those.map(|at| self.times[at]).collect();
            per_second(&times) * f64::from(message_bytes)
        };
        (0..producers as u16).map(rate).collect()
    }

    /// Whether every producer's messages arrived from number zero on, without gaps and duplicates.
    pub fn is_in_order_per_producer(&self) -> bool {
        let mut next: BTreeMap<u16, u64> = BTreeMap::new();
        self.order.iter().all(|stamp| {
            let expected = next.entry(stamp.producer).or_default();
            *expected += 1;
            stamp.sequence + 1 == *expected
        })
    }
}

/// Instants per second. They come in bursts, so it is computed from the time between the *means* of
/// the first half and of the second: a burst at the window's edge hardly moves those.
fn per_second(times: &[Instant]) -> f64 {
    let half = times.len() / 2;
    let sum = |times: &[Instant]| -> u128 {
        let nanos = times.iter().map(|time| u128::from(time.as_nanos()));
        nanos.sum()
    };
    let apart = sum(&times[times.len() - half..]) - sum(&times[..half]);
    if apart == 0 {
        return 0.0;
    }
    // Of an odd number the middle one is left out, and the means are further apart.
    let messages = (times.len() - half) as f64;
    messages * half as f64 / (apart as f64 * 1e-9)
}

#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes per second of each producer while all of them were producing, seen by the first
    /// consumer.
    pub producers: Vec<f64>,
    /// Bytes per second that each consumer took in the steady state.
    pub consumers: Vec<f64>,
    /// Whether all consumers took the same messages in the same order. With one producer this is
    /// the producer's order.
    pub same_order: bool,
    /// When the last message was taken, in seconds of virtual time.
    pub seconds: f64,
    /// CPU time of each producer's first core; the other cores of a team spend as much on bytes.
    pub producer_cpus: Vec<CpuReport>,
    /// CPU time of each consumer's first core.
    pub consumer_cpus: Vec<CpuReport>,
}

impl Outcome {
    /// The results of `total` messages of `bytes` bytes from the nodes `producers` to the nodes
    /// `consumers`, which have these logs.
    ///
    /// # Errors
    /// If a message is lost or duplicated, or a producer's are out of order.
    pub fn new(
        rack: &SimulatedRack,
        logs: &[Rc<RefCell<Log>>],
        (total, bytes): (u64, u32),
        [producers, consumers]: [&[NodeId]; 2],
    ) -> Result<Self> {
        let logs: Vec<Log> = logs.iter().map(|log| log.take()).collect();
        for (at, log) in logs.iter().enumerate() {
            if log.count() != total || !log.is_in_order_per_producer() {
                let count = log.count();
                let what = format!(
                    "consumer {at} took {count} items of {total}, or a producer's out of order"
                );
                return Err(failed("replication", what));
            }
        }
        let cpu = |node: &NodeId| rack.cpu_report(*node).unwrap_or_default();
        let last = logs.iter().map(Log::last).max().unwrap_or_default();
        let shares = |log: &Log| log.shares(bytes, producers.len() as u32);
        Ok(Self {
            producers: logs.first().map(shares).unwrap_or_default(),
            consumers: logs.iter().map(|log| log.goodput(bytes)).collect(),
            same_order: same_order(&logs),
            seconds: (last - Instant::ZERO).as_secs_f64(),
            producer_cpus: producers.iter().map(cpu).collect(),
            consumer_cpus: consumers.iter().map(cpu).collect(),
        })
    }
}

/// Whether all delivered the same messages in the same order.
fn same_order(logs: &[Log]) -> bool {
    logs.windows(2).all(|pair| pair[0].order == pair[1].order)
}

#[cfg(test)]
mod tests;
