//! Test access to a rack: faults, taps, NICs and switches, and views for checkers that a program
//! must not use.

use crate::{Flow, RackError};
use core::cell::{Ref, RefMut};
use rackweave_base::NodeId;
use rackweave_controller::FlowError;
use rackweave_controller::{Controller, Site};
use rackweave_endpoint::flow::{Consumer, Producer};
use rackweave_nic::Nic;
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;

pub use rackweave_switch::Tap;

/// A second view of the ring of consumer `index`. It must only be read: the owner of the end
/// relies on being its only user.
///
/// # Errors
/// If there is no such consumer, or it is at a node that is not here.
pub fn consumer_view(flow: &Flow, index: usize) -> Result<Consumer, FlowError> {
    flow.consumer_view(index)
}

/// As [`consumer_view`], for the rings of producer `index`.
///
/// # Errors
/// If there is no such producer, or it is at a node that is not here.
pub fn producer_views(flow: &Flow, index: usize) -> Result<Vec<Producer>, FlowError> {
    flow.producer_views(index)
}

/// Faults of nodes and switches.
pub trait Faults {
    /// Takes a node down as a power failure would: its NIC stops answering. Flows with it abort.
    fn crash_node(&self, node: NodeId);

    /// Restarts switch 0 with empty tables; running flows are set up again.
    ///
    /// # Errors
    /// If the tables are too small for the nodes, which the first start rules out.
    fn restart_switch(&self) -> Result<(), RackError> {
        self.restart_switch_at(0).map(|_| ())
    }

    /// The same for any switch. Switch 0 has the flows, pages and sequencers; the others have only
    /// routes. Returns false if there is no such switch.
    ///
    /// # Errors
    /// As for [`Faults::restart_switch`].
    fn restart_switch_at(&self, at: usize) -> Result<bool, RackError>;
}

/// Taps, which observe every packet.
pub trait Taps {
    /// Shows every packet at switch 0 to `tap`; `None` removes the tap.
    fn set_tap(&self, tap: Option<Box<dyn Tap>>);
}

/// The machines of an embedded rack.
pub trait EmbeddedMachines {
    /// Calls `act` with a node's NIC, for access beyond what verbs allow.
    ///
    /// # Panics
    /// If there is no such node.
    fn with_nic<R>(&self, node: NodeId, act: impl FnOnce(&mut Nic) -> R) -> R;

    /// Calls `act` with a switch; `None` if there is no such switch.
    fn with_switch_at<R>(
        &self,
        at: usize,
        act: impl FnOnce(&mut Switch<Pipeline>) -> R,
    ) -> Option<R>;
}

/// The machines of a simulated rack.
pub trait SimulatedMachines {
    /// A node's NIC; `None` if the node has crashed.
    fn nic_mut(&self, node: NodeId) -> Option<RefMut<'_, Nic>>;

    /// Switch 0.
    fn switch(&self) -> Ref<'_, Switch<Pipeline>>;

    /// A switch; `None` if there is no such switch.
    fn switch_at(&self, at: usize) -> Option<Ref<'_, Switch<Pipeline>>>;

    /// A switch, for the control plane.
    fn switch_at_mut(&self, at: usize) -> Option<RefMut<'_, Switch<Pipeline>>>;

    /// Calls `act` with the controller and its site, for access beyond requests: for tests that
    /// look into words of nodes' memory.
    fn control<R>(&self, act: impl FnOnce(&mut Controller, &mut dyn Site) -> R) -> R;
}
