//! Columns over a connection (docs/columns.md).

use super::MessageConnection;
use crate::services::wait_within;
use core::time::Duration;
use rackweave_base::Instant;
use rackweave_endpoint::messaging::columns::{
    Answer, AskError, Catalogue, ClientCounters, ColumnClient, ColumnClientConfig, ColumnData,
    ColumnServer, ColumnServerConfig, ListedColumn, PieceReader, Reply, RequestError,
    ServerCounters, Ticket,
};
use rackweave_endpoint::messaging::{Closed, Receiver, Sender};
use rackweave_verbs::Verbs;
use std::collections::VecDeque;
use std::sync::Arc;

/// Serves the columns of a catalogue over one connection, on its first channel each way. Dropping
/// it closes the connection.
#[derive(Debug)]
pub struct ColumnService {
    /// `Some` until it is dropped, as is `service`.
    connection: Option<MessageConnection>,
    server: Option<ColumnServer>,
}

const THERE: &str = "it is there until this is dropped";

impl ColumnService {
    /// Serves the present and future contents of `catalogue`, which several services may share.
    pub fn new(
        connection: MessageConnection,
        catalogue: Arc<Catalogue>,
        config: ColumnServerConfig,
    ) -> Self {
        Self {
            connection: Some(connection),
            server: Some(ColumnServer::new(catalogue, config)),
        }
    }

    /// Takes requests and sends replies. Returns true if anything happened. Never waits.
    ///
    /// # Errors
    /// If the connection is closed, possibly because of an invalid request.
    pub fn poll(&mut self) -> Result<bool, Closed> {
        let server = self.server.as_mut().expect(THERE);
        let connection = self.connection.as_mut().expect(THERE);
        connection.with_first(|now, nic, sender, receiver| server.poll(now, nic, sender, receiver))
    }

    /// Serves until the peer has finished and has all replies; returns false if `limit` expires
    /// first. The calling thread drives the rack.
    ///
    /// # Errors
    /// As for [`ColumnService::poll`].
    pub fn serve(&mut self, limit: Duration) -> Result<bool, Closed> {
        let node = self.connection.as_ref().expect(THERE).node().clone();
        let ended = wait_within(&node, limit, || match self.poll() {
            Err(closed) => Some(Err(closed)),
            Ok(_) => self.is_finished().then_some(Ok(true)),
        });
        ended.unwrap_or(Ok(false))
    }

    /// Whether the peer has announced that it sends no more requests, and has all replies.
    pub fn is_finished(&mut self) -> bool {
        let server = self.server.as_ref().expect(THERE);
        let connection = self.connection.as_mut().expect(THERE);
        connection.with_first(|_, _, sender, _| server.is_finished(sender))
    }

    /// Refuses requests whose replies have not begun, and all later ones.
    pub fn stop(&mut self) {
        self.server.as_mut().expect(THERE).stop();
    }

    /// The counters of the service.
    pub fn counters(&self) -> &ServerCounters {
        self.server.as_ref().expect(THERE).counters()
    }
}

impl Drop for ColumnService {
    fn drop(&mut self) {
        let node = self.connection.as_ref().expect(THERE).node().clone();
        // The NIC may read lent columns until its queue pairs are destroyed.
        self.connection = None;
        if let Some(server) = self.server.take() {
            node.with(|nic| server.destroy(nic));
        }
    }
}

/// Why a column or a list could not be fetched.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FetchError {
    /// It was not requested.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// It was requested, but the request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No reply arrived in time. A late reply is discarded.
    #[error("no answer came within {after:?}")]
    TimedOut {
        /// The time waited.
        after: Duration,
    },
}

/// Requests columns over one connection, on its first channel each way. Dropping it closes the
/// connection.
#[derive(Debug)]
pub struct ColumnReader {
    connection: MessageConnection,
    client: ColumnClient,
    /// Replies that arrived while the caller waited for another one.
    answers: VecDeque<Answer>,
    /// Requests whose replies are discarded.
    given_up: Vec<Ticket>,
}

impl ColumnReader {
    /// A reader with no requests.
    pub fn new(connection: MessageConnection, config: ColumnClientConfig) -> Self {
        Self {
            connection,
            client: ColumnClient::new(config),
            answers: VecDeque::new(),
            given_up: Vec::new(),
        }
    }

    /// Begins to request a column; with a known version, it is sent only if its version differs.
    ///
    /// # Errors
    /// If the window is full, the name is invalid, or the connection is closed.
    pub fn begin(&mut self, name: &str, known: Option<u64>) -> Result<Ticket, AskError> {
        self.client.ask(name, known)
    }

