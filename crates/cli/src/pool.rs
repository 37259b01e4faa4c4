//! Runs independent pieces of work on several threads, so that the results do not depend on the
//! number of threads.

use crate::outcome::CliError;
use std::sync::mpsc;
use std::thread;

/// The usual stack of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// Processors of this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` on `jobs` threads with the pieces that `next` returns, until it returns none, and
/// passes each result to `each` as soon as it is available.
///
/// # Errors
/// The first error of `each`, which is not called afterwards: `next` should then return none. If a
/// thread cannot be started.
pub fn run<I, T: Send>(
    (name, jobs): (&str, usize),
    next: impl Fn() -> Option<I> + Sync,
    work: impl Fn(I) -> T + Sync,
    mut each: impl FnMut(T) -> Result<(), CliError>,
) -> Result<(), CliError> {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for at in 0..jobs.max(1) {
            let (next, work, sender) = (&next, &work, sender.clone());
            let thread = thread::Builder::new().name(format!("{name}-{at}"));
            let one = move || {
                while let Some(piece) = next() {
                    if sender.send(work(piece)).is_err() {
                        break;
                    }
                }
            };
            let started = thread.stack_size(STACK_BYTES).spawn_scoped(scope, one);
            started
                .map_err(|error| CliError::run(format!("a thread cannot be started: {error}")))?;
        }
        drop(sender);
        receiver.into_iter().try_for_each(&mut each)
    })
}
