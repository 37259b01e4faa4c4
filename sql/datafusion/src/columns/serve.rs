//! The storage node's side: answers questions about its tables, and serves their columns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use datafusion::common::DataFusionError;
use rackweave::columns::{Catalogue, ColumnServerConfig, ColumnService};
use rackweave::exchange::{Exchange, Incoming};
use rackweave::messaging::{Listener, MessagingConfig, PeerQuota};
use rackweave::verbs::Progress as _;
use rackweave::{Node, Rack};

use super::description::{self, StorageRequest};
use super::error::StoreError;
use super::store::StorageTables;
use crate::codec::{CodecError, encode_error};

/// How often the listener's socket is looked at: the system has to be asked.
const LISTEN_EVERY: Duration = Duration::from_millis(5);

/// The same while nodes are connecting.
const LISTEN_SOON: Duration = Duration::from_micros(200);

/// Rounds without news that the thread stays awake: the next request may be on its way.
const ROUNDS_AWAKE: u32 = 4;

/// Connections that one node may have here: a worker has one.
const CONNECTIONS_MAX: usize = 8;

/// Serves the tables of a storage node until it is dropped.
///
/// The columns are served by a thread of its own, questions by [`Self::serve`].
#[derive(Debug)]
pub struct StorageServer {
    exchange: Exchange,
    address: SocketAddr,
    tables: StorageTables,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StorageServer {
    /// Begins to serve the columns of `tables` at `listen`, an address that all nodes reach; port 0
    /// takes a free port. The exchange is that of the storage node.
    ///
    /// # Errors
    ///
    /// The address can't be had, or the system has no thread.
    pub fn start(
        rack: &Rack,
        exchange: Exchange,
        listen: SocketAddr,
        tables: StorageTables,
    ) -> Result<Self, StoreError> {
        let node = exchange.node().clone();
        let mut listener = Listener::bind(rack, &node, listen, MessagingConfig::default())?;
        listener.set_peer_quota(PeerQuota {
            connections: rack.config().node.len().max(CONNECTIONS_MAX),
            bytes: u64::MAX,
        });
        let address = listener.local_addr();
        let stops = Arc::new(AtomicBool::new(false));
        let (stop, catalogue) = (Arc::clone(&stops), Arc::clone(&tables.catalogue));
        let named = std::thread::Builder::new().name("columns".to_owned());
        let thread = named.spawn(move || serve_columns(&node, listener, &catalogue, &stop));
        Ok(Self {
            exchange,
            address,
            tables,
            stops,
            thread: Some(thread.map_err(StoreError::Thread)?),
        })
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> &StorageTables {
        &self.tables
    }

    /// Answers questions of other nodes, until the exchange is closed.
    pub async fn serve(&self) {
        while let Some(incoming) = self.exchange.accept().await {
            self.answer(incoming).await;
        }
    }

    /// An answer is one message, which the window of a new stream takes at once.
    async fn answer(&self, incoming: Incoming) {
        let Incoming {
            request,
            mut sender,
            ..
        } = incoming;
        match self.message(&request) {
            Ok(message) => {
                // A node that is gone wants no answer.
                if sender.send(message).await.is_ok() {
                    sender.finish();
                }
            }
            Err(error) => sender.fail(encode_error(&DataFusionError::from(error))),
        }
    }

    fn message(&self, request: &[u8]) -> Result<Vec<u8>, CodecError> {
        match description::decode_request(request)? {
            StorageRequest::Address => Ok(description::encode_address(self.address)),
            StorageRequest::Tables => description::encode_tables(self.tables.parts()),
        }
    }
}

impl Drop for StorageServer {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was reported on standard error.
            let _ = thread.join();
        }
    }
}

fn serve_columns(
    node: &Node,
    mut listener: Listener,
    catalogue: &Arc<Catalogue>,
    stops: &AtomicBool,
) {
    let mut services: Vec<ColumnService> = Vec::new();
    let mut listened = Instant::now();
    let mut idle_rounds = 0;
    while !stops.load(Ordering::Relaxed) {
        let mut moved = false;
        let every = match listener.pending() {
            0 => LISTEN_EVERY,
            _ => LISTEN_SOON,
        };
        if listened.elapsed() >= every {
            listened = Instant::now();
            moved |= listener.poll();
            while let Some(connection) = listener.try_accept() {
                let config = ColumnServerConfig::default();
                let service = ColumnService::new(connection, Arc::clone(catalogue), config);
                services.push(service);
                moved = true;
            }
        }
        // A client that misbehaves or dies ends its own connection only.
        services.retain_mut(|service| match service.poll() {
            Ok(happened) => {
                moved |= happened;
                !service.is_finished()
            }
            Err(_closed) => false,
        });
        if moved | node.drive() {
            idle_rounds = 0;
        } else if idle_rounds < ROUNDS_AWAKE {
            idle_rounds += 1;
            std::thread::yield_now();
        } else {
            node.sleep(every);
        }
    }
}
