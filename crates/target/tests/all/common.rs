//! A host and a target, each behind a software NIC, joined by a wire under a virtual clock.
//!
//! The host is written over verbs from the specifications, like the target, and shares only the
//! wire formats with it.

use rackweave_base::packet::Pool;
use rackweave_base::{
    Block, Duration, Instant, KeyRng, MacAddr, Memory, Packet, Psn, Qpn, Rkey, Rng,
};
use rackweave_nic::{Nic, NicConfig};
use rackweave_target::{Backend, MemoryBackend, Target, TargetConfig};
use rackweave_verbs::{
    Access, CompletionOpcode, CompletionStatus, CqId, Mtu, Operation, PdId, Peer, QpCapabilities,
    QpModify, ReceiveRequest, ReceiveSide, Region, SendSide, Service, Verbs, WorkRequest,
};
use rackweave_wire::nvme::fabrics::{CONTROLLER_ANY, Connect};
use rackweave_wire::nvme::property::Configuration;
use rackweave_wire::nvme::{
    BlockRange, ConnectData, Cqe, FabricsCommand, IoCommand, Property, Sgl, Sqe, Status,
};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

pub const NQN: &str = "nqn.2025-01.test:disks";
pub const BLOCK: u32 = 512;
pub const BLOCKS: u64 = 1024;
const LATENCY: Duration = Duration::from_micros(1);
/// Receive requests of a host's queue.
const RECEIVES: u64 = 64;
/// Stride of capsules in the host's memory, in bytes.
const CAPSULE: u64 = 16 << 10;
/// Bytes of host memory that the target reads and writes.
pub const DATA: usize = 4 << 20;

/// A small target, whose limits are soon reached.
pub fn small() -> TargetConfig {
    TargetConfig {
        nqn: NQN.to_owned(),
        queues_max: 6,
        queue_entries: 8,
        in_capsule_max: 4096,
        transfer_max: 16 << 10,
        buffers: 3,
    }
}

/// One of the host's queues.
pub struct HostQueue {
    pub qpn: Qpn,
    /// The target's queue pair.
    pub target: Qpn,
    capsules: Region,
    answers: Region,
    sent: u64,
}

/// The sender of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Host,
    Target,
}

/// Whether a packet is lost.
type Lose = Box<dyn FnMut(Side, &Packet) -> bool>;

/// Both ends.
pub struct Rig {
    pub now: Instant,
    pub memory: Memory,
    pub host: Nic,
    pub nic: Nic,
    pub target: Target,
    pub queues: Vec<HostQueue>,
    pub data: Region,
    /// Responses received: queue and response.
    pub responses: Vec<(usize, Cqe)>,
    /// Whether a packet is lost.
    pub lose: Lose,
    /// Whether the target is polled.
    pub awake: bool,
    pd: PdId,
    cq: CqId,
    flight: BTreeMap<(Instant, u64), (Side, Packet)>,
    packets: u64,
}

fn nic(memory: &Memory, number: u8) -> Nic {
    let config = config(number);
    let rng = Rng::new(number.into());
    Nic::new(config, memory.clone(), Pool::new(4096), KeyRng::seeded(rng))
}

fn config(number: u8) -> NicConfig {
    let ip = Ipv4Addr::new(10, 0, 0, number);
    NicConfig {
        qps_max: 32,
        cqs_max: 8,
        regions_max: 64,
        ..NicConfig::new(ip, MacAddr([2, 0, 0, 0, 0, number]))
    }
}

