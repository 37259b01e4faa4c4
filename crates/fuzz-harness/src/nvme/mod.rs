//! Arbitrary capsules sent to an NVMe-oF target.

mod host;

use crate::fixture::{Seeds, hex, named};
use crate::input::Input;
use host::{ADDRESS, BYTES, Host, KEY};
use rackweave_base::{Instant, Memory, Qpn, Rkey};
use rackweave_target::{MemoryBackend, Target, TargetConfig};
use rackweave_verbs::Service;
use rackweave_wire::nvme::fabrics::{CONTROLLER_ANY, Connect};
use rackweave_wire::nvme::property::Configuration;
use rackweave_wire::nvme::{ConnectData, FabricsCommand, Property, Sgl, Sqe};

const QUEUES: usize = 3;
const NOW: Instant = Instant::from_nanos(1_000);

/// Bit 0 of the first byte: two queues are connected already, one for admin commands and one for
/// blocks. Then steps: see `Story::step`.
///
/// # Panics
/// If the target is wrong.
pub fn nvme(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(choice) = input.byte() else {
        return;
    };
    let mut story = Story::new();
    if choice & 1 != 0 {
        story.connect(0, 0, CONTROLLER_ANY);
        let property = Property::Configuration;
        let enable = FabricsCommand::PropertySet {
            wide: property.wide(),
            offset: property.offset(),
            value: Configuration::ENABLE.emit().into(),
        };
        story.send(0, enable.emit(1), &[]);
        story.connect(1, 1, 1);
    }
    while story.step(&mut input).is_some() {}
    story.end();
}

struct Story {
    host: Host,
    target: Target,
    /// The queue pairs; `None` where none is open.
    queues: [Option<Qpn>; QUEUES],
    buffers: usize,
}

impl Story {
    fn new() -> Self {
        let config = TargetConfig {
            queues_max: QUEUES as u16,
            queue_entries: 4,
            in_capsule_max: 1024,
            transfer_max: 4096,
            buffers: 2,
            ..TargetConfig::default()
        };
        let mut host = Host::new();
        let memory = Memory::new(1 << 20);
        let disks = [
            MemoryBackend::new(512, 64),
            MemoryBackend::new(4096, 8).with_depth(1),
        ];
        let disks = disks.map(|disk| Box::new(disk) as _).into();
        let target = Target::new(config, &mut host, &memory, disks);
        let target = target.expect("the configuration is sound");
        let mut story = Self {
            buffers: target.buffers_free(),
            host,
            target,
            queues: [None; QUEUES],
        };
        for queue in 0..QUEUES {
            story.open(queue);
        }
        story
    }

    fn open(&mut self, queue: usize) {
        let opened = self.target.open_queue(&mut self.host);
        // A closed queue may still wait for its backend.
        self.queues[queue] = opened.ok();
        if let Some(qpn) = self.queues[queue] {
            let connected = self.target.queue_connected(&mut self.host, qpn);
            connected.expect("a queue that was just opened");
        }
    }

    fn close(&mut self, queue: usize) {
        if let Some(qpn) = self.queues[queue].take() {
            let closed = self.target.close_queue(&mut self.host, qpn);
            closed.expect("a queue that is there");
        }
    }

    fn send(&mut self, queue: usize, sqe: Sqe, data: &[u8]) {
        let capsule = [&sqe.emit()[..], data].concat();
        if let Some(qpn) = self.queues[queue]
            && !self.host.send(qpn, &capsule)
        {
            // It is full, or broken.
            self.settle();
        }
    }

    fn connect(&mut self, queue: usize, queue_id: u16, controller_id: u16) {
        let connect = Connect {
            queue_id,
            queue_size: 3,
            attributes: 1 << 2,
            keep_alive_ms: 0,
        };
        let data = ConnectData {
            host_id: [9; 16],
            controller_id,
            subsystem: TargetConfig::default().nqn,
            host: "nqn.2025-01.io.rackweave:host".to_owned(),
        };
        let data = data.emit();
        let length = data.len() as u32;
        let sqe = FabricsCommand::Connect(connect).emit(7);
        self.send(
            queue,
            sqe.with_data(Sgl::InCapsule { offset: 0, length }),
            &data,
        );
        self.settle();
    }

