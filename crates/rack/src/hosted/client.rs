//! A command's interface to a running rack.

use super::messages::{CommandReply, CommandRequest, PURPOSE_COMMAND};
use super::{
    Counters, FlowStatus, HostedError, HostedFlow, JobStatus, OPERATOR_NAME, RackStatus, connect,
};
use crate::build;
use crate::config::RackConfig;
use crate::statistics::RackStatistics;
use rackweave_base::{KeyRng, NodeId, Qpn};
use rackweave_control::Connection;
use rackweave_verbs::Mtu;
use serde_json::Value;
use std::time::Duration as Time;

/// Time limit for a reply, in addition to the time that detecting a dead node takes.
const ANSWER_LIMIT: Time = Time::from_secs(30);

/// A connection to the controller of a hosted rack. Flows and jobs made through it end with it.
pub struct HostedRack {
    config: RackConfig,
    connection: Connection,
    /// The number by which the controller knows it when it connects again.
    session: u64,
    limit: Time,
}

fn dial(config: &RackConfig, session: u64) -> Result<Connection, HostedError> {
    connect(config, OPERATOR_NAME, PURPOSE_COMMAND, session)
}

impl HostedRack {
    /// Connects to the controller that the configuration names.
    ///
    /// # Errors
    /// If no controller answers there, or keys or configurations do not match.
    pub fn connect(config: &RackConfig) -> Result<Self, HostedError> {
        config.check().map_err(build::RackError::from)?;
        let session = KeyRng::system().next_u64();
        Ok(Self {
            connection: dial(config, session)?,
            session,
            limit: ANSWER_LIMIT + config.hosted().dead_after(),
            config: config.clone(),
        })
    }

    /// Reconnects after the controller was lost: waits up to `limit` until a switch process has
    /// started and all nodes have joined it. Flows and jobs go on.
    ///
    /// # Errors
    /// If no switch process has started in time, or a node is missing.
    pub fn reconnect(&mut self, limit: Time) -> Result<(), HostedError> {
        let deadline = std::time::Instant::now() + limit;
        self.connection = loop {
            match dial(&self.config, self.session) {
                Ok(connection) => break connection,
                Err(error) if std::time::Instant::now() >= deadline => return Err(error),
                Err(_) => std::thread::sleep(Time::from_millis(50)),
            }
        };
        self.wait_for_nodes(deadline.saturating_duration_since(std::time::Instant::now()))?;
        Ok(())
    }

    /// The configuration that it was connected with.
    pub fn config(&self) -> &RackConfig {
        &self.config
    }

    fn ask(&mut self, request: &CommandRequest) -> Result<CommandReply, HostedError> {
        match self.connection.request(request, self.limit)? {
            CommandReply::Failed(error) => Err(HostedError::Failed(error)),
            reply => Ok(reply),
        }
    }

    fn done(&mut self, request: &CommandRequest) -> Result<(), HostedError> {
        match self.ask(request)? {
            CommandReply::Done => Ok(()),
            _ => Err(HostedError::BadAnswer),
        }
    }

    /// The current status of the rack.
    ///
    /// # Errors
    /// If the controller is gone.
    pub fn status(&mut self) -> Result<RackStatus, HostedError> {
        match self.ask(&CommandRequest::Status)? {
            CommandReply::Status(status) => Ok(status),
            _ => Err(HostedError::BadAnswer),
        }
    }

    /// The statistics of the rack at this moment. A node that has not joined is reported as dead,
    /// with all counters zero.
    ///
    /// # Errors
    /// If the controller is gone.
    pub fn statistics(&mut self) -> Result<RackStatistics, HostedError> {
        match self.ask(&CommandRequest::Statistics)? {
            CommandReply::Statistics(statistics) => Ok(*statistics),
            _ => Err(HostedError::BadAnswer),
        }
    }

