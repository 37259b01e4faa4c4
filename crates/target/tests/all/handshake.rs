//! Connect, properties, Identify, features, and the end of queues and controllers.

use crate::common::*;
use rackweave_base::Duration;
use rackweave_target::{DoubleWrite, MemoryBackend};
use rackweave_wire::nvme::fabrics::{CONTROLLER_ANY, Connect, invalid};
use rackweave_wire::nvme::identify::{self, IdentifyNamespace, NamespaceDescriptor, cns};
use rackweave_wire::nvme::property::{Capabilities, Configuration, VERSION_2_0};
use rackweave_wire::nvme::sqe::admin;
use rackweave_wire::nvme::{
    Cqe, FabricsCommand, IdentifyController, IoCommand, Property, Sqe, Status,
};

fn identify(rig: &mut Rig, queue: usize, nsid: u32, cns: u8) -> (Status, Vec<u8>) {
    rig.fill(0, &[0xee; identify::LEN]);
    let sqe = identify::command(7, nsid, cns).with_data(rig.sgl(0, identify::LEN as u32));
    let cqe = rig.command(queue, sqe, &[]);
    (cqe.status, rig.bytes(0, identify::LEN))
}

#[test]
fn a_host_finds_its_way() {
    let (mut rig, _) = Rig::new();
    let (queue, controller) = rig.connect_admin();
    let capabilities = Capabilities::parse(rig.get(queue, Property::Capabilities));
    assert_eq!(capabilities.queue_size_max, small().queue_entries - 1);
    assert!(capabilities.contiguous && capabilities.nvm_commands);
    assert_eq!(rig.get(queue, Property::Version), VERSION_2_0.into());
    assert_eq!(rig.get(queue, Property::Status), 0);
    let enable = Configuration::ENABLE.emit();
    rig.set(queue, Property::Configuration, enable.into());
    assert_eq!(rig.get(queue, Property::Configuration), enable.into());
    assert_eq!(rig.get(queue, Property::Status), 1);

    let (status, bytes) = identify(&mut rig, queue, 0, cns::CONTROLLER);
    assert_eq!(status, Status::SUCCESS);
    let reported = IdentifyController::parse(&bytes).unwrap();
    assert_eq!(reported.controller_id, controller);
    assert_eq!(reported.subsystem, NQN);
    assert_eq!(4096 << reported.transfer_shift, small().transfer_max);
    assert_eq!(reported.command_capsule, 64 + small().in_capsule_max);
    assert_eq!(reported.namespaces, 1);

    let (_, bytes) = identify(&mut rig, queue, 0, cns::ACTIVE_NAMESPACES);
    assert_eq!(identify::parse_list(&bytes), Ok(vec![1]));
    let (_, bytes) = identify(&mut rig, queue, 1, cns::ACTIVE_NAMESPACES);
    assert_eq!(identify::parse_list(&bytes), Ok(vec![]));
    let (_, bytes) = identify(&mut rig, queue, 1, cns::NAMESPACE);
    let namespace = IdentifyNamespace::parse(&bytes).unwrap();
    assert_eq!(
        (namespace.blocks, 1 << namespace.block_shift),
        (BLOCKS, BLOCK)
    );
    assert_eq!(namespace.atomic_blocks, 0, "a power cut may tear writes");
    let (_, bytes) = identify(&mut rig, queue, 1, cns::NAMESPACE_DESCRIPTORS);
    let descriptors = identify::parse_descriptors(&bytes).unwrap();
    assert!(descriptors.contains(&NamespaceDescriptor::Guid(namespace.guid)));

    for (nsid, cns, expect) in [
        (0, cns::NAMESPACE, Status::INVALID_NAMESPACE),
        (2, cns::NAMESPACE, Status::INVALID_NAMESPACE),
        (2, cns::NAMESPACE_DESCRIPTORS, Status::INVALID_NAMESPACE),
        (u32::MAX, cns::ACTIVE_NAMESPACES, Status::INVALID_NAMESPACE),
        (0, 0x1c, Status::INVALID_FIELD),
    ] {
        let (status, bytes) = identify(&mut rig, queue, nsid, cns);
        assert_eq!(status.without_hints(), expect);
        assert!(
            bytes.iter().all(|byte| *byte == 0xee),
            "nothing was written"
        );
    }
}

