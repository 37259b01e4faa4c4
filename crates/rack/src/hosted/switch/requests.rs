//! Serves the requests of nodes: what services ask the controller.

use super::site::Asking;
use super::{Member, SwitchCore};
use crate::hosted::LOOK_EVERY;
use crate::hosted::messages::{MemberReply, MemberRequest, NodeReply, NodeRequest, ServiceCall};
use crate::statistics::RackStatistics;
use rackweave_base::NodeId;
use rackweave_control::Connection;
use rackweave_controller::ask::{AskError, Reply, Request};
use rackweave_controller::{FlowId, Named, SequencerId};
use rackweave_verbs::Mtu;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a node has made and not removed. It goes when the node does.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Estate {
    flows: BTreeSet<FlowId>,
    sequencers: BTreeSet<SequencerId>,
}

impl Estate {
    fn note(&mut self, reply: &Reply) {
        match reply {
            Reply::CreateFlow(Ok((flow, _))) => _ = self.flows.insert(*flow),
            Reply::CreateSequencer(Ok(id)) => _ = self.sequencers.insert(*id),
            _ => {}
        }
    }

    /// A request that removes something.
    fn note_request(&mut self, request: &Request) {
        match request {
            Request::CloseFlow(close) => _ = self.flows.remove(&close.flow),
            Request::CloseSequencer(close) => _ = self.sequencers.remove(&close.id),
            _ => {}
        }
    }
}

impl SwitchCore {
    /// Serves a node until it leaves the rack.
    pub(super) fn serve_member(&self, member: &Member, mut connection: Connection) {
        member.close_with_it(&connection);
        while !self.is_stopped() && member.is_alive() {
            let reply = match connection.receive::<MemberRequest>(LOOK_EVERY) {
                Ok(Some(MemberRequest::Ask(request))) => {
                    let reply = self.answer_member(member.node, *request);
                    MemberReply::Answer(reply.map(Box::new))
                }
                Ok(Some(MemberRequest::Statistics)) => {
                    MemberReply::Statistics(Box::new(self.statistics()))
                }
                Ok(Some(MemberRequest::MtuToHost(name))) => {
                    MemberReply::MtuToHost(self.mtu_to_host(&name))
                }
                Ok(Some(MemberRequest::Call(call))) => MemberReply::Called(self.call(&call)),
                Ok(None) => continue,
                Err(_) => break,
            };
            if connection.send(&reply).is_err() {
                break;
            }
        }
    }

    /// Takes a node that is gone out of the state; returns what it had made.
    pub(super) fn forget_member(&self, node: NodeId) -> Estate {
        self.stored(|state| {
            state.rack.members.remove(&node.0);
            state.rack.estates.remove(&node.0).unwrap_or_default()
        })
    }

    /// Removes what a node that is gone has made.
    pub(super) fn end_estate(&self, estate: Estate) {
        let Estate { flows, sequencers } = estate;
        self.for_each_flow(flows.into_iter().collect(), |flow| {
            self.control(|fabric, site| fabric.close_flow(site, flow));
        });
        for id in sequencers {
            self.serve(|controller, site| controller.close_sequencer(site, id));
        }
        self.save();
    }

    /// Passes a request on to the process that has the service.
    fn call(&self, call: &ServiceCall) -> Result<Value, String> {
        let name = &call.name;
        let found = self.serve(|controller, _| controller.named(name));
        let Some(Named::Service(node)) = found else {
            return Err(format!("the rack has no service named {name:?}"));
        };
        let member = self.member(node);
        let member = member.ok_or_else(|| format!("the process that has {name:?} has ended"))?;
        member.call(call)
    }

    fn answer_member(&self, own: NodeId, mut request: Request) -> Result<Reply, AskError> {
        if !request.may_be_sent_by(own) {
            return Err(AskError::Forbidden);
        }
        self.wait_restored();
        // Nodes that are about to be connected share memory by then.
        self.wait_introduced(&request.connects());
        if let Some(mtu) = request.mtu_mut() {
            *mtu = (*mtu).min(self.mtu_max());
        }
        let estate = |note: &dyn Fn(&mut Estate)| {
            self.stored(|state| note(state.rack.estates.entry(own.0).or_default()));
        };
        estate(&|estate| estate.note_request(&request));
        let reply = match request.answer_by_fabric(&self.fabric, &mut Asking(self)) {
            Ok(reply) => reply,
            Err(request) => self.serve(|controller, site| request.answer(controller, site)),
        };
        estate(&|estate| estate.note(&reply));
        let only_asks = matches!(
            reply,
            Reply::FlowStateOf(_) | Reply::FlowRingsOf(_) | Reply::FlowLosses(_)
        );
        if !only_asks {
            self.save();
        }
        Ok(reply)
    }

    /// The largest MTU that the links of all nodes carry.
    fn mtu_max(&self) -> Mtu {
        let nodes = (0..self.config.node.len()).filter_map(|at| self.member(NodeId(at as u16)));
        nodes.map(|member| member.mtu).fold(Mtu::B4096, Mtu::min)
    }

    /// The statistics of the rack. Nodes are asked for theirs one after the other.
    pub(super) fn statistics(&self) -> RackStatistics {
        let mut site = Asking(self);
        self.observed.ask_soon(|ask| {
            let controller = self.controller.try_lock();
            controller.is_ok_and(|controller| {
                ask(&controller, &mut Asking(self));
                true
            })
        });
        self.observed.look(&mut site, |node| {
            match self.member(node)?.ask(&NodeRequest::Counters) {
                Ok(NodeReply::Counters(counters)) => Some(counters),
                _ => None,
            }
        })
    }
}
