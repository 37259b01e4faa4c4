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

/// Ends a run of YCSB on time, and shows its progress: operations run for `span`, from the first
/// one on.
///
/// The result says whether the run is to continue, given its phase and the progress of phases that
/// have no time limit, or the share of a run's operations that have ended: on a busy machine none
/// may have begun within its span, and one at least is needed.
pub fn clock<'a>(
    globals: &'a Globals,
    what: &'static str,
    span: Duration,
) -> impl FnMut(Phase, f64) -> bool + 'a {
    let (mut began, mut bar) = (None::<Instant>, None::<(Phase, Progress)>);
    move |phase, fraction| {
        let (elapsed, share) = match phase {
            Phase::Load | Phase::Open => (Duration::ZERO, fraction),
            Phase::Run => {
                let elapsed = began.get_or_insert_with(Instant::now).elapsed();
                (
                    elapsed,
                    elapsed.as_secs_f64() / span.as_secs_f64().max(1e-9),
                )
            }
        };
        if bar.as_ref().is_none_or(|(at, _)| *at != phase) {
            let what = format!("{what}: {}", doing(phase));
            bar = Some((phase, Progress::new(globals, what)));
        }
        if let Some((_, bar)) = &mut bar {
            bar.set(|| share);
        }
        let is_over = elapsed >= span && fraction > 0.0;
        !is_over && !globals.interrupt.is_set()
    }
}