#[test]
fn what_a_power_cut_does_not_tear_is_announced() {
    for (area, expect) in [(20, 9), (200, 32)] {
        let disk = MemoryBackend::new(BLOCK, BLOCKS);
        let double = DoubleWrite::with_area(disk, area).unwrap();
        let mut rig = Rig::with(small(), vec![Box::new(double)]);
        let (queue, _) = rig.ready();
        let (_, bytes) = identify(&mut rig, queue, 1, cns::NAMESPACE);
        let namespace = IdentifyNamespace::parse(&bytes).unwrap();
        // A half without its header, or the maximum transfer.
        assert_eq!(namespace.atomic_blocks, expect);
        assert_eq!(namespace.blocks, BLOCKS - area);
    }
}

#[test]
fn connect_takes_its_data_from_the_host_s_memory_too() {
    let (mut rig, _) = Rig::new();
    let queue = rig.open();
    rig.fill(64, &connect_data(CONTROLLER_ANY).emit());
    let sqe = connect_command(0, 8).emit(5).with_data(rig.sgl(64, 1024));
    let cqe = rig.command(queue, sqe, &[]);
    let first = Cqe {
        result: 1,
        sq_head: 1,
        command_id: 5,
        status: Status::SUCCESS,
    };
    assert_eq!(cqe, first);
    assert_eq!(rig.target.buffers_free(), 3);
}

#[test]
fn connect_says_what_is_wrong() {
    let (mut rig, _) = Rig::new();
    let (admin, controller) = rig.connect_admin();
    let queue = rig.open();
    let bad = Status::CONNECT_PARAMETERS.permanent();
    let check = |rig: &mut Rig, id, entries, data: &[u8], status, result| {
        let sqe = with_capsule(connect_command(id, entries), 1024);
        let cqe = rig.command(queue, sqe, data);
        assert_eq!((cqe.status, cqe.result), (status, result));
    };
    let mut data = connect_data(CONTROLLER_ANY);
    check(&mut rig, 0, 1, &data.emit(), bad, invalid::QUEUE_SIZE);
    check(&mut rig, 0, 9, &data.emit(), bad, invalid::QUEUE_SIZE);
    data.controller_id = controller;
    check(&mut rig, 0, 8, &data.emit(), bad, invalid::CONTROLLER_ID);
    check(&mut rig, 1, 8, &data.emit(), Status::COMMAND_SEQUENCE, 0);
    let enable = Configuration::ENABLE.emit();
    rig.set(admin, Property::Configuration, enable.into());
    check(&mut rig, 7, 8, &data.emit(), bad, invalid::QUEUE_ID);
    let mut other = data.clone();
    other.controller_id = controller + 1;
    check(&mut rig, 1, 8, &other.emit(), bad, invalid::CONTROLLER_ID);
    other = data.clone();
    other.subsystem = "nqn.other".to_owned();
    check(&mut rig, 1, 8, &other.emit(), bad, invalid::SUBSYSTEM);
    other = data.clone();
    other.host.clear();
    check(&mut rig, 1, 8, &other.emit(), bad, invalid::HOST);
    other = data.clone();
    other.host_id = [1; 16];
    let foreign = Status::CONNECT_HOST.permanent();
    check(&mut rig, 1, 8, &other.emit(), foreign, 0);
    let mut torn = data.emit();
    torn[256..512].fill(b'x');
    check(&mut rig, 1, 8, &torn, Status::INVALID_FIELD, 0);
    check(
        &mut rig,
        1,
        8,
        &data.emit(),
        Status::SUCCESS,
        controller.into(),
    );
    check(&mut rig, 1, 8, &data.emit(), Status::COMMAND_SEQUENCE, 0);
    // The queue id is in use.
    let second = rig.open();
    let cqe = rig.connect(second, 1, 8, controller);
    assert_eq!(cqe.status, Status::COMMAND_SEQUENCE);
    let cqe = rig.connect(second, 2, 8, controller);
    assert_eq!(cqe.status, Status::SUCCESS);
    assert_eq!(rig.target.counters().errors[&Status::CONNECT_PARAMETERS], 7);
}

