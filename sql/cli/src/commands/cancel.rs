//! Ctrl-C while a query runs: the query is dropped, and nothing of it may be left.

use crate::error::CommandError;
use crate::report::bytes;
use crate::transport::Counters;
use rackweave_datafusion::counters::NodeCounters;
use std::time::{Duration, Instant};

/// How long what a cancelled query holds may take to be given back.
const FREE_LIMIT: Duration = Duration::from_secs(20);

/// How long a worker may take to say what it holds.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// How often workers are asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Cancels queries, and checks what is left of them.
pub struct Canceller {
    /// With the counters of the session at idle. `None`: the transport has no counters.
    counters: Option<(Counters, NodeCounters)>,
}

impl Canceller {
    /// For a session that executes nothing at present.
    ///
    /// # Errors
    /// A worker does not say what it holds.
    pub async fn new(counters: Option<Counters>) -> Result<Self, CommandError> {
        let counters = match counters {
            Some(counters) => {
                let idle = read(&counters).await?;
                Some((counters, idle))
            }
            None => None,
        };
        Ok(Self { counters })
    }

    /// Executes `query` until Ctrl-C, which drops it. Then prints what all processes held before
    /// that, and what they hold when they are back at the level of idle.
    ///
    /// # Errors
    /// Those of the query; `Interrupted`; `Failed` if something of the query is left.
    pub async fn run<T>(
        &self,
        query: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        let mut query = Box::pin(query);
        tokio::select! {
            result = &mut query => return result,
            _ = tokio::signal::ctrl_c() => {}
        }
        let Some((counters, idle)) = &self.counters else {
            return Err(CommandError::Interrupted);
        };
        // The tasks of the query go on while the workers are asked.
        let before = read(counters).await;
        drop(query);
        let after = tokio::select! {
            after = wait_until_idle(counters, idle) => after?,
            _ = tokio::signal::ctrl_c() => return Err(CommandError::Interrupted),
        };
        let before = before.map_or_else(|error| error.to_string(), |held| text(&held));
        eprintln!("cancelled. Before: {before}. After: {}", text(&after));
        if is_idle(&after, idle) {
            return Err(CommandError::Interrupted);
        }
        Err(CommandError::Failed(format!(
            "the query was cancelled, but {} s later not all of it is freed: {}; at idle: {}",
            FREE_LIMIT.as_secs(),
            text(&after),
            text(idle)
        )))
    }
}

/// Other sessions of a rack may have ended since.
fn is_idle(counters: &NodeCounters, idle: &NodeCounters) -> bool {
    counters.streams <= idle.streams
        && counters.bytes() <= idle.bytes()
        && counters.tasks <= idle.tasks
}

/// What is held when it is as little as at idle, or when the time is over.
async fn wait_until_idle(
    counters: &Counters,
    idle: &NodeCounters,
) -> Result<NodeCounters, CommandError> {
    let deadline = Instant::now() + FREE_LIMIT;
    loop {
        let held = read(counters).await?;
        if is_idle(&held, idle) || Instant::now() >= deadline {
            return Ok(held);
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

async fn read(counters: &Counters) -> Result<NodeCounters, CommandError> {
    let failed = |why: &dyn std::fmt::Display| {
        CommandError::Failed(format!("the workers do not say what they hold: {why}"))
    };
    match tokio::time::timeout(ANSWER_LIMIT, counters.read()).await {
        Ok(Ok(counters)) => Ok(counters),
        Ok(Err(error)) => Err(failed(&error.strip_backtrace())),
        Err(_) => Err(failed(&format!(
            "no answer for {} s",
            ANSWER_LIMIT.as_secs()
        ))),
    }
}

/// The counters for people: `4 streams, 1.5 MiB waiting, 2 tasks, 310.0 MiB resident`.
fn text(counters: &NodeCounters) -> String {
    let size = |size| bytes(usize::try_from(size).unwrap_or(usize::MAX));
    format!(
        "{} streams, {} waiting, {} tasks, {} resident",
        counters.streams,
        size(counters.bytes()),
        counters.tasks,
        size(counters.resident_bytes),
    )
}
