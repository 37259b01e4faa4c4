//! One thread's connection to an index.

use super::{CallError, IndexService, IndexServiceError};
use crate::services::{TIME_LIMIT, ready_within, wait_within};
use crate::{Attached, Node};
use core::ops::RangeInclusive;
use core::time::Duration;
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{
    Answer, BeginError, ClientStatistics, DatagramClient, EndpointId, IndexClient, IndexError, Op,
    ReaderStatistics, Reply, Ticket, Value,
};
use std::collections::{HashSet, VecDeque};

/// One thread's connection to an index, from one node.
///
/// The blocking calls wait for their reply, within [`IndexConnection::time_limit`], and drive the
/// rack meanwhile: [`get`](Self::get), [`insert`](Self::insert), [`update`](Self::update),
/// [`put`](Self::put), [`delete`](Self::delete), [`scan`](Self::scan). Throughput comes from many
/// operations in flight: [`begin`](Self::begin) begins one, up to 64 of them, and
/// [`poll`](Self::poll) advances all and returns the next reply.
///
/// A thread that polls or waits also runs the index's servers if they are free. So no server thread
/// is needed; [`IndexService::serve`] is for programs that want some. A connection that is dropped
/// waits for nothing: a pending write may or may not be done.
#[derive(Debug)]
pub struct IndexConnection {
    /// `Some` until it is dropped.
    client: Option<Client>,
    service: IndexService,
    node: Node,
    time_limit: Duration,
    /// Replies that arrived while the caller waited for another one.
    replies: VecDeque<Reply>,
    /// Operations that were abandoned.
    given_up: HashSet<Ticket>,
}

/// How long a call waits for a dead endpoint to be replaced until it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

const THERE: &str = "a connection has its client until it is dropped";

/// The client for each kind of connection.
#[derive(Debug)]
pub(super) enum Client {
    Connected(Box<Attached<IndexClient>>),
    Datagrams(Box<DatagramClient>),
}

impl From<Attached<IndexClient>> for Client {
    fn from(client: Attached<IndexClient>) -> Self {
        Self::Connected(Box::new(client))
    }
}

impl From<DatagramClient> for Client {
    fn from(client: DatagramClient) -> Self {
        Self::Datagrams(Box::new(client))
    }
}

impl Client {
    fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, BeginError> {
        match self {
            Self::Connected(client) => client.begin(op),
            Self::Datagrams(client) => client.begin(op),
        }
    }

    fn advance(&mut self, node: &Node) -> bool {
        let now = node.now();
        node.with(|verbs| match self {
            Self::Connected(client) => client.advance(now, verbs),
            Self::Datagrams(client) => {
                let datagrams = verbs.datagrams();
                datagrams.is_some_and(|datagrams| client.advance(now, datagrams))
            }
        })
    }

    fn take(&mut self) -> Option<Reply> {
        match self {
            Self::Connected(client) => client.take(),
            Self::Datagrams(client) => client.take(),
        }
    }
}