fn connect_qp(nic: &mut Nic, qpn: Qpn, peer: Qpn, peer_number: u8) {
    let peer_config = config(peer_number);
    nic.modify_qp(qpn, QpModify::Init).unwrap();
    let receive = ReceiveSide {
        peer: Peer {
            mac: peer_config.mac,
            ip: peer_config.ip,
            qpn: peer,
        },
        psn: Psn::new(100),
        mtu: Mtu::B1024,
        access: Access::all(),
        reads_in_flight_max: 4,
        rnr_wait: Duration::from_micros(20),
    };
    nic.modify_qp(qpn, QpModify::ReadyToReceive(receive))
        .unwrap();
    let send = SendSide {
        psn: Psn::new(100),
        timeout: Duration::from_micros(100),
        retries: 7,
        rnr_retries: 6,
        reads_in_flight_max: 4,
    };
    nic.modify_qp(qpn, QpModify::ReadyToSend(send)).unwrap();
}

/// Bytes that encode their offset.
pub fn pattern(len: usize, salt: u64) -> Vec<u8> {
    let mut rng = Rng::new(salt);
    (0..len).map(|_| rng.next_u32() as u8).collect()
}

pub fn connect_data(controller: u16) -> ConnectData {
    ConnectData {
        host_id: [9; 16],
        controller_id: controller,
        subsystem: NQN.to_owned(),
        host: "nqn.2025-01.test:host".to_owned(),
    }
}

pub fn connect_command(queue_id: u16, entries: u16) -> FabricsCommand {
    FabricsCommand::Connect(Connect {
        queue_id,
        queue_size: entries - 1,
        attributes: 0,
        keep_alive_ms: 0,
    })
}

impl Rig {
    /// A target of [`small`] size with one namespace in memory; also returns the namespace.
    pub fn new() -> (Self, MemoryBackend) {
        let disk = MemoryBackend::new(BLOCK, BLOCKS);
        (Self::with(small(), vec![Box::new(disk.clone())]), disk)
    }

    pub fn with(config: TargetConfig, namespaces: Vec<Box<dyn Backend>>) -> Self {
        let memory = Memory::new(128 << 20);
        let (mut host, mut nic) = (nic(&memory, 1), nic(&memory, 2));
        let target = Target::new(config, &mut nic, &memory, namespaces).unwrap();
        let pd = host.create_pd();
        let cq = host.create_cq(4096).unwrap();
        let data = memory.allocate(DATA).unwrap();
        let data = host.register(pd, data, Access::all()).unwrap();
        Self {
            now: Instant::from_nanos(1_000_000),
            memory,
            host,
            nic,
            target,
            queues: Vec::new(),
            data,
            responses: Vec::new(),
            lose: Box::new(|_, _| false),
            awake: true,
            pd,
            cq,
            flight: BTreeMap::new(),
            packets: 0,
        }
    }

    /// Opens a queue pair at both ends, without Connect. Returns the host's queue number.
    pub fn open(&mut self) -> usize {
        let capabilities = QpCapabilities {
            receive_max: RECEIVES as u32,
            ..QpCapabilities::default()
        };
        let (pd, cq) = (self.pd, self.cq);
        let qpn = self.host.create_qp(pd, cq, cq, capabilities).unwrap();
        let target = self.target.open_queue(&mut self.nic).unwrap();
        connect_qp(&mut self.host, qpn, target, 2);
        connect_qp(&mut self.nic, target, qpn, 1);
        self.target.queue_connected(&mut self.nic, target).unwrap();
        let mut region = |len: u64| {
            let block = self.memory.allocate(len as usize).unwrap();
            let access = Access::LOCAL_WRITE;
            self.host.register(pd, block, access).unwrap()
        };
        let (capsules, answers) = (region(RECEIVES * CAPSULE), region(RECEIVES * 16));
        for slot in 0..RECEIVES {
            let id = (self.queues.len() as u64) << 32 | slot;
            let receive = ReceiveRequest::new(id, &[answers.segment(slot * 16, 16)]);
            self.host.post_receive(qpn, receive).unwrap();
        }
        self.queues.push(HostQueue {
            qpn,
            target,
            capsules,
            answers,
            sent: 0,
        });
        self.queues.len() - 1
    }

