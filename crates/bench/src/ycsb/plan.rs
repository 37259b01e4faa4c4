//! Parameters of a run, independent of how its records are stored.

use super::prelude::*;
use rackweave_rack::config::NodeConfig;
use rackweave_workload::ycsb::{PoissonSchedule, YcsbOptions};

/// The operations of a run, and the threads that execute them.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// The workload.
    pub ycsb: YcsbOptions,
    /// Worker threads of each node that has workers.
    pub threads: u16,
    /// Concurrent operations of each thread.
    pub depth: u16,
    /// Operations per second of all threads together, at times of a Poisson process; none: each
    /// operation begins when another has ended.
    pub rate: Option<f64>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            ycsb: YcsbOptions::default(),
            threads: 1,
            depth: 8,
            rate: None,
        }
    }
}

impl Load {
    /// Checks that a table can run this, if it accepts `depth_max` operations of a thread at a
    /// time; `depths` is that limit in words.
    pub(crate) fn check(&self, depth_max: u64, depths: &'static str) -> Result<()> {
        self.ycsb.validate()?;
        let (threads, range) = (self.threads.into(), "1 to 64 per node are possible");
        in_range("the number of threads", threads, 64, range)?;
        in_range("the queue depth", self.depth.into(), depth_max, depths)?;
        self.schedule(0, 1, Instant::ZERO)?;
        Ok(())
    }

    /// The times at which the operations of worker `worker` of `workers` begin, if these do not
    /// depend on when others end. The worker starts at `began`.
    pub(crate) fn schedule(
        &self,
        worker: u32,
        workers: u32,
        began: Instant,
    ) -> Result<Option<PoissonSchedule>> {
        let schedule = |rate| {
            let rate = rate / f64::from(workers);
            PoissonSchedule::new(self.ycsb.seed, worker, rate, began)
        };
        Ok(self.rate.map(schedule).transpose()?)
    }

    /// The number of operations of worker `worker` of `workers`.
    pub(crate) fn share_of(&self, worker: u32, workers: u32) -> u64 {
        let (operations, workers) = (self.ycsb.operations, u64::from(workers.max(1)));
        operations / workers + u64::from(u64::from(worker) < operations % workers)
    }
}

/// Checks that a number is at least 1 and at most `most`.
pub(crate) fn in_range(
    what: &'static str,
    number: u64,
    most: u64,
    range: &'static str,
) -> Result<()> {
    match (1..=most).contains(&number) {
        true => Ok(()),
        false => Err(YcsbError::OutOfRange {
            what,
            number,
            range,
        }),
    }
}

/// A run and its rack. `O` are the options of the table.
#[derive(Debug)]
pub struct Job<O> {
    /// The rack, before a table is set up in it.
    pub config: RackConfig,
    /// Its nodes.
    pub nodes: Nodes,
    /// The options of the run.
    pub options: O,
}

/// The roles of a rack's nodes in a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nodes {
    /// The nodes with workers.
    pub compute: Vec<NodeId>,
    /// The node with the NVMe target, or the first endpoint of an index.
    pub storage: NodeId,
    /// The node whose memory has the entries of pages that the switch does not index.
    pub memory: Option<NodeId>,
    /// The second endpoint of an index.
    pub dpu: Option<NodeId>,
}

impl Nodes {
    /// A rack's nodes: `compute` compute nodes, a storage node, and one for each of `others`.
    pub fn configs(compute: u16, others: &[Role]) -> Vec<NodeConfig> {
        let compute = (0..compute).map(|at| (at, Role::Compute));
        let others = [Role::Storage].into_iter().chain(others.iter().copied());
        compute
            .chain(others.map(|role| (0, role)))
            .map(|(at, role)| NodeConfig::new(format!("{}{at}", role.name()), role))
            .collect()
    }

    /// The nodes of a configuration: all compute nodes, and the first of each other kind. None if
    /// there is no compute node or no storage node.
    pub fn of(config: &RackConfig) -> Option<Self> {
        let first = |role| config.nodes_of(role).first().copied();
        let compute = config.nodes_of(Role::Compute);
        let storage = first(Role::Storage)?;
        (!compute.is_empty()).then(|| Self {
            compute,
            storage,
            memory: first(Role::Memory),
            dpu: first(Role::Dpu),
        })
    }
}
