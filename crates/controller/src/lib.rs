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
pub mod pages;
pub mod regions;
pub mod sequencer;
mod site;
pub mod topology;

use flows::FlowRegistry;
use forward::HostRegistry;
use lanes::LaneRegistry;
use rackweave_base::KeyRng;
use sequencer::SequencerRegistry;
use std::sync::{Mutex, MutexGuard};

pub use flows::{
    AbortReason, Bell, FlowError, FlowId, FlowLook, FlowRings, FlowShape, FlowSpec, FlowState,
    Loss, LossPolicy, Ring, RingCounters,
};
pub use lanes::LaneError;
pub use pages::{
    PageChannel, PageFallback, PageNode, PagePool, PageSetUpError, PageSpec, PageStoreSpec,
    first_in_turn,
};
pub use rackweave_programs::pages::LostPage;
pub use regions::{LocalRegions, RegionError, RegionName};
pub use sequencer::{SequencerId, SequencerPlace, SequencerSetUpError, SequencerSpec};
pub use site::{NodeAddress, Site, SwitchAddress};
pub use topology::Topology;

/// The controller of one rack. `switch` is switch 0, at which all lanes end.
///
/// Operations that a rack with remote nodes needs take `&self`: flows, hosts, pairs. Such a rack
/// calls them from many threads, and while a node is asked, no lock is held that other nodes need
/// ([`flows`] lists the locks). Pages, sequencers and indexes take `&mut self`.
pub struct Controller {
    switch: SwitchAddress,
    keys: Mutex<KeyRng>,
    hosts: Mutex<HostRegistry>,
    lanes: LaneRegistry,
    flows: FlowRegistry,
    pages: Option<pages::PageRegistry>,
    sequencers: SequencerRegistry,
    index: index::IndexRegistry,
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
            switch,
            keys: Mutex::new(keys),
            hosts: Mutex::default(),
            lanes: LaneRegistry::new(lanes),
            flows: FlowRegistry::new(threads, producers),
            pages: None,
            sequencers: SequencerRegistry::default(),
            index: index::IndexRegistry::default(),
        }
    }

    pub(crate) fn keys(&self) -> MutexGuard<'_, KeyRng> {
        self.keys.lock().expect("no holder panics")
    }

    /// Number of lanes in use.
    pub fn lanes_used(&self) -> usize {
        self.lanes.used()
    }
}