    /// Begins to request a column that is shown to the reader of [`ColumnReader::poll_with`] piece
    /// by piece, in place in the receive buffers.
    ///
    /// # Errors
    /// As for [`ColumnReader::begin`].
    pub fn begin_in_place(&mut self, name: &str) -> Result<Ticket, AskError> {
        self.client.ask_in_place(name)
    }

    /// The next reply. Never waits. If the connection is closed, all pending requests end with that
    /// error.
    pub fn poll(&mut self) -> Option<Answer> {
        self.poll_with(&mut ())
    }

    /// The same with a reader of columns in place.
    pub fn poll_with(&mut self, reader: &mut dyn PieceReader) -> Option<Answer> {
        let client = &mut self.client;
        // A closed connection has ended all requests.
        let _ = self.connection.with_first(|now, nic, sender, receiver| {
            client.poll(now, nic, sender, receiver, reader)
        });
        while let Some(answer) = self.client.take() {
            let before = self.given_up.len();
            self.given_up.retain(|ticket| *ticket != answer.ticket);
            if before == self.given_up.len() {
                self.answers.push_back(answer);
            }
        }
        self.answers.pop_front()
    }

    /// Fetches the column of this name. The calling thread drives the rack; another thread must
    /// poll the service.
    ///
    /// # Errors
    /// If it is not served, cannot be stored, or does not arrive within `limit`.
    pub fn fetch(&mut self, name: &str, limit: Duration) -> Result<ColumnData, FetchError> {
        let ticket = self.begin(name, None)?;
        match self.wait(ticket, limit)? {
            Reply::Column(column) => Ok(column),
            other => unreachable!("a column was asked for: {other:?}"),
        }
    }

    /// The columns that the peer serves, by name.
    ///
    /// # Errors
    /// As for [`ColumnReader::fetch`].
    pub fn list(&mut self, limit: Duration) -> Result<Vec<ListedColumn>, FetchError> {
        let ticket = self.client.ask_list()?;
        match self.wait(ticket, limit)? {
            Reply::List(columns) => Ok(columns),
            other => unreachable!("a list was asked for: {other:?}"),
        }
    }

    /// Ends the requests; the peer is notified when everything has been sent.
    pub fn finish(&mut self) {
        self.client.finish();
    }

    /// Whether the peer has confirmed the end after [`ColumnReader::finish`], once polled.
    pub fn is_finished(&self) -> bool {
        self.client.is_finished()
    }

    /// Why the connection can no longer be used, if it is closed.
    pub fn broken(&self) -> Option<&RequestError> {
        self.client.broken()
    }

    /// Finishes, and waits until the peer confirms that all requests are answered.
    ///
    /// # Errors
    /// If the connection was closed before, or the peer does not confirm within `limit`.
    pub fn close(mut self, limit: Duration) -> Result<(), FetchError> {
        self.finish();
        let node = self.connection.node().clone();
        let finished = wait_within(&node, limit, || {
            self.poll();
            // A peer that has confirmed may close the connection at once.
            if self.client.is_finished() {
                return Some(Ok(()));
            }
            self.client.broken().cloned().map(|error| Err(error.into()))
        });
        finished.unwrap_or(Err(FetchError::TimedOut { after: limit }))
    }

    /// The counters of the reader.
    pub fn counters(&self) -> &ClientCounters {
        self.client.counters()
    }

    fn wait(&mut self, ticket: Ticket, limit: Duration) -> Result<Reply, FetchError> {
        let node = self.connection.node().clone();
        let mut others = VecDeque::new();
        let found = wait_within(&node, limit, || {
            let answer = self.poll()?;
            if answer.ticket == ticket {
                return Some(answer.result);
            }
            others.push_back(answer);
            None
        });
        others.append(&mut self.answers);
        self.answers = others;
        match found {
            Some(result) => Ok(result?),
            None => {
                self.given_up.push(ticket);
                Err(FetchError::TimedOut { after: limit })
            }
        }
    }
}

impl MessageConnection {
    /// Calls `act` with the first channel each way.
    fn with_first<R>(
        &mut self,
        act: impl FnOnce(Instant, &mut dyn Verbs, &mut Sender, &mut Receiver) -> R,
    ) -> R {
        let now = self.node.now();
        let connection = self.connection.as_mut().expect("it is taken apart once");
        let (sender, receiver) = (&mut connection.senders[0], &mut connection.receivers[0]);
        self.node.with(|nic| act(now, nic, sender, receiver))
    }
}
