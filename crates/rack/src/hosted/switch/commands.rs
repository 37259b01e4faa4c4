//! Serves commands: flows, jobs, status. What a command has not removed when its connection ends is
//! removed then.

use super::SwitchCore;
use crate::build::{self, Kind};
use crate::hosted::messages::{
    CommandReply, CommandRequest, FlowStatus, JobStatus, NodeReply, NodeRequest, NodeStatus,
    RackStatus,
};
use crate::hosted::node::KEEP_LIMIT;
use crate::hosted::{HostedFlow, RingName};
use core::sync::atomic::Ordering;
use rackweave_base::{NodeId, Qpn};
use rackweave_control::Connection;
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{FlowId, FlowState};
use rackweave_verbs::Mtu;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration as Time;

/// How often a thread that waits for a request checks whether to stop.
const LOOK_EVERY: Time = Time::from_millis(100);

/// Error reported to a command if a node's reply does not match the request.
const NONSENSE: &str = "the node's answer makes no sense";

/// Maximum flows of one command at a time.
const FLOWS_MAX: usize = 4096;

/// What a command has made and not removed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Estate {
    flows: BTreeSet<u32>,
    jobs: BTreeSet<(u16, u64)>,
}

impl SwitchCore {
    /// Serves a command until it ends.
    pub(super) fn serve_command(&self, mut connection: Connection, session: u64) {
        let sessions = || self.sessions.lock().expect("no holder panics");
        sessions().insert(session);
        // It may have been connected to an earlier process.
        let kept = self.stored(|state| state.rack.commands.get(&session).cloned());
        let mut estate = kept.unwrap_or_default();
        while !self.is_stopped() {
            match connection.receive::<CommandRequest>(LOOK_EVERY) {
                Ok(Some(request)) => {
                    let reply = self.answer(request, &mut estate);
                    let reply = reply.unwrap_or_else(CommandReply::Failed);
                    self.note_estate(session, &estate);
                    if connection.send(&reply).is_err() {
                        break;
                    }
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
        sessions().remove(&session);
        if !self.is_stopped() {
            self.end_command(session);
        }
    }

    /// Saves what a command has made, if that has changed.
    fn note_estate(&self, session: u64, estate: &Estate) {
        let has_changed = self.stored(|state| {
            let known = state.rack.commands.entry(session).or_default();
            let has_changed = known != estate;
            known.clone_from(estate);
            has_changed
        });
        if has_changed {
            self.save();
        }
    }

    /// Ends what commands had made that have not come back since an earlier process ended.
    pub(super) fn end_unclaimed_commands(&self) {
        let known = self.stored(|state| state.rack.commands.keys().copied().collect::<Vec<_>>());
        let deadline = std::time::Instant::now() + KEEP_LIMIT;
        while std::time::Instant::now() < deadline {
            if self.is_stopped() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        for session in known {
            let sessions = self.sessions.lock().expect("no holder panics");
            if !sessions.contains(&session) {
                drop(sessions);
                self.end_command(session);
            }
        }
    }

    /// Ends what a command has made and not removed.
    fn end_command(&self, session: u64) {
        self.wait_restored();
        let estate = self.stored(|state| state.rack.commands.remove(&session));
        let estate = estate.unwrap_or_default();
        for (node, job) in estate.jobs {
            if let Some(member) = self.member(NodeId(node)) {
                let _ = member.ask(&NodeRequest::StopJob { job });
            }
        }
        let flows = estate.flows.into_iter().map(FlowId).collect();
        self.for_each_flow(flows, |flow| {
            self.control(|controller, site| controller.close_flow(site, flow));
        });
        self.save();
    }

    fn answer(&self, request: CommandRequest, estate: &mut Estate) -> Result<CommandReply, String> {
        if !matches!(request, CommandRequest::Status) {
            self.wait_restored();
        }
        Ok(match request {
            CommandRequest::Status => CommandReply::Status(self.status()),
            CommandRequest::Statistics => CommandReply::Statistics(Box::new(self.statistics())),
            CommandRequest::CreateFlow {
                producers,
                consumers,
                item_size,
                ring_bytes,
            } => {
                if estate.flows.len() >= FLOWS_MAX {
                    return Err(format!("a command has {FLOWS_MAX} flows at most"));
                }
                let flow = self.create_flow(&producers, &consumers, item_size, ring_bytes)?;
                estate.flows.insert(flow.id);
                CommandReply::Flow(flow)
            }
            CommandRequest::FlowState { flow } => CommandReply::FlowStatus(self.flow_status(flow)),
            CommandRequest::CloseFlow { flow } => {
                if estate.flows.remove(&flow) {
                    self.control(|controller, site| controller.close_flow(site, FlowId(flow)));
                }
                CommandReply::Done
            }
            CommandRequest::Connect { a, b, mtu } => {
                self.connect(a, b, mtu)?;
                CommandReply::Done
            }
            CommandRequest::StartJob {
                node,
                name,
                arguments,
            } => {
                let job = self.jobs.fetch_add(1, Ordering::Relaxed);
                let request = NodeRequest::StartJob {
                    job,
                    name,
                    arguments,
                };
                self.ask(node, &request)?;
                estate.jobs.insert((node.0, job));
                CommandReply::Job(job)
            }
            CommandRequest::PollJob { node, job } => {
                let NodeReply::Job(status) = self.ask(node, &NodeRequest::PollJob { job })? else {
                    return Err(NONSENSE.into());
                };
                if !matches!(status, JobStatus::Running { .. }) {
                    estate.jobs.remove(&(node.0, job));
                }
                CommandReply::JobStatus(status)
            }
            CommandRequest::StopJob { node, job } => {
                self.ask(node, &NodeRequest::StopJob { job })?;
                CommandReply::Done
            }
            CommandRequest::NodeCounters { node } => {
                match self.ask(node, &NodeRequest::Counters)? {
                    NodeReply::Counters(counters) => CommandReply::Counters(counters),
                    _ => return Err(NONSENSE.into()),
                }
            }
        })
    }

    fn name(&self, node: NodeId) -> String {
        match self.config.node.get(usize::from(node.0)) {
            Some(node) => node.name.clone(),
            None => format!("node {}", node.0),
        }
    }

    fn ask(&self, node: NodeId, request: &NodeRequest) -> Result<NodeReply, String> {
        let gone = || {
            let name = self.name(node);
            format!("{name} has not joined or has died; see `rackweave info`")
        };
        let member = self.member(node).ok_or_else(gone)?;
        member.ask(request).map_err(|_| gone())
    }

    /// The largest MTU, up to `limit`, that the links of all `nodes` carry.
    fn mtu(&self, nodes: &[NodeId], limit: Mtu) -> Mtu {
        let of = |&node: &NodeId| self.member(node).map_or(limit, |member| member.mtu);
        nodes.iter().map(of).fold(limit, Mtu::min)
    }

    fn create_flow(
        &self,
        producers: &[NodeId],
        consumers: &[NodeId],
        item_size: u32,
        ring_bytes: u32,
    ) -> Result<HostedFlow, String> {
        let mut spec = build::flow_spec(
            &self.config,
            Kind::Hosted,
            producers,
            consumers,
            (item_size, ring_bytes),
            false,
        );
        let nodes = [producers, consumers].concat();
        if let Some(&absent) = nodes.iter().find(|&&node| self.member(node).is_none()) {
            let name = self.name(absent);
            return Err(format!("{name} has not joined; see `rackweave info`"));
        }
        self.wait_introduced(&nodes);
        spec.mtu = self.mtu(&nodes, spec.mtu);
        let made = self.control(|controller, site| controller.create_flow(site, spec));
        let (id, rings) = made.map_err(|error| self.config.name_nodes(&error.to_string()))?;
        let names = |rings: &[_]| rings.iter().map(RingName::from).collect();
        Ok(HostedFlow {
            id: id.0,
            consumers: names(&rings.consumers),
            producers: rings.producers.iter().map(|rings| names(rings)).collect(),
        })
    }

    fn flow_status(&self, flow: u32) -> FlowStatus {
        match self.fabric.flow_state(FlowId(flow)) {
            None => FlowStatus::Unknown,
            Some(FlowState::Running) => FlowStatus::Running,
            Some(FlowState::Ended) => FlowStatus::Ended,
            Some(FlowState::Aborted(reason)) => FlowStatus::Aborted {
                reason: self.config.name_nodes(&reason.to_string()),
            },
        }
    }

    fn connect(&self, a: (NodeId, Qpn), b: (NodeId, Qpn), mtu: Mtu) -> Result<(), String> {
        self.wait_introduced(&[a.0, b.0]);
        let attributes = PairAttributes {
            mtu: self.mtu(&[a.0, b.0], mtu),
            // Unlimited: a process that posts its receives late has not failed.
            rnr_retries: 7,
            ..PairAttributes::default()
        };
        self.control(|controller, site| controller.connect_pair(site, a, b, &attributes))
            .map_err(|error| self.config.name_nodes(&error.to_string()))
    }

    fn status(&self) -> RackStatus {
        let hosted = self.config.hosted();
        let node = |(at, node): (usize, &crate::config::NodeConfig)| {
            let member = self.member(NodeId(at as u16));
            NodeStatus {
                name: node.name.clone(),
                joined: member.is_some(),
                link: node.link_kind(&hosted),
                mtu: member.as_ref().map(|member| member.mtu.bytes()),
                pid: member.as_ref().map(|member| member.pid),
                joins: self.joins[at].load(Ordering::Relaxed),
            }
        };
        let mut refused = self.refused.lock().expect("no holder panics").clone();
        if let Some(hub) = &self.hub {
            let udp = hub.counters();
            for (reason, count) in [
                ("udp_strangers", udp.strangers),
                ("udp_truncated", udp.truncated),
                ("udp_no_vni", udp.no_vni),
                ("udp_wrong_vni", udp.wrong_vni),
                ("udp_malformed", udp.receive.malformed),
                ("udp_forged", udp.forged),
                ("udp_replayed", udp.replayed),
                ("udp_inbox_full", udp.inbox_full),
                ("udp_system_drops", udp.system_drops),
            ] {
                refused.insert(reason.into(), count);
            }
        }
        RackStatus {
            pid: std::process::id(),
            process: self.place.name.to_owned(),
            term: self.term.id.epoch,
            up_seconds: self.started.elapsed().as_secs_f64(),
            nodes: self.config.node.iter().enumerate().map(node).collect(),
            hosts: self.host_statuses(),
            switch_counters: self.pump.peek(|machine| {
                let all = machine.linked.switch.counters().iter();
                all.filter(|&(_, count)| count > 0)
                    .map(|(name, count)| (name.into(), count))
                    .collect()
            }),
            refused,
            lanes_used: self.fabric.lanes_used(),
        }
    }
}
