//! Dispatches the switch's reports: each flow is handled by its own thread, so that a flow that
//! waits for a member delays no other; services are handled by one thread.

use super::{SwitchCore, abort_on_panic};
use crate::hosted::LOOK_EVERY;
use core::sync::atomic::{AtomicUsize, Ordering};
use rackweave_controller::FlowId;
use rackweave_programs::Digest;
use rackweave_programs::flows::FlowDigest;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::Scope;

/// Maximum threads that handle flows at a time, for one cause. If so many flows wait for members,
/// further flows wait for them.
const THREADS_MAX: usize = 64;

/// Notifies the minder that the switch has reports for the controller.
#[derive(Default)]
pub(super) struct News {
    is_there: Mutex<bool>,
    changed: Condvar,
}

impl News {
    pub fn tell(&self) {
        *self.is_there.lock().expect("no holder panics") = true;
        self.changed.notify_one();
    }

    /// Waits for news, up to a limit.
    fn wait(&self) {
        let is_there = self.is_there.lock().expect("no holder panics");
        let waited = self
            .changed
            .wait_timeout_while(is_there, LOOK_EVERY, |there| !*there);
        *waited.expect("no holder panics").0 = false;
    }
}

/// Queued reports, by flow, for flows that a thread is handling.
#[derive(Default)]
pub(super) struct Reports(Mutex<BTreeMap<FlowId, VecDeque<FlowDigest>>>);

impl Reports {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<FlowId, VecDeque<FlowDigest>>> {
        self.0.lock().expect("no holder panics")
    }

    /// Queues a report. Returns the number of running threads if another one is needed, for this
    /// flow.
    fn put(&self, flow: FlowId, digest: FlowDigest) -> Option<usize> {
        let mut all = self.lock();
        let threads = all.len();
        let is_new = !all.contains_key(&flow);
        let waiting = all.entry(flow).or_default();
        // A repeated event of a node is already queued, so the queue stays short.
        if !waiting.contains(&digest) {
            waiting.push_back(digest);
        }
        is_new.then_some(threads)
    }

    /// The next report about a flow; if there is none, the thread is done.
    fn take(&self, flow: FlowId) -> Option<FlowDigest> {
        let mut all = self.lock();
        let next = all.get_mut(&flow)?.pop_front();
        if next.is_none() {
            all.remove(&flow);
        }
        next
    }
}

impl SwitchCore {
    /// Passes the switch's reports to the controller.
    pub(super) fn mind<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let (services, reported) = std::sync::mpsc::channel();
        scope.spawn(|| {
            abort_on_panic(|| {
                for digest in reported {
                    self.handle_service_digest(digest);
                }
            });
        });
        while !self.is_stopped() {
            self.news.wait();
            while let Some(news) = self.control(|it, site| it.poll_digest(site)) {
                match news {
                    (Digest::Flow(digest), Some(flow)) => match self.reports.put(flow, digest) {
                        Some(THREADS_MAX..) => self.report(flow),
                        Some(_) => _ = scope.spawn(move || abort_on_panic(|| self.report(flow))),
                        None => {}
                    },
                    // Of a flow that is gone.
                    (Digest::Flow(_), None) => {}
                    (digest @ (Digest::Page(_) | Digest::Sequencer(_)), _) => {
                        services.send(digest).expect("its receiver waits for all");
                    }
                }
            }
        }
    }

    fn handle_service_digest(&self, digest: Digest) {
        let Digest::Sequencer(digest) = digest else {
            return self.serve(|controller, site| controller.handle_digest(site, digest));
        };
        // The limit is saved before the switch gets it.
        if self.serve(|controller, site| controller.reserve_numbers(site, digest)) {
            self.serve(|controller, site| controller.grant_numbers(site, digest));
        }
    }

    fn report(&self, flow: FlowId) {
        while let Some(digest) = self.reports.take(flow) {
            self.control(|controller, site| controller.handle_flow_digest(site, flow, digest));
            self.save();
        }
    }

    /// Calls `act` for flows, several at a time, until all are done.
    pub(super) fn for_each_flow(&self, flows: Vec<FlowId>, act: impl Fn(FlowId) + Sync) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&flow) = flows.get(next.fetch_add(1, Ordering::Relaxed)) {
                act(flow);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..flows.len().min(THREADS_MAX) {
                scope.spawn(|| abort_on_panic(work));
            }
            work();
        });
    }
}
