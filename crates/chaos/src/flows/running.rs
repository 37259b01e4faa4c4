//! One flow of a run: its members, their known state, and what the flow may therefore do.

use super::History;
use super::actors::{Feeder, Outcome, Taker};
use super::member::Member;
use super::plan::FlowPlan;
use core::cell::RefCell;
use rackweave_base::NodeId;
use rackweave_controller::{AbortReason, FlowShape, FlowState, LossPolicy};
use rackweave_endpoint::flow::Taken;
use rackweave_rack::{Flow, SimulatedRack, testing};
use rackweave_sim::checkers::{FlowHistory, Shape};
use std::rc::Rc;

/// A flow under test.
pub(super) struct Running {
    pub plan: FlowPlan,
    pub flow: Flow,
    pub history: History,
    pub consumers: Vec<Member>,
    pub producers: Vec<Member>,
    /// Why the flow may be aborted; `None` if it must not be.
    pub excuse: Option<&'static str>,
    /// A member has crashed and the controller does not know it.
    pub silent_death: bool,
    /// Some member may be given up at a time that the harness does not observe.
    pub loss_pending: bool,
}

impl Running {
    pub fn start(rack: &mut SimulatedRack, plan: FlowPlan) -> Result<Self, String> {
        let flow = rack.create_flow(plan.spec.clone());
        let flow = flow.map_err(|error| format!("no flow: {error}"))?;
        let shape = match plan.spec.shape {
            FlowShape::Shuffle => Shape::Routed,
            FlowShape::Balance => Shape::Balanced,
            FlowShape::Replicate => Shape::Replicated,
        };
        let consumers = plan.spec.consumers.len() as u16;
        let mut history = FlowHistory::new(shape, consumers, plan.seed);
        if plan.spec.on_loss == LossPolicy::Redeliver {
            history.redelivers();
        }
        let spec = plan.spec.clone();
        let mut running = Self {
            plan,
            flow,
            history: Rc::new(RefCell::new(history)),
            consumers: Vec::new(),
            producers: Vec::new(),
            excuse: None,
            silent_death: false,
            loss_pending: false,
        };
        for &node in &spec.producers {
            running.spawn_producer(rack, node)?;
        }
        for &node in &spec.consumers {
            running.spawn_consumer(rack, node)?;
        }
        Ok(running)
    }

    pub fn spawn_producer(&mut self, rack: &mut SimulatedRack, node: NodeId) -> Result<(), String> {
        let (index, member) = (self.producers.len(), Member::new(node));
        let rings = self.flow.take_producers(index);
        let rings = rings.map_err(|error| error.to_string())?;
        let bells = self.flow.producer_bells(index);
        let (history, mark) = (self.history.clone(), member.mark.clone());
        let feeder = Feeder::new(index as u16, rings, bells, &self.plan, history, mark);
        rack.spawn(node, Box::new(feeder));
        self.producers.push(member);
        Ok(())
    }

    pub fn spawn_consumer(&mut self, rack: &mut SimulatedRack, node: NodeId) -> Result<(), String> {
        let (index, member) = (self.consumers.len(), Member::new(node));
        let ring = self.flow.take_consumer(index);
        let ring = ring.map_err(|error| error.to_string())?;
        let bell = self.flow.consumer_bell(index);
        let (history, mark) = (self.history.clone(), member.mark.clone());
        let taker = Taker::new(index as u16, ring, bell, &self.plan, history, mark);
        rack.spawn(node, Box::new(taker));
        self.consumers.push(member);
        Ok(())
    }

    pub fn runs(&self) -> bool {
        self.flow.state() == FlowState::Running
    }

    /// The members that are not done.
    pub fn open(&self) -> String {
        let all = [
            ("consumers", &self.consumers),
            ("producers", &self.producers),
        ];
        let open = all.map(|(role, members)| {
            let members = members.iter().enumerate();
            let open = members.filter(|(_, member)| member.mark.outcome.get().is_none());
            let open: Vec<_> = open.map(|(at, _)| at).collect();
            format!("{role} {open:?}")
        });
        open.join(", ")
    }

    /// Whether the controller has given a member up.
    pub fn is_given_up(&self, role: &str, index: usize) -> bool {
        let mut losses = self.flow.losses().into_iter();
        losses.any(|loss| loss.role == role && loss.index == index)
    }

    /// Whether the controller may have yet to give a lost member up.
    pub fn awaits_loss(&self) -> bool {
        let all = [("consumer", &self.consumers), ("producer", &self.producers)];
        all.into_iter().any(|(role, members)| {
            let mut members = members.iter().enumerate();
            members.any(|(at, member)| member.lost && !self.is_given_up(role, at))
        })
    }

    /// The switch loses the flow's state and is configured again. Items shown to a consumer by now
    /// belong to it, and are kept for no other consumer.
    pub fn about_to_be_set_up_again(&mut self) {
        if !self.runs() {
            return;
        }
        self.excuse_silent_death(self.silent_death);
        if self.plan.spec.shape != FlowShape::Balance {
            return;
        }
        for index in 0..self.consumers.len() {
            if !self.consumers[index].removed && !self.is_given_up("consumer", index) {
                let (_, head) = self.counters(index);
                let owned = &mut self.consumers[index].owned;
                *owned = head.max(*owned);
            }
        }
    }

