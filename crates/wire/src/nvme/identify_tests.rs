//! Identify data laid out by hand, byte by byte.

use super::identify::{self, IdentifyNamespace, NamespaceDescriptor};
use super::identify_controller::{SGL, SGL_KEYED, SGL_OFFSET, WRITE_ZEROES};
use super::*;

fn controller() -> IdentifyController {
    IdentifyController {
        serial: "12".to_owned(),
        model: "Rackweave".to_owned(),
        firmware: "0.1.0".to_owned(),
        shared: true,
        transfer_shift: 5,
        controller_id: 0x0102,
        version: 0x0002_0000,
        event_requests_max: 3,
        keep_alive_step: 10,
        commands_max: 128,
        namespaces: 4,
        commands: WRITE_ZEROES,
        write_cache: 5,
        sgls: SGL | SGL_KEYED | SGL_OFFSET,
        subsystem: "nqn.disk".to_owned(),
        command_capsule: 64 + 4096,
        response_capsule: 16,
        descriptors_max: 1,
    }
}

#[test]
fn a_controller_as_the_figure_lays_it_out() {
    // Byte offsets of Identify Controller and of the fields that Fabrics adds to it.
    let mut bytes = [0; identify::LEN];
    bytes[4..72].fill(b' ');
    bytes[4..6].copy_from_slice(b"12");
    bytes[24..33].copy_from_slice(b"Rackweave");
    bytes[64..69].copy_from_slice(b"0.1.0");
    bytes[76] = 2;
    bytes[77] = 5;
    bytes[78..80].copy_from_slice(&[2, 1]);
    bytes[82] = 2;
    bytes[111] = 1;
    bytes[259] = 3;
    bytes[320] = 10;
    (bytes[512], bytes[513]) = (0x66, 0x44);
    bytes[514] = 128;
    bytes[516] = 4;
    bytes[520] = 8;
    bytes[525] = 5;
    bytes[536..540].copy_from_slice(&[0x05, 0x00, 0x10, 0x00]);
    bytes[768..776].copy_from_slice(b"nqn.disk");
    bytes[1792..1794].copy_from_slice(&[0x04, 0x01]); // 260 units of 16 bytes
    bytes[1796] = 1;
    bytes[1803] = 1;
    assert_eq!(controller().emit()[..], bytes[..]);
    assert_eq!(IdentifyController::parse(&bytes), Ok(controller()));
}

#[test]
fn namespaces_as_the_figures_lay_them_out() {
    let namespace = IdentifyNamespace {
        blocks: 0x0102,
        capacity: 0x0304,
        used: 5,
        shared: true,
        deallocated: 1,
        atomic_blocks: 0x0102,
        guid: [0xab; 16],
        block_shift: 12,
    };
    let mut bytes = [0; identify::LEN];
    bytes[0..2].copy_from_slice(&[2, 1]);
    bytes[8..10].copy_from_slice(&[4, 3]);
    bytes[16] = 5;
    bytes[30] = 1;
    bytes[33] = 1;
    // The atomic sizes are valid (NSFEAT bit 1); they are zero-based.
    bytes[24] = 2;
    bytes[34..38].copy_from_slice(&[1, 1, 1, 1]);
    bytes[104..120].fill(0xab);
    bytes[130] = 12;
    assert_eq!(namespace.emit()[..], bytes[..]);
    assert_eq!(IdentifyNamespace::parse(&bytes), Ok(namespace));
    for (atomic_blocks, feature, last) in [(0, 0, 0), (1, 2, 0), (65_536, 2, 0xffff)] {
        let namespace = IdentifyNamespace {
            atomic_blocks,
            ..namespace
        };
        let bytes = namespace.emit();
        let upf = u16::from_le_bytes([bytes[36], bytes[37]]);
        assert_eq!((bytes[24], upf), (feature, last));
        assert_eq!(IdentifyNamespace::parse(&bytes[..]), Ok(namespace));
    }

    let list = identify::emit_list(&[1, 0x0203]);
    assert_eq!(list[..12], [1, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(identify::parse_list(&list[..]), Ok(vec![1, 0x0203]));

    let descriptors = [
        NamespaceDescriptor::Eui64([1; 8]),
        NamespaceDescriptor::Uuid([3; 16]),
        NamespaceDescriptor::CommandSet(0),
    ];
    let mut bytes = identify::emit_descriptors(&descriptors);
    assert_eq!(bytes[..5], [1, 8, 0, 0, 1]);
    assert_eq!(bytes[12..17], [3, 16, 0, 0, 3]);
    assert_eq!(bytes[32..38], [4, 1, 0, 0, 0, 0]);
    assert_eq!(
        identify::parse_descriptors(&bytes[..]),
        Ok(descriptors.to_vec())
    );
    bytes[13] = 15;
    assert_eq!(
        identify::parse_descriptors(&bytes[..]),
        Err(NvmeError::Descriptor { at: 12 })
    );
}
