//! Adapts the switches' part of an index to the load while its servers are served.

use crate::index::network::{IndexNetwork, IndexNetworkError, LoadProgress};
use crate::{Index, Rack};
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::{Duration, Instant};
use rackweave_controller::index::{Adapter, AdapterConfig, KeyWeights};
use rackweave_endpoint::index::IndexClient;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Interval between two steps of a load: queries continue between them.
const STEP_EVERY: Duration = Duration::from_micros(50);

/// A connection samples one key in `SAMPLED` of those that it READs: switches count only the
/// queries that they lead, by ranges.
pub(super) const SAMPLED: u32 = 16;

/// Starts and advances loads of the switches.
#[derive(Debug)]
pub(super) struct Adapting {
    config: AdapterConfig,
    adapter: Mutex<Adapter>,
    /// When the next step is due, in nanoseconds of the rack's clock.
    next: AtomicU64,
    /// Keys that connections have sampled since the last check.
    asked: Mutex<Vec<u64>>,
    failed: Mutex<Option<IndexNetworkError>>,
}

impl Adapting {
    pub fn new(config: AdapterConfig, now: Instant) -> Self {
        let adapter = Adapter::new(config, now);
        Self {
            config,
            next: AtomicU64::new(adapter.poll_timeout().as_nanos()),
            adapter: Mutex::new(adapter),
            asked: Mutex::default(),
            failed: Mutex::new(None),
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        now.as_nanos() >= self.next.load(Ordering::Relaxed)
    }

    /// Takes the keys that a client has sampled, if the next check is due.
    pub fn take_sample(&self, now: Instant, client: &mut IndexClient) {
        if self.is_due(now) {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            client.take_sample(&mut asked);
        }
    }

    /// Checks whether the switches still know what is asked for most, and loads what is worthwhile:
    /// one step, if one is due and no other thread is doing it. Never waits.
    pub fn look(&self, now: Instant, rack: &Rack, index: &Mutex<Index>) {
        if !self.is_due(now) {
            return;
        }
        let (Ok(mut adapter), Ok(mut index)) = (self.adapter.try_lock(), index.try_lock()) else {
            return;
        };
        let Some(network) = index.network_mut() else {
            return;
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        network.note_asked(&core::mem::take(&mut *asked), SAMPLED);
        drop(asked);
        let progress = match network.summary().loads {
            0 => first_plan(network, rack),
            _ => network.adapt(rack, &mut adapter),
        };
        let next = match progress {
            Ok(LoadProgress::Rest) => adapter.poll_timeout(),
            Ok(LoadProgress::Wait(until)) => until,
            Ok(LoadProgress::More | LoadProgress::Serves) => now + STEP_EVERY,
            Err(error) => {
                let failed = self.failed.lock();
                *failed.unwrap_or_else(PoisonError::into_inner) = Some(error);
                now + self.config.every
            }
        };
        self.next.store(next.as_nanos(), Ordering::Relaxed);
    }

    /// The last failure since the previous call, if any.
    pub fn take_error(&self) -> Option<IndexNetworkError> {
        match self.failed.try_lock() {
            Ok(mut failed) => failed.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A plan without knowledge of the load: switches count only the queries that they lead.
fn first_plan(network: &mut IndexNetwork, rack: &Rack) -> Result<LoadProgress, IndexNetworkError> {
    match network.step(rack)? {
        LoadProgress::Rest => network.begin_load(rack, &KeyWeights::default()),
        progress => Ok(progress),
    }
}
