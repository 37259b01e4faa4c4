//! Foreign hosts: machines beside a hosted rack on which no process of it runs, with a RoCEv2 NIC
//! of their own. The switch has a port for each.

use super::check::{ConfigError, is_name, rule, within};
use super::hosted::{HostedSection, LinkKind, NAMES_RESERVED};
use super::{NodeConfig, RackConfig};
use rackweave_base::MacAddr;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};

/// Maximum number of foreign hosts: with the most nodes, so many fit the switch's tables.
const COUNT_MAX: usize = 32;

/// One foreign host. It has either `udp` or `switch_interface`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Its name, unique among hosts and nodes.
    pub name: String,
    /// The Ethernet address of its NIC.
    #[serde(with = "mac_text")]
    pub mac: MacAddr,
    /// The IP address of its NIC.
    pub ip: Ipv4Addr,
    /// The address and port at which its VXLAN device receives packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<SocketAddr>,
    /// The switch's Ethernet interface that leads to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_interface: Option<String>,
    /// False admits its packets in UDP without a code where `hosted.authenticate` asks for codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticate: Option<bool>,
}

impl HostConfig {
    /// The kind of its link to the switch.
    pub fn link_kind(&self) -> LinkKind {
        match self.udp {
            Some(_) => LinkKind::Udp,
            None => LinkKind::Packet,
        }
    }

    /// Where the switch reaches it: an address and port, or an interface.
    pub fn reached_at(&self) -> String {
        let interface = self.switch_interface.clone().unwrap_or_default();
        self.udp.map_or(interface, |at| at.to_string())
    }

    fn check(&self, hosted: &HostedSection) -> Result<(), ConfigError> {
        let (name, allowed) = (&self.name, "letters, digits, - and _ are allowed");
        rule(is_name(name), "host.name", name, allowed)?;
        let is_free = !NAMES_RESERVED.contains(&name.as_str());
        let reserved = "controller, operator, authority and revoked are reserved";
        rule(is_free, "host.name", name, reserved)?;
        let [first, second, third, ..] = self.mac.0;
        let is_single = first & 1 == 0 && self.mac != MacAddr::default();
        let needed = "the address of a single NIC is needed, so the first byte is even";
        rule(is_single, "host.mac", self.mac, needed)?;
        let is_own = [first, second, third, self.mac.0[3]] == [2, 0, 0, 0];
        let own = "addresses from 02:00:00:00 on belong to the rack's nodes and switches; \
                   choose another";
        rule(!is_own, "host.mac", self.mac, own)?;
        let ip = self.ip;
        let is_single = !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast());
        let needed = "the address of a single NIC is needed";
        rule(is_single && !ip.is_broadcast(), "host.ip", ip, needed)?;
        let is_own = matches!(ip.octets(), [10, 77, 0 | 255, _]);
        let own = "10.77.0.0/24 and 10.77.255.0/24 belong to the rack's nodes and switches; \
                   choose for example 10.77.1.1";
        rule(!is_own, "host.ip", ip, own)?;
        self.check_link(hosted)
    }

    fn check_link(&self, hosted: &HostedSection) -> Result<(), ConfigError> {
        if self.udp.is_some() == self.switch_interface.is_some() {
            return Err(ConfigError::HostLink(self.name.clone()));
        }
        let codes = "a foreign host cannot make codes; only false is possible";
        rule(
            self.authenticate != Some(true),
            "host.authenticate",
            "true",
            codes,
        )?;
        let Some(at) = self.udp else {
            return Ok(());
        };
        let ip = at.ip();
        let is_single = !ip.is_unspecified() && !ip.is_multicast() && at.port() != 0;
        let needed = "the address and port of its VXLAN device are needed";
        rule(is_single, "host.udp", at, needed)?;
        let own = "that is hosted.udp, the switch's own; the address of its VXLAN device is needed";
        rule(at != hosted.udp, "host.udp", at, own)?;
        if hosted.authenticates() && self.authenticate.is_none() {
            return Err(ConfigError::HostCodes(self.name.clone()));
        }
        Ok(())
    }
}

impl RackConfig {
    /// The foreign host of this name.
    pub fn host_named(&self, name: &str) -> Option<&HostConfig> {
        self.host.iter().find(|host| host.name == name)
    }

    pub(super) fn check_hosts(&self) -> Result<(), ConfigError> {
        let Some(first) = self.host.first() else {
            return Ok(());
        };
        let Some(hosted) = &self.hosted else {
            return Err(ConfigError::HostAlone(first.name.clone()));
        };
        let count = self.host.len();
        let range = "at most 32 are possible";
        within("the number of hosts", count, 0..=COUNT_MAX, range)?;
        for (at, host) in self.host.iter().enumerate() {
            host.check(hosted)?;
            host.check_unlike(&self.node, &self.host[..at], hosted)?;
        }
        Ok(())
    }
}

impl HostConfig {
    /// Checks that it shares no name, address or interface with a node or an earlier host.
    fn check_unlike(
        &self,
        nodes: &[NodeConfig],
        others: &[HostConfig],
        hosted: &HostedSection,
    ) -> Result<(), ConfigError> {
        let is_other = |shared: &dyn Fn(&HostConfig) -> bool| !others.iter().any(shared);
        let is_new = is_other(&|it| it.name == self.name);
        let is_node = nodes.iter().any(|node| node.name == self.name);
        let taken = "a node or another host has this name";
        rule(is_new && !is_node, "host.name", &self.name, taken)?;
        let taken = "another host has this address";
        let is_new = is_other(&|it| it.mac == self.mac);
        rule(is_new, "host.mac", self.mac, taken)?;
        rule(is_other(&|it| it.ip == self.ip), "host.ip", self.ip, taken)?;
        if let Some(at) = self.udp {
            let ip = at.ip().to_canonical();
            let has_ip = |it: &HostConfig| it.udp.is_some_and(|it| it.ip().to_canonical() == ip);
            let taken = "another host has this IP address, and the switch distinguishes hosts by \
                         it: a VXLAN device sends from any port";
            rule(is_other(&has_ip), "host.udp", at, taken)?;
        }
        if let Some(interface) = &self.switch_interface {
            let is_of_node = |node: &NodeConfig| {
                let is_packet = node.link_kind(hosted) == LinkKind::Packet;
                is_packet && node.switch_interface.as_ref() == Some(interface)
            };
            let is_new = is_other(&|it| it.switch_interface.as_ref() == Some(interface));
            let taken = "this interface leads to a node or to another host";
            let is_free = is_new && !nodes.iter().any(is_of_node);
            rule(is_free, "host.switch_interface", interface, taken)?;
        }
        Ok(())
    }
}

/// An Ethernet address as text.
mod mac_text {
    use rackweave_base::MacAddr;
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mac: &MacAddr, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(mac)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MacAddr, D::Error> {
        let text = String::deserialize(from)?;
        let expected = &"an Ethernet address such as \"52:54:00:12:34:56\"";
        parse(&text).ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), expected))
    }

    fn parse(text: &str) -> Option<MacAddr> {
        let byte = |part: &str| {
            let is_hex = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hex.then(|| u8::from_str_radix(part, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        bytes?.try_into().ok().map(MacAddr)
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
