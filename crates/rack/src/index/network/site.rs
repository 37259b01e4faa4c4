//! Racks whose controller can be acted with.

use crate::{EmbeddedRack, SimulatedRack};
use rackweave_controller::{Controller, Site};

/// A rack whose controller can be acted with: `&EmbeddedRack` or [`SimulatedRack`].
pub trait Controlled: sealed::Sealed {
    /// Lets `act` have the controller, and what it acts on.
    fn control(&mut self, act: &mut dyn FnMut(&mut Controller, &mut dyn Site));
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for &crate::EmbeddedRack {}
    impl Sealed for crate::SimulatedRack {}
}

impl Controlled for &EmbeddedRack {
    fn control(&mut self, act: &mut dyn FnMut(&mut Controller, &mut dyn Site)) {
        self.change(act);
    }
}

impl Controlled for SimulatedRack {
    fn control(&mut self, act: &mut dyn FnMut(&mut Controller, &mut dyn Site)) {
        SimulatedRack::control(self, act);
    }
}
