//! Bytes laid out by hand from the figures of the specifications, and round trips.

use super::cm::{CmAccept, CmReject, CmRequest};
use super::fabrics::{CONNECT_DATA_LEN, CONTROLLER_ANY, Connect};
use super::identify::IdentifyNamespace;
use super::property::{Capabilities, Configuration, ControllerStatus};
use super::*;
use proptest::prelude::*;
use rackweave_base::Rkey;

#[test]
fn a_read_command_as_the_figures_lay_it_out() {
    // A common command with the dwords of Read: eight blocks at 1_0000_0002h of namespace 3 are
    // read into 2000h bytes at 7f00_1234_5000h.
    let mut bytes = [0; sqe::LEN];
    bytes[0] = 0x02; // opcode: Read
    bytes[1] = 0x40; // PSDT 01b, no fused operation
    bytes[2..4].copy_from_slice(&[0x34, 0x12]); // command id
    bytes[4] = 3; // namespace
    bytes[24..32].copy_from_slice(&[0x00, 0x50, 0x34, 0x12, 0x00, 0x7f, 0, 0]); // address
    bytes[32..35].copy_from_slice(&[0x00, 0x20, 0x00]); // length, 24 bits
    bytes[35..39].copy_from_slice(&[0xef, 0xbe, 0xad, 0xde]); // key
    bytes[39] = 0x40; // keyed data block, address
    bytes[40..48].copy_from_slice(&[2, 0, 0, 0, 1, 0, 0, 0]); // first block
    bytes[48] = 7; // blocks, counted from zero
    bytes[51] = 0x40; // force unit access
    let range = BlockRange {
        force: true,
        ..BlockRange::new(0x1_0000_0002, 8)
    };
    let sgl = Sgl::keyed(0x7f00_1234_5000, 0x2000, Rkey(0xdead_beef));
    let command = IoCommand::Read(range).emit(0x1234, 3).with_data(sgl);
    assert_eq!(command.emit(), bytes);
    let (parsed, data) = Sqe::parse(&bytes).unwrap();
    assert_eq!((parsed, data.len()), (command, 0));
    assert_eq!(IoCommand::parse(&parsed), Ok(IoCommand::Read(range)));
    assert_eq!(parsed.sgl(), Ok(sgl));
    assert_eq!(
        IoCommand::Read(range).to_string(),
        "Read 8 blocks at 4294967298"
    );
}

#[test]
fn a_write_with_data_in_its_capsule() {
    let mut bytes = vec![0; sqe::LEN];
    bytes[0] = 0x01; // opcode: Write
    bytes[1] = 0x40;
    bytes[2] = 9;
    bytes[4] = 1;
    bytes[24] = 16; // offset
    bytes[32..36].copy_from_slice(&[0x00, 0x10, 0, 0]); // length, 32 bits
    bytes[39] = 0x01; // data block, offset
    bytes[40] = 5;
    bytes.extend([0xaa; 5000]);
    let (sqe, data) = Sqe::parse(&bytes).unwrap();
    let sgl = Sgl::InCapsule {
        offset: 16,
        length: 4096,
    };
    assert_eq!(sqe.sgl(), Ok(sgl));
    assert_eq!(data.len(), 5000);
    let command = IoCommand::Write(BlockRange::new(5, 1));
    assert_eq!(IoCommand::parse(&sqe), Ok(command));
    assert_eq!(command.emit(9, 1).with_data(sgl).emit(), bytes[..64]);
}

#[test]
fn opcodes_are_those_of_the_specification() {
    let range = BlockRange::new(0, 1);
    for (command, opcode) in [
        (IoCommand::Flush, 0x00),
        (IoCommand::Write(range), 0x01),
        (IoCommand::Read(range), 0x02),
        (IoCommand::WriteZeroes(range), 0x08),
    ] {
        assert_eq!(command.emit(0, 1).emit()[0], opcode);
    }
    let compare = Sqe::new(0x05, 0, 1);
    assert_eq!(IoCommand::parse(&compare), Err(NvmeError::IoOpcode(5)));
}

