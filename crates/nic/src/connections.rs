//! The implementation of [`ConnectionManager`] for the soft NIC: messages on queue pair 1, and what
//! they do with other queue pairs.

use crate::cm::{self, Action, Connection, Machine, State};
use crate::datagrams::Ports;
use crate::nic::check_is_right;
use crate::received::{Network, Received};
use crate::{DropReason, Nic};
use rackweave_base::packet::Payload;
use rackweave_base::{Duration, Instant, MacAddr, Packet, Psn, Qpn};
use rackweave_verbs::{
    ACCEPT_PRIVATE_MAX, ConnectAttributes, ConnectError, ConnectionEvent, ConnectionId,
    ConnectionManager, QpModify, QpState, REJECT_PRIVATE_MAX, REQUEST_PRIVATE_MAX, ReceiveSide,
    SendSide, Verbs,
};
use rackweave_wire::bth::PKEY_DEFAULT;
use rackweave_wire::cm::{
    IpAddresses, MAD_LEN, Mad, Path, REP_PRIVATE, REQ_PRIVATE, RejectReason, Rep, Req, gid,
    service_id,
};
use rackweave_wire::deth::QKEY_MANAGEMENT;
use rackweave_wire::{Bth, Deth, Ethernet, Extension, Headers, Ipv4, Opcode, Udp, icrc};
use std::net::SocketAddrV4;

/// Queue pair 1 belongs to the general services interface (specification 1.4, 3.9.2).
const MANAGEMENT_QP: Qpn = Qpn(1);

/// The UDP source port of messages.
const SOURCE_PORT: u16 = 0xc001;

/// Receivers of messages are in the same network, or behind few routers.
const HOP_LIMIT: u8 = 64;

/// The LID of RoCE: the permissive one, which stands for none.
const NO_LID: u16 = 0xffff;

impl Nic {
    /// Handles a packet for a queue pair that does not exist: it may be for queue pair 1.
    #[cold]
    pub(crate) fn dispatch_management(
        &mut self,
        now: Instant,
        network: Network,
        headers: &Received,
        packet: &Packet,
    ) -> Result<(), DropReason> {
        let Extension::Deth(deth) = headers.extension else {
            return Err(DropReason::UnknownQp);
        };
        let Some(machine) = self.cm.as_mut() else {
            return Err(DropReason::UnknownQp);
        };
        if headers.bth.target_qp != MANAGEMENT_QP {
            return Err(DropReason::UnknownQp);
        }
        if !self.core.cables.admits(network.source) {
            return Err(DropReason::NotFromPeer);
        }
        if self.core.config.check && !check_is_right(&self.core, packet) {
            self.core.counters.rx_icrc_encapsulated += 1;
            return Err(DropReason::BadIcrc);
        }
        if deth.qkey != QKEY_MANAGEMENT {
            return Err(DropReason::BadManagement);
        }
        let bytes = packet.payload.to_vec(&self.core.memory);
        let bytes = bytes.ok_or(DropReason::PayloadGone)?;
        let mad = Mad::parse(&bytes).map_err(|_| DropReason::BadManagement)?;
        let all = Headers::of(packet).expect("it was parsed before");
        let from = cm::Sender {
            ip: network.source,
            mac: all.ethernet.source,
        };
        let action = machine.handle(now, from, &mad);
        self.perform(action);
        Ok(())
    }

    /// Moves messages of the connection manager to the packets to be sent.
    pub(crate) fn send_messages(&mut self, now: Instant) {
        let Self {
            core, ports, cm, ..
        } = self;
        let (Some(machine), Some(ports)) = (cm, ports) else {
            return;
        };
        while !ports.is_full(core)
            && let Some(outgoing) = machine.poll_transmit(now)
        {
            let Some(mac) = ports.resolve(core, outgoing.to) else {
                continue;
            };
            core.identification = core.identification.wrapping_add(1);
            let target = mac.unwrap_or(MacAddr([0; 6]));
            let mut headers = Headers {
                ethernet: Ethernet::new(core.config.mac, target),
                ipv4: Ipv4::new(core.config.ip, outgoing.to),
                udp: Udp::new(SOURCE_PORT),
                bth: Bth::new(Opcode::DatagramSend, MANAGEMENT_QP, Psn::new(0)),
                extension: Extension::Deth(Deth {
                    qkey: QKEY_MANAGEMENT,
                    source_qp: MANAGEMENT_QP,
                }),
            };
            headers.ipv4.identification = core.identification;
            let mut packet = headers.packet(Payload::copied(&outgoing.mad.emit()));
            if core.config.check {
                let sealed = icrc::seal(&mut packet, &core.memory);
                assert!(sealed, "the payload is in the packet");
            }
            ports.push(outgoing.to, mac, packet);
        }
    }

