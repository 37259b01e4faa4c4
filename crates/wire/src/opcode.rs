//! BTH opcodes of the reliable connection and unreliable datagram services (InfiniBand
//! specification 1.4, 9.2.1, table 38), and that of the RoCEv2 congestion notification packet
//! (annex A17.9.3).

use crate::ExtensionKind;
use core::fmt;

rackweave_base::named! {
    /// The operation of a packet.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    #[repr(u8)]
    pub enum Opcode {
        /// First packet of a SEND.
        SendFirst(0x00) = "SEND_FIRST",
        /// Middle packet of a SEND.
        SendMiddle(0x01) = "SEND_MIDDLE",
        /// Last packet of a SEND.
        SendLast(0x02) = "SEND_LAST",
        /// Last packet of a SEND with immediate data.
        SendLastImmediate(0x03) = "SEND_LAST_WITH_IMMEDIATE",
        /// A SEND of one packet.
        SendOnly(0x04) = "SEND_ONLY",
        /// A SEND of one packet with immediate data.
        SendOnlyImmediate(0x05) = "SEND_ONLY_WITH_IMMEDIATE",
        /// First packet of a WRITE.
        WriteFirst(0x06) = "RDMA_WRITE_FIRST",
        /// Middle packet of a WRITE.
        WriteMiddle(0x07) = "RDMA_WRITE_MIDDLE",
        /// Last packet of a WRITE.
        WriteLast(0x08) = "RDMA_WRITE_LAST",
        /// Last packet of a WRITE with immediate data.
        WriteLastImmediate(0x09) = "RDMA_WRITE_LAST_WITH_IMMEDIATE",
        /// A WRITE of one packet.
        WriteOnly(0x0a) = "RDMA_WRITE_ONLY",
        /// A WRITE of one packet with immediate data.
        WriteOnlyImmediate(0x0b) = "RDMA_WRITE_ONLY_WITH_IMMEDIATE",
        /// A request to READ.
        ReadRequest(0x0c) = "RDMA_READ_REQUEST",
        /// First packet of the response to a READ.
        ReadResponseFirst(0x0d) = "RDMA_READ_RESPONSE_FIRST",
        /// Middle packet of the response to a READ.
        ReadResponseMiddle(0x0e) = "RDMA_READ_RESPONSE_MIDDLE",
        /// Last packet of the response to a READ.
        ReadResponseLast(0x0f) = "RDMA_READ_RESPONSE_LAST",
        /// A response of one packet to a READ.
        ReadResponseOnly(0x10) = "RDMA_READ_RESPONSE_ONLY",
        /// An acknowledgement, positive or negative.
        Acknowledge(0x11) = "ACKNOWLEDGE",
        /// The response to an atomic operation.
        AtomicAcknowledge(0x12) = "ATOMIC_ACKNOWLEDGE",
        /// Compare and swap.
        CompareSwap(0x13) = "COMPARE_SWAP",
        /// Fetch and add.
        FetchAdd(0x14) = "FETCH_ADD",
        /// Last packet of a SEND that invalidates an rkey.
        SendLastInvalidate(0x16) = "SEND_LAST_WITH_INVALIDATE",
        /// A SEND of one packet that invalidates an rkey.
        SendOnlyInvalidate(0x17) = "SEND_ONLY_WITH_INVALIDATE",
        /// An unreliable datagram.
        DatagramSend(0x64) = "UD_SEND_ONLY",
        /// An unreliable datagram with immediate data.
        DatagramSendImmediate(0x65) = "UD_SEND_ONLY_WITH_IMMEDIATE",
        /// A congestion notification packet.
        CongestionNotification(0x81) = "CNP",
    }
}

use Opcode::*;

const KNOWN: [Option<Opcode>; 256] = {
    let mut known = [None; 256];
    let mut at = 0;
    while at < Opcode::ALL.len() {
        known[Opcode::ALL[at] as usize] = Some(Opcode::ALL[at]);
        at += 1;
    }
    known
};

impl Opcode {
    /// The opcode of that number, if there is one.
    #[inline]
    pub const fn from_u8(value: u8) -> Option<Self> {
        KNOWN[value as usize]
    }

    /// The header that follows the BTH.
    #[inline]
    pub const fn extension(self) -> ExtensionKind {
        match self {
            SendFirst | SendMiddle | SendLast | SendOnly | WriteMiddle | WriteLast
            | ReadResponseMiddle => ExtensionKind::None,
            WriteFirst | WriteOnly | ReadRequest => ExtensionKind::Reth,
            WriteOnlyImmediate => ExtensionKind::RethImmediate,
            SendLastImmediate | SendOnlyImmediate | WriteLastImmediate => ExtensionKind::Immediate,
            SendLastInvalidate | SendOnlyInvalidate => ExtensionKind::Invalidate,
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge => {
                ExtensionKind::Aeth
            }
            CompareSwap | FetchAdd => ExtensionKind::AtomicEth,
            AtomicAcknowledge => ExtensionKind::AtomicAck,
            DatagramSend => ExtensionKind::Deth,
            DatagramSendImmediate => ExtensionKind::DethImmediate,
            CongestionNotification => ExtensionKind::Cnp,
        }
    }

