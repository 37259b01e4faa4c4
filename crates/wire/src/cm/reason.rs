//! Why a connection is refused.

use core::fmt;

/// The reason of a rejection (12.6.7.2, table 108).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RejectReason(pub u16);

impl RejectReason {
    /// No queue pair is free.
    pub const NO_QP: Self = Self(1);
    /// Something else is used up.
    pub const NO_RESOURCES: Self = Self(3);
    /// No answer within the time agreed.
    pub const TIMEOUT: Self = Self(4);
    /// The request is not supported.
    pub const UNSUPPORTED: Self = Self(5);
    /// The number of the connection is unknown.
    pub const INVALID_ID: Self = Self(6);
    /// Nobody listens for the service.
    pub const INVALID_SERVICE: Self = Self(8);
    /// The transport service is not supported.
    pub const INVALID_TRANSPORT: Self = Self(9);
    /// The queue pair has a connection of an earlier time, which ends now.
    pub const STALE_CONNECTION: Self = Self(10);
    /// The path MTU is not supported.
    pub const INVALID_MTU: Self = Self(26);
    /// The program refuses, with a reason in its own data.
    pub const CONSUMER: Self = Self(28);

    /// The reason in words, if it is known.
    pub const fn text(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "no queue pair is free",
            2 => "no end-to-end context is free",
            3 => "no resources are free",
            4 => "no answer in time",
            5 => "the request is not supported",
            6 => "the connection's id is unknown",
            7 => "the connection's id belongs to another instance",
            8 => "nobody listens there",
            9 => "the transport service is not supported",
            10 => "the queue pair has an earlier connection",
            11 => "the RD channel does not exist",
            12 => "the primary GID is rejected",
            13 => "the primary LID is rejected",
            14 => "the service level is invalid",
            15 => "the traffic class is invalid",
            16 => "the hop limit is invalid",
            17 => "the packet rate is invalid",
            24 => "the ports of the connection are redirected",
            26 => "the path MTU is rejected",
            27 => "there are too few resources for READs",
            28 => "the peer's program refuses it",
            29 => "the RNR retry count is rejected",
            _ => return None,
        })
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write!(f, "{text} (reason {})", self.0),
            None => write!(f, "reason {}", self.0),
        }
    }
}
