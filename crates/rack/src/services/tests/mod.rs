//! Services as a database uses them: on a whole rack, in real time, without driver threads.

mod index;
mod pages;
mod replicas;
mod sequencer;

use crate::{EmbeddedRack, RackConfig};
use rackweave_base::NodeId;

/// A rack for all services, driven by waiting threads alone.
fn rack() -> EmbeddedRack {
    rack_with(|_| ())
}

fn rack_with(change: impl FnOnce(&mut RackConfig)) -> EmbeddedRack {
    let mut config = RackConfig::with_all_programs();
    config.driver_threads = 0;
    config.switch.page_size = 4096;
    change(&mut config);
    EmbeddedRack::new(&config).expect("the rack can be built")
}

/// The first two compute nodes.
const COMPUTE: [NodeId; 2] = [NodeId(2), NodeId(3)];

#[test]
fn all_programs_fit_together_and_the_configuration_says_so() {
    let config = RackConfig::with_all_programs();
    let again = RackConfig::parse(&config.to_toml(), "test").expect("it can be written and read");
    assert_eq!(config, again);
    assert!(EmbeddedRack::new(&config).is_ok());
}
