//! The thread that asks, so that one who answers slowly keeps no key waiting.

use crate::live::Snapshot;
use crate::live::source::{LookError, Source};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Asks until this goes.
pub struct Asking {
    news: Receiver<Result<Snapshot, LookError>>,
    /// Closes when this goes.
    _stop: Sender<()>,
}

impl Asking {
    /// Begins to ask. With `wait` an end is not the end: another may begin.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(source: Source, interval: Duration, wait: bool) -> io::Result<Self> {
        let (tell, news) = channel();
        let (_stop, over) = channel();
        std::thread::Builder::new()
            .name("ask".to_owned())
            .spawn(move || ask(source, interval, wait, &tell, &over))?;
        Ok(Self { news, _stop })
    }

    /// The next answer, if there is one.
    pub fn news(&self) -> Option<Result<Snapshot, LookError>> {
        self.news.try_recv().ok()
    }
}

fn ask(
    mut source: Source,
    interval: Duration,
    wait: bool,
    tell: &Sender<Result<Snapshot, LookError>>,
    over: &Receiver<()>,
) {
    while over.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let look = source.look();
        let failed = look.is_err();
        if failed && wait {
            source.forget();
        }
        // One who only does not answer in time is asked again; nobody else comes back.
        let is_end = look.as_ref().err().is_some_and(LookError::is_end);
        if tell.send(look).is_err() || (is_end && !wait) {
            return;
        }
    }
}