    /// Handles the deadlines of connections that have passed.
    pub(crate) fn handle_connection_timeouts(&mut self, now: Instant) {
        while let Some(machine) = &mut self.cm {
            let (passed, action) = machine.handle_timeout(now);
            if !passed {
                return;
            }
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Option<Action>) {
        match action {
            None => {}
            Some(Action::Fail(qpn)) => self.fail(qpn),
            Some(Action::Ready(id)) => {
                let is_ready = self.make_ready(id);
                let machine = self.cm.as_mut().expect("it gave the action");
                match is_ready {
                    true => machine.ready(id),
                    false => machine.refuse(id, RejectReason::UNSUPPORTED, &[]),
                }
            }
        }
    }

    /// Has a queue pair enter the Error state, unless its owner has destroyed or reset it.
    fn fail(&mut self, qpn: Qpn) {
        if self
            .qp_state(qpn)
            .is_some_and(|state| state != QpState::Reset)
        {
            let failed = self.modify_qp(qpn, QpModify::Error);
            debug_assert_eq!(failed, Ok(()));
        }
    }

    /// Makes the queue pair of an accepted request ready.
    fn make_ready(&mut self, id: ConnectionId) -> bool {
        let machine = self.cm.as_ref().expect("it has the connection");
        let sides = machine.get(id, &[State::ReqSent]).and_then(|connection| {
            let attributes = &connection.attributes;
            let receive = connection.receive_side(attributes, connection.psn)?;
            Some((connection.qpn?, receive, connection.send_side(attributes)?))
        });
        sides.is_some_and(|(qpn, receive, send)| self.bring_up(qpn, receive, send).is_ok())
    }

    fn bring_up(
        &mut self,
        qpn: Qpn,
        receive: ReceiveSide,
        send: SendSide,
    ) -> Result<(), ConnectError> {
        let bad = |_| ConnectError::BadAttributes(qpn);
        self.modify_qp(qpn, QpModify::ReadyToReceive(receive))
            .map_err(bad)?;
        self.modify_qp(qpn, QpModify::ReadyToSend(send))
            .map_err(bad)
    }

    /// The connection manager, which is made when it is first used.
    fn manager(&mut self) -> &mut Machine {
        let Self {
            core,
            ports,
            cm,
            keys,
            ..
        } = self;
        ports.get_or_insert_with(|| Ports::new(&core.config).into());
        cm.get_or_insert_with(|| Machine::new(core.config.ip, keys.next_u32()).into())
    }

    /// Checks that a queue pair can be connected; brings it to state Init.
    fn prepare(&mut self, qpn: Qpn, private: &[u8], limit: usize) -> Result<(), ConnectError> {
        let len = private.len();
        if len > limit {
            return Err(ConnectError::TooLarge { len, limit });
        }
        if self.manager().uses(qpn) {
            return Err(ConnectError::InUse(qpn));
        }
        match self.qp_state(qpn) {
            None => Err(ConnectError::UnknownQp(qpn)),
            Some(QpState::Init) => Ok(()),
            Some(QpState::Reset) => self
                .modify_qp(qpn, QpModify::Init)
                .map_err(|_| ConnectError::InUse(qpn)),
            Some(_) => Err(ConnectError::InUse(qpn)),
        }
    }

    /// The NIC's GUID: the EUI-64 of its Ethernet address.
    fn guid(&self) -> u64 {
        let [a, b, c, d, e, f] = self.core.config.mac.0;
        u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
    }

    fn request(
        &mut self,
        (qpn, psn): (Qpn, Psn),
        to: SocketAddrV4,
        attributes: &ConnectAttributes,
        private: &[u8],
    ) -> Req {
        let ip = self.core.config.ip;
        let addresses = IpAddresses {
            source_port: SOURCE_PORT,
            source: ip.into(),
            target: (*to.ip()).into(),
        };
        let mut data = [0; REQ_PRIVATE];
        data[..IpAddresses::LEN].copy_from_slice(&addresses.emit());
        data[IpAddresses::LEN..][..private.len()].copy_from_slice(private);
        Req {
            local_id: 0,
            service_id: service_id(to.port()),
            ca_guid: self.guid(),
            qkey: 0,
            qpn,
            responder_resources: attributes.reads_in_max,
            initiator_depth: attributes.reads_out_max,
            remote_response_timeout: cm::RESPONSE_TIMEOUT,
            transport: 0,
            flow_control: true,
            psn,
            local_response_timeout: cm::RESPONSE_TIMEOUT,
            retries: attributes.retries,
            pkey: PKEY_DEFAULT,
            mtu: attributes.mtu as u8 + 1,
            rnr_retries: attributes.rnr_retries,
            cm_retries: cm::REPEATS,
            srq: false,
            path: Path {
                local_lid: NO_LID,
                remote_lid: NO_LID,
                local_gid: gid(ip.into()),
                remote_gid: gid((*to.ip()).into()),
                flow_label: 0,
                rate: 0,
                traffic_class: 0,
                hop_limit: HOP_LIMIT,
                service_level: 0,
                subnet_local: false,
                ack_timeout: exponent(attributes.timeout),
            },
            private: data,
        }
    }
}

/// The smallest exponent whose time is at least this long; zero means for ever.
fn exponent(time: Duration) -> u8 {
    match time.as_nanos() {
        0 => 0,
        _ => (1..31)
            .find(|&exponent| cm::time(exponent) >= time)
            .unwrap_or(31),
    }
}

impl ConnectionManager for Nic {
    fn listen(&mut self, port: u16, backlog: usize) -> Result<(), ConnectError> {
        match self.manager().listen(port, backlog) {
            true => Ok(()),
            false => Err(ConnectError::Taken(port)),
        }
    }

