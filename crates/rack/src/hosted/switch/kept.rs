//! The controller's state, which the elector stores so that it outlives this process.
//!
//! It is stored before a reply leaves that promises something. A state that is damaged, or of
//! another configuration or release, is not used.

use super::SwitchCore;
use super::arenas::Arenas;
use super::requests::Estate;
use super::restoring::Restoring;
use crate::hosted::elector::{Elector, ElectorError, Part};
use crate::hosted::messages::NodeHello;
use rackweave_base::NodeId;
use rackweave_base::memory::Origin;
use rackweave_controller::index::IndexPlan;
use rackweave_controller::{Controller, FabricState, ServiceState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first word of the state's first part.
const FORMAT: &str = "rackweave-controller-state-2";

/// A node that has joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct KeptMember {
    /// The number by which its process says that it has kept everything.
    pub incarnation: u64,
    /// The number of its process's memory.
    pub memory: u64,
    /// The origin of that memory in packets.
    pub origin: u16,
}

/// What belongs to the rack as a whole.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct KeptRack {
    /// The number that distinguishes this controller from others.
    pub instance: u64,
    pub members: BTreeMap<u16, KeptMember>,
    /// What each node has made.
    pub estates: BTreeMap<u16, Estate>,
    /// The same for each command, by the number that it has drawn.
    pub commands: BTreeMap<u64, super::commands::Estate>,
}

/// The parts of the state, each one line, in the order of [`PARTS`].
type Lines = [String; PARTS.len()];

/// The names of the parts.
const PARTS: [&str; 5] = ["format", "rack", "fabric", "services", "plan"];

/// A state that was read.
pub(super) struct Kept {
    pub rack: KeptRack,
    pub fabric: FabricState,
    pub services: ServiceState,
    pub plan: Option<IndexPlan>,
}

/// The state as it is to be stored.
pub(super) struct StoredState {
    elector: Arc<dyn Elector>,
    pub rack: KeptRack,
    fabric: String,
    services: String,
    plan: (Option<Arc<IndexPlan>>, String),
    format: String,
    /// What the elector has stored, if that is up to date.
    stored: Option<Lines>,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("its maps have texts and numbers as keys")
}

impl StoredState {
    /// Takes over what an earlier process has left, if that can be used: the nodes that are waited
    /// for, and their memories.
    pub fn begin_restoring(&mut self, left: &Result<Option<Kept>, String>) -> (Restoring, Arenas) {
        let (restoring, mut arenas) = (Restoring::default(), Arenas::default());
        if let Ok(Some(kept)) = left {
            let members = kept.rack.members.iter();
            arenas.keep(members.clone().map(|(_, it)| (it.memory, it.origin)));
            restoring.begin(members.map(|(&node, _)| NodeId(node)).collect());
            self.rack = kept.rack.clone();
        }
        (restoring, arenas)
    }

    /// The state of a rack of this configuration, with nothing to be stored yet.
    pub fn new(elector: Arc<dyn Elector>, agreement: u64, instance: u64) -> Self {
        let release = env!("CARGO_PKG_VERSION");
        Self {
            elector,
            rack: KeptRack {
                instance,
                ..KeptRack::default()
            },
            fabric: String::new(),
            services: String::new(),
            plan: (None, String::new()),
            format: format!("{FORMAT} {release} {agreement:016x}"),
            stored: None,
        }
    }

    /// Reads what an earlier process has left. `None` if there is nothing that a node may have
    /// kept.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(&self) -> Result<Option<Kept>, String> {
        let parts = self.elector.load().map_err(|error| error.to_string())?;
        if parts.is_empty() {
            return Ok(None);
        }
        let lines = PARTS.map(|name| parts.get(name));
        let [
            Some(format),
            Some(rack),
            Some(fabric),
            Some(services),
            Some(plan),
        ] = lines
        else {
            return Err("a part of it is missing".into());
        };
        if *format != self.format {
            return Err(format!("it is of another rack.toml or release ({format})"));
        }
        let rack: KeptRack = part(rack)?;
        if rack.members.is_empty() {
            return Ok(None);
        }
        Ok(Some(Kept {
            rack,
            fabric: part(fabric)?,
            services: part(services)?,
            plan: part(plan)?,
        }))
    }

    /// Sets the state of the fabric.
    pub fn set_fabric(&mut self, state: &FabricState) {
        self.fabric = json(state);
    }

    /// Sets the state of the services, and the active plan.
    pub fn set_services(&mut self, state: &ServiceState, plan: Option<&Arc<IndexPlan>>) {
        self.services = json(state);
        let (old, text) = &mut self.plan;
        let is_same = match (&*old, plan) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => !text.is_empty(),
            _ => false,
        };
        if !is_same {
            *text = json(&plan.map(|plan| &**plan));
            *old = plan.cloned();
        }
    }

    /// Has the elector store it, if anything has changed.
    ///
    /// # Errors
    /// Why that failed. It is tried again at the next change.
    pub fn store(&mut self) -> Result<(), ElectorError> {
        let rack = json(&self.rack);
        let [fabric, services, plan] = [&self.fabric, &self.services, &self.plan.1];
        let lines = [&self.format, &rack, fabric, services, plan].map(String::clone);
        let stored = self.stored.take();
        if stored.as_ref() != Some(&lines) {
            let is_stored = |at: usize| stored.as_ref().is_some_and(|old| old[at] == lines[at]);
            let parts: [Part<'_>; PARTS.len()] = core::array::from_fn(|at| Part {
                name: PARTS[at],
                text: &lines[at],
                is_stored: is_stored(at),
            });
            self.elector.store(&parts)?;
        }
        self.stored = Some(lines);
        Ok(())
    }
}

fn part<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("it makes no sense: {error}"))
}

impl SwitchCore {
    pub(super) fn stored<R>(&self, act: impl FnOnce(&mut StoredState) -> R) -> R {
        act(&mut self.state.lock().expect("no holder panics"))
    }

    /// Saves the state, after an operation on the fabric, and before its reply leaves.
    pub(super) fn save(&self) {
        if !self.restoring.is_on() {
            self.save_parts(|_| {});
        }
    }

    /// Saves the state, after an operation on services.
    pub(super) fn save_all(&self, controller: &Controller) {
        let services = controller.service_state();
        self.save_parts(|state| state.set_services(&services, controller.index().active()));
    }

    pub(super) fn save_parts(&self, set: impl FnOnce(&mut StoredState)) {
        let stored = self.stored(|state| {
            set(state);
            state.set_fabric(&self.fabric.state());
            state.store()
        });
        match stored {
            Ok(()) => {}
            Err(error @ ElectorError::Lost) => self.step_down(error.to_string()),
            Err(error) => {
                *self.unsaved.lock().expect("no holder panics") = Some(error.to_string());
            }
        }
    }

    /// Saves that a node has joined.
    pub(super) fn save_member(&self, node: NodeId, hello: &NodeHello, origin: Origin) {
        let joined = KeptMember {
            incarnation: hello.incarnation,
            memory: hello.memory,
            origin: origin.0,
        };
        self.stored(|state| state.rack.members.insert(node.0, joined));
        self.save();
    }

    pub(super) fn kept_member(&self, node: NodeId) -> Option<KeptMember> {
        self.stored(|state| state.rack.members.get(&node.0).copied())
    }
}