    /// Sends a capsule unchecked.
    pub fn send(&mut self, queue: usize, capsule: &[u8]) {
        let place = &mut self.queues[queue];
        let at = place.sent % RECEIVES * CAPSULE;
        place.sent += 1;
        place.capsules.block.write(at as usize, capsule);
        let segment = place.capsules.segment(at, capsule.len() as u32);
        let send = Operation::Send { immediate: None };
        let request = WorkRequest::new((queue as u64) << 32, send, &[segment]);
        self.host.post_send(place.qpn, request).unwrap();
    }

    /// Sends a command with data in its capsule, if any.
    pub fn post(&mut self, queue: usize, sqe: Sqe, data: &[u8]) {
        let mut capsule = sqe.emit().to_vec();
        capsule.extend_from_slice(data);
        self.send(queue, &capsule);
    }

    /// Sends a command and waits for its response.
    pub fn command(&mut self, queue: usize, sqe: Sqe, data: &[u8]) -> Cqe {
        self.post(queue, sqe, data);
        let (from, cqe) = self.response();
        assert_eq!((from, cqe.command_id), (queue, sqe.command_id));
        cqe
    }

    /// The next response.
    pub fn response(&mut self) -> (usize, Cqe) {
        for _ in 0..10_000_000 {
            if !self.responses.is_empty() {
                return self.responses.remove(0);
            }
            self.step();
        }
        panic!("no response; now {:?}", self.now);
    }

    /// Ends a queue at both ends; unread responses are dropped.
    pub fn close(&mut self, queue: usize) {
        let (host, target) = (self.queues[queue].qpn, self.queues[queue].target);
        self.target.close_queue(&mut self.nic, target).unwrap();
        self.host.modify_qp(host, QpModify::Reset).unwrap();
        self.take_responses();
        self.host.destroy_qp(host).unwrap();
        self.host.deregister(&self.queues[queue].capsules);
        self.host.deregister(&self.queues[queue].answers);
        self.responses.retain(|(from, _)| *from != queue);
    }

    fn take_responses(&mut self) {
        let mut completions = Vec::new();
        self.host.poll_cq(self.cq, usize::MAX, &mut completions);
        for completion in completions {
            let receive = completion.opcode == CompletionOpcode::Receive;
            if completion.status != CompletionStatus::Success || !receive {
                continue;
            }
            assert_eq!(completion.length, 16);
            let (number, slot) = ((completion.id >> 32) as usize, completion.id as u32);
            let queue = &self.queues[number];
            let mut bytes = [0; 16];
            queue.answers.block.read(slot as usize * 16, &mut bytes);
            let segment = queue.answers.segment(u64::from(slot) * 16, 16);
            let receive = ReceiveRequest::new(completion.id, &[segment]);
            // The queue pair may have been removed by now.
            let _gone = self.host.post_receive(queue.qpn, receive);
            self.responses.push((number, Cqe::parse(&bytes).unwrap()));
        }
    }

    fn transmit(&mut self) {
        let at = self.now + LATENCY;
        for side in [Side::Host, Side::Target] {
            let nic = match side {
                Side::Host => &mut self.host,
                Side::Target => &mut self.nic,
            };
            while let Some(packet) = nic.poll_transmit(self.now) {
                if !(self.lose)(side, &packet) {
                    self.packets += 1;
                    self.flight.insert((at, self.packets), (side, packet));
                }
            }
        }
    }

    /// Lets everything happen that can, and advances to the next event. Returns false if there is
    /// none.
    pub fn step(&mut self) -> bool {
        while self.awake && self.target.poll(self.now, &mut self.nic) {}
        self.take_responses();
        self.transmit();
        let arrival = self.flight.first_key_value().map(|((at, _), _)| *at);
        let service = self.target.poll_timeout().filter(|_| self.awake);
        let timers = [self.host.poll_timeout(), self.nic.poll_timeout(), service];
        let Some(next) = timers.into_iter().flatten().chain(arrival).min() else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flight.first_entry()
            && entry.key().0 <= self.now
        {
            match entry.remove() {
                (Side::Host, packet) => self.nic.handle_packet(self.now, packet),
                (Side::Target, packet) => self.host.handle_packet(self.now, packet),
            }
        }
        self.host.handle_timeout(self.now);
        self.nic.handle_timeout(self.now);
        true
    }