    fn unlisten(&mut self, port: u16) -> bool {
        self.manager().unlisten(port)
    }

    fn connect(
        &mut self,
        qpn: Qpn,
        to: SocketAddrV4,
        attributes: &ConnectAttributes,
        private: &[u8],
    ) -> Result<ConnectionId, ConnectError> {
        if self.manager().is_full() {
            let limit = cm::CONNECTIONS_MAX;
            return Err(ConnectError::TooMany { limit });
        }
        self.prepare(qpn, private, REQUEST_PRIVATE_MAX)?;
        let psn = Psn::new(self.keys.next_u32());
        let request = self.request((qpn, psn), to, attributes, private);
        Ok(self.manager().connect(*to.ip(), attributes, request))
    }

    fn accept(
        &mut self,
        id: ConnectionId,
        qpn: Qpn,
        attributes: &ConnectAttributes,
        private: &[u8],
    ) -> Result<(), ConnectError> {
        let psn = Psn::new(self.keys.next_u32());
        let unknown = ConnectError::Unknown(id);
        let sides = |connection: &Connection| {
            let receive = connection.receive_side(attributes, psn)?;
            Some((receive, connection.send_side(attributes)?))
        };
        let connection = self.manager().get(id, &[State::ReqReceived]);
        let (receive, send) = connection.and_then(sides).ok_or(unknown)?;
        if receive.mtu > attributes.mtu {
            return Err(ConnectError::Mtu {
                asked: receive.mtu.bytes(),
                limit: attributes.mtu.bytes(),
            });
        }
        self.prepare(qpn, private, ACCEPT_PRIVATE_MAX)?;
        self.bring_up(qpn, receive, send)?;
        let mut data = [0; REP_PRIVATE];
        data[..private.len()].copy_from_slice(private);
        let reply = Rep {
            local_id: 0,
            remote_id: 0,
            qkey: 0,
            qpn,
            psn,
            responder_resources: receive.reads_in_flight_max.min(attributes.reads_in_max),
            initiator_depth: send.reads_in_flight_max.min(attributes.reads_out_max),
            ack_delay: 0,
            failover: 1,
            flow_control: true,
            rnr_retries: attributes.rnr_retries,
            srq: false,
            ca_guid: self.guid(),
            private: data,
        };
        self.manager().accept(id, qpn, reply);
        Ok(())
    }

    fn reject(&mut self, id: ConnectionId, private: &[u8]) -> Result<(), ConnectError> {
        let (len, limit) = (private.len(), REJECT_PRIVATE_MAX);
        if len > limit {
            return Err(ConnectError::TooLarge { len, limit });
        }
        if self.manager().get(id, &[State::ReqReceived]).is_none() {
            return Err(ConnectError::Unknown(id));
        }
        self.manager().refuse(id, RejectReason::CONSUMER, private);
        Ok(())
    }

    fn disconnect(&mut self, id: ConnectionId) -> Result<(), ConnectError> {
        if self.manager().get(id, &[State::Established]).is_none() {
            return Err(ConnectError::Unknown(id));
        }
        let action = self.manager().disconnect(id);
        self.perform(action);
        Ok(())
    }

    fn poll_connection(&mut self) -> Option<ConnectionEvent> {
        self.cm.as_mut()?.poll_event()
    }
}

const _: () = assert!(MAD_LEN <= rackweave_base::packet::PAYLOAD_MAX);
const _: () = assert!(REQUEST_PRIVATE_MAX + IpAddresses::LEN == REQ_PRIVATE);
