//! The controller: connects queue pairs, fills tables, detects failures. It is never on the data
//! path.
//!
//! Its modules mirror the programs by file name: [`forward`] enters hosts, [`flows`] sets up, tears
//! down and recovers flows, [`pages`] the page directory, [`sequencer`] the sequencers, [`index`]
//! the switches' part of B+trees. [`lanes`] connects the switch to nodes, [`connect`] nodes to each
//! other; [`topology`] describes the cabling of several switches. It acts on a [`Site`]: an
//! embedded, a simulated or a hosted rack.
//!
//! It knows verbs and the tables of programs. It must not know how packets travel, which kind of
//! rack it serves, or what time it is: it acts when called.

pub mod ask;
pub mod connect;
pub mod flows;
pub mod forward;
pub mod index;
pub mod lanes;
mod names;
pub mod pages;
pub mod regions;
pub mod sequencer;
mod site;
mod state;
pub mod topology;
mod unanswered;

use core::ops::Deref;
use flows::FlowRegistry;
use forward::HostRegistry;
use lanes::LaneRegistry;
use rackweave_base::KeyRng;
use sequencer::SequencerRegistry;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

pub use flows::{
    AbortReason, Bell, FlowError, FlowId, FlowLook, FlowRings, FlowShape, FlowSpec, FlowState,
    Loss, LossPolicy, Ring, RingCounters,
};
pub use lanes::{LaneError, PairError, PairRequest};
pub use names::{NameError, Named};
pub use pages::{
    PageChannel, PageFallback, PageNode, PagePool, PageSetUpError, PageSpec, PageStoreSpec,
    TargetReply, TargetRequest, first_in_turn,
};
pub use rackweave_programs::pages::{LostPage, transfers_at_a_time};
pub use regions::{LocalRegions, RegionError, RegionName, RegionPurpose};
pub use sequencer::{SequencerId, SequencerPlace, SequencerSetUpError, SequencerSpec};
pub use site::{NodeAddress, Site, SwitchAddress};
pub use state::{FabricState, ServiceState};
pub use topology::Topology;

/// The part of the controller that connects nodes: hosts, pairs, lanes and flows.
///
/// A rack with remote nodes calls it from many threads. While a node is asked, no lock is held that
/// other nodes need ([`flows`] lists the locks).
pub struct Fabric {
    /// The address of switch 0, at which all lanes end.
    switch: SwitchAddress,
    keys: Mutex<KeyRng>,
    hosts: Mutex<HostRegistry>,
    lanes: LaneRegistry,
    flows: FlowRegistry,
}

/// The controller of one rack: the fabric, and the services in the switches.
///
/// Operations on services take `&mut self`, one after the other; those on the fabric do not wait
/// for them.
pub struct Controller {
    fabric: Arc<Fabric>,
    pages: Option<pages::PageRegistry>,
    sequencers: SequencerRegistry,
    index: index::IndexRegistry,
    names: BTreeMap<String, names::Named>,
}

impl Controller {
    /// A controller with no connections yet. `lanes`, `threads` and `producers` are the sizes of
    /// the switch's tables.
    pub fn new(
        switch: SwitchAddress,
        lanes: u16,
        threads: u16,
        producers: u16,
        keys: KeyRng,
    ) -> Self {
        Self {
            fabric: Arc::new(Fabric {
                switch,
                keys: Mutex::new(keys),
                hosts: Mutex::default(),
                lanes: LaneRegistry::new(lanes),
                flows: FlowRegistry::new(threads, producers),
            }),
            pages: None,
            sequencers: SequencerRegistry::default(),
            index: index::IndexRegistry::default(),
            names: BTreeMap::new(),
        }
    }

    /// The fabric, for threads that do not wait for operations on services.
    pub fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }
}

impl Deref for Controller {
    type Target = Fabric;

    fn deref(&self) -> &Fabric {
        &self.fabric
    }
}

impl Fabric {
    pub(crate) fn keys(&self) -> MutexGuard<'_, KeyRng> {
        self.keys.lock().expect("no holder panics")
    }

    /// Number of lanes in use.
    pub fn lanes_used(&self) -> usize {
        self.lanes.used()
    }
}
