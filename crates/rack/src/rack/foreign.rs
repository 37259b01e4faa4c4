//! Foreign hosts, as seen by a program that is a node of the rack.
//!
//! No process of the rack runs on a foreign host, so the controller cannot connect queue pairs
//! there. A program and the software on the host tell each other what they need (QPN, first PSN,
//! rkeys) by means of their own, and each connects its own end.

use super::{Node, Rack};
use crate::build::RackError;
use rackweave_base::{MacAddr, Psn, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_verbs::{ModifyError, Mtu, Peer};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A machine beside a rack of processes: `[[host]]` in its configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignHost {
    /// Its name in the configuration.
    pub name: String,
    /// The Ethernet address of its NIC.
    pub mac: MacAddr,
    /// The IP address of its NIC.
    pub ip: Ipv4Addr,
    /// The largest MTU that the switch's link to it carries. The link of the node and the host's
    /// own device may carry less.
    pub mtu: Mtu,
}

/// An end of a connection to a foreign host: what each side tells the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForeignEnd {
    /// The queue pair.
    pub qpn: Qpn,
    /// The PSN of its first request.
    pub psn: Psn,
}

/// Why a queue pair was not connected to one of a foreign host.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ForeignError {
    /// The MTU exceeds that of the switch's link to the host.
    #[error(
        "packets of {wanted} bytes do not reach {host}: the link to it carries {most}; take a \
         smaller mtu at both ends",
        wanted = mtu.bytes(),
        most = carried.bytes()
    )]
    Mtu {
        /// The host.
        host: String,
        /// The requested MTU.
        mtu: Mtu,
        /// The MTU of the link.
        carried: Mtu,
    },
    /// The NIC of the node refused a step.
    #[error(transparent)]
    Modify(#[from] ModifyError),
}

impl ForeignHost {
    /// The GID of its NIC, by which RDMA software names the address.
    pub fn gid(&self) -> Ipv6Addr {
        self.ip.to_ipv6_mapped()
    }

    /// The address of one of its queue pairs, for a queue pair of this rack that is its peer.
    pub fn peer(&self, qpn: Qpn) -> Peer {
        Peer {
            mac: self.mac,
            ip: self.ip,
            qpn,
        }
    }

    /// Connects a queue pair of `node`, in state Reset, to one of this host. It is ready to send
    /// afterwards; the host's end is connected there, with the same MTU.
    ///
    /// # Errors
    /// If the MTU is too large for the link to the host, or the node's NIC refuses.
    pub fn connect(
        &self,
        node: &Node,
        own: ForeignEnd,
        theirs: ForeignEnd,
        attributes: &PairAttributes,
    ) -> Result<(), ForeignError> {
        if attributes.mtu > self.mtu {
            return Err(ForeignError::Mtu {
                host: self.name.clone(),
                mtu: attributes.mtu,
                carried: self.mtu,
            });
        }
        let mut steps = attributes
            .steps(self.peer(theirs.qpn), own.psn, theirs.psn)
            .into_iter();
        Ok(node.with(|verbs| steps.try_for_each(|step| verbs.modify_qp(own.qpn, step)))?)
    }
}

impl Rack {
    /// A foreign host by its name.
    ///
    /// # Errors
    /// If the configuration has no such host, the rack is in one process, or the controller does
    /// not answer.
    pub fn foreign_host(&self, name: &str) -> Result<ForeignHost, RackError> {
        let why = |why: String| RackError::NoForeignHost {
            name: name.to_owned(),
            why,
        };
        let Some(host) = self.config().host_named(name) else {
            let known = self.config().host.iter().map(|host| host.name.as_str());
            let known: Vec<_> = known.collect();
            return Err(why(match known[..] {
                [] => "the configuration has no [[host]]".to_owned(),
                _ => format!("the configuration has {}", known.join(", ")),
            }));
        };
        let mtu = self.backend().mtu_to_host(name).map_err(why)?;
        Ok(ForeignHost {
            name: name.to_owned(),
            mac: host.mac,
            ip: host.ip,
            mtu,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_the_link_does_not_carry_are_refused() {
        let rack = Rack::builder().build().unwrap();
        let host = ForeignHost {
            name: "linux0".into(),
            mac: MacAddr([0x52, 0x54, 0, 0, 0, 1]),
            ip: Ipv4Addr::new(10, 77, 1, 1),
            mtu: Mtu::B1024,
        };
        let end = ForeignEnd {
            qpn: Qpn(7),
            psn: Psn::new(0),
        };
        let node = rack.node("compute0").unwrap();
        let attributes = PairAttributes::default();
        let error = host.connect(&node, end, end, &attributes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "packets of 4096 bytes do not reach linux0: the link to it carries 1024; take a \
             smaller mtu at both ends"
        );
        let attributes = PairAttributes {
            mtu: Mtu::B1024,
            ..attributes
        };
        let error = host.connect(&node, end, end, &attributes).unwrap_err();
        assert!(matches!(error, ForeignError::Modify(_)), "{error}");
    }

    #[test]
    fn a_rack_in_one_process_is_beside_no_machine() {
        let text = "[hosted]\n[[host]]\nname = 'linux0'\nmac = '52:54:00:00:00:01'\n\
                    ip = '10.77.1.1'\nudp = '127.0.0.1:4800'\n";
        let config = crate::RackConfig::parse(text, "rack.toml").unwrap();
        let error = |rack: &Rack, name| rack.foreign_host(name).unwrap_err().to_string();
        for builder in [Rack::builder(), Rack::builder().simulated()] {
            let rack = builder.config(config.clone()).build().unwrap();
            let says = "no foreign host \"linux0\": this rack is in one process, and no machine \
                        is beside it";
            assert_eq!(error(&rack, "linux0"), says);
        }
        let rack = Rack::builder().build().unwrap();
        let says = "no foreign host \"linux0\": the configuration has no [[host]]";
        assert_eq!(error(&rack, "linux0"), says);
    }
}
