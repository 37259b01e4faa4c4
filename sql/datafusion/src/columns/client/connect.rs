//! Finds storage nodes, and connects to their column services.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use futures::executor::block_on;
use rackweave::exchange::{Budget, Exchange, StreamError};
use rackweave::messaging::{MessageConnection, MessagingConfig, dial};

use super::{Message, Shared};
use crate::codec::decode_error;
use crate::columns::description::{self, StorageRequest};
use crate::columns::error::StorageError;

/// Bytes of a description that may wait here.
const BUDGET_BYTES: u64 = 4 << 20;

/// Time limit of a handshake.
const DIAL_LIMIT: Duration = Duration::from_secs(2);

/// Retransmissions of this node's NIC. They take less time than those of other connections: a node
/// that only stood still is connected to again.
const RETRIES: u8 = 5;

/// A connection to a process that died is found broken by the first stream on it.
const ATTEMPTS: usize = 2;

/// What a storage node answers.
pub(super) async fn ask(
    exchange: &Exchange,
    node: &str,
    request: StorageRequest,
) -> Result<Vec<u8>, StorageError> {
    let unreachable = |reason: String| StorageError::Unreachable {
        node: node.to_owned(),
        reason,
    };
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let budget = Budget::new(BUDGET_BYTES);
        let opened = exchange.open(node, description::encode_request(request), &budget);
        let (sender, mut answers) = opened.map_err(|error| unreachable(error.to_string()))?;
        sender.finish();
        match answers.next().await {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(StreamError::Gone { why, .. })) => last = why.to_string(),
            Some(Err(StreamError::Failed(error))) => {
                let reason = decode_error(&error).strip_backtrace();
                return Err(unreachable(format!("it serves no tables: {reason}")));
            }
            Some(Err(error)) => return Err(unreachable(error.to_string())),
            None => return Err(unreachable("it gave no answer".to_owned())),
        }
    }
    Err(unreachable(last))
}

/// Connects on a thread of its own: the controller, and the node, may not answer.
pub(super) fn begin(shared: &Arc<Shared>, node: &Arc<str>, messages: &Sender<Message>) {
    let (on_thread, name, sender) = (Arc::clone(shared), Arc::clone(node), messages.clone());
    let named = std::thread::Builder::new().name("column-dials".to_owned());
    let spawned = named.spawn(move || {
        let connected = connect(&on_thread, &name).map(Box::new);
        let _ = sender.send(Message::Connected(name, connected));
        on_thread.wake();
    });
    if let Err(error) = spawned {
        let reason = format!("no thread to connect on: {error}");
        let _ = messages.send(Message::Connected(Arc::clone(node), Err(reason)));
    }
}

/// Why not, without the node's name.
fn connect(shared: &Shared, node: &str) -> Result<MessageConnection, String> {
    let asked = block_on(ask(&shared.exchange, node, StorageRequest::Address));
    let answer = asked.map_err(|error| match error {
        StorageError::Unreachable { reason, .. } => reason,
        other => other.to_string(),
    })?;
    let address = description::decode_address(&answer).map_err(|error| error.to_string())?;
    let config = MessagingConfig {
        retries: RETRIES,
        ..MessagingConfig::default()
    };
    let dialed = dial(&shared.rack, shared.node(), address, config, DIAL_LIMIT);
    dialed.map_err(|error| error.to_string())
}
