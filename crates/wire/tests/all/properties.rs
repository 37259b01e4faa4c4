//! Properties of all headers and of the ICRC, on random packets of every opcode.

use proptest::collection::vec;
use proptest::prelude::*;
use rackweave_base::packet::{HEADER_MAX, PAYLOAD_MAX};
use rackweave_base::{MacAddr, Memory, Packet, Payload, Psn, Qpn, Rkey};
use rackweave_wire::icrc::LaneCorrection;
use rackweave_wire::{
    Aeth, AtomicEth, Bth, Deth, Ecn, Ethernet, Extension, ExtensionKind, Headers, Ipv4, NakCode,
    Opcode, Reth, Rewrite, Syndrome, Udp, Verdict, View, Vlan, icrc, pad_len, parse_bytes,
};
use std::sync::LazyLock;

fn ethernet() -> impl Strategy<Value = Ethernet> {
    let vlan = (0u8..8, any::<bool>(), 0u16..4096).prop_map(|(priority, drop_eligible, id)| Vlan {
        priority,
        drop_eligible,
        id,
    });
    (
        any::<[u8; 6]>(),
        any::<[u8; 6]>(),
        proptest::option::of(vlan),
    )
        .prop_map(|(target, source, vlan)| Ethernet {
            target: MacAddr(target),
            source: MacAddr(source),
            vlan,
        })
}

fn ipv4() -> impl Strategy<Value = Ipv4> {
    let fields = (
        0u8..64,
        0u8..4,
        any::<u16>(),
        any::<bool>(),
        any::<u8>(),
        any::<[u32; 2]>(),
    );
    fields.prop_map(
        |(dscp, ecn, identification, dont_fragment, ttl, [source, target])| Ipv4 {
            dscp,
            ecn: Ecn::from_bits(ecn),
            identification,
            dont_fragment,
            ttl,
            source: source.into(),
            target: target.into(),
        },
    )
}

fn bth() -> impl Strategy<Value = Bth> {
    let opcode = proptest::sample::select(&Opcode::ALL[..]);
    let fields = (
        opcode,
        any::<[bool; 5]>(),
        any::<u16>(),
        0u32..1 << 24,
        any::<u32>(),
    );
    fields.prop_map(|(opcode, flags, pkey, qp, psn)| {
        let [solicited, migrated, fecn, becn, ack_request] = flags;
        let (target_qp, psn) = (Qpn(qp), Psn::new(psn));
        Bth {
            opcode,
            solicited,
            migrated,
            pkey,
            fecn,
            becn,
            target_qp,
            ack_request,
            psn,
        }
    })
}

fn aeth() -> impl Strategy<Value = Aeth> {
    let code = proptest::sample::select(
        &[
            NakCode::SequenceError,
            NakCode::InvalidRequest,
            NakCode::RemoteAccess,
            NakCode::RemoteOperation,
            NakCode::InvalidRdRequest,
        ][..],
    );
    let syndrome = prop_oneof![
        (0u8..32).prop_map(|credits| Syndrome::Ack { credits }),
        (0u8..32).prop_map(|timer| Syndrome::ReceiverNotReady { timer }),
        code.prop_map(Syndrome::Nak),
    ];
    (syndrome, 0u32..1 << 24).prop_map(|(syndrome, msn)| Aeth { syndrome, msn })
}

/// Headers of any opcode, with the extension that belongs to it.
fn headers() -> impl Strategy<Value = Headers> {
    let words = (any::<[u64; 3]>(), any::<[u32; 3]>());
    let udp = any::<u16>().prop_map(Udp::new);
    (ethernet(), ipv4(), udp, bth(), aeth(), words).prop_map(
        |(
            ethernet,
            ipv4,
            udp,
            bth,
            aeth,
            ([address, swap_or_add, compare], [rkey, length, value]),
        )| {
            let rkey = Rkey(rkey);
            let reth = Reth {
                address,
                rkey,
                length,
            };
            let deth = Deth {
                qkey: length,
                source_qp: Qpn(value & 0x00ff_ffff),
            };
            let extension = match bth.opcode.extension() {
                ExtensionKind::None => Extension::None,
                ExtensionKind::Reth => Extension::Reth(reth),
                ExtensionKind::RethImmediate => Extension::RethImmediate(reth, value),
                ExtensionKind::Immediate => Extension::Immediate(value),
                ExtensionKind::Invalidate => Extension::Invalidate(rkey),
                ExtensionKind::Aeth => Extension::Aeth(aeth),
                ExtensionKind::AtomicEth => Extension::AtomicEth(AtomicEth {
                    address,
                    rkey,
                    swap_or_add,
                    compare,
                }),
                ExtensionKind::AtomicAck => Extension::AtomicAck(aeth, compare),
                ExtensionKind::Deth => Extension::Deth(deth),
                ExtensionKind::DethImmediate => Extension::DethImmediate(deth, value),
                ExtensionKind::Cnp => Extension::Cnp,
            };
            Headers {
                ethernet,
                ipv4,
                udp,
                bth,
                extension,
            }
        },
    )
}