    /// How many items a consumer has taken, and how many it has been shown: at least as many, and
    /// at most a ring more.
    fn counters(&self, consumer: usize) -> (u32, u32) {
        let Ok(mut ring) = testing::consumer_view(&self.flow, consumer) else {
            return (0, 0);
        };
        let (tail, item_size) = (ring.tail(), ring.item_size());
        let shown = match ring.peek(u32::MAX) {
            Taken::Items(bytes) => bytes.len() as u32 / item_size,
            _ => 0,
        };
        let slots = self.plan.spec.consumer_slots;
        // There may be more beyond the end of the ring.
        let hidden = shown > 0 && (tail + shown).is_multiple_of(slots);
        (tail, tail + if hidden { slots } else { shown })
    }

    /// The members on a node that the controller counts, as far as the harness knows: consumers and
    /// producers.
    fn members_on(&self, node: NodeId) -> [Vec<usize>; 2] {
        [&self.consumers, &self.producers].map(|members| {
            let members = members.iter().enumerate();
            let here = members.filter(|(_, member)| member.node == node && !member.removed);
            here.map(|(at, _)| at).collect()
        })
    }

    /// A node is about to crash.
    pub fn about_to_crash(&mut self, node: NodeId, is_reported: bool) {
        let mut history = self.history.borrow_mut();
        for (at, member) in self.consumers.iter().enumerate() {
            // A consumer that has seen the end of stream has taken everything.
            if member.node == node && member.mark.outcome.get().is_none() {
                history.abandon_consumer(at as u16);
            }
        }
        for (at, member) in self.producers.iter().enumerate() {
            if member.node == node && !member.removed {
                history.abandon_producer(at as u16);
            }
        }
        drop(history);
        let late = self.note_late_deaths(node);
        let [consumers, producers] = self.members_on(node);
        // One that is being removed may not have left.
        let count = consumers.len() + producers.len() + late;
        if count == 0 || !self.runs() {
            return;
        }
        self.lose(&consumers, &producers);
        if is_reported {
            self.about_to_be_set_up_again();
        } else {
            // The controller learns of one member at a time, and sets the flow up again with the
            // others.
            self.excuse_silent_death(count > 1 || self.loss_pending || self.silent_death);
            self.silent_death = true;
            self.loss_pending = true;
        }
    }

    /// Removed members on a node may not have left yet when it dies. Returns how many have not, as
    /// far as the harness knows.
    fn note_late_deaths(&mut self, node: NodeId) -> usize {
        let spec = &self.plan.spec;
        let aborts = spec.on_loss == LossPolicy::Abort && spec.shape == FlowShape::Balance;
        let leaving = |member: &Member| {
            member.node == node && member.removed && member.mark.outcome.get().is_none()
        };
        if aborts && self.runs() && self.consumers.iter().any(leaving) {
            // It may have been shown items, and it is unknown whether it has taken them.
            self.excuse = self.excuse.or(Some("its policy says so"));
        }
        let members = self.consumers.iter_mut().chain(&mut self.producers);
        let mut late = 0;
        for member in members.filter(|member| member.node == node && member.removed) {
            member.died_after_removal = true;
            if member.mark.outcome.get().is_none() {
                member.died_late = true;
                late += 1;
            }
        }
        late
    }

    /// A node becomes unreachable for so long that the switch may give it up.
    pub fn about_to_be_cut_off(&mut self, node: NodeId) {
        self.note_late_deaths(node);
        let [consumers, producers] = self.members_on(node);
        let mut history = self.history.borrow_mut();
        for &at in &consumers {
            history.suspect_consumer(at as u16);
        }
        for &at in &producers {
            history.suspect_producer(at as u16);
        }
        drop(history);
        if consumers.len() + producers.len() > 0 {
            self.lose_some_time(&consumers, &producers);
        }
    }

    /// A consumer is about to leave.
    pub fn about_to_leave(&mut self, consumer: usize) {
        let Some(member) = self.consumers.get(consumer) else {
            return;
        };
        if !member.removed && member.mark.outcome.get().is_none() {
            member.mark.shall_leave.set(true);
            self.lose_some_time(&[consumer], &[]);
        }
    }

    /// The flow is set up again; `is_dead` tells whether a crashed node takes part.
    fn excuse_silent_death(&mut self, is_dead: bool) {
        let excuse = is_dead.then_some("set up again with a node that is dead");
        self.excuse = self.excuse.or(excuse);
    }

    /// The flow may be set up again before a consumer that has joined is connected: items that are
    /// moved again before that do not come to it (docs/flows.md). One that has been published an
    /// item is connected.
    pub fn excuse_unconnected(&mut self) {
        for at in 0..self.consumers.len() {
            if self.counters(at).1 == self.counters(at).0 {
                self.history.borrow_mut().may_miss_items(at as u16);
            }
        }
    }

