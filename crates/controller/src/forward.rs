//! Forwarding entries: one per node.

use crate::{Controller, Site};
use rackweave_programs::forward::NextHop;
use rackweave_switch::table::TableError;

impl Controller {
    /// Enters every node of the site.
    ///
    /// # Errors
    /// If the switch's tables are too small.
    pub fn install_hosts(&mut self, site: &mut dyn Site) -> Result<(), TableError> {
        let mut result = Ok(());
        for (_, address) in site.nodes() {
            site.switch(&mut |_, switch| {
                let forward = &mut switch.program_mut().forward;
                let hop = NextHop {
                    port: address.port,
                    mac: address.mac,
                };
                let added = forward
                    .add_host(address.mac, address.port)
                    .and_then(|()| forward.add_route(address.ip, 32, hop));
                result = result.and(added);
            });
        }
        result
    }
}
