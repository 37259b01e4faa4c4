//! How a hosted rack is doing.

use crate::outcome::CliError;
use rackweave_base::NodeId;
use rackweave_control::ControlError;
use rackweave_rack::RackConfig;
use rackweave_rack::config::SecurityKind;
use rackweave_rack::hosted::{Counters, HostedError, HostedRack, NodeStatus, RackStatus};
use serde::Serialize;
use std::fmt;

/// The rack's processes.
#[derive(Clone, Debug, Serialize)]
pub struct RackReport {
    pub control: String,
    pub security: SecurityKind,
    /// Whether the switch answers.
    pub running: bool,
    /// Why it does not.
    pub problem: Option<String>,
    pub switch_pid: Option<u32>,
    pub up_seconds: Option<f64>,
    pub lanes_used: Option<usize>,
    pub switch_counters: Counters,
    pub refused: Counters,
    pub nodes: Vec<NodeReport>,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    #[serde(flatten)]
    pub status: NodeStatus,
    /// Of its NIC, those that are not zero.
    pub counters: Counters,
}

impl RackReport {
    /// Asks the rack. That nobody answers is reported, not an error.
    ///
    /// # Errors
    /// If there are no keys, or somebody answers who is not this rack's switch.
    pub fn ask(config: &RackConfig) -> Result<Self, CliError> {
        let hosted = config.hosted();
        let mut report = Self {
            control: hosted.control.to_string(),
            security: hosted.security,
            running: false,
            problem: None,
            switch_pid: None,
            up_seconds: None,
            lanes_used: None,
            switch_counters: Counters::new(),
            refused: Counters::new(),
            nodes: Vec::new(),
        };
        let mut rack = match HostedRack::connect(config) {
            Ok(rack) => rack,
            Err(error @ HostedError::Control(ControlError::Unreachable { .. })) => {
                report.problem = Some(error.to_string());
                return Ok(report);
            }
            Err(error) => return Err(error.into()),
        };
        let RackStatus {
            pid,
            up_seconds,
            nodes,
            switch_counters,
            refused,
            lanes_used,
        } = rack.status()?;
        let with_counters = |(at, status): (usize, NodeStatus)| NodeReport {
            // One that has just died has none.
            counters: match rack.node_counters(NodeId(at as u16)) {
                Ok(all) => all.into_iter().filter(|&(_, count)| count > 0).collect(),
                Err(_) => Counters::new(),
            },
            status,
        };
        Ok(Self {
            running: true,
            switch_pid: Some(pid),
            up_seconds: Some(up_seconds),
            lanes_used: Some(lanes_used),
            switch_counters,
            refused,
            nodes: nodes.into_iter().enumerate().map(with_counters).collect(),
            ..report
        })
    }

    /// Whether the switch answers and all nodes have joined.
    pub fn is_whole(&self) -> bool {
        self.running && self.nodes.iter().all(|node| node.status.joined)
    }
}

impl fmt::Display for RackReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(problem) = &self.problem {
            return writeln!(f, "Rack of processes: does not run; {problem}");
        }
        writeln!(
            f,
            "Rack of processes: switch {} at {}, up for {:.1} s, {} lanes in use",
            self.switch_pid.unwrap_or_default(),
            self.control,
            self.up_seconds.unwrap_or_default(),
            self.lanes_used.unwrap_or_default()
        )?;
        let width = self.nodes.iter().map(|node| node.status.name.len());
        let width = width.fold(4, usize::max);
        let joins = "joins";
        writeln!(
            f,
            "{:<width$} {:<10} {:<14} {:>5} {:>8} {joins:>6}",
            "node", "state", "link", "MTU", "process"
        )?;
        let cell = |value: Option<u32>| value.map_or_else(|| "-".into(), |value| value.to_string());
        for NodeReport { status, .. } in &self.nodes {
            writeln!(
                f,
                "{:<width$} {:<10} {:<14} {:>5} {:>8} {:>6}",
                status.name,
                if status.joined { "joined" } else { "absent" },
                status.link.name(),
                cell(status.mtu),
                cell(status.pid),
                status.joins
            )?;
        }
        counters(f, "switch", &self.switch_counters)?;
        for NodeReport {
            status,
            counters: of,
        } in &self.nodes
        {
            counters(f, &status.name, of)?;
        }
        counters(f, "refused", &self.refused)
    }
}

fn counters(f: &mut fmt::Formatter<'_>, whose: &str, counters: &Counters) -> fmt::Result {
    if counters.is_empty() {
        return Ok(());
    }
    write!(f, "{whose}:")?;
    for (name, count) in counters {
        write!(f, " {name} {count}")?;
    }
    writeln!(f)
}