    /// One step: its kind in bits 0 to 2 of its first byte, the queue in bits 4 and 5; with bit 7
    /// the target does all pending work before the next step.
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let what = input.byte()?;
        let queue = usize::from(what >> 4 & 3) % QUEUES;
        match what & 7 {
            // Any bytes.
            0 => {
                let len = usize::from(input.half()?) % 1100;
                let capsule = input.bytes(len);
                if let Some(qpn) = self.queues[queue] {
                    self.host.send(qpn, capsule);
                }
            }
            // Any command, with any data.
            1 | 2 => {
                let (sqe, data) = command(input)?;
                self.send(queue, sqe, &data);
            }
            3 => {
                let (queue_id, controller) = (input.below(4)?, input.below(4)?);
                let controller = controller
                    .checked_sub(1)
                    .map_or(CONTROLLER_ANY, |it| it as u16);
                self.connect(queue, queue_id as u16, controller);
            }
            4 => {
                let (offset, value) = (u32::from(input.byte()?), u64::from(input.word()?));
                let wide = value & 1 << 31 != 0;
                let command = match value & 1 << 30 {
                    0 => FabricsCommand::PropertyGet { wide, offset },
                    _ => FabricsCommand::PropertySet {
                        wide,
                        offset,
                        value,
                    },
                };
                self.send(queue, command.emit(3), &[]);
            }
            5 => self.send(queue, FabricsCommand::Disconnect.emit(4), &[]),
            6 => {
                self.close(queue);
                self.open(queue);
            }
            _ => {
                if let Some(qpn) = self.queues[queue] {
                    self.host.break_off(qpn);
                }
            }
        }
        if what & 0x80 != 0 {
            self.settle();
        }
        Some(())
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.target.poll(NOW, &mut self.host) {
                return;
            }
        }
        panic!("the target does not come to rest");
    }

    /// Checks that no response is missing, and that no resource is held once the queues are closed.
    fn end(mut self) {
        self.settle();
        self.host.check_answered();
        for queue in 0..QUEUES {
            self.close(queue);
        }
        self.settle();
        assert!(!self.target.is_draining());
        assert_eq!(self.target.broken().count(), 0);
        assert_eq!(self.target.buffers_free(), self.buffers);
        for queue in 0..QUEUES {
            self.open(queue);
            assert!(self.queues[queue].is_some(), "queues come back");
        }
        self.target.destroy(&mut self.host);
    }
}

/// A command: opcode, id, namespace, the first block and their number, and the location of its
/// data.
fn command(input: &mut Input<'_>) -> Option<(Sqe, Vec<u8>)> {
    let (opcode, id, nsid) = (input.byte()?, input.byte()?, input.byte()?);
    let mut sqe = Sqe::new(opcode, u16::from(id), u32::from(nsid));
    if nsid == u8::MAX {
        sqe.nsid = u32::MAX;
    }
    sqe.dwords[0] = input.half()?.into();
    sqe.dwords[2] = input.byte()?.into();
    let kind = input.byte()?;
    if kind & 0x40 != 0 {
        // Flags, and the bits above the first 32.
        sqe.dwords[1] = input.byte()?.into();
        sqe.dwords[2] |= u32::from(input.byte()?) << 24;
    }
    let (at, length) = (u64::from(input.half()?), u32::from(input.half()?));
    let mut data = Vec::new();
    let sgl = match kind & 3 {
        0 => Sgl::InCapsule {
            offset: at % 64,
            length: length % 1100,
        },
        1 => Sgl::keyed(ADDRESS + at % BYTES as u64, length % 8192, Rkey(KEY.0 + 1)),
        2 => Sgl::keyed(ADDRESS.wrapping_sub(64) + at, length, KEY),
        _ => Sgl::keyed(ADDRESS + at % (BYTES as u64 / 2), length % 8192, KEY),
    };
    if kind & 3 == 0 {
        data.resize(length as usize % 1100, id);
    }
    Some((sqe.with_data(sgl), data))
}

/// The initial inputs of the corpus: every command, with data from memory and in its capsule, and
/// every way in which queues open and close.
pub fn seeds() -> Seeds {
    let io = |opcode: u8, kind: u8, blocks: u8, nsid: u8| {
        let length = ((u16::from(blocks) + 1) * 512).to_le_bytes();
        let head = [0x91, opcode, 5, nsid, 2, 0, blocks, kind, 0, 0];
        [&head[..], &length].concat()
    };
    let admin = |opcode: u8, first: u8, length: u16| {
        let head = [0x81, opcode, 6, 1, first, 0, 0, 3, 0, 0];
        [&head[..], &length.to_le_bytes()].concat()
    };
    let ready = |steps: &[Vec<u8>]| [&[1], &steps.concat()[..]].concat();
    let stories = [
        (
            "write-and-read",
            ready(&[io(1, 3, 3, 1), io(2, 3, 3, 1), io(0, 0, 0, 1)]),
        ),
        ("in-capsule", ready(&[io(1, 0, 1, 1), io(2, 3, 1, 1)])),
        ("wrong-key", ready(&[io(2, 1, 1, 1), io(1, 1, 1, 1)])),
        ("below-the-memory", ready(&[io(2, 2, 1, 1)])),
        ("write-zeroes", ready(&[io(8, 0, 3, 1), io(2, 3, 3, 1)])),
        ("other-namespace", ready(&[io(1, 3, 7, 2), io(2, 3, 7, 3)])),
        (
            "identify",
            ready(&[0, 1, 2, 3].map(|what| admin(6, what, 4096))),
        ),
        (
            "events",
            ready(&[admin(0x0c, 0, 0), admin(0x0c, 0, 0), admin(8, 6, 0)]),
        ),
        (
            "features",
            ready(&[admin(9, 7, 0), admin(10, 7, 0), admin(0x18, 0, 0)]),
        ),
        (
            "disconnect",
            ready(&[vec![0x95], io(2, 3, 1, 1), vec![0x93, 1, 2]]),
        ),
        ("close", ready(&[io(1, 3, 3, 1), vec![0x06], vec![0x96]])),
        (
            "break",
            ready(&[vec![0x97], io(1, 3, 3, 1), vec![0x96, 0x93, 1, 2]]),
        ),
        (
            "bare",
            [hex("00 83 00 00 84 1c 00 00 00 00"), io(2, 3, 1, 1)].concat(),
        ),
    ];
    named(&[], stories)
}
