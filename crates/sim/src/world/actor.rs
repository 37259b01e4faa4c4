//! Actors: the programs that run on the cores of nodes.

use super::{Event, World};
use crate::queue::Alarm;
use crate::{Category, CpuModel};
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_nic::Nic;
use rackweave_switch::Program;
use rackweave_verbs::{PostError, WorkRequest};

/// An actor, numbered in the order of spawning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActorId(pub u32);

/// A program that runs on one core of a node.
///
/// A step happens at one instant: its changes to memory take effect at its beginning. The time that
/// it charges passes before its next step, and work that it posted reaches the NIC after that time.
pub trait Actor {
    /// Executes one step and returns what comes next.
    fn step(&mut self, context: &mut Context<'_>) -> Step;
}

/// What an actor does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Computes for this long, at least a nanosecond, then steps again.
    Compute(Duration),
    /// Spins on the node's memory: steps again when the node's NIC has handled a packet and the
    /// core has seen it. The packet may have been for another actor.
    WaitForPacket,
    /// The same, but no longer than until this time.
    WaitUntil(Instant),
    /// Leaves the core for this long, at least a nanosecond, then steps again.
    Sleep(Duration),
    /// Has ended.
    Done,
}

/// An actor's view of its world.
pub struct Context<'a> {
    now: Instant,
    node: NodeId,
    nic: &'a mut Nic,
    cpu: &'a CpuModel,
    nic_used: bool,
    neighbours_woken: bool,
    compute: Duration,
    communication: Duration,
}

pub(super) struct ActorSlot {
    /// None while it is being stepped and after it has ended.
    actor: Option<Box<dyn Actor>>,
    pub(super) node: u16,
    core: usize,
    state: State,
    /// When its wait ends even without a packet; none if it waits for a packet only.
    due: Option<Instant>,
    /// The times at which its wait has entries in the event queue. Most waits end long before they
    /// are due: if each were entered, the queue would be full of obsolete entries.
    wait_alarm: Alarm,
    /// Whether the world waits for its end.
    counts: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A step is in the event queue.
    Entered,
    /// It has been spinning since this time.
    Waiting(Instant),
    Ended,
}

impl Context<'_> {
    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The node that the actor runs on.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The cost model of this node's CPU.
    pub fn cpu(&self) -> &CpuModel {
        self.cpu
    }

    /// The node's NIC, which implements `Verbs`. Using it directly charges no time.
    pub fn nic(&mut self) -> &mut Nic {
        self.nic_used = true;
        self.nic
    }

    /// Posts to the send queue and charges the cost.
    ///
    /// # Errors
    /// As `Verbs::post_send`.
    pub fn post_send(
        &mut self,
        qpn: rackweave_base::Qpn,
        request: WorkRequest,
    ) -> Result<(), PostError> {
        use rackweave_verbs::Verbs as _;
        self.communication += self.cpu.post_cost;
        self.nic().post_send(qpn, request)
    }

    /// Takes completions and charges the cost; an empty poll costs a cache hit.
    pub fn poll_cq(
        &mut self,
        cq: rackweave_verbs::CqId,
        limit: usize,
        completions: &mut Vec<rackweave_verbs::Completion>,
    ) -> usize {
        use rackweave_verbs::Verbs as _;
        let count = self.nic().poll_cq(cq, limit, completions);
        self.communication += if count == 0 {
            self.cpu.cache_latency
        } else {
            self.cpu.poll_cost * count as u64
        };
        count
    }

    /// Steps the waiting actors of this node, as if a packet had arrived: this actor has changed
    /// memory that they spin on.
    pub fn wake_neighbours(&mut self) {
        self.neighbours_woken = true;
    }

    /// Charges time to the core.
    pub fn charge(&mut self, category: Category, time: Duration) {
        match category {
            Category::Compute => self.compute += time,
            Category::Communication => self.communication += time,
        }
    }
}

impl<P: Program> World<P> {
    /// Runs `actor` on a core of `node`; if there are more actors than cores they share cores in
    /// turn. An actor on a node that does not exist or has crashed is done at once.
    pub fn spawn(&mut self, node: NodeId, actor: Box<dyn Actor>) -> ActorId {
        self.enter(node, actor, true)
    }

    /// The same for an actor that serves others and never ends by itself: the world does not wait
    /// for it.
    pub fn spawn_server(&mut self, node: NodeId, actor: Box<dyn Actor>) -> ActorId {
        self.enter(node, actor, false)
    }

    fn enter(&mut self, node: NodeId, actor: Box<dyn Actor>, counts: bool) -> ActorId {
        let index = self.actors.len();
        let alive = self
            .nodes
            .get_mut(usize::from(node.0))
            .filter(|slot| slot.nic.is_some());
        let slot = match alive {
            Some(slot) => {
                let core = slot.next_core;
                slot.next_core = (core + 1) % slot.cores.len();
                if counts {
                    self.active += 1;
                    self.done_unreported = false;
                }
                self.queue.push(self.now, Event::Step(index as u32));
                ActorSlot {
                    actor: Some(actor),
                    node: node.0,
                    core,
                    state: State::Entered,
                    due: None,
                    wait_alarm: Alarm::default(),
                    counts,
                }
            }
            None => ActorSlot {
                actor: None,
                node: node.0,
                core: 0,
                state: State::Ended,
                due: None,
                wait_alarm: Alarm::default(),
                counts,
            },
        };
        self.actors.push(slot);
        ActorId(index as u32)
    }

    /// Whether an actor has ended. True for an actor that never existed.
    pub fn is_done(&self, actor: ActorId) -> bool {
        self.actors
            .get(actor.0 as usize)
            .is_none_or(|slot| slot.state == State::Ended)
    }