#[test]
fn properties_are_the_admin_queue_s_alone() {
    let (mut rig, _) = Rig::new();
    let (admin, io) = rig.ready();
    let get = |wide, offset| FabricsCommand::PropertyGet { wide, offset }.emit(3);
    let status = |rig: &mut Rig, queue, sqe| rig.command(queue, sqe, &[]).status;
    assert_eq!(status(&mut rig, io, get(true, 0)), Status::INVALID_FIELD);
    assert_eq!(
        status(&mut rig, admin, get(false, 0)),
        Status::INVALID_FIELD
    );
    assert_eq!(
        status(&mut rig, admin, get(false, 0x20)),
        Status::INVALID_FIELD
    );
    let set = FabricsCommand::PropertySet {
        wide: false,
        offset: Property::Status.offset(),
        value: 1,
    };
    assert_eq!(status(&mut rig, admin, set.emit(1)), Status::INVALID_FIELD);
}

#[test]
fn nothing_is_done_before_connect_and_enable() {
    let (mut rig, _) = Rig::new();
    let queue = rig.open();
    let flush = IoCommand::Flush.emit(1, 1);
    let before = rig.command(queue, flush, &[]);
    assert_eq!(
        (before.status, before.sq_head),
        (Status::COMMAND_SEQUENCE, 0)
    );
    let get = FabricsCommand::PropertyGet {
        wide: true,
        offset: 0,
    };
    let before = rig.command(queue, get.emit(1), &[]);
    assert_eq!(before.status, Status::COMMAND_SEQUENCE);
    let cqe = rig.connect(queue, 0, 8, CONTROLLER_ANY);
    assert_eq!(cqe.status, Status::SUCCESS);
    let sqe = Sqe::new(admin::KEEP_ALIVE, 4, 0);
    assert_eq!(
        rig.command(queue, sqe, &[]).status,
        Status::COMMAND_SEQUENCE
    );
}

#[test]
fn features_events_and_the_rest_of_the_admin_commands() {
    let (mut rig, _) = Rig::new();
    let (queue, _) = rig.ready();
    let command = |opcode, feature, value| {
        let mut sqe = Sqe::new(opcode, 9, 0);
        sqe.dwords[..2].copy_from_slice(&[feature, value]);
        sqe
    };
    let run = |rig: &mut Rig, sqe| {
        let cqe = rig.command(queue, sqe, &[]);
        (cqe.status.without_hints(), cqe.result)
    };
    let queues = command(admin::SET_FEATURES, 7, 0x007f_007f);
    assert_eq!(run(&mut rig, queues), (Status::SUCCESS, 0x0004_0004));
    let absurd = command(admin::SET_FEATURES, 7, 0xffff);
    assert_eq!(run(&mut rig, absurd).0, Status::INVALID_FIELD);
    let keep_alive = command(admin::SET_FEATURES, 0x0f, 5000);
    assert_eq!(run(&mut rig, keep_alive).0, Status::SUCCESS);
    let keep_alive = command(admin::GET_FEATURES, 0x0f, 0);
    assert_eq!(run(&mut rig, keep_alive), (Status::SUCCESS, 5000));
    let abort = command(admin::ABORT, 0, 0);
    assert_eq!(run(&mut rig, abort), (Status::SUCCESS, 1));
    let log = command(admin::GET_LOG_PAGE, 2, 0);
    assert_eq!(run(&mut rig, log).0, Status::INVALID_LOG_PAGE);
    let security = command(0x81, 0, 0);
    assert_eq!(run(&mut rig, security).0, Status::INVALID_OPCODE);
    // Event requests are held; the fifth exceeds the limit. A reset ends them without an answer.
    for id in 20..24 {
        rig.post(queue, Sqe::new(admin::ASYNC_EVENT_REQUEST, id, 0), &[]);
    }
    let fifth = Sqe::new(admin::ASYNC_EVENT_REQUEST, 24, 0);
    assert_eq!(rig.command(queue, fifth, &[]).status, Status::EVENT_LIMIT);
    for _ in 0..3 {
        rig.set(queue, Property::Configuration, 0);
        let enable = Configuration::ENABLE.emit();
        rig.set(queue, Property::Configuration, enable.into());
        for id in 20..24 {
            rig.post(queue, Sqe::new(admin::ASYNC_EVENT_REQUEST, id, 0), &[]);
        }
    }
    let sqe = Sqe::new(admin::KEEP_ALIVE, 4, 0);
    assert_eq!(rig.command(queue, sqe, &[]).status, Status::SUCCESS);
}

