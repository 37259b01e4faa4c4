//! The two switch processes of a hosted rack with a standby.

use super::HostedSection;
use super::check::{ConfigError, rule};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A second switch process, which takes over when the first one dies, and the other way round.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct StandbySection {
    /// The address at which nodes and commands reach its controller, if not `hosted.control`.
    pub control: Option<SocketAddr>,
    /// Its listening address, if not `control`.
    pub listen: Option<SocketAddr>,
    /// The address at which its switch receives VXLAN packets, if not `hosted.udp`.
    pub udp: Option<SocketAddr>,
}

/// Where a switch process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchPlace {
    /// The name of the process: `switch` or `standby`.
    pub name: &'static str,
    /// Names its sockets in the folder for sockets and locks.
    pub socket: &'static str,
    /// The address at which nodes and commands reach its controller.
    pub control: SocketAddr,
    /// The controller's listening address.
    pub listen: SocketAddr,
    /// The address at which the switch receives VXLAN packets.
    pub udp: SocketAddr,
}

impl HostedSection {
    /// Where switch processes run: the first one, and the standby if there is one.
    pub fn switch_places(&self) -> Vec<SwitchPlace> {
        let first = SwitchPlace {
            name: "switch",
            socket: "switch",
            control: self.control,
            listen: self.listen.unwrap_or(self.control),
            udp: self.udp,
        };
        let standby = self.standby.as_ref().map(|standby| SwitchPlace {
            name: "standby",
            // At one address only one of them runs, and nodes do not know which.
            socket: match standby.control {
                Some(control) if control != self.control => "standby",
                _ => first.socket,
            },
            control: standby.control.unwrap_or(self.control),
            listen: standby.listen.or(standby.control).unwrap_or(first.listen),
            udp: standby.udp.unwrap_or(self.udp),
        });
        core::iter::once(first).chain(standby).collect()
    }

    pub(super) fn check_standby(&self) -> Result<(), ConfigError> {
        let Some(standby) = &self.standby else {
            return Ok(());
        };
        let is_apart = standby.control.is_some_and(|at| at != self.control);
        if let Some(udp) = standby.udp {
            let needed = "an address of its own needs hosted.standby.control, other than \
                          hosted.control, too";
            rule(
                is_apart || udp == self.udp,
                "hosted.standby.udp",
                udp,
                needed,
            )?;
        }
        let needed = "with hosted.etcd the standby may begin while the first process is stopped, \
                      and needs an address of its own";
        let control = standby.control.unwrap_or(self.control);
        let is_fine = is_apart || self.etcd.is_empty();
        rule(is_fine, "hosted.standby.control", control, needed)
    }
}
