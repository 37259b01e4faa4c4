//! Serves the requests of nodes: what services ask the controller.

use super::site::Asking;
use super::{Member, SwitchCore};
use crate::hosted::messages::{MemberReply, MemberRequest, NodeReply, NodeRequest, ServiceCall};
use crate::statistics::RackStatistics;
use rackweave_base::NodeId;
use rackweave_control::Connection;
use rackweave_controller::ask::{AskError, Reply, Request};
use rackweave_controller::{FlowId, Named, SequencerId};
use rackweave_verbs::Mtu;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration as Time;

/// How often a thread that waits for a request checks whether to stop.
const LOOK_EVERY: Time = Time::from_millis(100);

/// What a node has made and not removed. It goes when the node does.
#[derive(Default)]
struct Estate {
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
        let mut estate = Estate::default();
        while !self.is_stopped() && member.is_alive() {
            let reply = match connection.receive::<MemberRequest>(LOOK_EVERY) {
                Ok(Some(MemberRequest::Ask(request))) => {
                    let reply = self.answer_member(member.node, *request, &mut estate);
                    MemberReply::Answer(reply.map(Box::new))
                }
                Ok(Some(MemberRequest::Statistics)) => {
                    MemberReply::Statistics(Box::new(self.statistics()))
                }
                Ok(Some(MemberRequest::Call(call))) => MemberReply::Called(self.call(&call)),
                Ok(None) => continue,
                Err(_) => break,
            };
            if connection.send(&reply).is_err() {
                break;
            }
        }
        if self.is_stopped() {
            return;
        }
        let Estate { flows, sequencers } = estate;
        self.for_each_flow(flows.into_iter().collect(), |flow| {
            self.control(|fabric, site| fabric.close_flow(site, flow));
        });
        for id in sequencers {
            self.serve(|controller, site| controller.close_sequencer(site, id));
        }
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

    fn answer_member(
        &self,
        own: NodeId,
        mut request: Request,
        estate: &mut Estate,
    ) -> Result<Reply, AskError> {
        if !request.may_be_sent_by(own) {
            return Err(AskError::Forbidden);
        }
        // Nodes that are about to be connected share memory by then.
        self.wait_introduced(&request.connects());
        if let Some(mtu) = request.mtu_mut() {
            *mtu = (*mtu).min(self.mtu_max());
        }
        estate.note_request(&request);
        let request = match request.answer_by_fabric(&self.fabric, &mut Asking(self)) {
            Ok(reply) => {
                estate.note(&reply);
                return Ok(reply);
            }
            Err(request) => request,
        };
        let reply = self.serve(|controller, site| request.answer(controller, site));
        estate.note(&reply);
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
