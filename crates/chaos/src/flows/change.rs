//! Members that join and leave at the controller's command, and whether a refusal is valid.

use super::actors::Outcome;
use super::disturb::Disturbance;
use super::member::Member;
use super::running::Running;
use rackweave_base::NodeId;
use rackweave_controller::{FlowError, FlowShape};
use rackweave_rack::{SimulatedRack, testing};

/// The result of a change.
pub(super) enum Change {
    Done,
    /// Refused for a valid reason.
    Refused,
    /// To be requested again.
    Later,
    /// An incorrect success or refusal.
    Wrong(String),
}

impl Running {
    /// Applies `disturbance` to the members or the weight of this flow.
    pub fn change(
        &mut self,
        rack: &mut SimulatedRack,
        disturbance: Disturbance,
        dead: &[NodeId],
    ) -> Change {
        let ran = self.runs();
        let result = match disturbance {
            Disturbance::JoinConsumer { node, .. } => self.join_consumer(rack, node),
            Disturbance::RemoveConsumer { index, .. } => self.remove_consumer(index),
            Disturbance::JoinProducer { node, .. } => self.join_producer(rack, node),
            Disturbance::RemoveProducer { index, .. } => self.remove_producer(index),
            Disturbance::SetWeight { weight, .. } => self.flow.set_weight(weight),
            _ => return Change::Refused,
        };
        let shuffles = self.plan.spec.shape == FlowShape::Shuffle;
        let error = match result {
            Ok(()) => {
                let changes_consumers = matches!(
                    disturbance,
                    Disturbance::JoinConsumer { .. } | Disturbance::RemoveConsumer { .. }
                );
                return match !ran || (shuffles && changes_consumers) {
                    true => Change::Wrong(format!("{disturbance:?} was not refused")),
                    false => Change::Done,
                };
            }
            Err(error) => error,
        };
        let joins = matches!(
            disturbance,
            Disturbance::JoinConsumer { .. } | Disturbance::JoinProducer { .. }
        );
        let fits = match &error {
            // The flow may have ended, and the controller learns of it only now. It takes no new
            // members when all producers have finished.
            FlowError::NotRunning => !self.runs() || (joins && self.has_finished()),
            FlowError::ShapeForbids { .. } => {
                let is_producer = matches!(disturbance, Disturbance::JoinProducer { .. });
                shuffles && (!is_producer || self.may_have_ended())
            }
            FlowError::ProducerBusy { index } => {
                if !self.has_delivered(*index) {
                    return Change::Later;
                }
                false
            }
            FlowError::NoSuchMember { role, index } => self.may_be_unknown(role, *index),
            FlowError::LastMember { role } => self.may_be_last(role),
            FlowError::Region { .. } | FlowError::Lane(_) => {
                let node_is_dead = match disturbance {
                    Disturbance::JoinConsumer { node, .. }
                    | Disturbance::JoinProducer { node, .. } => dead.contains(&node),
                    _ => false,
                };
                node_is_dead || self.silent_death
            }
            _ => false,
        };
        match fits {
            true => Change::Refused,
            false => Change::Wrong(format!("{disturbance:?} was refused: {error}")),
        }
    }

    fn join_consumer(&mut self, rack: &mut SimulatedRack, node: NodeId) -> Result<(), FlowError> {
        self.about_to_be_set_up_again();
        let index = self.flow.add_consumer(node)?;
        let mut history = self.history.borrow_mut();
        let joined = history.join();
        if !self.awaits_loss() {
            history.joined(joined);
        }
        drop(history);
        assert_eq!(
            usize::from(joined),
            index,
            "members are numbered as they come"
        );
        self.spawn_consumer(rack, node)
            .expect("a ring that was just made");
        Ok(())
    }

    fn remove_consumer(&mut self, index: usize) -> Result<(), FlowError> {
        self.about_to_be_set_up_again();
        let removed = self.flow.remove_consumer(index);
        // The member is removed even if the others cannot continue.
        if matches!(removed, Ok(()) | Err(FlowError::Lane(_))) {
            let member = &mut self.consumers[index];
            member.removed = true;
            member.mark.removed.set(true);
            self.lose(&[], &[]);
        }
        removed
    }

    fn join_producer(&mut self, rack: &mut SimulatedRack, node: NodeId) -> Result<(), FlowError> {
        self.about_to_be_set_up_again();
        let index = self.flow.add_producer(node)?;
        assert_eq!(
            index,
            self.producers.len(),
            "members are numbered as they come"
        );
        if self.has_finished() {
            self.history.borrow_mut().joined_late(index as u16);
        }
        self.spawn_producer(rack, node)
            .expect("rings that were just made");
        Ok(())
    }

    fn remove_producer(&mut self, index: usize) -> Result<(), FlowError> {
        if self.producers.get(index).is_some() && self.has_delivered(index) {
            self.about_to_be_set_up_again();
        }
        self.flow.remove_producer(index)?;
        assert!(self.has_delivered(index), "a busy producer was removed");
        self.producers[index].removed = true;
        self.lose(&[], &[]);
        Ok(())
    }

    /// Whether a producer has finished and the switch has acknowledged all its items.
    fn has_delivered(&self, producer: usize) -> bool {
        let finished = self.producers[producer].mark.outcome.get() == Some(Outcome::Finished);
        let rings = testing::producer_views(&self.flow, producer).unwrap_or_default();
        finished && rings.into_iter().all(|mut ring| ring.is_delivered())
    }

    /// Whether the stream of some consumer may have ended.
    fn may_have_ended(&self) -> bool {
        let ended = |member: &Member| member.mark.outcome.get() == Some(Outcome::Ended);
        self.has_finished() || self.consumers.iter().any(ended)
    }

    fn may_be_unknown(&self, role: &str, index: usize) -> bool {
        let given_up = self.is_given_up(role, index);
        match role {
            "consumer" => {
                let member = self.consumers.get(index);
                given_up || self.has_finished() || member.is_none_or(|member| !member.is_waiting())
            }
            _ => {
                given_up
                    || self
                        .producers
                        .get(index)
                        .is_none_or(|member| member.removed)
            }
        }
    }

    fn may_be_last(&self, role: &str) -> bool {
        if role == "consumer" {
            let waiting = self.consumers.iter().filter(|member| member.is_waiting());
            return self.has_finished() || waiting.count() <= 1;
        }
        let producers = self.producers.iter().enumerate();
        let left =
            producers.filter(|&(at, member)| !member.removed && !self.is_given_up("producer", at));
        left.count() <= 1
    }
}