#[test]
fn descriptors_of_other_types_are_refused() {
    let mut bytes = Sgl::keyed(1, 2, Rkey(3)).emit();
    // Data block with address, bit bucket, segment, keyed with offset, transport, vendor.
    for id in [0x00, 0x10, 0x20, 0x30, 0x41, 0x5a, 0xf0, 0x0f] {
        bytes[15] = id;
        assert_eq!(Sgl::parse(&bytes), Err(NvmeError::SglType(id)));
    }
    bytes[15] = 0x4f;
    let sgl = Sgl::parse(&bytes).unwrap();
    assert!(matches!(
        sgl,
        Sgl::Keyed {
            invalidate: true,
            ..
        }
    ));
    assert_eq!(sgl.emit(), bytes);
}

#[test]
fn a_response_as_the_figures_lay_it_out() {
    // The common completion queue entry: LBA Out of Range, not to be retried.
    let bytes = [
        1, 2, 3, 4, 5, 6, 7, 8, 0x0b, 0x0a, 0, 0, 0x34, 0x12, 0x00, 0x81,
    ];
    let cqe = Cqe {
        result: 0x0807_0605_0403_0201,
        sq_head: 0x0a0b,
        command_id: 0x1234,
        status: Status::LBA_OUT_OF_RANGE.permanent(),
    };
    assert_eq!(cqe.emit(), bytes);
    assert_eq!(Cqe::parse(&bytes), Ok(cqe));
    assert_eq!(cqe.to_string(), "command 4660: LBA Out of Range, permanent");
    // Queue id and phase tag are reserved over Fabrics.
    let mut other = bytes;
    (other[10], other[14]) = (7, 1);
    assert_eq!(Cqe::parse(&other), Ok(cqe));
}

#[test]
fn status_types_and_codes() {
    use status::StatusType::*;
    for (status, kind, code) in [
        (Status::SUCCESS, Generic, 0x00),
        (Status::COMMAND_ID_CONFLICT, Generic, 0x03),
        (Status::COMMAND_SEQUENCE, Generic, 0x0c),
        (Status::SGL_TYPE, Generic, 0x11),
        (Status::CAPACITY_EXCEEDED, Generic, 0x81),
        (Status::CONNECT_PARAMETERS, CommandSpecific, 0x82),
        (Status::WRITE_FAULT, Media, 0x80),
        (Status(0x3aa), Path, 0xaa),
        (Status(0x5aa), Reserved(5), 0xaa),
        (Status(0x7aa), Vendor, 0xaa),
    ] {
        assert_eq!((status.kind(), status.code()), (kind, code));
        assert_eq!(status.permanent().without_hints(), status);
        assert_eq!(status.permanent().is_success(), status == Status::SUCCESS);
    }
    assert_eq!(Status(0x7aa).to_string(), "Vendor status 0xaa");
}

#[test]
fn connect_as_the_figures_lay_it_out() {
    // Connect's entry: I/O queue 2 of 128 entries, no flow control, keep alive of 15 s.
    let mut bytes = [0; sqe::LEN];
    bytes[0] = 0x7f;
    bytes[1] = 0x40;
    bytes[2] = 1;
    bytes[4] = 0x01; // Connect
    bytes[42] = 2; // queue
    bytes[44] = 127; // size
    bytes[46] = 4; // attributes
    bytes[48..52].copy_from_slice(&[0x98, 0x3a, 0, 0]); // keep alive
    let connect = FabricsCommand::Connect(Connect {
        queue_id: 2,
        queue_size: 127,
        attributes: 4,
        keep_alive_ms: 15_000,
    });
    assert_eq!(connect.emit(1).emit(), bytes);
    let (mut sqe, _) = Sqe::parse(&bytes).unwrap();
    assert_eq!(FabricsCommand::parse(&sqe), Ok(connect));
    sqe.dwords[0] |= 1;
    assert_eq!(FabricsCommand::parse(&sqe), Err(NvmeError::RecordFormat(1)));
}

