//! Who is connected with whom: clients and the coordinator with the endpoints that are up.

use super::browser::ClientSlot;
use super::coordinator::{Chair, CoordinatorActor};
use super::endpoint::{Accepted, Seat};
use super::stage::Stage;
use rackweave_base::{NodeId, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_verbs::Verbs;

impl Stage<'_> {
    /// Connects whoever has no way to an endpoint that is up.
    pub fn connect(&mut self) -> Result<(), String> {
        for slot in self.slots.clone() {
            for at in 0..self.plan.endpoints.len() {
                let seat = self.seats[at].clone();
                let gone = slot.client.borrow().is_gone(seat.endpoint);
                if gone && !slot.is_dead.get() && seat.is_up() {
                    self.attach(&slot, &seat)?;
                }
            }
        }
        self.seat_coordinator()
    }

    fn attach(&mut self, slot: &ClientSlot, seat: &Seat) -> Result<(), String> {
        let at = seat.endpoint.index();
        let memory = self.rack.memory().clone();
        let remote = seat.remote().ok_or("the endpoint is down")?;
        let former = slot.ends.borrow_mut()[at].take();
        self.remove(at, former);
        let mut there = self
            .rack
            .nic_mut(seat.node)
            .ok_or("the endpoint's node is dead")?;
        let accepted = seat.accept(&mut *there, slot.reads())?;
        drop(there);
        slot.ends.borrow_mut()[at] = Some((accepted, self.starts[at]));
        if let Some(qpn) = accepted.reader {
            self.enter_pair(slot, at, qpn)?;
        }
        let asks_again = self.asks_again();
        let mut here = self
            .rack
            .nic_mut(slot.node)
            .ok_or("the client's node is dead")?;
        let mut client = slot.client.borrow_mut();
        let ends = client.attach(&mut *here, &memory, slot.pd, seat.endpoint, remote);
        drop(here);
        let ends = ends.map_err(|error| error.to_string())?;
        if asks_again {
            client.set_network(true);
        }
        drop(client);
        self.join((slot.node, ends.rpc), (seat.node, accepted.rpc))?;
        if let (Some(ours), Some(theirs)) = (ends.reader, accepted.reader) {
            self.join((slot.node, ours), (seat.node, theirs))?;
        }
        Ok(())
    }

    /// The coordinator's process ends.
    pub fn kill_coordinator(&mut self) {
        let Some(chair) = self.chair.take() else {
            return;
        };
        let coordinator = chair.coordinator.take();
        if let Some(mut nic) = self.rack.nic_mut(chair.node)
            && let Some(coordinator) = coordinator
        {
            coordinator.close(&mut *nic);
        }
        for (at, ends) in chair.ends.take().into_iter().enumerate() {
            self.remove(at, ends);
        }
        self.rack.wake(chair.node);
    }

    /// Somebody moves ranges who is connected with all endpoints that are up.
    fn seat_coordinator(&mut self) -> Result<(), String> {
        if self.chair.is_none() {
            let alive = |node: &&NodeId| !self.is_dead(**node);
            let Some(&node) = self.plan.compute.iter().find(alive) else {
                return Ok(());
            };
            let nic = self.rack.nic_mut(node);
            let pd = nic.ok_or("the coordinator's node is dead")?.create_pd();
            let (map, last) = (self.map(), self.shared.quiet.get());
            self.coordinators += 1;
            let chair = Chair::new(self.plan, node, pd, map, self.coordinators, last);
            let (shared, orders) = (self.shared.clone(), self.orders.clone());
            let actor = CoordinatorActor::new(shared, orders, chair.clone());
            self.rack.spawn_server(node, Box::new(actor));
            self.chair = Some(chair);
        }
        let Some(chair) = self.chair.clone() else {
            return Ok(());
        };
        for at in 0..self.plan.endpoints.len() {
            let seat = self.seats[at].clone();
            // Whoever waits for an answer from a process that has ended may wait for ever.
            let start = self.starts[at];
            let is_former = chair.ends.borrow()[at].is_some_and(|(_, of)| of != start);
            if !seat.is_up() || !(is_former || chair.gone.borrow()[at]) {
                continue;
            }
            let former = chair.ends.borrow_mut()[at].take();
            self.remove(at, former);
            let memory = self.rack.memory().clone();
            let mut there = self
                .rack
                .nic_mut(seat.node)
                .ok_or("the endpoint's node is dead")?;
            let accepted = seat.accept(&mut *there, false)?;
            drop(there);
            chair.ends.borrow_mut()[at] = Some((accepted, self.starts[at]));
            chair.gone.borrow_mut()[at] = false;
            let mut here = self
                .rack
                .nic_mut(chair.node)
                .ok_or("the coordinator's node is dead")?;
            let mut coordinator = chair.coordinator.borrow_mut();
            let Some(coordinator) = coordinator.as_mut() else {
                return Ok(());
            };
            let attached = coordinator.attach(&mut *here, &memory, chair.pd, seat.endpoint);
            drop(here);
            let ours = attached.map_err(|error| error.to_string())?;
            self.join((chair.node, ours), (seat.node, accepted.rpc))?;
        }
        Ok(())
    }

    /// The ends that somebody had at an endpoint are of no use any more.
    pub fn remove(&mut self, at: usize, ends: Option<(Accepted, u64)>) {
        let seat = self.seats[at].clone();
        if let Some((accepted, start)) = ends
            && start == self.starts[at]
        {
            if let Some(qpn) = accepted.reader {
                self.forget_pair(at, qpn);
            }
            if let Some(mut nic) = self.rack.nic_mut(seat.node) {
                seat.remove(&mut *nic, accepted);
            }
        }
    }

    fn join(&mut self, ours: (NodeId, Qpn), theirs: (NodeId, Qpn)) -> Result<(), String> {
        let attributes: &PairAttributes = &self.plan.pair;
        let made = self.rack.connect(ours, theirs, attributes);
        made.map_err(|error| format!("no connection: {error}"))?;
        self.rack.wake(ours.0);
        self.rack.wake(theirs.0);
        Ok(())
    }
}
