//! Every event in every state, as one table.

use crate::common::*;
use rackweave_base::{Payload, Psn, Rkey};
use rackweave_verbs::*;
use rackweave_wire::{
    Aeth, AtomicEth, Bth, Deth, Ethernet, Extension, Headers, Ipv4, NakCode, Opcode, Reth,
    Syndrome, Udp, icrc,
};

const STATES: [QpState; 6] = [
    QpState::Reset,
    QpState::Init,
    QpState::ReadyToReceive,
    QpState::ReadyToSend,
    QpState::SendQueueDrain,
    QpState::Error,
];

/// A pair whose queue pair A is in `state`, with a READ and a WRITE outstanding where possible.
fn in_state(state: QpState) -> Pair {
    let setup = Setup::default();
    let mut pair = Pair::new();
    pair.filter = Box::new(|_, _, _| Fate::Drop);
    let (peer, qpn) = (pair.b.peer(), pair.a.qpn);
    let nic = &mut pair.a.nic;
    nic.modify_qp(qpn, QpModify::Reset).unwrap();
    let receive = Node::receive_side(&setup, peer, setup.psn_b);
    let steps = [
        QpModify::Init,
        QpModify::ReadyToReceive(receive),
        QpModify::ReadyToSend(Node::send_side(&setup, setup.psn_a)),
    ];
    let count = STATES.iter().position(|&s| s == state).unwrap().min(3);
    for step in &steps[..count] {
        nic.modify_qp(qpn, *step).unwrap();
    }
    if count == 3 {
        pair.a.post(1, write_to(&pair.b.region, 0), 0, 10);
        pair.a.post(2, read_from(&pair.b.region, 0), 0, 10);
        let now = pair.now;
        while pair.a.nic.poll_transmit(now).is_some() {}
    }
    if count >= 1 {
        pair.a.post_receive(3, 100, 100);
    }
    let last = match state {
        QpState::SendQueueDrain => QpModify::Drain,
        QpState::Error => QpModify::Error,
        _ => return pair,
    };
    pair.a.nic.modify_qp(qpn, last).unwrap();
    pair.a.completions();
    pair
}

/// A packet from B to A.
fn packet(pair: &Pair, opcode: Opcode, psn: Psn, aeth: Option<Syndrome>) -> rackweave_base::Packet {
    let (a, b) = (&pair.a, &pair.b);
    let (address, rkey) = (a.region.address + 200, a.region.rkey);
    let reth = Reth {
        address,
        rkey,
        length: if opcode.is_first() { 1500 } else { 10 },
    };
    let aeth = Aeth {
        syndrome: aeth.unwrap_or(Syndrome::Ack { credits: 31 }),
        msn: 1,
    };
    let deth = Deth {
        qkey: 7,
        source_qp: b.qpn,
    };
    let extension = match opcode {
        Opcode::WriteFirst | Opcode::WriteOnly | Opcode::ReadRequest => Extension::Reth(reth),
        Opcode::WriteOnlyImmediate => Extension::RethImmediate(reth, 7),
        Opcode::SendLastImmediate | Opcode::SendOnlyImmediate | Opcode::WriteLastImmediate => {
            Extension::Immediate(7)
        }
        Opcode::SendLastInvalidate | Opcode::SendOnlyInvalidate => Extension::Invalidate(Rkey(1)),
        Opcode::CompareSwap | Opcode::FetchAdd => Extension::AtomicEth(AtomicEth {
            address,
            rkey,
            swap_or_add: 1,
            compare: 0,
        }),
        Opcode::AtomicAcknowledge => Extension::AtomicAck(aeth, 1),
        Opcode::ReadResponseFirst
        | Opcode::ReadResponseLast
        | Opcode::ReadResponseOnly
        | Opcode::Acknowledge => Extension::Aeth(aeth),
        Opcode::DatagramSend => Extension::Deth(deth),
        Opcode::DatagramSendImmediate => Extension::DethImmediate(deth, 7),
        Opcode::CongestionNotification => Extension::Cnp,
        _ => Extension::None,
    };
    let headers = Headers {
        ethernet: Ethernet::new(b.config.mac, a.config.mac),
        ipv4: Ipv4::new(b.config.ip, a.config.ip),
        udp: Udp::new(0xc000),
        bth: Bth {
            ack_request: true,
            ..Bth::new(opcode, a.qpn, psn)
        },
        extension,
    };
    let len = match opcode {
        _ if !opcode.carries_payload() || opcode == Opcode::ReadRequest => 0,
        _ if opcode.is_first() || opcode.is_middle() => 1024,
        _ => 10,
    };
    let mut packet = headers.packet(Payload::copied(&vec![9; len]));
    assert!(icrc::seal(&mut packet, &pair.memory));
    packet
}

type Event = (String, Box<dyn Fn(&mut Pair) -> String>);

fn verb(name: &str, act: impl Fn(&mut Pair) -> Result<(), String> + 'static) -> Event {
    let act = move |pair: &mut Pair| act(pair).err().unwrap_or_else(|| "ok".into());
    (name.into(), Box::new(act))
}

