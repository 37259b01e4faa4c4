//! The load of a YCSB run, and its end: when its time is over, or the user wants to stop.

use crate::globals::Globals;
use crate::progress::Progress;
use crate::ycsb::doing;
use rackweave_bench::ycsb::{Load, Phase};
use rackweave_rack::RackConfig;
use rackweave_workload::ycsb::{Workload, YcsbOptions};
use std::time::{Duration, Instant};

/// Operations of a worker in flight.
const DEPTH: u16 = 8;

/// More operations than any machine can do in the available time.
const OPERATIONS: u64 = 1 << 36;

/// Workload b, until a clock ends it.
pub fn load(config: &RackConfig) -> Load {
    Load {
        ycsb: YcsbOptions {
            workload: Workload::B,
            operations: OPERATIONS,
            seed: config.seed,
            ..YcsbOptions::default()
        },
        depth: DEPTH,
        ..Load::default()
    }
}

/// Ends a run of YCSB on time, and shows its progress.
pub struct Clock<'a> {
    globals: &'a Globals,
    what: &'static str,
    span: Duration,
    began: Option<Instant>,
    bar: Option<(Phase, Progress)>,
}

impl<'a> Clock<'a> {
    /// A clock that lets operations run for `span`, from the first one on.
    pub fn new(globals: &'a Globals, what: &'static str, span: Duration) -> Self {
        Self {
            globals,
            what,
            span,
            began: None,
            bar: None,
        }
    }

    /// Whether the run is to continue; `fraction` is the progress of phases that have no time
    /// limit, and the share of a run's operations that have ended: on a busy machine none may have
    /// begun within its span, and one at least is needed.
    pub fn goes_on(&mut self, phase: Phase, fraction: f64) -> bool {
        if self.bar.as_ref().is_none_or(|(at, _)| *at != phase) {
            let what = format!("{}: {}", self.what, doing(phase));
            self.bar = Some((phase, Progress::new(self.globals, what)));
        }
        let elapsed = match phase {
            Phase::Load | Phase::Open => Duration::ZERO,
            Phase::Run => self.began.get_or_insert_with(Instant::now).elapsed(),
        };
        let share = match phase {
            Phase::Load | Phase::Open => fraction,
            Phase::Run => elapsed.as_secs_f64() / self.span.as_secs_f64().max(1e-9),
        };
        if let Some((_, bar)) = &mut self.bar {
            bar.set(|| share);
        }
        let is_over = elapsed >= self.span && fraction > 0.0;
        !is_over && !self.globals.interrupt.is_set()
    }
}
