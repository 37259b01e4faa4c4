//! The workers of TPC-H as programs, and the direct computation of the answers.

use crate::globals::Globals;
use crate::outcome::CliError;
use crate::programs::{Port, Program, Turn, WAITS};
use crate::progress::Progress;
use rackweave_base::Duration;
use rackweave_workload::tpch::{QueryResult, Reference, ScaleFactor, WorkerStep, expected_rows};
use std::thread;
use std::time::Instant;

/// Rows per turn: in real time, and in virtual time.
pub const ROWS_PER_STEP: usize = 2048;
const ROWS_PER_STEP_VIRTUAL: usize = 256;

/// Time of a core per row that it partitions, and per row that it aggregates and joins, in
/// picoseconds. Measured once with `cargo bench -p rackweave-workload` (61 and 106 million rows/s)
/// on a processor whose clock is assumed to have been 3.5 GHz, and scaled to the 2.2 GHz of the
/// testbed's Xeon Gold 5120. They affect how busy the links of a simulated demo are, but not its
/// answers.
const PUSH_ROW_PICOS: u64 = 26_000;
const QUERY_ROW_PICOS: u64 = 15_000;

/// A slow worker takes this many times as long for its rows as the others.
const SLOWNESS: u32 = 4;

/// A worker as a program.
pub struct Worker<W> {
    pub work: W,
    step: fn(&mut W, usize) -> WorkerStep,
    is_delivered: fn(&mut W) -> bool,
    /// Time of a modelled core per row, in picoseconds.
    row_picos: u64,
    /// Whether it takes [`SLOWNESS`] times as long per row.
    pub is_slow: bool,
    rows: u64,
}

impl<W> Worker<W> {
    /// A worker that pushes rows. It ends only when the switch has taken all of them.
    pub fn source(
        work: W,
        step: fn(&mut W, usize) -> WorkerStep,
        is_delivered: fn(&mut W) -> bool,
    ) -> Self {
        Self {
            work,
            step,
            is_delivered,
            row_picos: PUSH_ROW_PICOS,
            is_slow: false,
            rows: 0,
        }
    }

    /// A worker that takes rows.
    pub fn sink(work: W, step: fn(&mut W, usize) -> WorkerStep) -> Self {
        Self {
            row_picos: QUERY_ROW_PICOS,
            ..Self::source(work, step, |_| true)
        }
    }
}

impl<W> Program for Worker<W> {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let is_virtual = matches!(port, Port::Actor(_));
        let started = (self.is_slow && !is_virtual).then(Instant::now);
        let rows_max = match is_virtual {
            true => ROWS_PER_STEP_VIRTUAL,
            false => ROWS_PER_STEP,
        };
        let rows = match (self.step)(&mut self.work, rows_max) {
            WorkerStep::Worked { rows, .. } => rows,
            WorkerStep::Blocked => return Ok(WAITS),
            WorkerStep::Done => return Ok(Turn::Ended),
            WorkerStep::Aborted => return Err(CliError::run("a worker has given up")),
        };
        self.rows += rows;
        if let Some(started) = started {
            thread::sleep(started.elapsed() * (SLOWNESS - 1));
        }
        let times = u64::from(if self.is_slow { SLOWNESS } else { 1 });
        let nanos = rows * self.row_picos * times / 1000;
        Ok(Turn::Worked(Duration::from_nanos(nanos.max(1))))
    }

    fn done(&self) -> u64 {
        self.rows
    }

    fn is_settled(&mut self) -> bool {
        (self.is_delivered)(&mut self.work)
    }
}

/// The answers, computed without rack and flows.
pub fn reference(scale: ScaleFactor, globals: &Globals) -> QueryResult {
    let lines = expected_rows(scale).lineitem;
    let mut progress = Progress::new(globals, "checking against a direct computation");
    let mut reference = Reference::new(scale);
    let mut done = 0;
    while let Some(rows) = reference.step(10_000) {
        done += rows;
        progress.set(|| done as f64 / lines as f64);
    }
    reference.into_result()
}
