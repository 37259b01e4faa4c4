//! Calls that a task awaits, on an executor that knows nothing of racks.

use crate::AMPLE;
use core::time::Duration;
use rackweave_rack::Rack;
use rackweave_rack::services::{CommitError, PageError, PageOptions, PageService, PageWorker};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

const TASKS: u64 = 4;
const ROUNDS: u64 = 5;

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().build();
    runtime.expect("it needs nothing of the system")
}

fn workers(rack: &Rack, time_limit: Duration) -> [PageWorker; 2] {
    let options = PageOptions {
        time_limit,
        ..PageOptions::default()
    };
    let pages = PageService::new(rack, &options).expect("there is room");
    ["compute0", "compute1"].map(|name| {
        let node = rack.node(name).expect("it is here");
        pages.worker(&node).expect("there are workers")
    })
}

/// Tasks share a worker of each node, and change one page in turn.
pub fn tasks_change_a_page_in_turn(rack: &Rack) {
    let workers = workers(rack, AMPLE.into()).map(Arc::new);
    let page = workers[0].allocate().expect("a page is free");
    let runtime = runtime();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let worker = Arc::clone(&workers[task as usize % 2]);
            runtime.spawn(async move {
                for _ in 0..ROUNDS {
                    let mut guard = worker.write_async(page).await?;
                    let counter = guard.data().u64_le(0) + 1;
                    guard.data_mut().write(0, &counter.to_le_bytes());
                    guard.commit_async().await?;
                }
                Ok::<_, PageError>(())
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(runtime.block_on(task).expect("no task panics"), Ok(()));
    }
    let read = runtime.block_on(workers[1].read_async(page));
    assert_eq!(read.map(|it| it.data().u64_le(0)), Ok(TASKS * ROUNDS));
    for worker in &workers {
        let flushed = runtime.block_on(worker.flush_async());
        assert!(flushed.is_ok(), "{flushed:?}");
    }
}

pub fn a_task_waits_no_longer_than_it_says(rack: &Rack) {
    let after = Duration::from_millis(200);
    let [here, there] = workers(rack, after);
    let page = here.allocate().expect("a page is free");
    let runtime = runtime();
    let mut latch = here.write(page).expect("nobody has it");
    let late = runtime.block_on(there.write_async(page)).map(drop);
    assert_eq!(late, Err(PageError::TimedOut { page, after }));
    // Nothing is left of it, nor of one that nobody waits for any more.
    drop(there.write_async(page));
    latch.data_mut().write(0, &[1]);
    rack.declare_dead(here.node());
    let lost = runtime.block_on(latch.commit_async());
    assert!(matches!(
        lost,
        Err(CommitError::Superseded(_) | CommitError::Fenced(_))
    ));
    assert!(runtime.block_on(there.write_async(page)).is_ok());
}
