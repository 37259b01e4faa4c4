//! Reports of an endpoint.

use crate::index::message::Numbers;
use crate::index::shard::Shard;
use crate::index::statistics::ShardStatistics;
use rackweave_base::Duration;

/// Maximum number of keys in a report that divide the requests into parts of equal weight.
const QUANTILES: usize = 128;

/// The report of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointReport {
    /// The version of its map.
    pub version: u64,
    /// Number of server threads.
    pub threads: u32,
    /// Requests that wait at them.
    pub queue: u32,
    /// Total time that they have worked.
    pub busy: Duration,
    /// The endpoint's counters.
    pub statistics: ShardStatistics,
    /// Keys, ascending, that divide the most recent operations into parts of equal weight. Some may
    /// be equal.
    pub keys: Vec<u64>,
}

impl EndpointReport {
    /// The current report of a shard.
    pub fn of(shard: &Shard) -> Self {
        let mut report = Self {
            version: shard.version(),
            statistics: shard.handover_statistics(),
            ..Self::default()
        };
        let mut keys = Vec::new();
        for meter in shard.meters() {
            report.threads += 1;
            report.queue = report.queue.saturating_add(meter.queue());
            report.busy += meter.busy();
            report.statistics += meter.statistics();
            meter.keys(&mut keys);
        }
        if let Some(part) = shard.part() {
            keys.retain(|key| part.keys().contains(key));
        } else {
            keys.clear();
        }
        keys.sort_unstable();
        let count = keys.len().min(QUANTILES);
        let quantile = |at: usize| keys[(2 * at + 1) * keys.len() / (2 * count)];
        report.keys = (0..count).map(quantile).collect();
        report
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let sizes = u64::from(self.threads) | u64::from(self.queue) << 32;
        let head = [self.version, sizes, self.busy.as_nanos()];
        let counters = self.statistics.list().map(|(_, value)| value);
        let words = head.into_iter().chain(counters).chain(self.keys.clone());
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes the report that follows the outcome in a reply.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes);
        let (version, sizes, busy) = (numbers.word()?, numbers.word()?, numbers.word()?);
        let mut words = core::iter::from_fn(|| numbers.word());
        Some(Self {
            version,
            threads: sizes as u32,
            queue: (sizes >> 32) as u32,
            busy: Duration::from_nanos(busy),
            statistics: ShardStatistics::from_values(words.by_ref())?,
            keys: words.collect(),
        })
    }
}
