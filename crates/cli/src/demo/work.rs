//! What the threads of workers do in real time, in a rack of one process and in nodes of their own.

use super::fan_out::{SLOWNESS, Taker};
use crate::patience::{Patience, Wish};
use rackweave_verbs::Progress;
use rackweave_workload::tpch::{ComputeWorker, StorageWorker, TableWorker, WorkerStep};
use std::thread;
use std::time::Instant;

/// Rows between two looks at the world.
const ROWS_PER_STEP: usize = 2048;

/// How a worker's work ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It is done.
    Done,
    /// It has given up, and its `error()` says why.
    Aborted,
    /// It was wished to.
    Stopped,
}

/// Has a storage worker make all its rows. `count` hears of their numbers.
pub fn generate(worker: &mut StorageWorker, wish: impl Fn() -> Wish, mut count: impl FnMut(u64)) {
    while wish() == Wish::GoOn {
        let Some(rows) = worker.prepare_step(ROWS_PER_STEP) else {
            break;
        };
        count(rows);
    }
}

/// Has a storage worker push its rows, until the switch has taken the last.
pub fn push(
    worker: &mut StorageWorker,
    driver: &dyn Progress,
    wish: impl Fn() -> Wish,
    count: impl FnMut(u64),
) -> End {
    match work(driver, &wish, |rows| worker.step(rows), count) {
        End::Done => deliver(driver, &wish, || worker.is_delivered()),
        end => end,
    }
}

/// Has a worker push its table, until the switch has taken the last row.
pub fn push_table(
    worker: &mut TableWorker,
    driver: &dyn Progress,
    wish: impl Fn() -> Wish,
    count: impl FnMut(u64),
) -> End {
    match work(driver, &wish, |rows| worker.step(rows), count) {
        End::Done => deliver(driver, &wish, || worker.is_delivered()),
        end => end,
    }
}

/// Has a worker take what its consumer gets; a slow one rests after each step.
pub fn take_share(
    worker: &mut impl Taker,
    is_slow: bool,
    driver: &dyn Progress,
    wish: impl Fn() -> Wish,
) -> End {
    let step = |rows| {
        let started = Instant::now();
        let step = worker.step(rows);
        if is_slow && matches!(step, WorkerStep::Worked { .. }) {
            thread::sleep(started.elapsed() * (SLOWNESS - 1));
        }
        step
    };
    work(driver, &wish, step, |_| {})
}

/// What the switch has not taken yet must not be lost with the thread.
fn deliver(
    driver: &dyn Progress,
    wish: &dyn Fn() -> Wish,
    mut is_delivered: impl FnMut() -> bool,
) -> End {
    let mut patience = Patience::new(driver);
    while !is_delivered() {
        if wish() != Wish::GoOn {
            return End::Stopped;
        }
        patience.wait(false);
    }
    End::Done
}

/// Has a compute worker take all rows that come.
pub fn take(
    worker: &mut ComputeWorker,
    driver: &dyn Progress,
    wish: impl Fn() -> Wish,
    count: impl FnMut(u64),
) -> End {
    work(driver, &wish, |rows| worker.step(rows), count)
}

/// Steps a worker until it is done, drives the rack while it is blocked.
fn work(
    driver: &dyn Progress,
    wish: &dyn Fn() -> Wish,
    mut step: impl FnMut(usize) -> WorkerStep,
    mut count: impl FnMut(u64),
) -> End {
    let mut patience = Patience::new(driver);
    while wish() == Wish::GoOn {
        match step(ROWS_PER_STEP) {
            WorkerStep::Worked { rows, .. } => {
                patience.reset();
                count(rows);
            }
            WorkerStep::Blocked => patience.wait(false),
            WorkerStep::Done => return End::Done,
            WorkerStep::Aborted => return End::Aborted,
        }
    }
    End::Stopped
}
