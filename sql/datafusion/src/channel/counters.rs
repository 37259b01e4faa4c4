//! Asks nodes what they hold.

use std::sync::Arc;

use datafusion::common::Result;
use rackweave::exchange::Budget;
use url::Url;

use super::{
    CONTROL_BUDGET_BYTES, RackweaveChannel, RackweaveChannelResolver, node_of, stream_error,
};
use crate::codec;
use crate::counters::{NodeCounters, TaskCounter};

impl RackweaveChannelResolver {
    /// What this node holds, if it is no worker.
    #[must_use]
    pub fn counters(&self) -> NodeCounters {
        NodeCounters::of(&self.shared.exchange, &TaskCounter::default())
    }

    /// What the worker at `url` holds, apart from the stream that asks.
    ///
    /// # Errors
    ///
    /// The worker can't be reached, or doesn't know its counters.
    pub async fn counters_of(&self, url: &Url) -> Result<NodeCounters> {
        let channel = RackweaveChannel {
            shared: Arc::clone(&self.shared),
            node: node_of(url)?.into(),
        };
        let request = codec::encode_counters_request();
        let (sender, mut receiver) = channel.open(request, &Budget::new(CONTROL_BUDGET_BYTES))?;
        sender.finish();
        match receiver.next().await {
            Some(Ok(answer)) => Ok(codec::decode_counters(&answer)?),
            Some(Err(error)) => Err(stream_error(error)),
            None => Err(channel.silent("tell its counters")),
        }
    }
}
