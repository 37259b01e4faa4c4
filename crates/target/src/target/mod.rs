//! The target: its parts, its queues, and its polling.

mod admin;
mod ending;
mod fabrics;
mod flow;
mod plan;
mod queue;

use crate::buffers::Buffers;
use crate::config::ConfigError;
use crate::controller::Controller;
use crate::namespace::Namespace;
use crate::{Backend, Counters, IoDone, TargetConfig, TargetError};
use flow::NO_COMMAND;
use plan::{CommandPlan, DataSource, Refusal};
use queue::{Layout, Queue, QueueState, WorkId};
use rackweave_base::{Instant, Memory, Qpn};
use rackweave_verbs::{Access, Completion, CompletionStatus, CqId, PdId, Region, Service, Verbs};
use rackweave_wire::nvme::{Cqe, Sqe, Status};
use std::collections::{BTreeMap, VecDeque};

/// Maximum completions taken at a time.
const COMPLETIONS_MAX: usize = 64;

/// An NVMe-oF target: one subsystem with its namespaces, and the queues of its hosts.
pub struct Target {
    pub(crate) config: TargetConfig,
    pub(crate) layout: Layout,
    pd: PdId,
    pub(crate) cq: CqId,
    /// The slots of all queues.
    pub(crate) capsules: Region,
    pub(crate) buffers: Buffers,
    pub(crate) queues: Vec<Queue>,
    pub(crate) controllers: BTreeMap<u16, Controller>,
    /// The id assigned last.
    pub(crate) controller_last: u16,
    pub(crate) namespaces: Vec<Namespace>,
    /// Commands that wait for a buffer, in order: queue and slot.
    pub(crate) waiting: VecDeque<(usize, u16)>,
    /// Queues whose queue pairs are to be moved to the error state.
    pub(crate) condemned: Vec<usize>,
    /// Slots whose commands ended without an answer; they are to be posted again.
    pub(crate) released: Vec<(usize, u16)>,
    pub(crate) counters: Counters,
    pub(crate) now: Instant,
    completions: Vec<Completion>,
    done: Vec<IoDone>,
}

impl Target {
    /// Creates a target with these namespaces; the first has id 1. Its buffers come from `memory`,
    /// its protection domain and completion queue from the NIC.
    ///
    /// # Errors
    /// If the configuration or a namespace is invalid, or there is no space for it.
    pub fn new(
        config: TargetConfig,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        namespaces: Vec<Box<dyn Backend>>,
    ) -> Result<Self, TargetError> {
        config.check()?;
        let namespaces = check_namespaces(namespaces, &config)?;
        let layout = Layout::new(&config);
        let capsules = memory.allocate(layout.bytes(config.queues_max))?;
        let buffers = memory.allocate(config.buffers as usize * config.transfer_max as usize)?;
        let pd = verbs.create_pd();
        let capsules = verbs.register(pd, capsules, Access::LOCAL_WRITE)?;
        let buffers = verbs.register(pd, buffers, Access::LOCAL_WRITE)?;
        let cq = verbs.create_cq(u32::from(config.queues_max) * layout.completions())?;
        Ok(Self {
            layout,
            pd,
            cq,
            capsules,
            buffers: Buffers::new(buffers, config.transfer_max, config.buffers),
            queues: (0..config.queues_max)
                .map(|_| Queue::new(&layout))
                .collect(),
            controllers: BTreeMap::new(),
            controller_last: 0,
            namespaces,
            waiting: VecDeque::new(),
            condemned: Vec::new(),
            released: Vec::new(),
            counters: Counters::default(),
            now: Instant::ZERO,
            completions: Vec::with_capacity(COMPLETIONS_MAX),
            done: Vec::new(),
            config,
        })
    }

