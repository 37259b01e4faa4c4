//! placeholder
/// A rack in virtual time.
pub struct SimulatedRack;