    /// Number of actors that have not ended.
    pub fn actors_active(&self) -> usize {
        self.active
    }

    pub(super) fn end_actor(&mut self, index: usize) {
        let slot = &mut self.actors[index];
        if core::mem::replace(&mut slot.state, State::Ended) != State::Ended {
            slot.actor = None;
            if slot.counts {
                self.active -= 1;
                self.done_unreported = self.active == 0;
            }
        }
    }

    /// Enters a step for every actor that spins on the node's memory.
    #[inline]
    pub(super) fn wake_waiting(&mut self, node: usize) {
        let slot = &mut self.nodes[node];
        if slot.waiting.is_empty() {
            return;
        }
        let seen = self.now + slot.model.cpu.spin_latency;
        for index in slot.waiting.drain(..) {
            let actor = &mut self.actors[index as usize];
            let State::Waiting(since) = actor.state else {
                continue;
            };
            actor.state = State::Entered;
            let at = seen.max(since);
            slot.cpu.waiting += at.since(since);
            self.queue.push(at, Event::Step(index));
        }
    }

    /// Enters a step for every other actor that spins on the node's memory.
    fn wake_neighbours_of(&mut self, node: usize, index: u32) {
        let own = self.nodes[node]
            .waiting
            .iter()
            .position(|&other| other == index);
        if let Some(at) = own {
            self.nodes[node].waiting.swap_remove(at);
        }
        self.wake_waiting(node);
        if own.is_some() {
            self.nodes[node].waiting.push(index);
        }
    }

    /// Handles the timeout of an actor's wait, which may be obsolete.
    pub(super) fn wait_over(&mut self, index: u32) {
        let actor = &mut self.actors[index as usize];
        actor.wait_alarm.fired(self.now);
        let (State::Waiting(since), Some(due)) = (actor.state, actor.due) else {
            return;
        };
        if due > self.now {
            // The event was for an earlier wait, which ended before it was due.
            if actor.wait_alarm.set(due) {
                self.queue.push(due, Event::WaitOver(index));
            }
            return;
        }
        let node = &mut self.nodes[usize::from(actor.node)];
        node.waiting.retain(|&other| other != index);
        node.cpu.waiting += self.now.since(since);
        actor.state = State::Entered;
        self.want_core(index);
    }

    /// Queues an actor for its core.
    pub(super) fn want_core(&mut self, index: u32) {
        let slot = &self.actors[index as usize];
        if slot.state != State::Entered {
            return;
        }
        let (node, core) = (usize::from(slot.node), slot.core);
        self.nodes[node].cores[core].ready.push_back(index);
        self.run_core(node, core);
    }

    pub(super) fn core_free(&mut self, node: usize, core: usize) {
        self.nodes[node].cores[core].entered = false;
        self.run_core(node, core);
    }

    /// Steps the next actor if the core is free, and schedules the one after it.
    fn run_core(&mut self, node: usize, core: usize) {
        if self.nodes[node].cores[core].busy_until <= self.now
            && let Some(index) = self.nodes[node].cores[core].ready.pop_front()
        {
            self.step_actor(index);
        }
        let slot = &mut self.nodes[node].cores[core];
        if !slot.ready.is_empty() && !slot.entered {
            slot.entered = true;
            let at = slot.busy_until.max(self.now);
            self.queue.push(at, Event::Core(node as u16, core as u16));
        }
    }

    fn step_actor(&mut self, index: u32) {
        let slot = &mut self.actors[index as usize];
        let node = &mut self.nodes[usize::from(slot.node)];
        let (Some(nic), Some(mut actor)) = (node.nic.as_mut(), slot.actor.take()) else {
            return;
        };
        node.outgoing.before_change(&self.memory, self.now);
        let mut context = Context {
            now: self.now,
            node: NodeId(slot.node),
            nic,
            cpu: &node.model.cpu,
            nic_used: false,
            neighbours_woken: false,
            compute: Duration::ZERO,
            communication: Duration::ZERO,
        };
        let step = actor.step(&mut context);
        let Context {
            nic_used,
            neighbours_woken,
            compute,
            communication,
            ..
        } = context;
        slot.actor = Some(actor);
        let charged = self.now + compute + communication;
        // An actor whose steps take no time would stop the clock.
        let soonest = self.now + Duration::from_nanos(1);
        let busy_until = match step {
            Step::Compute(time) => (charged + time).max(soonest),
            _ => charged,
        };
        node.cpu.charge(Category::Communication, communication);
        node.cpu.charge(
            Category::Compute,
            busy_until.since(self.now + communication),
        );
        node.cores[slot.core].busy_until = busy_until;
        match step {
            Step::Compute(_) => self.queue.push(busy_until, Event::Step(index)),
            Step::Sleep(time) => {
                self.queue
                    .push((busy_until + time).max(soonest), Event::Step(index));
            }
            Step::WaitForPacket => {
                slot.state = State::Waiting(charged);
                slot.due = None;
                node.waiting.push(index);
            }
            Step::WaitUntil(due) => {
                slot.state = State::Waiting(charged);
                node.waiting.push(index);
                let due = due.max(charged).max(soonest);
                slot.due = Some(due);
                if slot.wait_alarm.set(due) {
                    self.queue.push(due, Event::WaitOver(index));
                }
            }
            Step::Done => self.end_actor(index as usize),
        }
        let node = usize::from(self.actors[index as usize].node);
        if nic_used {
            self.enter_transmit(node, charged);
        }
        if neighbours_woken {
            self.wake_neighbours_of(node, index);
        }
    }
}
