//! Serves the controller's requests.

use super::cables::CableMaker;
use super::machine::NodeMachine;
use super::shared::NodeCore;
use crate::config::HostedSection;
use crate::hosted::LOOK_EVERY;
use crate::hosted::messages::{Counters, NodeReply, NodeRequest};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::Qpn;
use rackweave_base::memory::Origin;
use rackweave_control::Connection;
use rackweave_controller::{PairError, PairRequest};
use rackweave_link::shared_memory::handover;
use rackweave_nic::Nic;
use rackweave_verbs::{CqError, ModifyError, QpError, Verbs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration as Time, Instant};

/// The controller is given this many times as long as a node to show a sign of life: if it is lost,
/// everything stands still, and a switch process that was stopped for a while goes on where it was.
/// One that dies closes its connections.
const CONTROLLER_PATIENCE: u32 = 3;

/// How long a node waits for a sign of life of the controller. If etcd elects the leader, one that
/// is silent for longer than its lease has been replaced.
pub(in crate::hosted) fn controller_patience(hosted: &HostedSection) -> Time {
    let dead_after = hosted.dead_after();
    match hosted.etcd.is_empty() {
        true => CONTROLLER_PATIENCE * dead_after,
        false => dead_after + hosted.lease(),
    }
}

/// A node that serves its controller.
pub(super) struct Serving<'a> {
    core: &'a Arc<NodeCore>,
    /// The channel on which descriptors arrive, if the link is shared memory.
    channel: Option<UnixStream>,
    cables: CableMaker<'a>,
}

impl<'a> Serving<'a> {
    pub fn new(
        core: &'a Arc<NodeCore>,
        channel: Option<UnixStream>,
        cables: CableMaker<'a>,
    ) -> Self {
        Self {
            core,
            channel,
            cables,
        }
    }

    /// Serves until `stop` or the controller is gone. Returns the cause, if it was not `stop`.
    pub fn run(
        mut self,
        mut connection: Connection,
        hosted: &HostedSection,
        stop: &AtomicBool,
    ) -> Option<String> {
        let (dead_after, silent_max) = (hosted.dead_after(), controller_patience(hosted));
        let look_every = LOOK_EVERY.min(dead_after / 4);
        let mut heard = Instant::now();
        let mut stopped_at = None;
        loop {
            if stop.load(Ordering::Relaxed) {
                // The next reply announces that this node is leaving.
                let since = *stopped_at.get_or_insert_with(Instant::now);
                if since.elapsed() > dead_after {
                    return None;
                }
            }
            self.core.keep_house();
            let request = match connection.receive::<NodeRequest>(look_every) {
                Ok(Some(request)) => request,
                Ok(None) if heard.elapsed() > silent_max => {
                    let silence = silent_max.as_millis();
                    return Some(format!(
                        "no sign of life from the controller for {silence} ms"
                    ));
                }
                Ok(None) => continue,
                Err(error) => return Some(error.to_string()),
            };
            heard = Instant::now();
            let farewell = matches!(request, NodeRequest::Farewell);
            let leaving = stop.load(Ordering::Relaxed) && matches!(request, NodeRequest::Ping);
            let reply = match request {
                NodeRequest::Ping => NodeReply::Pong {
                    leaving,
                    page_alarm: self.core.page_alarm.swap(false, Ordering::AcqRel),
                    wanted: self.cables.wanted(self.core),
                },
                request => self.answer(request),
            };
            if let Err(error) = connection.send(&reply) {
                return Some(error.to_string());
            }
            if farewell {
                connection.close();
                return Some("the switch process has ended".into());
            }
            if leaving {
                connection.close();
                return None;
            }
        }
    }

    fn nic<R>(&self, act: impl FnOnce(&mut Nic) -> R) -> Option<R> {
        self.core.pump.with(|machine| machine.nic().map(act))
    }

    fn answer(&mut self, request: NodeRequest) -> NodeReply {
        let core = self.core;
        match request {
            NodeRequest::Ping | NodeRequest::Farewell => {}
            // It has joined: no token is expected.
            NodeRequest::Prove => return NodeReply::Token(None),
            NodeRequest::RemoveRegion { region } => core.remove_region(&region),
            NodeRequest::LoadWords { rkey, offsets } => {
                let load = |offset| core.regions.load(core.id, rkey, offset);
                return NodeReply::Words(offsets.into_iter().map(load).collect());
            }
            NodeRequest::StoreWord {
                rkey,
                offset,
                bytes,
            } => core.regions.store(core.id, rkey, offset, bytes),
            NodeRequest::CompareSwapWord {
                rkey,
                offset,
                words,
            } => {
                let regions = &core.regions;
                return NodeReply::Swapped(regions.compare_swap(core.id, rkey, offset, words));
            }
            NodeRequest::Target(request) => {
                let answer = |machine: &mut NodeMachine| {
                    let replies = request.into_iter().map(|it| machine.target(it));
                    replies.collect()
                };
                return NodeReply::Target(core.pump.with(answer));
            }
            NodeRequest::Import { origin } => {
                return NodeReply::Imported(self.import(Origin(origin)));
            }
            NodeRequest::Forget { origin } => {
                core.forget(Origin(origin));
            }
            NodeRequest::MakeCable { peer } => {
                let made = self.cables.make(core, self.channel.as_ref(), peer);
                return NodeReply::Cabled(made);
            }
            NodeRequest::TakeCable { peer } => {
                let taken = self.cables.take(core, self.channel.as_ref(), peer);
                return NodeReply::Cabled(taken);
            }
            NodeRequest::CutCable { peer } => core.cut_cable(peer),
            NodeRequest::StartJob {
                job,
                name,
                arguments,
            } => core.table.start(core, job, name, arguments),
            NodeRequest::PollJob { job } => return NodeReply::Job(core.table.poll(job)),
            NodeRequest::StopJob { job } => core.table.stop(job),
            NodeRequest::Counters => {
                let counters = core.pump.peek(|machine| -> Option<Counters> {
                    let cables = machine.cables().len() as u64;
                    let all = machine.nic()?.counters().iter();
                    let all = all.chain([("direct_cables", cables)]);
                    Some(all.map(|(name, value)| (name.into(), value)).collect())
                });
                return NodeReply::Counters(counters.unwrap_or_default());
            }
            verb => return self.act(verb),
        }
        NodeReply::Done
    }

