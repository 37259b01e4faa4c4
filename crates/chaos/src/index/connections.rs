//! Connections of clients and the coordinator with the endpoints that are up.

use super::browser::ClientSlot;
use super::coordinator::{Chair, CoordinatorActor, config};
use super::harness::Harness;
use rackweave_base::NodeId;
use rackweave_endpoint::index::EndpointId;

impl Harness<'_> {
    /// Connects every client that has no connection to an endpoint that is up.
    pub fn connect(&mut self) -> Result<(), String> {
        self.connect_clients()?;
        self.open_coordinator()
    }

    pub fn connect_clients(&mut self) -> Result<(), String> {
        for slot in self.slots.clone() {
            for endpoint in self.endpoints_up() {
                let gone = slot.client.borrow().is_gone(endpoint);
                if gone && !slot.is_dead.get() {
                    let mut client = slot.client.borrow_mut();
                    let attached = self.index.attach(&mut client, endpoint);
                    drop(client);
                    attached.map_err(|error| error.to_string())?;
                    self.attached(&slot, endpoint);
                }
            }
        }
        Ok(())
    }

    /// A client has a connection to an endpoint.
    pub fn attached(&mut self, slot: &ClientSlot, endpoint: EndpointId) {
        slot.starts.borrow_mut()[endpoint.index()] = self.starts[endpoint.index()];
        if self.asks_again() {
            slot.client.borrow_mut().set_network(true);
        }
        self.wake_ends(slot.node, endpoint);
    }

    fn wake_ends(&mut self, node: NodeId, endpoint: EndpointId) {
        self.rack.wake(node);
        let place = self.index.replicas()[endpoint.index()].node;
        self.rack.wake(place);
    }

    /// The coordinator's process ends.
    pub fn kill_coordinator(&mut self) {
        let Some(chair) = self.chair.take() else {
            return;
        };
        if let Some(coordinator) = chair.coordinator.take() {
            self.index.release(coordinator);
        }
        self.rack.wake(chair.node);
    }

    /// Ensures that a coordinator runs that is connected with all endpoints that are up.
    fn open_coordinator(&mut self) -> Result<(), String> {
        let Some(chair) = self.chair.clone() else {
            let alive = |node: &&NodeId| !self.is_dead(**node);
            let Some(&node) = self.plan.compute.iter().find(alive) else {
                return Ok(());
            };
            self.coordinators += 1;
            let (life, last) = (self.coordinators, self.shared.quiet.get());
            let made = self.index.coordinator(node, config(self.plan, life, last));
            let made = made.map_err(|error| format!("no coordinator: {error}"))?;
            let chair = Chair::new(node, made, self.plan.endpoints.len());
            let (shared, orders) = (self.shared.clone(), self.orders.clone());
            let actor = CoordinatorActor::new(shared, orders, chair.clone());
            self.rack.spawn_server(node, Box::new(actor));
            for endpoint in self.endpoints_up() {
                chair.attached(endpoint, self.starts[endpoint.index()]);
                self.wake_ends(node, endpoint);
            }
            self.chair = Some(chair);
            return Ok(());
        };
        for endpoint in self.endpoints_up() {
            let start = self.starts[endpoint.index()];
            // A client that waits for an answer from an ended process may wait for ever.
            if !chair.misses(endpoint, start) {
                continue;
            }
            let mut coordinator = chair.coordinator.borrow_mut();
            let Some(coordinator) = coordinator.as_mut() else {
                return Ok(());
            };
            let attached = self.index.attach(coordinator, endpoint);
            attached.map_err(|error| error.to_string())?;
            chair.attached(endpoint, start);
            self.wake_ends(chair.node, endpoint);
        }
        Ok(())
    }
}
