//! The thread that requests snapshots, so that a slow reply does not delay keys.

use crate::live::Snapshot;
use crate::rack_source::{LookError, RackSource};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Requests snapshots until this is dropped.
pub struct Asking {
    news: Receiver<Result<Snapshot, LookError>>,
    /// Closes when this is dropped.
    _stop: Sender<()>,
}

impl Asking {
    /// Starts to request snapshots. With `wait` the end of a process is not the end: another may
    /// start.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(source: RackSource, interval: Duration, wait: bool) -> io::Result<Self> {
        let (tell, news) = channel();
        let (_stop, over) = channel();
        std::thread::Builder::new()
            .name("ask".to_owned())
            .spawn(move || ask(source, interval, wait, &tell, &over))?;
        Ok(Self { news, _stop })
    }

    /// The next reply, if there is one.
    pub fn news(&self) -> Option<Result<Snapshot, LookError>> {
        self.news.try_recv().ok()
    }
}

fn ask(
    mut source: RackSource,
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
        // A process that is only slow is asked again; after other errors it does not come back.
        let is_end = look.as_ref().err().is_some_and(LookError::is_end);
        if tell.send(look).is_err() || (is_end && !wait) {
            return;
        }
    }
}
