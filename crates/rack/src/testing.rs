//! For tests on a rack: faults, taps, access to NICs and switches, and views for checkers that a
//! program must not use.

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

/// As [`consumer_view`], the rings of producer `index`.
///
/// # Errors
/// If there is no such producer, or it is at a node that is not here.
pub fn producer_views(flow: &Flow, index: usize) -> Result<Vec<Producer>, FlowError> {
    flow.producer_views(index)
}

/// Faults of nodes and switches.
pub trait Faults {
    /// Takes a node down as a power cut would: its NIC answers no more. Flows with it break off.
    fn crash_node(&self, node: NodeId);

    /// Restarts switch 0 with empty tables; running flows are set up again.
    ///
    /// # Errors
    /// If the tables are too small for the nodes, which the first start rules out.
    fn restart_switch(&self) -> Result<(), RackError> {
        self.restart_switch_at(0).map(|_| ())
    }

    /// The same for any switch. Flows, pages and sequencers are those of switch 0; others know only
    /// the ways. False if there is no such switch.
    ///
    /// # Errors
    /// As for [`Faults::restart_switch`].
    fn restart_switch_at(&self, at: usize) -> Result<bool, RackError>;
}

/// Taps, which see every packet.
pub trait Taps {
    /// Has `tap` see every packet at switch 0, or nobody.
    fn set_tap(&self, tap: Option<Box<dyn Tap>>);
}

/// The machines of an embedded rack.
pub trait EmbeddedMachines {
    /// Acts on a node's NIC, beyond what verbs allow.
    ///
    /// # Panics
    /// If there is no such node.
    fn with_nic<R>(&self, node: NodeId, act: impl FnOnce(&mut Nic) -> R) -> R;

    /// Acts on a switch; nothing if there is no such switch.
    fn with_switch_at<R>(
        &self,
        at: usize,
        act: impl FnOnce(&mut Switch<Pipeline>) -> R,
    ) -> Option<R>;
}

/// The machines of a simulated rack.
pub trait SimulatedMachines {
    /// A node's NIC; nothing if the node has crashed.
    fn nic_mut(&self, node: NodeId) -> Option<RefMut<'_, Nic>>;

    /// Switch 0.
    fn switch(&self) -> Ref<'_, Switch<Pipeline>>;

    /// A switch. None if there is no such switch.
    fn switch_at(&self, at: usize) -> Option<Ref<'_, Switch<Pipeline>>>;

    /// A switch, for the control plane.
    fn switch_at_mut(&self, at: usize) -> Option<RefMut<'_, Switch<Pipeline>>>;

    /// Acts with the controller and what it acts on, beyond what can be asked: for tests that look
    /// into words of nodes' memory.
    fn control<R>(&self, act: impl FnOnce(&mut Controller, &mut dyn Site) -> R) -> R;
}
