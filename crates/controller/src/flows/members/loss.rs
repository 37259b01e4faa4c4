//! The loss of members: what is missing after a node of a flow has died, and who learns of it.

use super::is_delivered;
use crate::flows::flow::Flow;
use crate::flows::set_up::forget_ring;
use crate::flows::{AbortReason, FlowId, FlowShape, FlowState, LossPolicy, Ring};
use crate::{Fabric, Site};
use rackweave_base::NodeId;
use rackweave_base::text::Text;
use rackweave_programs::flows::ThreadId;
use rackweave_wire::fabric::ring::{CommitRecord, SwitchState};
use serde::{Deserialize, Serialize};

/// A member that was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// Its node.
    pub node: NodeId,
    /// Producer or consumer.
    #[serde(with = "rackweave_base::text")]
    pub role: Text,
    /// Its number in the flow.
    pub index: usize,
    /// Items that were given to a consumer of a balanced flow, that it had not confirmed as
    /// consumed, and that no other consumer gets. Some of them it may have consumed.
    pub items: u64,
    /// Why it was lost.
    pub reason: AbortReason,
}

impl Fabric {
    /// Lost members of a flow so far.
    pub fn losses(&self, id: FlowId) -> Vec<Loss> {
        let losses = self.flows.with(id, |flow| flow.losses.clone());
        losses.unwrap_or_default()
    }

    /// Handles members that are gone without having left. The flow continues without them if its
    /// policy and its shape allow that.
    pub(in crate::flows) fn members_lost(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        consumers: &[usize],
        producers: &[usize],
        reason: AbortReason,
    ) {
        if !goes_on(site, flow, consumers, producers) {
            return self.take_down(site, flow, FlowState::Aborted(reason));
        }
        let mut sent = Vec::new();
        for &index in consumers {
            let (loss, tail) = lost_with(site, flow, index, reason);
            sent.extend(tail);
            // One that was leaving is no loss of the flow, but its items may be.
            if !flow.consumers[index].leaves || loss.items > 0 {
                flow.losses.push(loss);
            }
        }
        let agreed = (!consumers.is_empty())
            .then(|| being_sent_to_all(site, flow))
            .flatten();
        // From now on the contents of its rings are ignored.
        let mut rings = Vec::new();
        for &index in consumers {
            flow.consumers[index].gone = true;
            rings.push(flow.rings.consumers[index].clone());
        }
        for &index in producers {
            flow.producers[index].gone = true;
            rings.extend(flow.rings.of_producer(index));
            if flow.producers[index].leaves {
                continue;
            }
            flow.losses.push(Loss {
                node: flow.spec.producers[index],
                role: "producer",
                index,
                items: 0,
                reason,
            });
        }
        self.detach(site, flow);
        for (ring, tail) in sent {
            ring.raise_switch_counter(site, tail);
        }
        if let Some((head, record, (ring, tail))) = agreed {
            for at in flow.connected_consumers() {
                let replica = &flow.rings.consumers[at];
                replica.set_record(site, record);
                replica.raise_switch_counter(site, head);
            }
            ring.raise_switch_counter(site, tail);
        }
        for ring in &rings {
            // The node may be alive after all.
            ring.tell(site, SwitchState::Aborted);
            forget_ring(site, ring);
        }
        // If that fails, the flow is aborted, and its state says so.
        let _ = self.attach(site, flow);
    }
}

/// Whether any consumer except `these` stays. One that has yet to join does: it joins before
/// another leaves, and if all others are lost, it gets what they had not.
pub(super) fn others_wait(site: &mut dyn Site, flow: &Flow, these: &[usize]) -> bool {
    let stays = |at: &usize| !these.contains(at) && !flow.consumers[*at].leaves;
    let mut others = flow.live_consumers().filter(stays);
    // Its ring may show an end that has not been reported yet.
    others.any(|at| !flow.rings.consumers[at].has_ended(site))
}

/// Whether the switch still serves a consumer of a balanced flow, except `index` and those that are
/// leaving. Their rings may not show yet that their streams end.
pub(super) fn others_are_served(site: &mut dyn Site, flow: &Flow, index: usize) -> bool {
    let mut served = false;
    site.switch(&mut |_, switch| {
        let flows = &switch.program().flows;
        served = flow.live_consumers().any(|at| {
            let (member, thread) = (&flow.consumers[at], ThreadId(flow.consumers[at].id.0));
            let is_over = flows.is_over(thread) && !flows.has_failed(thread);
            at != index && !member.leaves && !is_over
        });
    });
    served
}

