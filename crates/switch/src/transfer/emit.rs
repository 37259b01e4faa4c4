//! Builds the packets that the switch sends on a lane, and rewrites those that pass through it.

use super::{EngineConfig, Lane};
use rackweave_base::{Memory, Packet, Payload, Psn, Rkey};
use rackweave_wire::aeth::CREDITS_UNUSED;
use rackweave_wire::icrc::{self, LaneCorrection};
use rackweave_wire::{Aeth, Bth, Ecn, Extension, Headers, NakCode, Opcode, Reth, Syndrome};

#[inline]
fn headers(
    lane: &Lane,
    opcode: Opcode,
    psn: Psn,
    ack_request: bool,
    extension: Extension,
) -> Headers {
    Headers {
        ethernet: lane.ethernet,
        ipv4: lane.ipv4,
        udp: lane.udp,
        bth: Bth {
            opcode,
            solicited: false,
            migrated: true,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            target_qp: lane.peer_qpn,
            ack_request,
            psn,
        },
        extension,
    }
}

/// Finishes a packet made by the switch, with an ICRC where the links need one.
fn finish(config: &EngineConfig, memory: &Memory, headers: &Headers, payload: Payload) -> Packet {
    let mut packet = headers.packet(payload);
    if config.check {
        let sealed = icrc::seal(&mut packet, memory);
        debug_assert!(
            sealed,
            "the payload of a packet that the switch makes is inline"
        );
    }
    packet
}

/// A READ of `length` bytes at `address`.
pub(crate) fn read(
    config: &EngineConfig,
    memory: &Memory,
    lane: &Lane,
    psn: Psn,
    (address, rkey, length): (u64, Rkey, u32),
) -> Packet {
    let reth = Extension::Reth(Reth {
        address,
        rkey,
        length,
    });
    finish(
        config,
        memory,
        &headers(lane, Opcode::ReadRequest, psn, true, reth),
        Payload::Empty,
    )
}

/// A WRITE of a few bytes at `address`.
pub(crate) fn write(
    config: &EngineConfig,
    memory: &Memory,
    lane: &Lane,
    psn: Psn,
    (address, rkey): (u64, Rkey),
    bytes: &[u8],
) -> Packet {
    let reth = Extension::Reth(Reth {
        address,
        rkey,
        length: bytes.len() as u32,
    });
    let headers = headers(lane, Opcode::WriteOnly, psn, true, reth);
    finish(config, memory, &headers, Payload::inline(bytes))
}

/// A congestion notification to the node at the end of `lane`.
pub fn congestion(config: &EngineConfig, memory: &Memory, lane: &Lane) -> Packet {
    let mut headers = headers(
        lane,
        Opcode::CongestionNotification,
        Psn::default(),
        false,
        Extension::Cnp,
    );
    headers.bth.becn = true;
    finish(config, memory, &headers, Payload::Empty)
}

/// The acknowledgement of a SEND: everything up to `psn` has arrived, `messages` in all.
pub fn acknowledge(
    config: &EngineConfig,
    memory: &Memory,
    lane: &Lane,
    psn: Psn,
    messages: u32,
) -> Packet {
    let aeth = Extension::Aeth(Aeth {
        syndrome: Syndrome::Ack {
            credits: CREDITS_UNUSED,
        },
        msn: messages,
    });
    let headers = headers(lane, Opcode::Acknowledge, psn, false, aeth);
    finish(config, memory, &headers, Payload::Empty)
}

/// The response to a READ that fits in one packet. `messages` is the message sequence number.
pub fn read_response(
    config: &EngineConfig,
    memory: &Memory,
    lane: &Lane,
    (psn, messages): (Psn, u32),
    bytes: &[u8],
) -> Packet {
    let aeth = Extension::Aeth(Aeth {
        syndrome: Syndrome::Ack {
            credits: CREDITS_UNUSED,
        },
        msn: messages & 0x00ff_ffff,
    });
    let headers = headers(lane, Opcode::ReadResponseOnly, psn, false, aeth);
    finish(config, memory, &headers, Payload::copied(bytes))
}

/// The response to an atomic: the old value of the word (InfiniBand specification 1.4, 9.4.5).
pub fn atomic_acknowledge(
    config: &EngineConfig,
    memory: &Memory,
    lane: &Lane,
    (psn, messages): (Psn, u32),
    before: u64,
) -> Packet {
    let aeth = Aeth {
        syndrome: Syndrome::Ack {
            credits: CREDITS_UNUSED,
        },
        msn: messages & 0x00ff_ffff,
    };
    let extension = Extension::AtomicAck(aeth, before);
    let headers = headers(lane, Opcode::AtomicAcknowledge, psn, false, extension);
    finish(config, memory, &headers, Payload::Empty)
}

/// A NAK: the request at `psn` is refused or missing.
pub fn refuse(
    config: &EngineConfig,
    memory: &Memory,
    lane: &Lane,
    (psn, messages): (Psn, u32),
    code: NakCode,
) -> Packet {
    let aeth = Extension::Aeth(Aeth {
        syndrome: Syndrome::Nak(code),
        msn: messages & 0x00ff_ffff,
    });
    let headers = headers(lane, Opcode::Acknowledge, psn, false, aeth);
    finish(config, memory, &headers, Payload::Empty)
}

/// A SEND of one packet.
pub fn send(config: &EngineConfig, memory: &Memory, lane: &Lane, psn: Psn, bytes: &[u8]) -> Packet {
    let headers = headers(lane, Opcode::SendOnly, psn, true, Extension::None);
    finish(config, memory, &headers, Payload::copied(bytes))
}

/// Forwards a packet of one queue pair on another: addresses, queue pair, PSN and extension change;
/// opcode and payload do not. The ICRC is kept correct without reading the payload.
pub fn relay(
    config: &EngineConfig,
    lane: &Lane,
    old: &Headers,
    psn: Psn,
    extension: Extension,
    packet: &mut Packet,
) {
    let mut new = headers(lane, old.bth.opcode, psn, old.bth.ack_request, extension);
    new.ipv4.ecn = old.ipv4.ecn;
    new.ipv4.identification = old.ipv4.identification;
    config.rewrite.replace(packet, &new);
}

/// The fragment of a WRITE that a response becomes.
pub(crate) struct Fragment {
    /// Of the response: a congestion mark must reach the target, whose NIC answers it.
    pub ecn: Ecn,
    pub identification: u16,
    pub index: u32,
    pub count: u32,
    pub psn: Psn,
    pub ack_request: bool,
    /// Address, key and length of the whole WRITE; only the first fragment carries them.
    pub reth: Reth,
}

/// Turns a READ response into the fragment of the WRITE, in place: changes header and ICRC, never
/// the payload.
#[inline]
pub(crate) fn rewrite(
    config: &EngineConfig,
    lane: &Lane,
    correction: &mut LaneCorrection,
    fragment: &Fragment,
    packet: &mut Packet,
) {
    let (opcode, extension) = match (fragment.index == 0, fragment.index + 1 == fragment.count) {
        (true, true) => (Opcode::WriteOnly, Extension::Reth(fragment.reth)),
        (true, false) => (Opcode::WriteFirst, Extension::Reth(fragment.reth)),
        (false, false) => (Opcode::WriteMiddle, Extension::None),
        (false, true) => (Opcode::WriteLast, Extension::None),
    };
    let mut write = headers(lane, opcode, fragment.psn, fragment.ack_request, extension);
    write.ipv4.ecn = fragment.ecn;
    write.ipv4.identification = fragment.identification;
    correction.replace(config.rewrite, packet, write);
}
