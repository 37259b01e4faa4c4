//! Runs experiments on several threads, the longest first.

use crate::globals::Globals;
use crate::outcome::CliError;
use crate::pool;
use crate::progress::{Progress, STEPS, style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};
use rackweave_bench::experiment::{Experiment, longest_first};
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

/// The bars of a run, if they are shown.
pub struct Bars(Option<(MultiProgress, ProgressBar)>);

impl Bars {
    /// Bars for this many figures.
    pub fn new(globals: &Globals, figures: usize) -> Self {
        if !Progress::is_wanted(globals) {
            return Self(None);
        }
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let all = ProgressBar::new(figures as u64).with_style(style("{msg:17} {pos} of {len}"));
        let all = multi.add(all.with_message("figures"));
        Self(Some((multi, all)))
    }

    /// Shows a figure that begins.
    pub fn begin(&self, name: &str) -> Progress {
        let Some((multi, all)) = &self.0 else {
            return Progress::hidden();
        };
        let bar = ProgressBar::new(STEPS).with_message(name.to_owned());
        let bar = bar.with_style(style("{msg:17} [{bar:40}] {percent:>3}% {elapsed}"));
        Progress::shown(multi.insert_before(all, bar))
    }

    /// Counts a figure that has ended.
    pub fn ended(&self) {
        if let Some((_, all)) = &self.0 {
            all.inc(1);
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        if let Some((_, all)) = &self.0 {
            all.finish_and_clear();
        }
    }
}
