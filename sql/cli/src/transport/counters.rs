//! What the processes of a session hold for its queries.

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