#[test]
fn a_reset_ends_the_io_queues() {
    let (mut rig, _) = Rig::new();
    let (admin, io) = rig.ready();
    rig.set(admin, Property::Configuration, 0);
    assert_eq!(rig.get(admin, Property::Status), 0);
    rig.settle();
    let broken: Vec<_> = rig.target.broken().collect();
    assert_eq!(broken, [rig.queues[io].target]);
    rig.target
        .close_queue(&mut rig.nic, rig.queues[io].target)
        .unwrap();
    assert_eq!(rig.target.broken().count(), 0);
}

#[test]
fn disconnect_ends_an_io_queue() {
    let (mut rig, _) = Rig::new();
    let (admin, io) = rig.ready();
    let disconnect = FabricsCommand::Disconnect.emit(6);
    let cqe = rig.command(admin, disconnect, &[]);
    assert_eq!(cqe.status, Status::QUEUE_TYPE);
    let cqe = rig.command(io, disconnect, &[]);
    assert_eq!(cqe.status, Status::SUCCESS);
    let flush = IoCommand::Flush.emit(1, 1);
    let cqe = rig.command(io, flush, &[]);
    assert_eq!(cqe.status, Status::COMMAND_SEQUENCE);
}

#[test]
fn a_silent_host_loses_its_controller() {
    let (mut rig, _) = Rig::new();
    let queue = rig.open();
    let connect = FabricsCommand::Connect(Connect {
        queue_id: 0,
        queue_size: 7,
        attributes: 0,
        keep_alive_ms: 10,
    });
    let data = connect_data(CONTROLLER_ANY).emit();
    let cqe = rig.command(queue, with_capsule(connect, 1024), &data);
    assert_eq!(cqe.status, Status::SUCCESS);
    let start = rig.now;
    assert_eq!(rig.get(queue, Property::Status), 0);
    rig.settle();
    assert_eq!(rig.target.broken().count(), 1);
    assert!(rig.now.since(start) >= Duration::from_millis(10));
}

#[test]
fn queues_are_admitted_out_of_band() {
    let (mut rig, disk) = Rig::new();
    // The admin queue's queue pair is never connected.
    let admin = rig.target.open_queue(&mut rig.nic).unwrap();
    let capsule = |sqe: Sqe, data: &[u8]| [&sqe.emit()[..], data].concat();
    let connect = |id, controller| {
        let data = connect_data(controller).emit();
        capsule(with_capsule(connect_command(id, 8), 1024), &data)
    };
    let cqe = rig.target.admit(admin, &connect(0, CONTROLLER_ANY));
    assert_eq!((cqe.status, cqe.sq_head), (Status::SUCCESS, 1));
    let enable = FabricsCommand::PropertySet {
        wide: false,
        offset: Property::Configuration.offset(),
        value: Configuration::ENABLE.emit().into(),
    };
    let cqe = rig.target.admit(admin, &capsule(enable.emit(2), &[]));
    assert_eq!((cqe.status, cqe.sq_head), (Status::SUCCESS, 2));
    let io = rig.open();
    let cqe = rig.target.admit(rig.queues[io].target, &connect(1, 1));
    assert_eq!((cqe.status, cqe.sq_head), (Status::SUCCESS, 1));
    rig.fill(0, &[7; 512]);
    let cqe = rig.command(io, rig.write(3, 5, 1, 0), &[]);
    assert_eq!((cqe.status, cqe.sq_head), (Status::SUCCESS, 2));
    assert_eq!(disk.bytes(5), [7; 512]);
    // Commands that move data are not accepted here, and neither are malformed ones.
    let qpn = rig.queues[io].target;
    let read = capsule(rig.read(4, 5, 1, 0), &[]);
    assert_eq!(
        rig.target.admit(qpn, &read).status,
        Status::COMMAND_SEQUENCE
    );
    let cqe = rig.target.admit(qpn, &[0; 10]);
    assert_eq!(cqe.command_id, 0xffff);
    let unknown = rackweave_base::Qpn(0xabcdef);
    let cqe = rig.target.admit(unknown, &connect(1, 1));
    assert_eq!(cqe.status, Status::COMMAND_SEQUENCE);
    // The end of the admin queue ends the controller, and with it the I/O queue.
    rig.target.close_queue(&mut rig.nic, admin).unwrap();
    assert_eq!(rig.target.broken().collect::<Vec<_>>(), [qpn]);
}