fn kind(error: impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

fn modify(name: &str, modify: QpModify) -> Event {
    verb(name, move |pair| {
        pair.a.nic.modify_qp(pair.a.qpn, modify).map_err(kind)
    })
}

fn arrival(name: String, opcode: Opcode, psn: u32, syndrome: Option<Syndrome>) -> Event {
    let act = move |pair: &mut Pair| {
        let packet = packet(pair, opcode, Psn::new(psn), syndrome);
        let now = pair.now;
        pair.a.nic.handle_packet(now, packet);
        String::new()
    };
    (name, Box::new(act))
}

fn events() -> Vec<Event> {
    let setup = Setup::default();
    let peer = Pair::new().b.peer();
    let receive = Node::receive_side(&setup, peer, setup.psn_b);
    let send = Node::send_side(&setup, setup.psn_a);
    let mut events = vec![
        modify("modify Reset", QpModify::Reset),
        modify("modify Init", QpModify::Init),
        modify("modify ReadyToReceive", QpModify::ReadyToReceive(receive)),
        modify("modify ReadyToSend", QpModify::ReadyToSend(send)),
        modify("modify Drain", QpModify::Drain),
        modify("modify Resume", QpModify::Resume),
        modify("modify Error", QpModify::Error),
        verb("post_send", |pair| {
            let segment = pair.a.region.segment(0, 10);
            let request = WorkRequest::new(5, write_to(&pair.b.region, 0), &[segment]);
            pair.a.nic.post_send(pair.a.qpn, request).map_err(kind)
        }),
        verb("post_receive", |pair| {
            let request = ReceiveRequest::new(6, &[pair.a.region.segment(0, 10)]);
            pair.a.nic.post_receive(pair.a.qpn, request).map_err(kind)
        }),
        verb("timeout", |pair| {
            pair.now = pair.a.nic.poll_timeout().unwrap_or(pair.now);
            pair.a.nic.handle_timeout(pair.now);
            Ok(())
        }),
    ];
    for opcode in Opcode::ALL {
        // Requests have the expected PSN; responses answer the outstanding READ, after the WRITE.
        let psn = if opcode.is_response() {
            setup.psn_a + 1
        } else {
            setup.psn_b
        };
        events.push(arrival(opcode.to_string(), opcode, psn, None));
    }
    for (name, opcode, psn) in [
        ("WRITE ahead", Opcode::WriteOnly, setup.psn_b + 1),
        ("WRITE again", Opcode::WriteOnly, setup.psn_b - 1),
        ("READ again", Opcode::ReadRequest, setup.psn_b - 1),
        ("ACK of the WRITE", Opcode::Acknowledge, setup.psn_a),
        ("ACK of nothing", Opcode::Acknowledge, setup.psn_a + 2),
    ] {
        events.push(arrival(name.into(), opcode, psn, None));
    }
    let codes = [
        NakCode::SequenceError,
        NakCode::InvalidRequest,
        NakCode::RemoteAccess,
        NakCode::RemoteOperation,
    ];
    let naks = codes.map(|code| (format!("NAK {code:?}"), Syndrome::Nak(code)));
    let not_ready = (
        "NAK not ready".to_owned(),
        Syndrome::ReceiverNotReady { timer: 1 },
    );
    for (name, syndrome) in naks.into_iter().chain([not_ready]) {
        events.push(arrival(
            name,
            Opcode::Acknowledge,
            setup.psn_a,
            Some(syndrome),
        ));
    }
    events
}

/// The outcome of an event: result, state, completions, events, drops, packets.
fn outcome(state: QpState, act: &dyn Fn(&mut Pair) -> String) -> String {
    let mut pair = in_state(state);
    let before = pair.a.counters();
    let mut parts = vec![act(&mut pair)];
    let after = pair.a.nic.qp_state(pair.a.qpn).unwrap();
    if after != state {
        parts.push(format!("-> {after:?}"));
    }
    let now = pair.now;
    while let Some(packet) = pair.a.nic.poll_transmit(now) {
        let headers = Headers::of(&packet).unwrap();
        let response = !headers.bth.opcode.is_request();
        let base = if response {
            Setup::default().psn_b
        } else {
            Setup::default().psn_a
        };
        parts.push(format!(
            "sends {}",
            describe(&headers, packet.payload.len(), base)
        ));
    }
    for completion in pair.a.completions() {
        parts.push(format!(
            "completes {} {:?}",
            completion.id, completion.status
        ));
    }
    while let Some(event) = pair.a.nic.poll_event() {
        parts.push(format!("reports {}", kind(event)));
    }
    for (name, count) in pair.a.counters() {
        let was = before
            .iter()
            .find(|(n, _)| *n == name)
            .map_or(0, |&(_, c)| c);
        if name.starts_with("drop_") && count != was {
            parts.push(name.to_owned());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

#[test]
fn every_event_in_every_state() {
    let mut table = String::new();
    for (name, act) in events() {
        table += &format!("{name}\n");
        for state in STATES {
            table += &format!(
                "    {:<15} {}\n",
                format!("{state:?}"),
                outcome(state, &act)
            );
        }
    }
    insta::assert_snapshot!(table);
}