    /// Whether the requester of a connection sends it. A CNP is neither request nor response, nor
    /// is a datagram.
    #[inline]
    pub const fn is_request(self) -> bool {
        (self as u8) <= SendOnlyInvalidate as u8 && !self.is_response()
    }

    /// Whether a responder sends it.
    #[inline]
    pub const fn is_response(self) -> bool {
        self.is_read_response() || matches!(self, Acknowledge | AtomicAcknowledge)
    }

    /// Whether it is an unreliable datagram.
    #[inline]
    pub const fn is_datagram(self) -> bool {
        matches!(self, DatagramSend | DatagramSendImmediate)
    }

    /// Whether it belongs to a SEND on a connection.
    #[inline]
    pub const fn is_send(self) -> bool {
        (self as u8) <= SendOnlyImmediate as u8
            || matches!(self, SendLastInvalidate | SendOnlyInvalidate)
    }

    /// Whether it belongs to a WRITE.
    #[inline]
    pub const fn is_write(self) -> bool {
        self as u8 >= WriteFirst as u8 && self as u8 <= WriteOnlyImmediate as u8
    }

    /// Whether it belongs to a response to a READ.
    #[inline]
    pub const fn is_read_response(self) -> bool {
        self as u8 >= ReadResponseFirst as u8 && self as u8 <= ReadResponseOnly as u8
    }

    /// Whether it requests an atomic operation.
    #[inline]
    pub const fn is_atomic(self) -> bool {
        matches!(self, CompareSwap | FetchAdd)
    }

    /// Whether it is the first of several packets.
    #[inline]
    pub const fn is_first(self) -> bool {
        matches!(self, SendFirst | WriteFirst | ReadResponseFirst)
    }

    /// Whether it is neither the first nor the last of several packets.
    #[inline]
    pub const fn is_middle(self) -> bool {
        matches!(self, SendMiddle | WriteMiddle | ReadResponseMiddle)
    }

    /// Whether it is the last of several packets.
    #[inline]
    pub const fn is_last(self) -> bool {
        matches!(
            self,
            SendLast
                | SendLastImmediate
                | SendLastInvalidate
                | WriteLast
                | WriteLastImmediate
                | ReadResponseLast
        )
    }

    /// Whether it is alone: neither first, middle nor last of several.
    #[inline]
    pub const fn is_only(self) -> bool {
        !self.is_first() && !self.is_middle() && !self.is_last()
    }

    /// Whether it begins a message: first or only packet.
    #[inline]
    pub const fn begins_message(self) -> bool {
        !self.is_middle() && !self.is_last()
    }

    /// Whether it ends a message: last or only packet.
    #[inline]
    pub const fn ends_message(self) -> bool {
        !self.is_first() && !self.is_middle()
    }

    /// Whether it carries a payload at all: packets of SENDs, WRITEs and responses to READs do, and
    /// datagrams.
    #[inline]
    pub const fn carries_payload(self) -> bool {
        self.is_send() || self.is_write() || self.is_read_response() || self.is_datagram()
    }

    /// Whether it carries immediate data.
    #[inline]
    pub const fn has_immediate(self) -> bool {
        matches!(
            self.extension(),
            ExtensionKind::Immediate | ExtensionKind::RethImmediate | ExtensionKind::DethImmediate
        )
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_known_or_not() {
        let known = (0..=255u8).filter_map(Opcode::from_u8).collect::<Vec<_>>();
        assert_eq!(known, Opcode::ALL);
        assert_eq!(Opcode::from_u8(0x15), None);
        assert_eq!(Opcode::from_u8(0x18), None);
        assert_eq!(Opcode::from_u8(0x81), Some(CongestionNotification));
    }

    #[test]
    fn names_and_helpers_agree() {
        for opcode in Opcode::ALL {
            let name = opcode.to_string();
            assert_eq!(opcode.is_first(), name.contains("_FIRST"), "{name}");
            assert_eq!(opcode.is_middle(), name.contains("_MIDDLE"), "{name}");
            assert_eq!(opcode.is_last(), name.contains("_LAST"), "{name}");
            assert_eq!(opcode.is_send(), name.starts_with("SEND"), "{name}");
            assert_eq!(opcode.is_write(), name.starts_with("RDMA_WRITE"), "{name}");
            assert_eq!(
                opcode.is_read_response(),
                name.contains("READ_RESPONSE"),
                "{name}"
            );
            assert_eq!(opcode.has_immediate(), name.contains("IMMEDIATE"), "{name}");
            assert_eq!(
                opcode.is_response(),
                name.contains("RESPONSE") || name.contains("ACKNOWLEDGE"),
                "{name}"
            );
            let classes = [
                opcode.is_first(),
                opcode.is_middle(),
                opcode.is_last(),
                opcode.is_only(),
            ];
            assert_eq!(
                classes.into_iter().filter(|&class| class).count(),
                1,
                "{name}"
            );
            let sides = u8::from(opcode.is_request()) + u8::from(opcode.is_response());
            assert_eq!(opcode.is_datagram(), name.starts_with("UD_"), "{name}");
            let is_connected = name != "CNP" && !opcode.is_datagram();
            assert_eq!(sides, u8::from(is_connected), "{name}");
        }
    }
}
