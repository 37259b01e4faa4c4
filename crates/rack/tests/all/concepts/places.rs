//! Names of the targets of rkeys and addresses.

use rackweave_base::Rkey;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A region that packets write to or read from.
struct NamedRegion {
    /// Its first address.
    address: u64,
    /// Names its contents, by the offset from its first address.
    describe: Box<dyn Fn(u64) -> String>,
}

/// All regions of a scene.
#[derive(Default)]
pub struct NamedRegions(BTreeMap<(Ipv4Addr, u32), NamedRegion>);

impl NamedRegions {
    /// Enters a region of the node with this IP address; `describe` names its contents, by the
    /// offset from its first address.
    pub fn enter(
        &mut self,
        ip: Ipv4Addr,
        (address, rkey): (u64, Rkey),
        describe: impl Fn(u64) -> String + 'static,
    ) {
        let describe = Box::new(describe);
        self.0
            .insert((ip, rkey.0), NamedRegion { address, describe });
    }

    /// The name of an address at a node, if its region was entered.
    pub fn name(&self, ip: Ipv4Addr, rkey: Rkey, address: u64) -> Option<String> {
        let place = self.0.get(&(ip, rkey.0))?;
        let offset = address.checked_sub(place.address);
        Some((place.describe)(offset.expect("it is in its region")))
    }
}