    /// Runs until nothing is pending.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// Connects an admin queue, its data in the capsule. Returns the queue and the controller.
    pub fn connect_admin(&mut self) -> (usize, u16) {
        let queue = self.open();
        let cqe = self.connect(queue, 0, small().queue_entries, CONTROLLER_ANY);
        assert_eq!(cqe.status, Status::SUCCESS);
        (queue, cqe.result as u16)
    }

    pub fn connect(&mut self, queue: usize, id: u16, entries: u16, controller: u16) -> Cqe {
        let data = connect_data(controller).emit();
        self.command(
            queue,
            with_capsule(connect_command(id, entries), 1024),
            &data,
        )
    }

    pub fn set(&mut self, queue: usize, property: Property, value: u64) -> Cqe {
        let set = FabricsCommand::PropertySet {
            wide: property.wide(),
            offset: property.offset(),
            value,
        };
        self.command(queue, set.emit(2), &[])
    }

    pub fn get(&mut self, queue: usize, property: Property) -> u64 {
        let get = FabricsCommand::PropertyGet {
            wide: property.wide(),
            offset: property.offset(),
        };
        let cqe = self.command(queue, get.emit(3), &[]);
        assert_eq!(cqe.status, Status::SUCCESS);
        cqe.result
    }

    /// Sets up a working I/O queue: admin queue, enabling, I/O queue 1. Returns both.
    pub fn ready(&mut self) -> (usize, usize) {
        let (admin, controller) = self.connect_admin();
        let enable = Configuration::ENABLE.emit();
        let cqe = self.set(admin, Property::Configuration, enable.into());
        assert_eq!(cqe.status, Status::SUCCESS);
        assert_eq!(self.get(admin, Property::Status), 1);
        let io = self.open();
        let cqe = self.connect(io, 1, small().queue_entries, controller);
        assert_eq!(cqe.status, Status::SUCCESS);
        (admin, io)
    }

    /// Bytes of the host's memory.
    pub fn sgl(&self, offset: u64, len: u32) -> Sgl {
        let rkey: Rkey = self.data.rkey;
        Sgl::keyed(self.data.address + offset, len, rkey)
    }

    pub fn fill(&mut self, offset: usize, bytes: &[u8]) {
        self.data.block.write(offset, bytes);
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let block: &Block = &self.data.block;
        block.read(offset, &mut bytes);
        bytes
    }

    /// A read of `count` blocks of namespace 1 to `offset` in the host's memory.
    pub fn read(&self, id: u16, first: u64, count: u32, offset: u64) -> Sqe {
        let read = IoCommand::Read(BlockRange::new(first, count));
        read.emit(id, 1).with_data(self.sgl(offset, count * BLOCK))
    }

    /// A write of `count` blocks from there.
    pub fn write(&self, id: u16, first: u64, count: u32, offset: u64) -> Sqe {
        let write = IoCommand::Write(BlockRange::new(first, count));
        write.emit(id, 1).with_data(self.sgl(offset, count * BLOCK))
    }
}

/// A write of `count` blocks whose data is in its capsule.
pub fn write_in_capsule(id: u16, first: u64, count: u32) -> Sqe {
    let write = IoCommand::Write(BlockRange::new(first, count));
    write.emit(id, 1).with_data(Sgl::InCapsule {
        offset: 0,
        length: count * BLOCK,
    })
}

/// A Fabrics command with this many bytes of data in its capsule.
pub fn with_capsule(command: FabricsCommand, length: u32) -> Sqe {
    let data = Sgl::InCapsule { offset: 0, length };
    command.emit(1).with_data(data)
}
