//! Random mixtures of commands on two queues, against a model, with and without losses.
//!
//! Every command id of every queue has its own blocks and host memory, so that commands in flight
//! never conflict and the model knows what each read must return.

use crate::common::*;
use proptest::prelude::*;
use rackweave_base::Rng;
use rackweave_target::{Backend, DoubleWrite, MemoryBackend};
use rackweave_wire::nvme::{BlockRange, IoCommand, Sgl, Sqe, Status};

const QUEUES: usize = 2;
/// One less than the queue has entries.
const IDS: u16 = 7;
/// Blocks of one command id.
const SPAN: u64 = 32;
const BYTES: usize = BLOCK as usize;
/// Blocks of the double-write area.
const AREA: u64 = 130;

/// The expected effect of a command in flight.
#[derive(Clone)]
enum Expect {
    Nothing,
    Fails(Status),
    Written(u64, Vec<u8>),
    Read(u64, u32),
}

struct World {
    rig: Rig,
    rng: Rng,
    disk: MemoryBackend,
    queues: [usize; QUEUES],
    model: Vec<u8>,
    flight: Vec<Option<Expect>>,
}

fn lane(queue: usize, id: u16) -> usize {
    queue * usize::from(IDS) + usize::from(id)
}

impl World {
    fn new(seed: u64, loss: f64) -> Self {
        let disk = MemoryBackend::new(BLOCK, BLOCKS).with_depth(5);
        Self::over(seed, loss, disk.clone(), Box::new(disk))
    }

    /// A run over a backend whose blocks are in `disk`.
    fn over(seed: u64, loss: f64, disk: MemoryBackend, backend: Box<dyn Backend>) -> Self {
        let mut rig = Rig::with(small(), vec![backend]);
        let mut rng = Rng::new(seed);
        let mut losses = rng.fork("losses");
        rig.lose = Box::new(move |_, _| losses.chance(loss));
        let (_, first) = rig.ready();
        let second = rig.open();
        assert_eq!(rig.connect(second, 2, 8, 1).status, Status::SUCCESS);
        Self {
            rig,
            rng,
            disk,
            queues: [first, second],
            model: vec![0; BLOCKS as usize * BYTES],
            flight: vec![None; QUEUES * usize::from(IDS)],
        }
    }

    /// A random command for `id`, its capsule data, and its expected result.
    fn command(&mut self, queue: usize, id: u16) -> (Sqe, Vec<u8>, Expect) {
        let lane = lane(queue, id);
        let first = lane as u64 * SPAN + self.rng.below(SPAN / 2);
        let count = 1 + self.rng.below(SPAN / 2) as u32;
        let memory = (lane as u64 * SPAN * 2) * u64::from(BLOCK);
        let length = count as usize * BYTES;
        match self.rng.below(10) {
            0..=2 => {
                let read = self.rig.read(id, first, count, memory);
                (read, vec![], Expect::Read(first, count))
            }
            3..=4 => {
                let bytes = pattern(length, self.rng.next_u64());
                self.rig.fill(memory as usize, &bytes);
                let write = self.rig.write(id, first, count, memory);
                (write, vec![], Expect::Written(first, bytes))
            }
            5..=6 => {
                let count = 1 + self.rng.below(6) as u32;
                let offset = self.rng.below(900);
                let bytes = pattern(count as usize * BYTES, self.rng.next_u64());
                let sgl = Sgl::InCapsule {
                    offset,
                    length: count * BLOCK,
                };
                let mut capsule = vec![0; offset as usize];
                capsule.extend_from_slice(&bytes);
                let write = IoCommand::Write(BlockRange::new(first, count)).emit(id, 1);
                (write.with_data(sgl), capsule, Expect::Written(first, bytes))
            }
            7 => {
                let zero = IoCommand::WriteZeroes(BlockRange::new(first, count));
                let zeroes = Expect::Written(first, vec![0; length]);
                (zero.emit(id, 1), vec![], zeroes)
            }
            8 => (IoCommand::Flush.emit(id, 1), vec![], Expect::Nothing),
            _ => {
                let read = self.rig.read(id, BLOCKS - 1, 2, memory);
                (read, vec![], Expect::Fails(Status::LBA_OUT_OF_RANGE))
            }
        }
    }

    fn post(&mut self) {
        let queue = self.rng.below(QUEUES as u64) as usize;
        let id = self.rng.below(IDS.into()) as u16;
        if self.flight[lane(queue, id)].is_none() {
            let (sqe, data, expect) = self.command(queue, id);
            self.rig.post(self.queues[queue], sqe, &data);
            self.flight[lane(queue, id)] = Some(expect);
        }
    }

