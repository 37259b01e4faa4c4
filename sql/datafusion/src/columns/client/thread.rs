//! The thread of a client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use rackweave::columns::{ColumnClientConfig, ColumnReader};
use rackweave::messaging::MessageConnection;
use rackweave::verbs::Progress as _;

use super::fetches::Fetches;
use super::{Message, Shared, connect};

/// Rounds without news that the thread stays awake: an answer that is on its way takes some
/// microseconds.
const ROUNDS_AWAKE: u32 = 16;

/// The longest sleep while answers are expected. What arrives ends it.
const SLEEP_MAX: Duration = Duration::from_millis(5);

/// A storage node that something was fetched from.
struct Peer {
    fetches: Fetches,
    connection: Connection,
}

enum Connection {
    None,
    Connecting,
    Open(Box<ColumnReader>),
}

/// Moves requests and answers until the client is dropped.
pub(super) fn run(shared: &Arc<Shared>, messages: &Receiver<Message>, sender: &Sender<Message>) {
    let mut peers: BTreeMap<Arc<str>, Peer> = BTreeMap::new();
    let mut idle_rounds = 0;
    loop {
        let is_idle = peers.values().all(|peer| peer.fetches.is_empty());
        // Nothing is expected: what comes next is a message.
        let next = if is_idle {
            messages.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            messages.try_recv()
        };
        let mut happened = true;
        match next {
            Ok(Message::Fetch(node, fetch)) => {
                let peer = peers.entry(Arc::clone(&node)).or_insert_with(|| Peer {
                    fetches: Fetches::new(&node),
                    connection: Connection::None,
                });
                peer.fetches.add(fetch);
            }
            Ok(Message::Connected(node, connected)) => {
                if let Some(peer) = peers.get_mut(&node) {
                    peer.connected(connected);
                }
            }
            Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => happened = false,
        }
        for (node, peer) in &mut peers {
            happened |= peer.advance(|| connect::begin(shared, node, sender));
        }
        happened |= shared.node().drive();
        idle_rounds = if happened { 0 } else { idle_rounds + 1 };
        match idle_rounds {
            0 => {}
            1..ROUNDS_AWAKE => std::thread::yield_now(),
            _ => {
                // The first time the flag is set only: a message that was sent before is seen in
                // the next round, and one that is sent after it wakes the thread.
                if shared.is_asleep.swap(true, Ordering::SeqCst) {
                    shared.node().sleep(SLEEP_MAX);
                    shared.is_asleep.store(false, Ordering::SeqCst);
                }
            }
        }
    }
}

impl Peer {
    fn connected(&mut self, connected: Result<Box<MessageConnection>, String>) {
        match connected {
            Ok(connection) => {
                let config = ColumnClientConfig::default();
                let reader = ColumnReader::new(*connection, config);
                self.connection = Connection::Open(Box::new(reader));
            }
            Err(reason) => {
                self.connection = Connection::None;
                self.fetches.fail(&reason);
            }
        }
    }

    /// Returns whether anything happened.
    fn advance(&mut self, connect: impl FnOnce()) -> bool {
        match &mut self.connection {
            Connection::None if self.fetches.is_empty() => false,
            Connection::None => {
                self.connection = Connection::Connecting;
                connect();
                true
            }
            Connection::Connecting => false,
            Connection::Open(reader) => match self.fetches.advance(reader) {
                Ok(happened) => happened,
                Err(reason) => {
                    self.connection = Connection::None;
                    self.fetches.disconnect(&reason);
                    true
                }
            },
        }
    }
}
