//! Runs experiments on several threads, the longest first.

use super::bars::Bars;
use crate::globals::Globals;
use crate::outcome::CliError;
use crate::pool;
use rackweave_bench::experiment::Experiment;
use rackweave_bench::experiment::longest_first;
use rackweave_bench::figure::Figure;
use rackweave_bench::harness::ExperimentError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// The result of an experiment.
pub type Made = Result<Figure, ExperimentError>;

/// Runs one experiment. It reports the completed share to the given closure, and stops when that
/// returns false.
pub type Make<'a> = dyn Fn(&'static Experiment, &mut dyn FnMut(f64) -> bool) -> Made + Sync + 'a;

/// Runs `experiments`, `jobs` at a time, the longest first, and passes each outcome to `each` as
/// soon as it is available, with the real seconds that it took. When the user interrupts, running
/// experiments are stopped and no other is started.
///
/// # Errors
/// The first error of `each`, which stops the others; if a thread cannot be started.
pub fn run(
    experiments: &[&'static Experiment],
    jobs: usize,
    globals: &Globals,
    make: &Make<'_>,
    mut each: impl FnMut(&'static Experiment, Made, f64) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let order = longest_first(experiments.to_vec());
    let (begun, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let bars = Bars::new(globals, order.len());
    let goes_on = || !stop.load(Ordering::Relaxed) && !globals.interrupt.is_set();
    let next = || {
        let next = order.get(begun.fetch_add(1, Ordering::Relaxed));
        next.copied().filter(|_| goes_on())
    };
    let work = |experiment: &'static Experiment| {
        let started = Instant::now();
        let mut bar = bars.begin(experiment.name);
        let result = make(experiment, &mut |share| {
            bar.set(|| share);
            goes_on()
        });
        drop(bar);
        bars.ended();
        (experiment, result, started.elapsed().as_secs_f64())
    };
    let each = |(experiment, result, elapsed_s)| {
        let kept = each(experiment, result, elapsed_s);
        kept.inspect_err(|_| stop.store(true, Ordering::Relaxed))
    };
    pool::run(("figures", jobs.min(order.len())), next, work, each)
}
