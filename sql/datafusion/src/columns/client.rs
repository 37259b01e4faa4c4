//! The way from a process to the storage nodes.
//!
//! A client has one connection to each storage node, made when it is needed first, and one thread,
//! which moves the requests and answers of all of them. A storage process that died and was started
//! again has another address, and the same columns: requests that were in flight are made again,
//! once, over a connection to wherever the node is then.

mod connect;
mod fetches;
mod thread;

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use futures::channel::oneshot;
use rackweave::columns::ColumnData;
use rackweave::exchange::Exchange;
use rackweave::messaging::MessageConnection;
use rackweave::{Node, Rack};

use self::fetches::Fetch;
use super::description::{self, StorageRequest, TablePart};
use super::error::StorageError;

/// Fetches columns from storage nodes. Clones share connections; the last one that is dropped ends
/// them.
#[derive(Clone)]
pub struct StorageClient(Arc<Owner>);

/// Ends the thread when it is dropped.
struct Owner {
    shared: Arc<Shared>,
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the handles share.
struct Shared {
    rack: Rack,
    exchange: Exchange,
    /// Whether the thread may be asleep on the node.
    is_asleep: AtomicBool,
}

/// What the thread gets.
enum Message {
    Fetch(Arc<str>, Fetch),
    Connected(Arc<str>, Result<Box<MessageConnection>, String>),
    Stop,
}

impl StorageClient {
    /// A client at the node of an exchange.
    ///
    /// # Errors
    ///
    /// The system has no thread for it.
    pub fn start(rack: &Rack, exchange: &Exchange) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            rack: rack.clone(),
            exchange: exchange.clone(),
            is_asleep: AtomicBool::new(false),
        });
        let (messages, received) = channel();
        let (on_thread, sender) = (Arc::clone(&shared), messages.clone());
        let named = std::thread::Builder::new().name("column-fetches".to_owned());
        let thread = named.spawn(move || thread::run(&on_thread, &received, &sender))?;
        Ok(Self(Arc::new(Owner {
            shared,
            messages,
            thread: Some(thread),
        })))
    }

    /// Begins to fetch these columns of a storage node. They come in this order. Dropping the
    /// future drops them.
    pub(super) fn fetch(
        &self,
        node: &Arc<str>,
        columns: Vec<String>,
    ) -> impl Future<Output = Result<Vec<ColumnData>, StorageError>> + Send + 'static + use<> {
        let (reply, answer) = oneshot::channel();
        let fetch = Fetch::new(columns, reply);
        // A thread that is gone drops the message, and so the reply.
        let _ = self
            .0
            .messages
            .send(Message::Fetch(Arc::clone(node), fetch));
        self.0.shared.wake();
        async { answer.await.unwrap_or(Err(StorageError::Stopped)) }
    }

    /// The tables that a storage node serves.
    ///
    /// # Errors
    ///
    /// It can't be reached, or its answer isn't understood.
    pub async fn tables(&self, node: &str) -> Result<Vec<TablePart>, StorageError> {
        let shared = &self.0.shared;
        let answer = connect::ask(&shared.exchange, node, StorageRequest::Tables).await?;
        description::decode_tables(&answer).map_err(|source| StorageError::Description {
            node: node.to_owned(),
            source,
        })
    }
}

impl Shared {
    fn node(&self) -> &Node {
        self.exchange.node()
    }

    /// Wakes the thread if it sleeps on the node.
    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            self.node().with(|_| ());
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A panic was reported on standard error.
            let _ = thread.join();
        }
    }
}

impl Debug for StorageClient {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageClient")
            .field("node", &self.0.shared.node().name())
            .finish_non_exhaustive()
    }
}
