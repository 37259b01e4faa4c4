//! The controller's state as data, so that a new process of the controller can continue.
//!
//! It has everything that nodes have been sent and keep: queue pairs, regions, rings, keys. It has
//! nothing that is in the switch, which has restarted as well. [`Controller::restore`] takes the
//! state over, and [`Controller::resume`] sets everything up again, as after a restart of the
//! switch alone.

use crate::flows::FlowState;
use crate::flows::{Flow, FlowSpec};
use crate::index::{IndexPlan, IndexState};
use crate::lanes::LaneState;
use crate::names::Named;
use crate::pages::PageRegistry;
use crate::sequencer::SequencerRegistry;
use crate::{Controller, Fabric, Site};
use rackweave_base::NodeId;
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::table::TableError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The state of a [`Fabric`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FabricState {
    lanes: LaneState,
    /// By number. `None` for a flow that was being set up.
    flows: Vec<Option<Flow>>,
}

/// The state of the services of a [`Controller`], except the plan of the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServiceState {
    pages: Option<PageRegistry>,
    sequencers: SequencerRegistry,
    index: IndexState,
    names: BTreeMap<String, Named>,
}

impl Fabric {
    /// The current state. No node is asked, and operations on flows are not waited for: a flow that
    /// is being changed is returned as it was before.
    pub fn state(&self) -> FabricState {
        FabricState {
            lanes: self.lanes.state(),
            flows: self.flows.state(),
        }
    }
}

impl Controller {
    /// The current state of the services.
    pub fn service_state(&self) -> ServiceState {
        let mut sequencers = self.sequencers.clone();
        if planted(Canary::HostedEarlyRange) {
            sequencers.forget_last();
        }
        ServiceState {
            pages: self.pages.clone(),
            sequencers,
            index: self.index.state(),
            names: self.names.clone(),
        }
    }

    /// Takes over the state of another controller with the same sizes of tables, and the active
    /// plan of its index. This controller has set up nothing yet. No node is asked and no switch
    /// changed. The state has to be saved again before [`Self::resume`]: sequencers have reserved
    /// more numbers, and the directory of pages the numbers of its next rebuilds. So a controller
    /// that dies while it resumes has given nodes no number that the next one uses again.
    pub fn restore(
        &mut self,
        fabric: FabricState,
        services: ServiceState,
        plan: Option<IndexPlan>,
    ) {
        let ServiceState {
            pages,
            sequencers,
            index,
            names,
        } = services;
        let flows = fabric.flows.iter().flatten();
        let lanes = flows.flat_map(Flow::lane_numbers);
        let of_pages = pages.iter().flat_map(PageRegistry::lane_numbers);
        let lanes = lanes.chain(of_pages).chain(sequencers.lane_numbers());
        self.lanes.restore(fabric.lanes, lanes);
        self.flows.restore(fabric.flows);
        (self.pages, self.sequencers, self.names) = (pages, sequencers, names);
        self.index.restore(index, plan);
        self.reserve_for_restart();
        self.reserve_rebuilds();
    }

    /// Sets up everything of a restored state again, at nodes that have kept what they had. The
    /// nodes themselves have been entered ([`Fabric::install_host`]). `absent` ones have not come
    /// back: they are dead, and flows with them are aborted.
    ///
    /// # Errors
    /// If the switch's tables are smaller than they were.
    pub fn resume(&mut self, site: &mut dyn Site, absent: &[NodeId]) -> Result<(), TableError> {
        for &node in absent {
            self.lanes.forget_home(node);
        }
        self.set_up_again(site)?;
        for &node in absent {
            self.node_died(site, node);
        }
        self.connect_missing_targets(site);
        self.index.reload(site);
        Ok(())
    }
}

impl Flow {
    /// What has to be known of it later: of one that has ended, its end.
    pub(crate) fn snapshot(&self) -> Self {
        if self.state == FlowState::Running {
            return self.clone();
        }
        Self {
            losses: self.losses.clone(),
            ..Self::ended(self.id, self.state, self.spec.clone())
        }
    }

    /// A flow of which nothing is left.
    pub(crate) fn ended(id: crate::FlowId, state: FlowState, spec: FlowSpec) -> Self {
        Self {
            id,
            spec,
            state,
            rings: crate::FlowRings {
                consumers: Vec::new(),
                producers: Vec::new(),
            },
            consumers: Vec::new(),
            producers: Vec::new(),
            lanes: Vec::new(),
            groups: None,
            entering: Vec::new(),
            losses: Vec::new(),
            rings_at_end: Some(Default::default()),
        }
    }
}