/// Whether the flow continues without these members.
fn goes_on(site: &mut dyn Site, flow: &Flow, consumers: &[usize], producers: &[usize]) -> bool {
    let others = others_wait(site, flow, consumers);
    // What a dead producer had not delivered is lost for every consumer.
    let left = flow.live_producers().filter(|at| !producers.contains(at));
    let mut left = left.flat_map(|at| flow.rings.of_producer(at)).peekable();
    if left.peek().is_none() {
        return false;
    }
    let were_leaving = consumers.iter().all(|&at| flow.consumers[at].leaves)
        && producers.iter().all(|&at| flow.producers[at].leaves);
    if others && were_leaving {
        // What one has been shown and has not reported as taken is lost with it, or would be taken
        // twice: a flow that is to lose nothing does not go on.
        return flow.spec.on_loss != LossPolicy::Abort || !hold_items(site, flow, consumers);
    }
    flow.spec.on_loss != LossPolicy::Abort
        && (consumers.is_empty() || flow.spec.shape != FlowShape::Shuffle)
        // If the others have ended before, nothing is lost if nothing is left to deliver.
        && (others || left.all(|ring| is_delivered(&ring, site)))
}

/// Whether consumers of a balanced flow have been shown items that they have not reported as taken.
fn hold_items(site: &mut dyn Site, flow: &Flow, consumers: &[usize]) -> bool {
    if flow.spec.shape != FlowShape::Balance {
        return false;
    }
    let mut hold = false;
    site.switch(&mut |_, switch| {
        let flows = &switch.program().flows;
        let mut ids = consumers.iter().map(|&at| flow.consumers[at].id);
        hold = ids.any(|id| flows.unconsumed(ThreadId(id.0), id) > 0);
    });
    hold
}

/// The head that was about to be published to all replicas, its record, and the corresponding tail
/// of the producer. A lost replica may have seen it, and all the others have the items: it is
/// published to them too, so that no replica has seen items that others never see.
fn being_sent_to_all(site: &mut dyn Site, flow: &Flow) -> Option<(u32, CommitRecord, (Ring, u32))> {
    if flow.spec.shape != FlowShape::Replicate {
        return None;
    }
    let thread = ThreadId(flow.consumers.first()?.id.0);
    let mut telling = None;
    site.switch(&mut |_, switch| {
        let flows = &switch.program().flows;
        telling = flows
            .being_sent(thread)
            .map(|sent| (flows.head(thread), sent));
    });
    let (head, (producer, tail)) = telling?;
    let mut members = flow.producers.iter();
    let at = members.position(|member| member.ids[0] == producer)?;
    let record = CommitRecord {
        producer: at as u16 + 1,
        tail,
    };
    Some((head, record, (flow.rings.producers[0][at].clone(), tail)))
}

/// The items lost with a consumer, and the tail of the producer of its pending commit without the
/// items that others are to get.
fn lost_with(
    site: &mut dyn Site,
    flow: &Flow,
    index: usize,
    reason: AbortReason,
) -> (Loss, Option<(Ring, u32)>) {
    let mut loss = Loss {
        node: flow.spec.consumers[index],
        role: "consumer",
        index,
        items: 0,
        reason,
    };
    let (policy, leaves) = (flow.spec.on_loss, flow.consumers[index].leaves);
    // Without its members a flow that is to be aborted does not go on, unless they were leaving.
    if flow.spec.shape != FlowShape::Balance || (policy == LossPolicy::Abort && !leaves) {
        return (loss, None);
    }
    let consumer = flow.consumers[index].id;
    let thread = ThreadId(consumer.0);
    let (mut telling, mut unconsumed) = (None, 0);
    site.switch(&mut |_, switch| {
        let flows = &switch.program().flows;
        unconsumed = flows.unconsumed(thread, consumer);
        telling = flows.being_sent(thread);
        // What one that leaves has been shown counts as consumed.
        if policy == LossPolicy::Redeliver && leaves && flows.is_shown(thread) {
            unconsumed = 0;
        }
    });
    let kept = match policy {
        LossPolicy::Redeliver => unconsumed,
        // It may have seen the newest head. With a policy that delivers no item twice, the head
        // counts as seen.
        _ => {
            loss.items = unconsumed.into();
            0
        }
    };
    // If its ring has another number, the word there is invalid.
    let is_valid = kept <= flow.spec.consumer_slots;
    let tail = telling.filter(|_| is_valid).and_then(|(producer, tail)| {
        let mut members = flow.producers.iter();
        let at = members.position(|member| member.ids[0] == producer)?;
        Some((flow.rings.producers[0][at].clone(), tail.wrapping_sub(kept)))
    });
    (loss, tail)
}
