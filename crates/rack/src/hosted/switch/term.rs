//! The time for which a switch process leads.
//!
//! A leader whose term can end by time (`hosted.etcd`) extends it. If it cannot, it stands still
//! when the term ends, before another process may lead: no packet moves, no connection is answered.

use super::SwitchCore;
use crate::hosted::elector::{Elector, ElectorError, TermId};
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::KeyRng;
use std::sync::{Arc, OnceLock};
use std::time::{Duration as Time, Instant};

/// How often a term that can end by time is extended, at most.
const RENEW_EVERY: Time = Time::from_millis(500);

/// The term of this process.
pub(in crate::hosted) struct Term {
    pub id: TermId,
    elector: Arc<dyn Elector>,
    /// When `until` counts from.
    began: Instant,
    /// Nanoseconds after which it ends.
    until: AtomicU64,
    /// Why it is known to have ended.
    lost: OnceLock<String>,
}

impl Term {
    pub fn new(elector: Arc<dyn Elector>, epoch: u64) -> Self {
        Self {
            id: TermId {
                epoch,
                process: KeyRng::system().next_u64(),
            },
            elector,
            began: Instant::now(),
            until: AtomicU64::new(u64::MAX),
            lost: OnceLock::new(),
        }
    }

    /// Whether this process leads. Once it does not, it never does again: threads that have seen
    /// so have dismissed nodes and given up operations, even if the term is extended after all.
    pub fn leads(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        let is_over = || self.began.elapsed().as_nanos() as u64 >= until;
        if until != u64::MAX && is_over() {
            let _first = self.lost.set("its time is over".to_owned());
        }
        self.lost.get().is_none()
    }

    /// Extends it. Returns whether it can end by time.
    ///
    /// # Errors
    /// As for [`Elector::renew`].
    pub fn renew(&self) -> Result<bool, ElectorError> {
        let until = self.elector.renew()?;
        if let Some(until) = until {
            let span = until.saturating_duration_since(self.began);
            self.until.store(span.as_nanos() as u64, Ordering::Relaxed);
        }
        Ok(until.is_some())
    }

    /// Why it has ended although the process was not requested to stop.
    pub fn lost(&self) -> Option<String> {
        self.lost.get().cloned()
    }

    /// Ends it, so that another process can lead at once.
    pub fn resign(&self) {
        let _first = self.lost.set("it has resigned".to_owned());
        self.elector.resign();
    }
}

/// Ends a term when it is dropped.
pub(super) struct Resigns(pub Arc<Term>);

impl Drop for Resigns {
    fn drop(&mut self) {
        self.0.resign();
    }
}

impl SwitchCore {
    /// Stops acting: another process leads, or soon will. Peers learn it by the ends of their
    /// connections.
    pub(super) fn step_down(&self, why: String) {
        let _first = self.term.lost.set(why);
        let admitted = self.admitted.lock().expect("no holder panics");
        admitted.iter().for_each(|peer| peer.closer.close());
        drop(admitted);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Extends the term until the process stops, or steps down.
    pub(super) fn keep_leading(&self) {
        let mut renewed = Instant::now();
        while !self.is_stopped() {
            let result = self.term.renew();
            match result {
                Ok(false) => return,
                Ok(true) => renewed = Instant::now(),
                Err(_) => {}
            }
            if result == Err(ElectorError::Lost) || !self.term.leads() {
                let why = match result {
                    Ok(_) => "its time is over".to_owned(),
                    Err(error) => error.to_string(),
                };
                return self.step_down(why);
            }
            while renewed.elapsed() < RENEW_EVERY && !self.is_stopped() {
                std::thread::sleep(RENEW_EVERY / 10);
            }
        }
    }
}