    /// Opens a queue: a queue pair in state Reset, which the caller connects to a host.
    ///
    /// # Errors
    /// If there are `queues_max` already, or the NIC creates no queue pair.
    pub fn open_queue(&mut self, verbs: &mut dyn Verbs) -> Result<Qpn, TargetError> {
        let free = self.queues.iter_mut();
        let mut free = free.filter(|queue| queue.state == QueueState::Free);
        let full = TargetError::TooManyQueues(self.config.queues_max);
        let queue = free.next().ok_or(full)?;
        let qpn = verbs.create_qp(self.pd, self.cq, self.cq, self.layout.capabilities())?;
        queue.open(qpn, &self.layout);
        Ok(qpn)
    }

    /// Makes a queue ready for commands. Its queue pair must be able to receive, and the host must
    /// not have sent a command yet.
    ///
    /// # Errors
    /// If there is no such queue, or its queue pair accepts no receives.
    pub fn queue_connected(&mut self, verbs: &mut dyn Verbs, qpn: Qpn) -> Result<(), TargetError> {
        let index = self.find(qpn).ok_or(TargetError::UnknownQueue(qpn))?;
        for slot in 0..self.config.queue_entries {
            let id = WorkId::Receive(slot).pack(index);
            let request = self.layout.receive(&self.capsules, id, index, slot);
            verbs.post_receive(qpn, request)?;
        }
        Ok(())
    }

    /// Executes a command that has everything it needs in its capsule (Connect, Property Get and
    /// Set, admin commands without data) as if it had arrived on the queue, and returns the
    /// response. A controller uses this to connect queues of hosts that cannot do it themselves.
    pub fn admit(&mut self, qpn: Qpn, capsule: &[u8]) -> Cqe {
        let refused = |command_id, status| Cqe {
            command_id,
            status,
            ..Cqe::default()
        };
        let Ok((sqe, data)) = Sqe::parse(capsule) else {
            return refused(NO_COMMAND, Status::INVALID_FIELD.permanent());
        };
        let open = |index: &usize| self.queues[*index].state == QueueState::Open;
        let Some(index) = self.find(qpn).filter(open) else {
            return refused(sqe.command_id, Status::COMMAND_SEQUENCE);
        };
        let result = if self.queues[index].has_command(sqe.command_id) {
            Err(Status::COMMAND_ID_CONFLICT.into())
        } else {
            self.plan(index, &sqe, data.len())
                .and_then(|plan| match plan {
                    CommandPlan::Answer(result) => Ok(result),
                    CommandPlan::Connect(connect, DataSource::Capsule { offset }) => {
                        self.connect(index, connect, &data[offset..])
                    }
                    _ => Err(Refusal::from(Status::COMMAND_SEQUENCE)),
                })
        };
        let (status, result) = match result {
            Ok(result) => (Status::SUCCESS, result),
            Err(refusal) => (refusal.status, refusal.result),
        };
        self.complete(index, sqe.command_id, status, result)
    }

    /// Reads from the beginning of a block at once, bypassing requests in flight: for a controller
    /// that inspects a failure and has closed all queues that might write the block. Returns false
    /// if there is no such block, or the medium cannot be read this way.
    pub fn peek(&self, nsid: u32, block: u64, bytes: &mut [u8]) -> bool {
        let namespace = (nsid as usize).wrapping_sub(1);
        let namespace = self.namespaces.get(namespace);
        namespace.is_some_and(|namespace| namespace.peek(block, bytes))
    }

    /// Bytes of a block and the number of blocks of each namespace; the first has id 1.
    pub fn namespaces(&self) -> impl Iterator<Item = (u32, u64)> {
        let namespaces = self.namespaces.iter();
        namespaces.map(|namespace| (1 << namespace.shift, namespace.blocks))
    }

    /// The target's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the backend still works on commands of queues that have ended.
    pub fn is_draining(&self) -> bool {
        let mut queues = self.queues.iter();
        queues.any(|queue| queue.state == QueueState::Draining)
    }

    /// The target's configuration.
    pub fn config(&self) -> &TargetConfig {
        &self.config
    }

