//! The rack of a command: embedded, joined or simulated.

use crate::capture::{CaptureReport, Recording};
use crate::globals::{Globals, RackArgs};
use crate::outcome::CliError;
use core::task::Waker;
use derive_more::{Deref, From};
use rackweave_base::NodeId;
use rackweave_rack::testing::Taps;
use rackweave_rack::{EmbeddedRack, Node, Rack, RackConfig, SimulatedRack};
use rackweave_verbs::Progress;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// A rack in real time: one in this process, or a running one, of which this process is some nodes.
#[derive(Deref, Clone)]
pub struct RealRack {
    #[deref]
    rack: Rack,
    /// Drives all nodes that are here.
    driver: Arc<dyn Progress>,
    embedded: Option<EmbeddedRack>,
    /// The nodes that are here, by number.
    nodes: Arc<[NodeId]>,
}

impl RealRack {
    /// Builds an embedded rack; `top` and `stat` can observe it from now on.
    ///
    /// # Errors
    /// If the configuration is invalid or the programs do not fit the switch.
    pub fn embedded(config: &RackConfig, globals: &Globals) -> Result<Self, CliError> {
        let rack = EmbeddedRack::new(config)?;
        globals.live.watch(rack.observer());
        Ok(Self {
            driver: rack.progress(),
            nodes: rack.nodes_here().map(|node| node.id()).collect(),
            rack: (*rack).clone(),
            embedded: Some(rack),
        })
    }

    /// Joins the running rack of `config` as `count` guests, or as the nodes that the user names;
    /// `top` and `stat` can observe it here, too.
    ///
    /// # Errors
    /// If no rack runs there, it has not so many free places, or the user names another number of
    /// nodes.
    pub fn join(
        config: &RackConfig,
        count: usize,
        (args, globals): (&RackArgs, &Globals),
    ) -> Result<Self, CliError> {
        args.check_named(count)?;
        let names: Vec<&str> = args.join_as.iter().map(String::as_str).collect();
        let rack = match names.is_empty() {
            true => Rack::join_guests(config, count)?,
            false => Rack::join_as(config, &names)?,
        };
        globals.live.watch(rack.observer());
        Ok(Self {
            driver: Arc::new(Everywhere(rack.nodes_here().collect())),
            nodes: rack.nodes_here().map(|node| node.id()).collect(),
            rack,
            embedded: None,
        })
    }

    /// The embedded rack, if it is one.
    pub fn as_embedded(&self) -> Option<&EmbeddedRack> {
        self.embedded.as_ref()
    }

    /// The nodes that are here, by number.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// What drives the rack on this thread.
    pub fn driver(&self) -> &dyn Progress {
        &*self.driver
    }

    /// What drives it on one of several threads, which has programs at these nodes: the other nodes
    /// of a joined rack have threads of their own.
    pub fn driver_of(&self, nodes: impl Iterator<Item = NodeId>) -> Arc<dyn Progress> {
        if self.embedded.is_some() {
            return self.driver.clone();
        }
        let ids: BTreeSet<NodeId> = nodes.collect();
        let nodes = ids.into_iter().map(|id| self.node_at(id));
        Arc::new(Everywhere(nodes.collect()))
    }

    /// What switch 0 has counted.
    pub fn switch_counts(&self) -> BTreeMap<String, u64> {
        let first = self.statistics().switches.into_iter().next();
        let counts = first.map(|first| first.counters.into_iter().chain(first.drops));
        counts.into_iter().flatten().collect()
    }
}

/// The rack of a command.
#[derive(From)]
pub enum OwnRack {
    /// In real time.
    Real(RealRack),
    /// In virtual time.
    Simulated(SimulatedRack),
}

impl core::ops::Deref for OwnRack {
    type Target = Rack;

    fn deref(&self) -> &Rack {
        match self {
            Self::Real(rack) => rack,
            Self::Simulated(rack) => rack,
        }
    }
}

impl OwnRack {
    /// Builds a rack; `top` and `stat` can observe an embedded one from now on.
    ///
    /// # Errors
    /// If the configuration is invalid or the programs do not fit the switch.
    pub fn new(
        config: &RackConfig,
        is_simulated: bool,
        globals: &Globals,
    ) -> Result<Self, CliError> {
        Ok(match is_simulated {
            true => Self::Simulated(SimulatedRack::new(config)?),
            false => Self::Real(RealRack::embedded(config, globals)?),
        })
    }

    /// The simulated rack, if it is one.
    pub fn simulated(&self) -> Option<&SimulatedRack> {
        match self {
            Self::Real(_) => None,
            Self::Simulated(rack) => Some(rack),
        }
    }

    /// Starts a capture at the switch, if one is requested, in a new file at `path`. The switch of
    /// a joined rack is in another process, which records by itself.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn record(&self, path: Option<&Path>) -> Result<Option<Recording>, CliError> {
        let recording = path
            .map(|path| Recording::start(path, self.config(), self.memory()))
            .transpose()?;
        self.set_tap(recording.as_ref());
        Ok(recording)
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn recorded(
        &self,
        recording: Option<Recording>,
    ) -> Result<Option<CaptureReport>, CliError> {
        self.set_tap(None);
        recording.map(Recording::finish).transpose()
    }

    fn set_tap(&self, recording: Option<&Recording>) {
        let tap = recording.map(Recording::tap);
        match self {
            Self::Real(rack) => {
                if let Some(rack) = rack.as_embedded() {
                    rack.set_tap(tap);
                }
            }
            Self::Simulated(rack) => rack.set_tap(tap),
        }
    }
}

/// Nodes that have a NIC each, and no machine in common. There is at least one.
pub struct Everywhere(pub Vec<Node>);

impl Progress for Everywhere {
    fn drive(&self) -> bool {
        self.0
            .iter()
            .fold(false, |moved, node| node.drive() | moved)
    }

    /// Sleeps at the first node: packets for the others wake their own threads.
    fn relax(&self, idle_rounds: u32) {
        self.0[0].relax(idle_rounds);
    }

    fn wake_later(&self, waker: &Waker) {
        self.0.iter().for_each(|node| node.wake_later(waker));
    }
}