    /// Waits until all nodes have joined, up to `limit`, by polling.
    ///
    /// # Errors
    /// If nodes are still missing then, which it names; or the controller is gone.
    pub fn wait_for_nodes(&mut self, limit: Time) -> Result<RackStatus, HostedError> {
        let deadline = std::time::Instant::now() + limit;
        loop {
            let status = self.status()?;
            let own = self.config.residents().map(|node| node.name.as_str());
            let own: Vec<&str> = own.collect();
            let absent = status.nodes.iter().filter(|node| !node.joined);
            let absent = absent.filter(|node| own.contains(&node.name.as_str()));
            let absent: Vec<&str> = absent.map(|node| node.name.as_str()).collect();
            if absent.is_empty() {
                return Ok(status);
            }
            if std::time::Instant::now() >= deadline {
                let absent = absent.join(", ");
                return Err(HostedError::Failed(format!(
                    "{absent} did not join; start them with `rackweave node NAME`"
                )));
            }
            std::thread::sleep(Time::from_millis(20));
        }
    }

    /// Sets up a flow with the rack's settings for batches and transfers, and the largest MTU that
    /// all its links carry.
    ///
    /// # Errors
    /// If a node has not joined, the specification is out of range, or there is no capacity.
    pub fn create_flow(
        &mut self,
        producers: &[NodeId],
        consumers: &[NodeId],
        item_size: u32,
        ring_bytes: u32,
    ) -> Result<HostedFlow, HostedError> {
        let request = CommandRequest::CreateFlow {
            producers: producers.to_vec(),
            consumers: consumers.to_vec(),
            item_size,
            ring_bytes,
        };
        match self.ask(&request)? {
            CommandReply::Flow(flow) => Ok(flow),
            _ => Err(HostedError::BadAnswer),
        }
    }

    /// The current state of a flow.
    ///
    /// # Errors
    /// If the controller is gone.
    pub fn flow_status(&mut self, flow: u32) -> Result<FlowStatus, HostedError> {
        match self.ask(&CommandRequest::FlowState { flow })? {
            CommandReply::FlowStatus(status) => Ok(status),
            _ => Err(HostedError::BadAnswer),
        }
    }

    /// Aborts a flow, or forgets one that has ended.
    ///
    /// # Errors
    /// If the controller is gone.
    pub fn close_flow(&mut self, flow: u32) -> Result<(), HostedError> {
        self.done(&CommandRequest::CloseFlow { flow })
    }

    /// Connects two queue pairs that are in state Reset.
    ///
    /// # Errors
    /// If a node is unknown or refuses, or the controller is gone.
    pub fn connect_pair(
        &mut self,
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        mtu: Mtu,
    ) -> Result<(), HostedError> {
        self.done(&CommandRequest::Connect { a, b, mtu })
    }

    /// Has a node run a job. Returns its number.
    ///
    /// # Errors
    /// If the node has not joined, or the controller is gone.
    pub fn start_job(
        &mut self,
        node: NodeId,
        name: &str,
        arguments: Value,
    ) -> Result<u64, HostedError> {
        let request = CommandRequest::StartJob {
            node,
            name: name.into(),
            arguments,
        };
        match self.ask(&request)? {
            CommandReply::Job(job) => Ok(job),
            _ => Err(HostedError::BadAnswer),
        }
    }

    /// The current state of a job. The end of a job is reported once.
    ///
    /// # Errors
    /// If its node has died, or the controller is gone.
    pub fn poll_job(&mut self, node: NodeId, job: u64) -> Result<JobStatus, HostedError> {
        match self.ask(&CommandRequest::PollJob { node, job })? {
            CommandReply::JobStatus(status) => Ok(status),
            _ => Err(HostedError::BadAnswer),
        }
    }

    /// Requests a job to end. Its end still has to be polled for.
    ///
    /// # Errors
    /// As for [`HostedRack::poll_job`].
    pub fn stop_job(&mut self, node: NodeId, job: u64) -> Result<(), HostedError> {
        self.done(&CommandRequest::StopJob { node, job })
    }

    /// The counters of a node's NIC since it joined.
    ///
    /// # Errors
    /// If the node has not joined, or the controller is gone.
    pub fn node_counters(&mut self, node: NodeId) -> Result<Counters, HostedError> {
        match self.ask(&CommandRequest::NodeCounters { node })? {
            CommandReply::Counters(counters) => Ok(counters),
            _ => Err(HostedError::BadAnswer),
        }
    }
}