/// A payload that the opcode allows.
fn payload_for(opcode: Opcode, bytes: &[u8]) -> &[u8] {
    if opcode.carries_payload() { bytes } else { &[] }
}

fn payload_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 1..64), vec(any::<u8>(), 1..=PAYLOAD_MAX)]
}

/// An empty arena: the payloads here are owned by their packets.
fn no_memory() -> &'static Memory {
    static MEMORY: LazyLock<Memory> = LazyLock::new(|| Memory::new(0));
    &MEMORY
}

/// A sealed packet.
fn sealed(headers: &Headers, payload: &[u8]) -> Packet {
    let mut packet = headers.packet(Payload::copied(payload));
    assert!(icrc::seal(&mut packet, no_memory()));
    packet
}

/// `packet` with the headers replaced, as by a switch.
fn rewritten(packet: &Packet, headers: &Headers, method: Rewrite) -> Packet {
    let mut packet = packet.clone();
    let old_header = packet.header().to_vec();
    headers.write_to(&mut packet);
    method.apply(&mut packet, &old_header);
    packet
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn headers_go_both_ways(headers in headers(), bytes in payload_bytes()) {
        let payload = payload_for(headers.bth.opcode, &bytes);
        let packet = headers.packet(Payload::copied(payload));
        prop_assert_eq!(packet.pad().len(), pad_len(payload.len()));
        prop_assert_eq!(packet.header().len(), headers.len());
        prop_assert_eq!(Headers::of(&packet), Ok(headers));
        prop_assert_eq!(Headers::parse(packet.header()), Ok((headers, headers.len())));
        let view = View::of(&packet).unwrap();
        let Headers { ipv4, bth, .. } = headers;
        prop_assert_eq!(view.headers(), headers);
        prop_assert_eq!((view.opcode(), view.target_qp()), (bth.opcode, bth.target_qp));
        prop_assert_eq!((view.psn(), view.ecn()), (bth.psn, ipv4.ecn));
        prop_assert_eq!((view.source(), view.target()), (ipv4.source, ipv4.target));
        prop_assert_eq!(view.identification(), ipv4.identification);

        let packet = sealed(&headers, payload);
        let mut serialised = Vec::new();
        prop_assert!(packet.serialise(no_memory(), &mut serialised));
        let again = parse_bytes(&serialised).unwrap();
        prop_assert_eq!(again.header(), packet.header());
        prop_assert_eq!(again.payload.as_slice(), Some(payload));
        prop_assert_eq!(again.check, packet.check);
        prop_assert_eq!(icrc::verify(&again, no_memory()), Verdict::Right);
    }

    #[test]
    fn any_header_may_become_any_other(
        old in headers(),
        new in headers(),
        payload in vec(any::<u8>(), 0..=PAYLOAD_MAX),
    ) {
        let packet = sealed(&old, &payload);
        for method in [Rewrite::Update, Rewrite::Balance] {
            let new = rewritten(&packet, &new, method);
            prop_assert_eq!(new.check, icrc::compute(&new, no_memory()), "{:?}", method);
            if method == Rewrite::Balance {
                prop_assert_eq!(new.check, packet.check);
            }
        }
        let len = new.emit(&mut [0; HEADER_MAX], payload.len());
        let mut bytes = [0; HEADER_MAX];
        new.emit(&mut bytes, payload.len());
        let tail_len = payload.len() + pad_len(payload.len());
        let check = icrc::update(packet.check.unwrap(), packet.header(), &bytes[..len], tail_len);
        prop_assert_eq!(Some(check), rewritten(&packet, &new, Rewrite::Update).check);
        let back = icrc::update(check, &bytes[..len], packet.header(), tail_len);
        prop_assert_eq!(Some(back), packet.check);
    }

    /// Packets with a few different headers take the same way, most of them differing in the PSN
    /// alone: each becomes what it would become on any other way.
    #[test]
    fn what_a_lane_has_corrected_before_makes_no_difference(
        kinds in vec((headers(), headers()), 1..4),
        packets in vec((0usize..4, any::<[u32; 2]>(), any::<[bool; 4]>(), 0usize..5), 1..20),
    ) {
        let mut correction = LaneCorrection::default();
        for (kind, [old_psn, new_psn], choices, len) in packets {
            let [is_plain, is_tagged, is_checked, balances] = choices;
            let (mut old, mut new) = kinds[kind % kinds.len()];
            (old.bth.psn, new.bth.psn) = (Psn::new(old_psn), Psn::new(new_psn));
            if is_plain {
                old.bth.opcode = Opcode::ReadResponseMiddle;
                new.bth.opcode = Opcode::WriteMiddle;
                (old.extension, new.extension) = (Extension::None, Extension::None);
            }
            if !is_tagged {
                (old.ethernet.vlan, new.ethernet.vlan) = (None, None);
            }
            let payload = [0x5a; PAYLOAD_MAX];
            let mut packet = sealed(&old, &payload[..[1, 100, 256, 1024, 4096][len]]);
            if !is_checked {
                packet.check = None;
            }
            let method = if balances { Rewrite::Balance } else { Rewrite::Update };
            let expected = rewritten(&packet, &new, method);
            correction.replace(method, &mut packet, new);
            prop_assert_eq!(packet.header(), expected.header());
            prop_assert_eq!((packet.pad(), packet.check), (expected.pad(), expected.check));
            let verdict = icrc::verify(&packet, no_memory());
            prop_assert_eq!(verdict, if is_checked { Verdict::Right } else { Verdict::Absent });
        }
    }

    #[test]
    fn damage_before_a_rewrite_stays_detectable(
        old in headers(),
        new in headers(),
        payload in payload_bytes(),
        place in any::<proptest::sample::Index>(),
        bit in 0u8..8,
    ) {
        let packet = sealed(&old, &payload);
        let mut damaged = payload.clone();
        damaged[place.index(payload.len())] ^= 1 << bit;
        let mut packet = packet;
        packet.payload = Payload::copied(&damaged);
        for method in [Rewrite::Update, Rewrite::Balance] {
            let new = rewritten(&packet, &new, method);
            prop_assert_eq!(icrc::verify(&new, no_memory()), Verdict::Wrong, "{:?}", method);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(parse_bytes(&bytes).is_err());
        prop_assert!(Headers::parse(&bytes).is_err());
        if bytes.len() <= HEADER_MAX {
            let mut packet = Packet::new(&bytes, Payload::Empty);
            prop_assert!(Headers::of(&packet).is_err());
            prop_assert!(icrc::seal(&mut packet, no_memory()));
            Rewrite::Balance.apply(&mut packet, &bytes[..bytes.len() / 2]);
            prop_assert_eq!(icrc::verify(&packet, no_memory()) == Verdict::Absent, false);
        }
    }

    #[test]
    fn every_truncation_is_refused(headers in headers(), bytes in vec(any::<u8>(), 1..40)) {
        let mut serialised = Vec::new();
        let packet = sealed(&headers, payload_for(headers.bth.opcode, &bytes));
        prop_assert!(packet.serialise(no_memory(), &mut serialised));
        for len in 0..serialised.len() {
            prop_assert!(parse_bytes(&serialised[..len]).is_err(), "{} bytes", len);
        }
    }

    /// A corrupted packet is refused, or its parsed form has exactly the contents of its bytes,
    /// except for reserved bits; and if a bit covered by the ICRC was corrupted, the ICRC detects
    /// it.
    #[test]
    fn damaged_packets_never_panic(
        headers in headers(),
        bytes in vec(any::<u8>(), 1..40),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut serialised = Vec::new();
        let packet = sealed(&headers, payload_for(headers.bth.opcode, &bytes));
        prop_assert!(packet.serialise(no_memory(), &mut serialised));
        for (place, value) in damage {
            let at = place.index(serialised.len());
            serialised[at] = value;
        }
        if let Ok(packet) = parse_bytes(&serialised) {
            let headers = Headers::of(&packet).unwrap();
            let again = headers.packet(packet.payload.clone());
            prop_assert_eq!(Headers::of(&again).map(|headers| headers.bth), Ok(headers.bth));
            prop_assert!(!headers.to_string().contains('\n'));
        }
    }
}
