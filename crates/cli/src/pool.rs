//! Pieces of work on several threads. Each knows nothing of the others, so what comes out does not
//! depend on how many run at a time.

use crate::outcome::CliError;
use std::sync::mpsc;
use std::thread;

/// As much as a main thread has.
const STACK_BYTES: usize = 8 << 20;

/// Processors of this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Has `jobs` threads do `work` with what `next` gives, until it gives nothing, and hands what
/// comes of each piece to `each` as soon as it is there.
///
/// # Errors
/// The first of `each`, behind which it hears no more: `next` should then give nothing. If a thread
/// cannot be started.
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
