//! The flows of a runner: set up, their ends started as jobs, aborted.

use super::{JobRunner, TaskId};
use crate::amount::Amount;
use crate::hosted::jobs::flow::{CONSUME, ConsumeArguments, Contents, PRODUCE, ProduceArguments};
use crate::outcome::CliError;
use rackweave_base::NodeId;
use rackweave_rack::hosted::{FlowStatus, HostedFlow};

impl JobRunner {
    /// Sets up a flow, which errors call `what`.
    ///
    /// # Errors
    /// As for [`HostedRack::create_flow`].
    pub fn create_flow(
        &mut self,
        what: &'static str,
        (producers, consumers): (&[NodeId], &[NodeId]),
        item_size: u32,
        ring_bytes: u32,
    ) -> Result<HostedFlow, CliError> {
        let made = self
            .rack
            .create_flow(producers, consumers, item_size, ring_bytes);
        match made {
            Ok(flow) => {
                self.flows.push((flow.clone(), what));
                Ok(flow)
            }
            Err(error) => Err(self.explain(&format!("{what}: {error}"))),
        }
    }

    /// Sets up a flow and starts the jobs at its ends, consumers first, so that the first item does
    /// not wait for its consumer. Returns the consumers' jobs, and the producers'.
    ///
    /// # Errors
    /// As for [`JobRunner::create_flow`] and [`JobRunner::start`].
    pub fn start_flow(
        &mut self,
        (producers, consumers): (&[NodeId], &[NodeId]),
        (item_size, ring_bytes): (u32, u32),
        contents: Contents,
        amount: Amount,
    ) -> Result<(Vec<TaskId>, Vec<TaskId>), CliError> {
        let nodes = (producers, consumers);
        let flow = self.create_flow("the flow", nodes, item_size, ring_bytes)?;
        let (mut sinks, mut sources) = (Vec::new(), Vec::new());
        for (at, &node) in consumers.iter().enumerate() {
            let arguments = ConsumeArguments {
                ring: flow.consumers[at],
                index: at as u16,
                producers: producers.len() as u16,
                items: match (contents, amount) {
                    (Contents::Checked(_), Amount::Count(items)) => Some(items),
                    // Producers that are stopped push fewer.
                    _ => None,
                },
                contents,
            };
            sinks.push(self.start(node, CONSUME, &arguments)?);
        }
        for (at, &node) in producers.iter().enumerate() {
            let arguments = ProduceArguments {
                rings: flow.of_producer(at),
                index: at as u16,
                contents,
                amount,
            };
            sources.push(self.start(node, PRODUCE, &arguments)?);
        }
        Ok((sinks, sources))
    }

    /// Aborts all flows, and forgets them.
    pub fn close_flows(&mut self) {
        for (flow, _) in std::mem::take(&mut self.flows) {
            // If the controller is gone, the flow is gone as well.
            let _ = self.rack.close_flow(flow.id);
        }
    }

    /// Aborts all flows, so that all jobs end. A switch that has not restored a flow cannot abort
    /// it: its rings would wait for another switch, so the jobs are stopped.
    pub fn break_off(&mut self) {
        for at in 0..self.flows.len() {
            let id = self.flows[at].0.id;
            if let Ok(FlowStatus::Unknown) = self.rack.flow_status(id) {
                (0..self.tasks.len()).for_each(|task| self.stop(TaskId(task)));
            } else {
                let _ = self.rack.close_flow(id);
            }
        }
    }

    /// Why a flow was aborted, if one was, with its name in errors.
    pub fn broken(&mut self) -> Option<String> {
        self.flows.iter().find_map(|(flow, what)| {
            let FlowStatus::Aborted { reason } = self.rack.flow_status(flow.id).ok()? else {
                return None;
            };
            Some(format!("{what} was broken off: {reason}"))
        })
    }
}
