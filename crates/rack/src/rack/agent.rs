//! Agents: the parts of services at the nodes of a process, which other processes reach by name.
//!
//! What a service does at a node is a request to the node's agent. An agent in the same process is
//! called; one in another process gets the request by [`Backend::call`](super::Backend::call),
//! under a name made of the agent's and the node's. A process offers its agents if it wants to have
//! what others make at its nodes.
//!
//! Everything at an agent belongs to a *user*, the process that made it, and goes with it: a
//! process gives its name as a user to a service, so the name is gone when the process is.

use super::Rack;
use super::backend::ProcessError;
use core::any::Any;
use core::fmt::Display;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::NodeId;
use rackweave_controller::ask::{Ask, FindName};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Interval between two looks for users that are gone.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a user's name must be unknown until what it has is removed. Names are given again
/// within this time when another switch process has started.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// A process offers its agents within this time after it has joined.
const OFFERED_WITHIN: Duration = Duration::from_secs(2);

/// How often that is checked.
const OFFERED_LOOK_EVERY: Duration = Duration::from_millis(10);

/// The user in requests that do not leave the process.
pub(crate) const OWN: &str = "";

/// The part of a kind of service at the nodes of a process.
pub(crate) trait Agent: Default + Send + Sync + 'static {
    /// What it is asked.
    type Request: Serialize + DeserializeOwned;
    /// What it replies.
    type Reply: Serialize + DeserializeOwned;
    /// Why it refuses.
    type Error: Display;

    /// The part of its name before that of the node.
    const NAME: &'static str;

    /// Whether a request makes something, and so may be the first one to a process that has just
    /// joined.
    fn is_first(request: &Self::Request) -> bool;

    /// Executes a request of a user.
    fn act(
        &self,
        rack: &Rack,
        user: &str,
        request: Self::Request,
    ) -> Result<Self::Reply, Self::Error>;

    /// Adds the users in other processes that have something here.
    fn users(&self, users: &mut BTreeSet<String>);

    /// Removes everything that a user has here.
    fn forget(&self, rack: &Rack, user: &str);

    /// Removes everything that other processes have made here.
    fn remove_others(&self, rack: &Rack);
}

/// Why an agent did not do what it was asked.
#[derive(Debug)]
pub(crate) enum AgentError<E> {
    /// The rack has no such node.
    NoNode(NodeId),
    /// No process offers the agent of that node.
    Absent(String),
    /// The agent is here, and refuses.
    Here(E),
    /// It is in another process, and refuses or is not reached.
    Elsewhere(ProcessError),
}

/// A request, as it travels.
#[derive(Serialize, Deserialize)]
struct Addressed<R> {
    user: String,
    request: R,
}

/// The agents of a process, and its name as a user of others.
#[derive(Default)]
pub(super) struct Agents {
    /// One of each type.
    here: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    /// The names under which they are offered.
    offered: Mutex<BTreeSet<String>>,
    /// The name by which agents know whether this process still exists.
    user: Mutex<Option<String>>,
    /// By the name of the agent.
    leases: Mutex<BTreeMap<&'static str, Leases>>,
    /// Whether a thread serves what other processes make here.
    serves_others: AtomicBool,
    /// That thread.
    server: Mutex<Option<Thread>>,
}

/// Users whose name is unknown.
#[derive(Default)]
struct Leases {
    looked: Option<Instant>,
    unknown_since: BTreeMap<String, Instant>,
}

