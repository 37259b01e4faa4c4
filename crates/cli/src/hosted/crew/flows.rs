//! The flows of a crew: set up, their ends started as jobs, broken off.

use super::{Crew, TaskId};
use crate::hosted::jobs::flow::{CONSUME, ConsumeArguments, Contents, PRODUCE, ProduceArguments};
use crate::outcome::CliError;
use crate::perf::amount::Amount;
use rackweave_base::NodeId;
use rackweave_rack::hosted::{FlowStatus, HostedFlow};

impl Crew {
    /// Sets a flow up, which errors will call `what`.
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

    /// Sets a flow up and starts the jobs at its ends, those of the consumers first, so that the
    /// first item does not wait for the one who takes it. The consumers' jobs, and the producers'.
    ///
    /// # Errors
    /// As for [`Crew::create_flow`] and [`Crew::start`].
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
                    // Producers that are asked to stop push fewer.
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

    /// Breaks off what flows, and forgets it.
    pub fn close_flows(&mut self) {
        for (flow, _) in std::mem::take(&mut self.flows) {
            // If the controller is gone, so is the flow.
            let _ = self.rack.close_flow(flow.id);
        }
    }

    /// Breaks off what flows, so that all jobs end. A switch that has not taken a flow over cannot:
    /// its rings would wait for one who does, so the jobs are stopped.
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

    /// Why a flow was broken off, if one was, with the name by which errors call it.
    pub fn broken(&mut self) -> Option<String> {
        self.flows.iter().find_map(|(flow, what)| {
            let FlowStatus::Aborted { reason } = self.rack.flow_status(flow.id).ok()? else {
                return None;
            };
            Some(format!("{what} was broken off: {reason}"))
        })
    }
}
