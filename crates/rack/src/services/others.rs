//! Serving what other processes make at the nodes of this one: endpoints of indexes, words and
//! counters of sequencers.

use super::sequencer::{self, CounterServer};
use crate::index::agent::IndexAgent;
use crate::index::serving::Servers;
use crate::rack::{Agent as _, LOOK_EVERY};
use crate::services::sequencer::SequencerAgent;
use crate::{Node, ProcessError, Rack};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks whether to end, if there is nothing to serve.
const IDLE: Duration = Duration::from_millis(250);

/// A thread that serves other processes, until this is dropped.
#[derive(Debug)]
pub struct OthersServed {
    rack: Rack,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rack {
    /// Has other processes of the rack make endpoints of indexes and sequencers at the nodes of
    /// this process, and serves them on a thread, until the returned value is dropped. The
    /// processes of `rackweave node` do this.
    ///
    /// # Errors
    /// If the rack is in one process, or the controller does not answer.
    pub fn serve_others(&self) -> Result<OthersServed, ProcessError> {
        offer(self)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (rack, until) = (self.clone(), stop.clone());
        let named = std::thread::Builder::new().name("serves-others".into());
        let thread = named.spawn(move || serve(&rack, &|| until.load(Ordering::Relaxed)));
        let thread = thread.map_err(|error| ProcessError::Refused(error.to_string()))?;
        Ok(OthersServed {
            rack: self.clone(),
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for OthersServed {
    fn drop(&mut self) {
        self.rack.set_serves_others(false);
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic was reported on standard error.
            let _ = thread.join();
        }
        self.rack.agent::<IndexAgent>().remove_others(&self.rack);
        let sequencers = self.rack.agent::<SequencerAgent>();
        sequencers.remove_others(&self.rack);
    }
}

/// Offers the agents of this process.
pub(crate) fn offer(rack: &Rack) -> Result<(), ProcessError> {
    // Others may ask as soon as they are offered.
    rack.set_serves_others(true);
    let offered = rack.offer_agent::<IndexAgent>();
    let offered = offered.and_then(|()| rack.offer_agent::<SequencerAgent>());
    offered.inspect_err(|_| rack.set_serves_others(false))
}

/// Everything that other processes have made here.
struct Everything {
    index: Arc<IndexAgent>,
    sequencers: Arc<SequencerAgent>,
    /// How often it had changed when this was made.
    changes: (u64, u64),
    endpoints: Servers,
    counters: Vec<(Node, CounterServer)>,
}

impl Everything {
    fn of(rack: &Rack) -> Self {
        let (index, sequencers) = (rack.agent::<IndexAgent>(), rack.agent::<SequencerAgent>());
        // Before the threads: a change in between is seen the next time.
        let changes = (index.changes(), sequencers.changes());
        Self {
            endpoints: index.servers_of_others(rack),
            counters: sequencers.threads_of_others(),
            changes,
            index,
            sequencers,
        }
    }

    fn is_outdated(&self) -> bool {
        self.changes != (self.index.changes(), self.sequencers.changes())
    }

    fn is_empty(&self) -> bool {
        self.endpoints.is_empty() && self.counters.is_empty()
    }

    fn serve(&self) -> bool {
        let served = self.endpoints.serve();
        sequencer::serve(&self.counters) | served
    }
}

/// Serves other processes until it ends.
pub(crate) fn serve(rack: &Rack, ends: &dyn Fn() -> bool) {
    let node = rack.any_node();
    rack.wake_for_others(std::thread::current());
    let mut all = Everything::of(rack);
    let (mut idle_rounds, mut looked) = (0u32, Instant::now());
    while !ends() {
        if all.is_outdated() {
            all = Everything::of(rack);
        }
        if all.is_empty() {
            std::thread::park_timeout(IDLE);
        } else if all.serve() || node.drive() {
            idle_rounds = 0;
            continue;
        } else {
            node.access().relax(idle_rounds);
            idle_rounds = idle_rounds.saturating_add(1);
        }
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            rack.remove_gone_users::<IndexAgent>();
            rack.remove_gone_users::<SequencerAgent>();
        }
    }
}
