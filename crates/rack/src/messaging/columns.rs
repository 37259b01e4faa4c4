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

/// Serves the columns of a catalogue over one connection, on its first channel each way. Dropped,
/// it closes the connection.
#[derive(Debug)]
pub struct ColumnService {
    /// Both are there until it is dropped.
    connection: Option<MessageConnection>,
    server: Option<ColumnServer>,
}

const THERE: &str = "it is there until this is dropped";

impl ColumnService {
    /// Serves what is in `catalogue`, now or later. Others may serve the same.
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

    /// Takes requests and sends answers. True if anything happened. Never waits.
    ///
    /// # Errors
    /// If the connection is closed, be it because of a message that is no request.
    pub fn poll(&mut self) -> Result<bool, Closed> {
        let server = self.server.as_mut().expect(THERE);
        let connection = self.connection.as_mut().expect(THERE);
        connection.with_first(|now, nic, sender, receiver| server.poll(now, nic, sender, receiver))
    }

    /// Serves until the peer has finished and has all answers; false if `limit` is over before.
    /// The calling thread drives the rack.
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

    /// Whether the peer has said that it asks for nothing more, and has all answers.
    pub fn is_finished(&mut self) -> bool {
        let server = self.server.as_ref().expect(THERE);
        let connection = self.connection.as_mut().expect(THERE);
        connection.with_first(|_, _, sender, _| server.is_finished(sender))
    }

    /// Refuses what has not begun to be answered, and whatever still comes.
    pub fn stop(&mut self) {
        self.server.as_mut().expect(THERE).stop();
    }

    /// What was counted.
    pub fn counters(&self) -> &ServerCounters {
        self.server.as_ref().expect(THERE).counters()
    }
}

impl Drop for ColumnService {
    fn drop(&mut self) {
        let node = self.connection.as_ref().expect(THERE).node().clone();
        // The NIC may read columns that were lent to it until its queue pairs are gone.
        self.connection = None;
        if let Some(server) = self.server.take() {
            node.with(|nic| server.destroy(nic));
        }
    }
}

/// Why a column or a list did not come.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FetchError {
    /// It was not asked for.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// It was asked for and did not come.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No answer came in time. When it comes, nobody takes it.
    #[error("no answer came within {after:?}")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
}

/// Asks for columns over one connection, on its first channel each way. Dropped, it closes the
/// connection.
#[derive(Debug)]
pub struct ColumnReader {
    connection: MessageConnection,
    client: ColumnClient,
    /// Answers that came while another one was waited for.
    answers: VecDeque<Answer>,
    /// Requests whose answers nobody takes.
    given_up: Vec<Ticket>,
}

impl ColumnReader {
    /// A reader that has asked for nothing.
    pub fn new(connection: MessageConnection, config: ColumnClientConfig) -> Self {
        Self {
            connection,
            client: ColumnClient::new(config),
            answers: VecDeque::new(),
            given_up: Vec::new(),
        }
    }

    /// Begins to ask for a column; with the version that is known of it, it comes only if it has
    /// another one.
    ///
    /// # Errors
    /// If the window is full, the name is none, or the connection is closed.
    pub fn begin(&mut self, name: &str, known: Option<u64>) -> Result<Ticket, AskError> {
        self.client.ask(name, known)
    }

    /// Begins to ask for a column that is shown to the reader of [`ColumnReader::poll_with`] piece
    /// by piece, where it lies in the receive buffers.
    ///
    /// # Errors
    /// As for [`ColumnReader::begin`].
    pub fn begin_in_place(&mut self, name: &str) -> Result<Ticket, AskError> {
        self.client.ask_in_place(name)
    }

    /// An answer that has come. Never waits. That the connection is closed is the answer to all
    /// that is under way.
    pub fn poll(&mut self) -> Option<Answer> {
        self.poll_with(&mut ())
    }

    /// The same with one who looks at columns in place.
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

    /// The column of this name. The calling thread drives the rack; somebody else polls the
    /// service.
    ///
    /// # Errors
    /// If it is not served, cannot be taken, or does not come within `limit`.
    pub fn fetch(&mut self, name: &str, limit: Duration) -> Result<ColumnData, FetchError> {
        let ticket = self.begin(name, None)?;
        match self.wait(ticket, limit)? {
            Reply::Column(column) => Ok(column),
            other => unreachable!("a column was asked for: {other:?}"),
        }
    }

    /// What the peer serves, by name.
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

    /// Nothing more will be asked for; the peer is told when everything has been sent.
    pub fn finish(&mut self) {
        self.client.finish();
    }

    /// Finishes, and waits until the peer says that everything is answered.
    ///
    /// # Errors
    /// If the connection was closed before, or the peer does not say so within `limit`.
    pub fn close(mut self, limit: Duration) -> Result<(), FetchError> {
        self.finish();
        let node = self.connection.node().clone();
        let finished = wait_within(&node, limit, || {
            self.poll();
            // A peer that has said so may close the connection at once.
            if self.client.is_finished() {
                return Some(Ok(()));
            }
            self.client.broken().cloned().map(|error| Err(error.into()))
        });
        finished.unwrap_or(Err(FetchError::TimedOut { after: limit }))
    }

    /// What was counted.
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
    /// Something with the first channel each way.
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