#[test]
fn connect_data_as_the_figure_lays_it_out() {
    let mut bytes = [0; CONNECT_DATA_LEN];
    bytes[..16].fill(7);
    bytes[16..18].fill(0xff);
    bytes[256..264].copy_from_slice(b"nqn.disk");
    bytes[512..520].copy_from_slice(b"nqn.host");
    let data = ConnectData {
        host_id: [7; 16],
        controller_id: CONTROLLER_ANY,
        subsystem: "nqn.disk".to_owned(),
        host: "nqn.host".to_owned(),
    };
    assert_eq!(data.emit(), bytes);
    assert_eq!(ConnectData::parse(&bytes), Ok(data));
    let error = |bytes: &[u8]| ConnectData::parse(bytes).unwrap_err();
    assert_eq!(
        error(&bytes[..1023]).to_string(),
        "the data of Connect has 1024 bytes, here are 1023"
    );
    bytes[256..512].fill(b'x');
    assert_eq!(error(&bytes), NvmeError::Name("the subsystem's name"));
    bytes[511] = 0;
    bytes[600] = 0;
    bytes[512] = 0xff;
    assert_eq!(error(&bytes), NvmeError::Name("the host's name"));
}

#[test]
fn properties_as_the_figures_lay_them_out() {
    // Property Set and Get: CC is set to 460001h, CAP is requested.
    let enable = Configuration::ENABLE.emit();
    assert_eq!(enable, 0x0046_0001);
    let mut bytes = [0; sqe::LEN];
    (bytes[0], bytes[1], bytes[2]) = (0x7f, 0x40, 1);
    bytes[44] = 0x14;
    bytes[48..52].copy_from_slice(&[0x01, 0x00, 0x46, 0x00]);
    let set = FabricsCommand::PropertySet {
        wide: false,
        offset: Property::Configuration.offset(),
        value: enable.into(),
    };
    assert_eq!(set.emit(1).emit(), bytes);
    let mut bytes = [0; sqe::LEN];
    (bytes[0], bytes[1], bytes[2]) = (0x7f, 0x40, 1);
    (bytes[4], bytes[40]) = (0x04, 1);
    let get = FabricsCommand::PropertyGet {
        wide: true,
        offset: 0,
    };
    assert_eq!(get.emit(1).emit(), bytes);
    bytes[40] = 2;
    let (sqe, _) = Sqe::parse(&bytes).unwrap();
    assert_eq!(FabricsCommand::parse(&sqe), Err(NvmeError::PropertySize(2)));
    assert_eq!(Property::at(0x1c, false), Some(Property::Status));
    assert_eq!(Property::at(0x1c, true), None);
    assert_eq!(Property::at(0x20, false), None);
    let capabilities = Capabilities {
        queue_size_max: 127,
        contiguous: true,
        ready_timeout: 15,
        nvm_commands: true,
    };
    assert_eq!(capabilities.emit(), 0x0020_0f01_007f);
    assert_eq!(Capabilities::parse(0x0020_0f01_007f), capabilities);
    let status = ControllerStatus {
        ready: true,
        fatal: false,
        shutdown: 2,
    };
    assert_eq!(status.emit(), 0b1001);
    assert_eq!(ControllerStatus::parse(0b1001), status);
}

#[test]
fn fabrics_commands_of_other_kinds_are_refused() {
    assert_eq!(
        FabricsCommand::parse(&Sqe::new(2, 0, 0)),
        Err(NvmeError::NotFabrics(2))
    );
    // Authentication Send.
    assert_eq!(
        FabricsCommand::parse(&Sqe::new(0x7f, 0, 5)),
        Err(NvmeError::FabricsType(5))
    );
    let disconnect = FabricsCommand::Disconnect.emit(3);
    assert_eq!(disconnect.emit()[4], 0x08);
    assert_eq!(
        FabricsCommand::parse(&disconnect),
        Ok(FabricsCommand::Disconnect)
    );
}

