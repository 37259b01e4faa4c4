//! A rack whose controller is reached by bytes alone, as in a rack of processes.

use rackweave_base::{Block, Instant, Memory, NodeId, Rkey};
use rackweave_controller::FlowError;
use rackweave_controller::ask::{AskError, Reply, Request};
use rackweave_endpoint::index::Access;
use rackweave_rack::services::{IndexOptions, IndexService};
use rackweave_rack::statistics::RackStatistics;
use rackweave_rack::{Backend, NamedService, ProcessError, Rack, RackConfig, RackError, RackKind};
use rackweave_target::{Backend as Medium, TargetConfig, TargetError};
use rackweave_verbs::NodeAccess;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Services that processes offer to each other.
type Offered = Arc<Mutex<BTreeMap<String, Arc<NamedService>>>>;

/// A serialised request, and the channel for its reply.
type Asked = (Vec<u8>, Sender<Vec<u8>>);

/// Wraps another rack and serialises requests to its controller.
struct Serialised {
    nodes: Arc<dyn Backend>,
    controller: Mutex<Sender<Asked>>,
    /// The nodes that are here; all if empty.
    here: Vec<NodeId>,
    offered: Offered,
}

/// All nodes of a rack, with the controller behind a channel.
pub fn rack(rack: &Rack) -> Rack {
    restricted(rack, &[], &Offered::default())
}

/// Some nodes of a rack, as seen by a process with only these nodes.
fn restricted(rack: &Rack, here: &[NodeId], offered: &Offered) -> Rack {
    let (controller, asked) = channel();
    let backend = rack.backend().clone();
    std::thread::spawn(move || answer(&*backend, &asked));
    Rack::new(Arc::new(Serialised {
        nodes: rack.backend().clone(),
        controller: Mutex::new(controller),
        here: here.to_vec(),
        offered: offered.clone(),
    }))
}

/// Replies until no more requests arrive.
fn answer(backend: &dyn Backend, asked: &Receiver<Asked>) {
    while let Ok((bytes, to)) = asked.recv() {
        let request: Request = serde_json::from_slice(&bytes).expect("a request travels");
        let reply = serde_json::to_vec(&backend.ask(request)).expect("a reply can travel");
        // A requester that has left needs no reply.
        let _ = to.send(reply);
    }
}

impl Serialised {
    fn is_here(&self, node: NodeId) -> bool {
        self.here.is_empty() || self.here.contains(&node)
    }
}

impl Backend for Serialised {
    fn config(&self) -> &RackConfig {
        self.nodes.config()
    }

    fn kind(&self) -> RackKind {
        self.nodes.kind()
    }

    fn identity(&self) -> u64 {
        self.nodes.identity()
    }

    fn memory(&self) -> &Memory {
        self.nodes.memory()
    }

    fn now(&self) -> Instant {
        self.nodes.now()
    }

    fn node(self: Arc<Self>, node: NodeId) -> Option<Arc<dyn NodeAccess>> {
        let here = self.is_here(node).then(|| self.nodes.clone())?;
        here.node(node)
    }

    fn is_alive(&self, node: NodeId) -> bool {
        self.is_here(node) && self.nodes.is_alive(node)
    }

    fn block(&self, node: NodeId, rkey: Rkey) -> Option<Block> {
        self.nodes.block(node, rkey).filter(|_| self.is_here(node))
    }

    fn page_alarm(&self) -> Arc<AtomicBool> {
        self.nodes.page_alarm()
    }

    fn set_target(
        &self,
        node: NodeId,
        config: TargetConfig,
        namespaces: Vec<Box<dyn Medium>>,
    ) -> Result<(), TargetError> {
        assert!(self.is_here(node), "{node:?} is in another process");
        self.nodes.set_target(node, config, namespaces)
    }

    fn statistics(&self) -> RackStatistics {
        let bytes = serde_json::to_vec(&self.nodes.statistics()).expect("they can travel");
        serde_json::from_slice(&bytes).expect("they travel")
    }

    fn provide(&self, name: &str, service: Arc<NamedService>) -> Result<(), ProcessError> {
        let mut offered = self.offered.lock().expect("nobody panics with it");
        offered.insert(name.into(), service);
        Ok(())
    }

    fn withdraw(&self, name: &str) {
        let mut offered = self.offered.lock().expect("nobody panics with it");
        offered.remove(name);
    }

    fn call(&self, name: &str, body: Value) -> Result<Value, ProcessError> {
        let offered = self.offered.lock().expect("nobody panics with it");
        let service = offered.get(name).cloned();
        drop(offered);
        let service = service.ok_or(ProcessError::Refused(format!("no service {name}")))?;
        let bytes = serde_json::to_vec(&body).expect("a request can travel");
        let body = serde_json::from_slice(&bytes).expect("a request travels");
        service(body).map_err(ProcessError::Refused)
    }

    fn ask(&self, request: Request) -> Result<Reply, AskError> {
        let bytes = serde_json::to_vec(&request).expect("a request can travel");
        let (to, reply) = channel();
        let controller = self.controller.lock().expect("nobody panics with it");
        controller
            .send((bytes, to))
            .expect("the controller is there");
        drop(controller);
        let bytes = reply.recv().expect("the controller answers");
        serde_json::from_slice(&bytes).expect("a reply travels")
    }
}

/// Two processes with a node each establish a connection; nodes elsewhere are refused by name.
#[test]
fn services_between_two_processes_with_a_node_each() {
    let whole = super::embedded();
    let (storage, compute) = (NodeId(0), NodeId(2));
    let offered = Offered::default();
    let serving = restricted(&whole, &[storage], &offered);
    let asking = restricted(&whole, &[compute], &offered);
    let elsewhere = asking.node("storage0").expect_err("it is elsewhere");
    assert_eq!(elsewhere, RackError::Elsewhere("storage0".into()));
    super::messages::between(&serving, &asking);

    // An index in one process, a client in the other: their set-up is exchanged as bytes.
    let options = IndexOptions::default();
    let index = IndexService::new(&serving, &options).expect("there is room");
    index.load([(7, b"seven")]).expect("it is empty");
    index.share("words").expect("the name is free");
    let remote = IndexService::find(&asking, "words").expect("it is shared");
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                index.serve();
                serving.any_node().drive();
            }
        });
        for access in [Access::Rpc, Access::OneSided] {
            let client = remote.connect(compute, access);
            let found = client.expect("there is room").get(7);
            assert_eq!(found, Ok(Some(b"seven"[..].into())));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let refused = IndexService::new(&asking, &options).expect_err("nobody serves it");
    assert!(refused.to_string().contains("serve_others"), "{refused}");

    let flow = serving
        .flow(&[storage], &[compute])
        .item_bytes(64)
        .ring_bytes(1 << 12)
        .build();
    let flow = flow.expect("there is room");
    assert!(flow.take_producers(0).is_ok(), "it is here");
    assert_eq!(flow.take_consumer(0).unwrap_err(), FlowError::NotHere);
}