fn held<T: ?Sized>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rack {
    /// The agent of a kind in this process.
    pub(crate) fn agent<A: Agent>(&self) -> Arc<A> {
        let mut here = held(&self.0.agents.here);
        let found = here
            .iter()
            .find_map(|agent| Arc::clone(agent).downcast().ok());
        found.unwrap_or_else(|| {
            let made = Arc::new(A::default());
            here.push(made.clone());
            made
        })
    }

    /// Sends a request to the agent of a node.
    pub(crate) fn ask_agent<A: Agent>(
        &self,
        node: NodeId,
        request: A::Request,
    ) -> Result<A::Reply, AgentError<A::Error>> {
        if self.node_here(node).is_some() {
            let agent = self.agent::<A>();
            return agent.act(self, OWN, request).map_err(AgentError::Here);
        }
        let config = self.config().node.get(usize::from(node.0));
        let config = config.ok_or(AgentError::NoNode(node))?;
        let name = name_of::<A>(&config.name);
        let begun = Instant::now();
        while A::is_first(&request)
            && self.has_name(&name) == Some(false)
            && begun.elapsed() < OFFERED_WITHIN
        {
            std::thread::sleep(OFFERED_LOOK_EVERY);
        }
        let asked = || -> Result<A::Reply, ProcessError> {
            let user = self.user()?;
            let body = serde_json::to_value(Addressed { user, request }).map_err(refused)?;
            let reply = self.backend().call(&name, body)?;
            serde_json::from_value(reply).map_err(refused)
        };
        asked().map_err(|error| match self.has_name(&name) {
            Some(false) => AgentError::Absent(config.name.clone()),
            _ => AgentError::Elsewhere(error),
        })
    }

    /// Whether a service of the rack has a name; `None` if the controller does not answer.
    fn has_name(&self, name: &str) -> Option<bool> {
        let name = name.to_owned();
        let reply = self.backend().ask(FindName { name }.into_request());
        let found = reply.ok().and_then(FindName::answer_of)?;
        Some(found.is_some())
    }

    /// Wakes this thread whenever another process has made or removed something here.
    pub(crate) fn wake_for_others(&self, server: Thread) {
        *held(&self.0.agents.server) = Some(server);
    }

    /// Has other processes reach the agent of a kind at the nodes of this one.
    ///
    /// # Errors
    /// If the rack is in one process, or the controller does not answer.
    pub(crate) fn offer_agent<A: Agent>(&self) -> Result<(), ProcessError> {
        let mut offered = held(&self.0.agents.offered);
        for (at, config) in self.config().node.iter().enumerate() {
            let name = name_of::<A>(&config.name);
            if self.node_here(NodeId(at as u16)).is_none() || offered.contains(&name) {
                continue;
            }
            let shared = Arc::downgrade(&self.0);
            let service = move |body: Value| {
                let rack = Weak::upgrade(&shared).map(Rack);
                let rack = rack.ok_or("the process leaves the rack")?;
                rack.remove_gone_users::<A>();
                let asked: Addressed<A::Request> =
                    serde_json::from_value(body).map_err(|error| error.to_string())?;
                let reply = rack.agent::<A>().act(&rack, &asked.user, asked.request);
                if let Some(server) = &*held(&rack.0.agents.server) {
                    server.unpark();
                }
                let reply = reply.map_err(|error| error.to_string())?;
                serde_json::to_value(reply).map_err(|error| error.to_string())
            };
            self.backend().provide(&name, Arc::new(service))?;
            offered.insert(name);
        }
        Ok(())
    }

    /// Whether a thread serves what other processes make here.
    pub(crate) fn serves_others(&self) -> bool {
        self.0.agents.serves_others.load(Ordering::Relaxed)
    }

    /// Changes whether a thread serves what other processes make here.
    pub(crate) fn set_serves_others(&self, does: bool) {
        self.0.agents.serves_others.store(does, Ordering::Relaxed);
    }

    /// The name by which agents know whether this process still exists.
    fn user(&self) -> Result<String, ProcessError> {
        let mut user = held(&self.0.agents.user);
        if let Some(name) = &*user {
            return Ok(name.clone());
        }
        let name = format!("user-{:016x}", self.random_number());
        let exists = |_: Value| Ok(Value::Null);
        self.backend().provide(&name, Arc::new(exists))?;
        Ok(user.insert(name).clone())
    }

    /// Removes what processes that are gone have at an agent, if it is time to look for them.
    pub(crate) fn remove_gone_users<A: Agent>(&self) {
        let agent = self.agent::<A>();
        let mut users = BTreeSet::new();
        agent.users(&mut users);
        let mut leases = held(&self.0.agents.leases);
        let leases_of = leases.entry(A::NAME).or_default();
        let now = Instant::now();
        let is_due = |looked: Instant| now.duration_since(looked) >= LOOK_EVERY;
        if users.is_empty() || !leases_of.looked.is_none_or(is_due) {
            return;
        }
        leases_of.looked = Some(now);
        let mut gone = Vec::new();
        for user in users {
            match self.has_name(&user) {
                Some(false) => {
                    let since = *leases_of.unknown_since.entry(user.clone()).or_insert(now);
                    if now.duration_since(since) >= GONE_AFTER {
                        leases_of.unknown_since.remove(&user);
                        gone.push(user);
                    }
                }
                // It is there, or the controller does not answer.
                _ => _ = leases_of.unknown_since.remove(&user),
            }
        }
        drop(leases);
        for user in gone {
            agent.forget(self, &user);
        }
    }
}

fn name_of<A: Agent>(node: &str) -> String {
    format!("{}@{node}", A::NAME)
}

fn refused(error: serde_json::Error) -> ProcessError {
    ProcessError::Refused(error.to_string())
}