    fn lose_some_time(&mut self, consumers: &[usize], producers: &[usize]) {
        self.excuse_silent_death(self.silent_death);
        self.loss_pending = true;
        self.lose(consumers, producers);
    }

    /// Members are lost, or fewer remain; decides whether the flow must continue.
    pub fn lose(&mut self, consumers: &[usize], producers: &[usize]) {
        for &at in consumers {
            self.consumers[at].lost = true;
        }
        for &at in producers {
            self.producers[at].lost = true;
        }
        if consumers.len() + producers.len() > 0 {
            self.excuse_unconnected();
        }
        let mut members = self.consumers.iter().chain(&self.producers);
        if !members.any(|member| member.lost) {
            return;
        }
        let remain = |members: &[Member]| members.iter().any(|m| !m.lost && !m.removed);
        let any_waits = self.consumers.iter().any(Member::is_waiting);
        let excuse = if self.plan.spec.on_loss == LossPolicy::Abort {
            Some("its policy says so")
        } else if self.plan.spec.shape == FlowShape::Shuffle && !consumers.is_empty() {
            Some("a shuffle needs all its consumers")
        } else if !remain(&self.producers) {
            Some("no producer is left")
        } else if !any_waits || self.has_finished() {
            Some("no consumer is left, or the others have seen the end")
        } else {
            None
        };
        self.excuse = self.excuse.or(excuse);
    }

    /// Whether all remaining producers have finished: then the stream may end for some consumers at
    /// any time.
    pub fn has_finished(&self) -> bool {
        let mut left = self.producers.iter().filter(|p| !p.lost && !p.removed);
        left.all(|p| p.mark.outcome.get() == Some(Outcome::Finished))
    }

    /// Whether the flow had no member left to continue with when it detected the losses, possibly
    /// long after the harness knew of them. In a balanced flow all other consumers have seen the
    /// end by then, and items in flight to those that were lost, or died while they were removed,
    /// belong to no consumer.
    fn only_lost_wait(&self) -> bool {
        let ended = |member: &Member| member.mark.outcome.get() == Some(Outcome::Ended);
        let mut others = self.consumers.iter().filter(|m| !m.lost && !m.removed);
        self.plan.spec.shape == FlowShape::Balance
            && self.consumers.iter().any(|m| m.may_be_dead() && !ended(m))
            && others.all(ended)
    }

    /// Judges the flow after the run. Returns all violations, and why the flow was aborted, if it
    /// was.
    pub fn judge(self) -> (FlowHistory, Vec<String>, Option<AbortReason>) {
        let mut violations = Vec::new();
        let mut aborted = None;
        if let FlowState::Aborted(reason) = self.flow.state() {
            aborted = Some(reason);
            self.history.borrow_mut().abort();
            if self.excuse.is_none() && !self.only_lost_wait() {
                violations.push(format!("broken off without cause: {reason}"));
            }
        }
        let mut unseen_before = false;
        for loss in self.flow.losses() {
            let members = if loss.role == "consumer" {
                &self.consumers
            } else {
                &self.producers
            };
            let member = &members[loss.index];
            // One that dies while it is being removed is none, but its items are counted: also
            // those that it has consumed, as long as it has not confirmed that.
            let counts_items = member.died_after_removal && loss.items > 0;
            if !member.lost && !counts_items {
                violations.push(format!("given up without cause: {loss:?}"));
            }
            let mut history = self.history.borrow_mut();
            let index = loss.index as u16;
            if loss.role == "producer" {
                history.abandon_producer(index);
            } else if member.mark.outcome.get() != Some(Outcome::Ended) {
                history.abandon_consumer(index);
                history.lost(index, loss.items);
                if unseen_before {
                    // The time at which the items it had been shown became its own is unknown.
                    history.excuse(index, u64::from(self.plan.spec.consumer_slots));
                }
            }
            unseen_before |= !matches!(loss.reason, AbortReason::NodeDied(_));
        }
        for (at, member) in self.consumers.iter().enumerate() {
            if member.died_while_removed() {
                self.history.borrow_mut().abandon_consumer(at as u16);
            }
            let given_up = self.is_given_up("consumer", at);
            let (tail, head) = self.counters(at);
            // What was published to one that is being removed goes to no other (docs/flows.md).
            let owned = if given_up { member.owned } else { head };
            let unseen = u64::from(owned.saturating_sub(tail));
            if member.lost || member.mark.outcome.get().is_none() {
                self.history.borrow_mut().excuse(at as u16, unseen);
            }
        }
        let all = [("consumer", &self.consumers), ("producer", &self.producers)];
        for (role, members) in all.into_iter().filter(|_| aborted.is_none()) {
            for (at, member) in members.iter().enumerate() {
                let is_reported = member.mark.outcome.get() == Some(Outcome::Aborted);
                if is_reported && !self.is_given_up(role, at) && !member.died_while_removed() {
                    let wrong = format!("{role} {at} was shown an end that there was not");
                    violations.push(wrong);
                }
            }
        }
        let empty = FlowHistory::new(Shape::Routed, 0, 0);
        (self.history.replace(empty), violations, aborted)
    }
}
