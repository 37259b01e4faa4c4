//! The fetches from one storage node. They know no thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use rackweave::columns::{Answer, AskError, ColumnData, ColumnReader, Reply, RequestError, Ticket};

use super::super::error::StorageError;

/// How long a connected storage node may send nothing that is asked for. A process that died is
/// noticed sooner, by its NIC.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Columns that are fetched together, in order.
pub(super) struct Fetch {
    columns: Vec<String>,
    arrived: Vec<Option<ColumnData>>,
    is_second_attempt: bool,
    reply: oneshot::Sender<Result<Vec<ColumnData>, StorageError>>,
}

impl Fetch {
    pub fn new(
        columns: Vec<String>,
        reply: oneshot::Sender<Result<Vec<ColumnData>, StorageError>>,
    ) -> Self {
        Self {
            arrived: columns.iter().map(|_| None).collect(),
            columns,
            is_second_attempt: false,
            reply,
        }
    }

    fn is_complete(&self) -> bool {
        self.arrived.iter().all(Option::is_some)
    }

    pub fn fail(self, error: StorageError) {
        // Whoever wanted it may be gone.
        let _ = self.reply.send(Err(error));
    }

    fn succeed(self) {
        let _ = self
            .reply
            .send(Ok(self.arrived.into_iter().flatten().collect()));
    }
}

/// The fetches from a storage node, oldest first.
pub(super) struct Fetches {
    node: Arc<str>,
    open: BTreeMap<u64, Fetch>,
    next: u64,
    /// Columns that were not asked for yet: a fetch, and a place in it.
    waiting: VecDeque<(u64, usize)>,
    asked: BTreeMap<Ticket, (u64, usize)>,
    /// When something came last, or was asked for while nothing was expected.
    heard: Option<Instant>,
}

impl Fetches {
    pub fn new(node: &Arc<str>) -> Self {
        Self {
            node: Arc::clone(node),
            open: BTreeMap::new(),
            next: 0,
            waiting: VecDeque::new(),
            asked: BTreeMap::new(),
            heard: None,
        }
    }

    pub fn add(&mut self, fetch: Fetch) {
        if fetch.is_complete() {
            return fetch.succeed();
        }
        let number = self.next;
        self.next += 1;
        let places = 0..fetch.columns.len();
        self.waiting.extend(places.map(|place| (number, place)));
        self.open.insert(number, fetch);
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.asked.is_empty()
    }

    /// Moves requests and answers. Returns whether anything happened.
    ///
    /// # Errors
    ///
    /// The connection can't be used any more.
    pub fn advance(&mut self, reader: &mut ColumnReader) -> Result<bool, String> {
        let mut happened = self.ask(reader)?;
        while let Some(answer) = reader.poll() {
            happened = true;
            self.take(answer)?;
        }
        if happened || self.asked.is_empty() {
            self.heard = Some(Instant::now());
        } else if self
            .heard
            .is_some_and(|heard| heard.elapsed() > SILENCE_MAX)
        {
            return Err(format!("it sent nothing for {} s", SILENCE_MAX.as_secs()));
        }
        Ok(happened)
    }

    fn ask(&mut self, reader: &mut ColumnReader) -> Result<bool, String> {
        let mut happened = false;
        while let Some(&(number, place)) = self.waiting.front() {
            let is_wanted = |fetch: &&Fetch| !fetch.reply.is_canceled();
            // Another column of the fetch may have been refused.
            let Some(fetch) = self.open.get(&number).filter(is_wanted) else {
                self.open.remove(&number);
                self.waiting.pop_front();
                continue;
            };
            match reader.begin(&fetch.columns[place], None) {
                Ok(ticket) => self.asked.insert(ticket, (number, place)),
                Err(AskError::WindowFull { .. }) => break,
                Err(AskError::Broken(RequestError::Closed(why))) => return Err(why.to_string()),
                Err(error) => return Err(error.to_string()),
            };
            self.waiting.pop_front();
            happened = true;
        }
        Ok(happened)
    }

    fn take(&mut self, answer: Answer) -> Result<(), String> {
        let Some((number, place)) = self.asked.remove(&answer.ticket) else {
            return Ok(());
        };
        match answer.result {
            Ok(Reply::Column(column)) => {
                let Some(fetch) = self.open.get_mut(&number) else {
                    return Ok(());
                };
                fetch.arrived[place] = Some(column);
                if fetch.is_complete()
                    && let Some(fetch) = self.open.remove(&number)
                {
                    fetch.succeed();
                }
                Ok(())
            }
            Ok(_) => Err("it sent something else than the column that was asked for".to_owned()),
            Err(error @ (RequestError::Closed(_) | RequestError::BadAnswer(_))) => {
                // The fetch isn't complete: its columns are asked for again, or it fails.
                Err(error.to_string())
            }
            Err(error) => {
                if let Some(fetch) = self.open.remove(&number) {
                    let column = fetch.columns[place].clone();
                    fetch.fail(StorageError::Refused {
                        node: self.node.to_string(),
                        column,
                        reason: error.to_string(),
                    });
                }
                Ok(())
            }
        }
    }

    /// The connection ended. Fetches that met that for the first time are made again, except for
    /// the columns that have arrived; the others fail.
    pub fn disconnect(&mut self, reason: &str) {
        self.asked.clear();
        self.waiting.clear();
        self.heard = None;
        for (number, mut fetch) in std::mem::take(&mut self.open) {
            if fetch.is_second_attempt {
                fetch.fail(StorageError::Gone {
                    node: self.node.to_string(),
                    reason: reason.to_owned(),
                });
                continue;
            }
            fetch.is_second_attempt = true;
            let missing = fetch.arrived.iter().enumerate();
            let missing = missing.filter(|(_, arrived)| arrived.is_none());
            self.waiting
                .extend(missing.map(|(place, _)| (number, place)));
            self.open.insert(number, fetch);
        }
    }

    /// Ends all fetches: the node can't be reached.
    pub fn fail(&mut self, reason: &str) {
        self.asked.clear();
        self.waiting.clear();
        for fetch in std::mem::take(&mut self.open).into_values() {
            fetch.fail(StorageError::Unreachable {
                node: self.node.to_string(),
                reason: reason.to_owned(),
            });
        }
    }
}