impl IndexConnection {
    pub(super) fn new(service: IndexService, node: Node, client: Client) -> Self {
        Self {
            client: Some(client),
            node,
            service,
            time_limit: TIME_LIMIT,
            replies: VecDeque::new(),
            given_up: HashSet::new(),
        }
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// If no reply arrived, or the index is damaged.
    pub fn get(&mut self, key: u64) -> Result<Option<Value>, CallError> {
        match self.execute(&Op::Get { key })? {
            Answer::Value(value) => Ok(value),
            other => unreachable!("a lookup was answered with {other:?}"),
        }
    }

    /// Gives a key without a value one. Returns false if it has one, which is not changed.
    ///
    /// # Errors
    /// If the value is too long, the index is full, or no reply arrived.
    pub fn insert(&mut self, key: u64, value: &[u8]) -> Result<bool, CallError> {
        Ok(!self.write(&Op::Insert { key, value })?)
    }

    /// Replaces the value of a key that has one. Returns false if it has none; then it gets none.
    ///
    /// # Errors
    /// As for [`IndexConnection::insert`].
    pub fn update(&mut self, key: u64, value: &[u8]) -> Result<bool, CallError> {
        self.write(&Op::Update { key, value })
    }

    /// Sets a key's value. Returns whether it had one before.
    ///
    /// # Errors
    /// As for [`IndexConnection::insert`].
    pub fn put(&mut self, key: u64, value: &[u8]) -> Result<bool, CallError> {
        self.write(&Op::Put { key, value })
    }

    /// Removes a key's value. Returns false if it had none.
    ///
    /// # Errors
    /// As for [`IndexConnection::insert`].
    pub fn delete(&mut self, key: u64) -> Result<bool, CallError> {
        self.write(&Op::Delete { key })
    }

    /// The entries of these keys, at most `limit`, in the order of the direction. Each leaf of the
    /// tree is read at one moment; the whole range is not.
    ///
    /// # Errors
    /// If the range ends before it begins, no reply arrived, or the index is damaged.
    pub fn scan(
        &mut self,
        keys: RangeInclusive<u64>,
        direction: Direction,
        limit: u32,
    ) -> Result<Vec<(u64, Value)>, CallError> {
        let scan = Op::Scan {
            low: *keys.start(),
            last: *keys.end(),
            direction,
            limit,
        };
        match self.execute(&scan)? {
            Answer::Entries(entries) => Ok(entries),
            other => unreachable!("a scan was answered with {other:?}"),
        }
    }

    fn write(&mut self, op: &Op<'_>) -> Result<bool, CallError> {
        match self.execute(op)? {
            Answer::Found(found) => Ok(found),
            other => unreachable!("a write was answered with {other:?}"),
        }
    }

    /// Executes any operation and waits for its reply.
    ///
    /// # Errors
    /// If it is not begun, fails, or no reply arrived in time.
    pub fn execute(&mut self, op: &Op<'_>) -> Result<Answer, CallError> {
        self.execute_within(op, self.time_limit)
    }

    /// The same with another time limit; [`FOREVER`](crate::services::FOREVER) is none. If the
    /// endpoint does not answer and the index has replicas, it reconnects and tries again within
    /// the limit, unless the operation may have been done.
    ///
    /// # Errors
    /// As for [`IndexConnection::execute`].
    pub fn execute_within(&mut self, op: &Op<'_>, limit: Duration) -> Result<Answer, CallError> {
        let node = self.node.clone();
        let begun = node.now();
        loop {
            let ticket = Some(self.begin(op)?);
            let left = limit.saturating_sub(node.now().since(begun).into());
            let mut awaited = Awaited {
                connection: &mut *self,
                ticket,
            };
            let reply = wait_within(&node, left, || awaited.take());
            drop(awaited);
            let reply = reply.ok_or(CallError::TimedOut { after: limit })?;
            match reply.result {
                // Its replica will take its place.
                Err(IndexError::Gone(endpoint)) if self.service.is_replicated() => {
                    if self.reconnect(endpoint).is_err() {
                        self.pause(&node, LOOK_AGAIN.min(left));
                    }
                    if left.is_zero() {
                        return Err(IndexError::Gone(endpoint).into());
                    }
                }
                result => return Ok(result?),
            }
        }
    }

    /// Drives the rack for some time.
    fn pause(&mut self, node: &Node, time: Duration) {
        wait_within(node, time, || -> Option<()> {
            self.advance();
            None
        });
    }

    /// [`IndexConnection::execute`] for a task that awaits it. An operation whose future is dropped
    /// may or may not be done.
    ///
    /// # Errors
    /// As for [`IndexConnection::execute`].
    pub fn execute_async(
        &mut self,
        op: &Op<'_>,
    ) -> impl Future<Output = Result<Answer, CallError>> + Send {
        let (node, limit) = (self.node.clone(), self.time_limit);
        let begun = self.begin(op).map(Some);
        let awaited = begun.map(|ticket| Awaited {
            connection: self,
            ticket,
        });
        async move {
            let mut awaited = awaited?;
            match ready_within(&node, limit, || awaited.take()).await {
                Some(reply) => Ok(reply.result?),
                None => Err(CallError::TimedOut { after: limit }),
            }
        }
    }

    /// Begins an operation. Nothing is sent before the next poll, so operations that are begun
    /// together travel together.
    ///
    /// # Errors
    /// If 64 are pending, the value is too long, or a range ends before it begins.
    pub fn begin(&mut self, op: &Op<'_>) -> Result<Ticket, BeginError> {
        let (len, limit) = (op.value().len(), self.service.value_max());
        if len > limit as usize {
            return Err(BeginError::ValueTooLarge { len, limit });
        }
        self.client.as_mut().expect(THERE).begin(op)
    }

    /// Advances all pending operations and returns the next reply, of any operation. Never waits.
    pub fn poll(&mut self) -> Option<Reply> {
        if self.replies.is_empty() {
            self.advance();
        }
        self.replies.pop_front()
    }

    /// Waits for the reply to one operation, within a time limit. If it returns `None` the
    /// operation is still pending: wait again, poll, or [`abandon`](Self::abandon) it.
    pub fn wait(&mut self, ticket: Ticket, limit: Duration) -> Option<Reply> {
        let node = self.node.clone();
        wait_within(&node, limit, || self.take(ticket))
    }

    fn take(&mut self, ticket: Ticket) -> Option<Reply> {
        self.advance();
        let at = self.replies.iter().position(|r| r.ticket == ticket)?;
        self.replies.remove(at)
    }

    /// Advances all pending operations; returns true if anything happened.
    pub fn advance(&mut self) -> bool {
        if let Some(Client::Connected(client)) = &mut self.client {
            self.service.take_sample(&self.node, client);
        }
        let served = self.service.serve();
        let client = self.client.as_mut().expect(THERE);
        let came = client.advance(&self.node);
        while let Some(reply) = client.take() {
            if !self.given_up.remove(&reply.ticket) {
                self.replies.push_back(reply);
            }
        }
        came | served
    }

    /// Abandons an operation: its reply will be discarded.
    pub fn abandon(&mut self, ticket: Ticket) {
        match self.replies.iter().position(|r| r.ticket == ticket) {
            Some(at) => drop(self.replies.remove(at)),
            None => drop(self.given_up.insert(ticket)),
        }
    }

    /// Reconnects to an endpoint that was restarted, or whose connection broke. Operations pending
    /// there end with an error.
    ///
    /// # Errors
    /// If the endpoint is dead, or there is no capacity.
    pub fn reconnect(&mut self, endpoint: EndpointId) -> Result<(), IndexServiceError> {
        match self.client.as_mut().expect(THERE) {
            Client::Connected(client) => Ok(self.service.attach(client, endpoint)?),
            Client::Datagrams(client) if self.service.is_replicated() => {
                Ok(self.service.attach_datagrams(client, endpoint)?)
            }
            // There is no connection state that could have broken.
            Client::Datagrams(_) => Ok(()),
        }
    }

    /// The time limit of blocking calls.
    pub fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// Changes the time limit; it is [`TIME_LIMIT`] at first.
    pub fn set_time_limit(&mut self, limit: Duration) {
        self.time_limit = limit;
    }

    /// Statistics of its operations.
    pub fn statistics(&self) -> ClientStatistics {
        match self.client.as_ref().expect(THERE) {
            Client::Connected(client) => client.statistics(),
            Client::Datagrams(client) => client.statistics(),
        }
    }

    /// Statistics of its READs; `None` if it makes none.
    pub fn reader_statistics(&self) -> ReaderStatistics {
        match self.client.as_ref().expect(THERE) {
            Client::Connected(client) => client.reader_statistics(),
            Client::Datagrams(_) => ReaderStatistics::default(),
        }
    }

    /// The connection's node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The index that it is connected to.
    pub fn service(&self) -> &IndexService {
        &self.service
    }
}

impl Drop for IndexConnection {
    fn drop(&mut self) {
        match self.client.take() {
            Some(Client::Connected(client)) => self.service.release(*client),
            Some(Client::Datagrams(client)) => self.node.with(|verbs| {
                if let Some(datagrams) = verbs.datagrams() {
                    client.close(datagrams);
                }
            }),
            None => {}
        }
    }
}

/// An operation that a task awaits: abandoned if the task drops it.
struct Awaited<'a> {
    connection: &'a mut IndexConnection,
    /// `None` once its reply has arrived.
    ticket: Option<Ticket>,
}

impl Awaited<'_> {
    fn take(&mut self) -> Option<Reply> {
        let reply = self.connection.take(self.ticket?)?;
        self.ticket = None;
        Some(reply)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.connection.abandon(ticket);
        }
    }
}
