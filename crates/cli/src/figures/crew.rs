//! Runs experiments on several threads. Each is one seed's and knows nothing of the others, so
//! what comes out does not depend on how many run at a time.

use super::bars::Bars;
use crate::globals::Globals;
use crate::outcome::CliError;
use rackweave_bench::experiment::order::longest_first;
use rackweave_bench::experiment::{Experiment, ExperimentError};
use rackweave_bench::figure::Figure;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// As much as a main thread has.
const STACK_BYTES: usize = 8 << 20;

/// What came of an experiment.
pub struct Done {
    /// Which it was.
    pub experiment: &'static Experiment,
    /// The figure, or why there is none.
    pub result: Made,
    /// Real time that it took.
    pub elapsed_s: f64,
}

/// What an experiment gives.
pub type Made = Result<Figure, ExperimentError>;

/// How to run one experiment. It is told where to report the share that is done, and is to stop
/// when that says so.
pub type Make<'a> = dyn Fn(&'static Experiment, &mut dyn FnMut(f64) -> bool) -> Made + Sync + 'a;

/// Runs `experiments`, `jobs` at a time, the longest first, and hands what comes of each to `each`
/// as soon as it is there. When the user interrupts, those that run are stopped and no other is
/// begun.
///
/// # Errors
/// The first of `each`, which stops the others; if a thread cannot be started.
pub fn run(
    experiments: &[&'static Experiment],
    jobs: usize,
    globals: &Globals,
    make: &Make<'_>,
    mut each: impl FnMut(Done) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let order = longest_first(experiments.to_vec());
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let bars = Bars::new(globals, order.len());
    let goes_on = || !stop.load(Ordering::Relaxed) && !globals.interrupt.is_set();
    let work = |ended: mpsc::Sender<Done>| {
        while goes_on() {
            let Some(&experiment) = order.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let started = Instant::now();
            let mut bar = bars.begin(experiment.name);
            let result = make(experiment, &mut |share| {
                bar.set(share);
                goes_on()
            });
            drop(bar);
            bars.ended();
            let done = Done {
                experiment,
                result,
                elapsed_s: started.elapsed().as_secs_f64(),
            };
            if ended.send(done).is_err() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let mut outcome = Ok(());
        for at in 0..jobs.clamp(1, order.len().max(1)) {
            let (work, sender) = (&work, sender.clone());
            let thread = thread::Builder::new()
                .name(format!("figures-{at}"))
                .stack_size(STACK_BYTES);
            if let Err(error) = thread.spawn_scoped(scope, move || work(sender)) {
                outcome = Err(CliError::run(format!(
                    "a thread cannot be started: {error}"
                )));
                stop.store(true, Ordering::Relaxed);
            }
        }
        drop(sender);
        for done in receiver {
            let result = outcome.and_then(|()| each(done));
            if result.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            outcome = result;
        }
        outcome
    })
}

/// Processors of this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
