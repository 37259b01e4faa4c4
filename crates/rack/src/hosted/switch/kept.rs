//! The file in which the controller's state outlives its process.
//!
//! It is written before a reply leaves that promises something, and replaced as a whole. A file
//! that is damaged, or of another configuration or release, is not used. If it cannot be written
//! it is removed: a state that is out of date would hand out numbers twice.

use super::SwitchCore;
use super::arenas::Arenas;
use super::requests::Estate;
use super::restoring::Restoring;
use crate::hosted::messages::NodeHello;
use rackweave_base::NodeId;
use rackweave_base::memory::Origin;
use rackweave_controller::index::IndexPlan;
use rackweave_controller::{Controller, FabricState, ServiceState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

/// The first word of the file.
const FORMAT: &str = "rackweave-controller-state-1";

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

/// The parts of the file, one a line.
#[derive(Clone, PartialEq, Default)]
struct Lines {
    rack: String,
    fabric: String,
    services: String,
    plan: String,
}

/// A state that was read.
pub(super) struct Kept {
    pub rack: KeptRack,
    pub fabric: FabricState,
    pub services: ServiceState,
    pub plan: Option<IndexPlan>,
}

/// The file.
pub(super) struct StateFile {
    path: PathBuf,
    agreement: u64,
    pub rack: KeptRack,
    lines: Lines,
    plan: Option<Arc<IndexPlan>>,
    /// The lines in the file, if it is up to date.
    written: Option<Lines>,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("its maps have texts and numbers as keys")
}

/// FNV-1a: it protects against damage, not against attacks.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl StateFile {
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

    /// The file at `path`, for a rack of this configuration, with nothing to be written yet.
    pub fn new(path: PathBuf, agreement: u64, instance: u64) -> Self {
        Self {
            path,
            agreement,
            rack: KeptRack {
                instance,
                ..KeptRack::default()
            },
            lines: Lines::default(),
            plan: None,
            written: None,
        }
    }

    /// Reads what an earlier process has left. `None` if there is nothing that a node may have
    /// kept.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(&self) -> Result<Option<Kept>, String> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (head, body) = text.split_once('\n').ok_or("it is cut short")?;
        let (head, sum) = head.rsplit_once(' ').ok_or("it has no heading")?;
        if head != self.head() {
            return Err(format!("it is of another rack.toml or release ({head})"));
        }
        if sum != format!("{:016x}", checksum(body)) {
            return Err("it is damaged".into());
        }
        let lines: Vec<&str> = body.lines().collect();
        let [rack, fabric, services, plan] = lines[..] else {
            return Err("it is damaged".into());
        };
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

    fn head(&self) -> String {
        let release = env!("CARGO_PKG_VERSION");
        format!("{FORMAT} {release} {:016x}", self.agreement)
    }

    /// Sets the state of the fabric.
    pub fn set_fabric(&mut self, state: &FabricState) {
        self.lines.fabric = json(state);
    }

    /// Sets the state of the services, and the active plan.
    pub fn set_services(&mut self, state: &ServiceState, plan: Option<&Arc<IndexPlan>>) {
        self.lines.services = json(state);
        let is_same = match (&self.plan, plan) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => !self.lines.plan.is_empty(),
            _ => false,
        };
        if !is_same {
            self.lines.plan = json(&plan.map(|plan| &**plan));
            self.plan = plan.cloned();
        }
    }

    /// Writes the file, if anything has changed.
    ///
    /// # Errors
    /// Why that failed. The file is gone then, and it is tried again at the next change.
    pub fn write(&mut self) -> Result<(), String> {
        self.lines.rack = json(&self.rack);
        if self.written.as_ref() == Some(&self.lines) {
            return Ok(());
        }
        self.written = None;
        self.replace().map_err(|error| {
            let removed = std::fs::remove_file(&self.path);
            let left = removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
            assert!(
                !left,
                "an outdated state can neither be replaced nor removed: {error}"
            );
            error.to_string()
        })?;
        self.written = Some(self.lines.clone());
        Ok(())
    }

    fn replace(&self) -> io::Result<()> {
        let Lines {
            rack,
            fabric,
            services,
            plan,
        } = &self.lines;
        let body = format!("{rack}\n{fabric}\n{services}\n{plan}\n");
        let aside = self.path.with_extension("new");
        let mut file = File::create(&aside)?;
        writeln!(file, "{} {:016x}", self.head(), checksum(&body))?;
        file.write_all(body.as_bytes())?;
        file.sync_data()?;
        std::fs::rename(aside, &self.path)
    }
}

fn part<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("it makes no sense: {error}"))
}

impl SwitchCore {
    pub(super) fn state_file<R>(&self, act: impl FnOnce(&mut StateFile) -> R) -> R {
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
        self.save_parts(|file| file.set_services(&services, controller.index().active()));
    }

    pub(super) fn save_parts(&self, set: impl FnOnce(&mut StateFile)) {
        let written = self.state_file(|file| {
            set(file);
            file.set_fabric(&self.fabric.state());
            file.write()
        });
        if let Err(why) = written {
            *self.unsaved.lock().expect("no holder panics") = Some(why);
        }
    }

    /// Saves that a node has joined.
    pub(super) fn save_member(&self, node: NodeId, hello: &NodeHello, origin: Origin) {
        let joined = KeptMember {
            incarnation: hello.incarnation,
            memory: hello.memory,
            origin: origin.0,
        };
        self.state_file(|file| file.rack.members.insert(node.0, joined));
        self.save();
    }

    pub(super) fn kept_member(&self, node: NodeId) -> Option<KeptMember> {
        self.state_file(|file| file.rack.members.get(&node.0).copied())
    }
}