    /// Broken queues that wait for [`Self::close_queue`].
    pub fn broken(&self) -> impl Iterator<Item = Qpn> + '_ {
        let queues = self.queues.iter();
        let broken = queues.filter(|queue| queue.state == QueueState::Broken);
        broken.map(|queue| queue.qpn)
    }

    /// Transfer buffers that are not in use by a command.
    pub fn buffers_free(&self) -> usize {
        self.buffers.free()
    }

    pub(crate) fn find(&self, qpn: Qpn) -> Option<usize> {
        let alive = |queue: &Queue| !matches!(queue.state, QueueState::Free | QueueState::Draining);
        let mut queues = self.queues.iter();
        queues.position(|queue| queue.qpn == qpn && alive(queue))
    }

    /// Takes all available completions. Returns whether there were any.
    pub(crate) fn take_completions(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut any = false;
        let mut completions = core::mem::take(&mut self.completions);
        while verbs.poll_cq(self.cq, COMPLETIONS_MAX, &mut completions) > 0 {
            any = true;
            for completion in completions.drain(..) {
                self.handle_completion(verbs, &completion);
                self.catch_up(verbs);
            }
        }
        self.completions = completions;
        any
    }

    fn handle_completion(&mut self, verbs: &mut dyn Verbs, completion: &Completion) {
        let (index, work) = WorkId::unpack(completion.id);
        let queue = &mut self.queues[index];
        if queue.qpn != completion.qpn || queue.state != QueueState::Open {
            return;
        }
        if completion.status != CompletionStatus::Success {
            // Its queue pair is in the error state by now, and everything else on it is flushed.
            self.counters.queues_broken += 1;
            self.abandon(index);
            return;
        }
        match work {
            WorkId::Receive(slot) => self.arrive(verbs, index, slot, completion.length),
            WorkId::Fetch(slot) => self.fetched(verbs, index, slot),
            WorkId::Give(buffer) => {
                let giving = &mut queue.giving;
                let at = giving.iter().position(|given| *given == buffer);
                giving.swap_remove(at.expect("a buffer that is given was noted"));
                self.buffers.give(buffer);
                self.grant(verbs);
            }
            WorkId::Respond(response) => {
                queue.responses_free.push(response);
                self.respond(verbs, index);
            }
        }
    }

    /// Polls the backends. Returns whether any completed a request.
    fn drive_backends(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut done = core::mem::take(&mut self.done);
        for namespace in &mut self.namespaces {
            namespace.drive(self.now, &mut done);
        }
        let any = !done.is_empty();
        for ended in done.drain(..) {
            self.ended(verbs, ended);
        }
        self.done = done;
        any
    }
}

fn check_namespaces(
    namespaces: Vec<Box<dyn Backend>>,
    config: &TargetConfig,
) -> Result<Vec<Namespace>, ConfigError> {
    if namespaces.len() > rackweave_wire::nvme::identify::LIST_IDS_MAX {
        return Err(ConfigError::Namespaces(namespaces.len()));
    }
    let checked = namespaces.into_iter().zip(1..).map(|(backend, nsid)| {
        let (block_size, blocks) = (backend.block_size(), backend.blocks());
        let sizes = 512..=config.transfer_max;
        if !block_size.is_power_of_two() || !sizes.contains(&block_size) || blocks == 0 {
            return Err(ConfigError::Namespace {
                nsid,
                block_size,
                blocks,
            });
        }
        Ok(Namespace::new(backend))
    });
    checked.collect()
}

impl Service for Target {
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        self.now = now;
        self.keep_alive();
        let condemned = !self.condemned.is_empty();
        self.catch_up(verbs);
        let mut any = self.take_completions(verbs) | condemned;
        any |= self.drive_backends(verbs);
        self.catch_up(verbs);
        self.grant(verbs);
        any
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if !self.condemned.is_empty() || !self.released.is_empty() {
            return Some(self.now);
        }
        let namespaces = self.namespaces.iter();
        let backends = namespaces.filter_map(Namespace::poll_timeout);
        let controllers = self.controllers.values();
        let silence = controllers.filter_map(Controller::deadline);
        backends.chain(silence).min()
    }
}