    /// Executes a verb of the controller on the node's NIC.
    fn act(&self, verb: NodeRequest) -> NodeReply {
        let core = self.core;
        match verb {
            NodeRequest::CreatePd => core.domain().map_or(NodeReply::Done, NodeReply::Pd),
            NodeRequest::CreateCq { capacity } => {
                let made = self.nic(|nic| nic.create_cq(capacity));
                let made = made.unwrap_or(Err(CqError::NoAnswer));
                core.loans().cqs.extend(made.iter().copied());
                NodeReply::Cq(made)
            }
            NodeRequest::CreateQp {
                pd,
                send_cq,
                receive_cq,
                capabilities,
            } => {
                // What the controller makes is connected to programs of the switch.
                let made = self.nic(|nic| {
                    let qpn = nic.create_qp(pd, send_cq, receive_cq, capabilities)?;
                    nic.keep_to_switch(qpn);
                    Ok(qpn)
                });
                let made = made.unwrap_or(Err(QpError::NoAnswer));
                core.loans().qps.extend(made.iter().copied());
                NodeReply::Qp(made)
            }
            NodeRequest::ConnectPairs(requests) => NodeReply::Pairs(self.connect_pairs(&requests)),
            NodeRequest::ModifyQp { qpn, modify } => {
                let done = self.nic(|nic| nic.modify_qp(qpn, modify));
                NodeReply::Modified(done.unwrap_or(Err(ModifyError::NoAnswer)))
            }
            NodeRequest::DestroyQp { qpn } => {
                core.loans().qps.remove(&qpn);
                let done = self.nic(|nic| nic.destroy_qp(qpn));
                NodeReply::Destroyed(done.unwrap_or(Err(QpError::NoAnswer)))
            }
            NodeRequest::DestroyCq { cq } => {
                core.loans().cqs.retain(|made| *made != cq);
                let done = self.nic(|nic| nic.destroy_cq(cq));
                NodeReply::CqDestroyed(done.unwrap_or(Err(CqError::NoAnswer)))
            }
            NodeRequest::MakeRegion {
                pd,
                len,
                access,
                purpose,
            } => {
                let made = self.nic(|nic| core.regions.make(nic, core.id, pd, len, access));
                let gone = || Err("the node does not answer".into());
                let made = made.map(|made| made.map_err(|error| error.to_string()));
                if let Some(Ok(region)) = &made {
                    core.lend(region.rkey, purpose);
                }
                NodeReply::Region(made.unwrap_or_else(gone))
            }
            NodeRequest::ReadByReference { qpn } => {
                self.nic(|nic| nic.read_by_reference(qpn));
                NodeReply::Done
            }
            other => unreachable!("{other:?} is no verb"),
        }
    }

    /// Connects queue pairs to the switch.
    fn connect_pairs(&self, requests: &[PairRequest]) -> Vec<Result<Qpn, PairError>> {
        let connect = |nic: &mut Nic| {
            let pairs = requests.iter().map(|request| request.answer(nic));
            pairs.collect::<Vec<_>>()
        };
        let gone = || vec![Err(PairError::Make(QpError::NoAnswer)); requests.len()];
        let pairs = self.nic(connect).unwrap_or_else(gone);
        let made = requests.iter().zip(&pairs);
        let made = made.filter(|(request, _)| request.qpn.is_none());
        let made = made.filter_map(|(_, pair)| pair.ok());
        self.core.loans().qps.extend(made);
        pairs
    }

    /// Maps the memory of another node, which the switch passes on.
    fn import(&mut self, origin: Origin) -> Result<(), String> {
        let channel = self.channel.as_mut().ok_or("this link shares no memory")?;
        let (_, fds) = handover::receive(channel).map_err(|error| error.to_string())?;
        let fd = fds.into_iter().next().ok_or("no memory came along")?;
        self.core.import(origin, fd)
    }
}
