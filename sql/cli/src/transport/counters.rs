//! What the processes of a session hold for its queries.

use crate::report::bytes;
use datafusion::common::DataFusionError;
use futures::future::try_join_all;
use rackweave_datafusion::channel::RackweaveChannelResolver;
use rackweave_datafusion::counters::NodeCounters;
use url::Url;

/// Asks the workers of a session, and knows what this process holds.
#[derive(Clone)]
pub struct Counters {
    channels: RackweaveChannelResolver,
    workers: Vec<Url>,
}

impl Counters {
    /// Of a session whose workers these are.
    pub fn new(channels: RackweaveChannelResolver, workers: Vec<Url>) -> Self {
        Self { channels, workers }
    }

    /// The sum over this process and the workers.
    ///
    /// # Errors
    /// A worker does not answer.
    pub async fn read(&self) -> Result<NodeCounters, DataFusionError> {
        // First, as each question is a stream for as long as it waits for its answer.
        let own = self.channels.counters();
        let asked = self
            .workers
            .iter()
            .map(|url| self.channels.counters_of(url));
        Ok(own + try_join_all(asked).await?.into_iter().sum())
    }
}

/// The counters for people: `4 streams, 1.5 MiB waiting, 2 tasks, 310.0 MiB resident`.
pub fn text(counters: &NodeCounters) -> String {
    let size = |size| bytes(usize::try_from(size).unwrap_or(usize::MAX));
    format!(
        "{} streams, {} waiting, {} tasks, {} resident",
        counters.streams,
        size(counters.bytes()),
        counters.tasks,
        size(counters.resident_bytes),
    )
}