    fn check_responses(&mut self) {
        for (queue, cqe) in core::mem::take(&mut self.rig.responses) {
            let queue = self.queues.iter().position(|q| *q == queue).unwrap();
            let lane = lane(queue, cqe.command_id);
            let expect = self.flight[lane].take().expect("answered once");
            let at = |first: u64| first as usize * BYTES;
            let wanted = match expect {
                Expect::Nothing => Status::SUCCESS,
                Expect::Fails(status) => status,
                Expect::Written(first, bytes) => {
                    self.model[at(first)..][..bytes.len()].copy_from_slice(&bytes);
                    Status::SUCCESS
                }
                Expect::Read(first, count) => {
                    let memory = lane * SPAN as usize * 2 * BYTES;
                    let read = self.rig.bytes(memory, count as usize * BYTES);
                    assert!(read == self.model[at(first)..][..read.len()]);
                    Status::SUCCESS
                }
            };
            assert_eq!(cqe.status, wanted);
        }
    }

    fn run(&mut self, commands: u32) {
        for _ in 0..commands {
            self.post();
            for _ in 0..self.rng.below(6) {
                // The target is not polled all the time.
                self.rig.awake = self.rng.chance(0.7);
                self.rig.step();
            }
            self.check_responses();
        }
        self.rig.awake = true;
        while self.flight.iter().any(Option::is_some) {
            assert!(self.rig.step(), "a command is never answered");
            self.check_responses();
        }
        self.rig.settle();
        assert_eq!(self.rig.target.buffers_free(), 3);
        assert_eq!(self.rig.target.broken().count(), 0);
        for block in 0..BLOCKS {
            let at = block as usize * BYTES;
            assert!(self.disk.bytes(block) == self.model[at..at + BYTES]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn commands_do_what_the_model_does(seed: u64) {
        World::new(seed, 0.0).run(300);
    }

    #[test]
    fn losses_change_nothing(seed: u64) {
        World::new(seed, 0.02).run(200);
    }

    #[test]
    fn double_writes_change_nothing(seed: u64) {
        let disk = MemoryBackend::new(BLOCK, BLOCKS + AREA).with_depth(5);
        let double = DoubleWrite::with_area(disk.clone(), AREA).unwrap();
        World::over(seed, 0.02, disk, Box::new(double)).run(200);
    }

    /// Whatever a host sends, it is answered, and the target survives.
    #[test]
    fn nonsense_is_answered(
        admin: bool,
        capsules in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 1..200), any::<u8>(), 0_u8..4),
            1..40,
        ),
    ) {
        let (mut rig, _) = Rig::new();
        let (control, io) = rig.ready();
        let queue = if admin { control } else { io };
        for (mut capsule, opcode, shape) in capsules {
            capsule.resize(capsule.len().max(64), 0);
            if shape > 0 {
                // Plausible enough to pass the first checks.
                capsule[0] = [0x7f, 0x06, opcode % 10][usize::from(shape - 1)];
                capsule[1] = 0x40;
                (capsule[4], capsule[5], capsule[6], capsule[7]) = (1, 0, 0, 0);
                capsule[39] = [0x01, 0x40, 0x4f][usize::from(opcode) % 3];
                capsule[40] %= 4;
            }
            if capsule[0] == 0x0c || capsule[0] == 0x7f {
                // Event requests are not answered, and a reset may end the queue.
                capsule[0] = 0x7e;
            }
            if capsule[39] == 0x40 {
                // A wrong key ends the queue, as required.
                capsule[24..32].copy_from_slice(&rig.data.address.to_le_bytes());
                capsule[35..39].copy_from_slice(&rig.data.rkey.0.to_le_bytes());
            }
            rig.send(queue, &capsule);
            let (_, cqe) = rig.response();
            prop_assert_eq!(cqe.command_id.to_le_bytes(), [capsule[2], capsule[3]]);
        }
        rig.settle();
        prop_assert_eq!(rig.target.buffers_free(), 3);
        let sqe = rig.read(1, 0, 1, 0);
        prop_assert_eq!(rig.command(io, sqe, &[]).status, Status::SUCCESS);
    }

    /// The same for Fabrics commands, which may end the host's other queue, but not this one.
    #[test]
    fn nonsense_about_fabrics_is_answered(
        connected: bool,
        capsules in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 64..1200), 0_u8..10, any::<bool>()),
            1..40,
        ),
    ) {
        let (mut rig, _) = Rig::new();
        let (admin, _) = rig.ready();
        let queue = if connected { admin } else { rig.open() };
        for (mut capsule, kind, plausible) in capsules {
            (capsule[0], capsule[1], capsule[4]) = (0x7f, 0x40, kind);
            if plausible {
                capsule[24..40].fill(0);
                (capsule[33], capsule[39]) = (4, 0x01);
                capsule[40..42].copy_from_slice(&[kind % 2, 0]);
                let kinds = [0x14, 0x1c, 0, 5];
                let word = [kinds[usize::from(kind % 4)], 0, 0, 0];
                capsule[44..48].copy_from_slice(&word);
            } else if capsule[39] == 0x40 {
                capsule[39] = 0x41;
            }
            rig.send(queue, &capsule);
            let (_, cqe) = rig.response();
            prop_assert_eq!(cqe.command_id.to_le_bytes(), [capsule[2], capsule[3]]);
        }
        rig.settle();
        prop_assert_eq!(rig.target.buffers_free(), 3);
    }
}
