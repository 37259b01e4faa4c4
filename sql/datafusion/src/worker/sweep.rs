//! Has the engine free the tasks that are over.
//!
//! The engine keeps tasks in a cache. One that is removed from it is freed when the cache is used
//! next, and not before: while a worker is idle, it would keep the plans of its last query, and
//! the batches that their operators hold. So a worker that has had nothing to do for a moment uses
//! the cache, with a task that is empty.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_distributed::{MaybeEncoded, SetPlanRequest, TaskKey, Worker};
use futures::StreamExt as _;
use futures::stream;
use http::{HeaderMap, HeaderValue};
use tokio::sync::watch;
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;

use crate::counters::UNCOUNTED_HEADER;

/// How long a worker must be idle. The cache looks for what has been removed when 300 ms have
/// passed since it did so last.
const IDLE: Duration = Duration::from_millis(500);

/// The number of tasks whose coordinators have an open channel to a worker.
#[derive(Clone)]
pub(super) struct OpenTasks(watch::Sender<u64>);

impl OpenTasks {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Counts a task until the guard is dropped.
    pub(super) fn enter(&self) -> OpenTask {
        self.0.send_modify(|open| *open += 1);
        OpenTask(self.clone())
    }

    /// Sweeps each time that the worker has become idle. Never ends.
    pub(super) async fn sweep_when_idle(self, worker: Worker) {
        let mut open = self.0.subscribe();
        while open.changed().await.is_ok() {
            loop {
                if open.wait_for(|open| *open == 0).await.is_err() {
                    return;
                }
                if timeout(IDLE, open.changed()).await.is_err() {
                    break;
                }
            }
            // A worker that can't make a session says so to the next coordinator.
            let _ = sweep(&worker).await;
        }
    }
}

pub(super) struct OpenTask(OpenTasks);

impl Drop for OpenTask {
    fn drop(&mut self) {
        let OpenTasks(open) = &self.0;
        open.send_modify(|open| *open -= 1);
    }
}

async fn sweep(worker: &Worker) -> Result<()> {
    let mut headers = HeaderMap::new();
    headers.insert(UNCOUNTED_HEADER, HeaderValue::from_static("1"));
    let request = SetPlanRequest {
        task_key: TaskKey {
            query_id: Uuid::nil(),
            stage_id: 0,
            task_number: 0,
        },
        task_count: 1,
        plan: MaybeEncoded::Decoded(Arc::new(EmptyExec::new(Arc::new(Schema::empty())))),
        work_unit_feed_declarations: Vec::new(),
        target_worker_url: Url::parse("rackweave://nowhere").expect("it is a URL"),
        query_start_time_ns: 0,
    };
    // The task is over at once: no message follows.
    let messages = stream::empty().boxed();
    let answers = worker
        .coordinator_channel(headers, request, messages)
        .await?;
    drop(answers);
    Ok(())
}