#[test]
fn private_data_of_the_connection_manager() {
    let request = CmRequest {
        queue_id: 1,
        host_receive_size: 0x80,
        host_send_size: 0x7f,
        controller_id: 0x0203,
    };
    let mut bytes = [0; cm::LEN];
    bytes[..10].copy_from_slice(&[0, 0, 1, 0, 0x80, 0, 0x7f, 0, 3, 2]);
    assert_eq!(request.emit(), bytes);
    assert_eq!(CmRequest::parse(&bytes), Ok(request));
    assert!(CmRequest::parse(&bytes[..31]).is_err());
    bytes[1] = 1;
    assert_eq!(
        CmRequest::parse(&bytes),
        Err(NvmeError::RecordFormat(0x100))
    );
    let accept = CmAccept {
        controller_receive_size: 32,
    };
    assert_eq!(accept.emit()[..4], [0, 0, 32, 0]);
    assert_eq!(CmAccept::parse(&accept.emit()), Ok(accept));
    let reject = CmReject {
        status: cm::reject::RESOURCES,
    };
    assert_eq!(reject.emit(), [0, 0, 6, 0]);
    assert_eq!(CmReject::parse(&reject.emit()), Ok(reject));
}

proptest! {
    #[test]
    fn any_64_bytes_are_a_command(bytes in any::<[u8; sqe::LEN]>()) {
        let (sqe, _) = Sqe::parse(&bytes).unwrap();
        let mut expect = bytes;
        expect[1] &= 0b1100_0011;
        prop_assert_eq!(sqe.emit(), expect);
        if let Ok(command) = IoCommand::parse(&sqe) {
            let again = command.emit(sqe.command_id, sqe.nsid);
            prop_assert_eq!(IoCommand::parse(&again), Ok(command));
        }
    }

    #[test]
    fn fabrics_commands_go_round(mut sqe in any::<[u8; sqe::LEN]>(), kind in 0_u8..10) {
        (sqe[0], sqe[4], sqe[40], sqe[41]) = (0x7f, kind, sqe[40] % 3, 0);
        let (sqe, _) = Sqe::parse(&sqe).unwrap();
        if let Ok(command) = FabricsCommand::parse(&sqe) {
            prop_assert_eq!(FabricsCommand::parse(&command.emit(7)), Ok(command));
        }
    }

    #[test]
    fn descriptors_go_round(mut bytes in any::<[u8; sgl::LEN]>(), keyed in any::<bool>()) {
        bytes[15] = if keyed { 0x40 } else { 0x01 };
        if !keyed {
            bytes[12..15].fill(0);
        }
        prop_assert_eq!(Sgl::parse(&bytes).unwrap().emit(), bytes);
    }

    #[test]
    fn responses_go_round(mut bytes in any::<[u8; cqe::LEN]>()) {
        bytes[10..12].fill(0);
        bytes[14] &= 0xfe;
        prop_assert_eq!(Cqe::parse(&bytes).unwrap().emit(), bytes);
    }

    #[test]
    fn configurations_go_round(value: u32) {
        let configuration = Configuration::parse(value);
        prop_assert_eq!(Configuration::parse(configuration.emit()), configuration);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..4200)) {
        let _ = Sqe::parse(&bytes).map(|(sqe, _)| (FabricsCommand::parse(&sqe), sqe.sgl()));
        let _ = ConnectData::parse(&bytes);
        let _ = IdentifyController::parse(&bytes);
        let _ = IdentifyNamespace::parse(&bytes);
        let _ = identify::parse_list(&bytes);
        let _ = identify::parse_descriptors(&bytes);
        let _ = CmRequest::parse(&bytes);
    }
}
