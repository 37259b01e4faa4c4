//! Identify Controller: the capabilities of a controller (Base 5.17.2.1; Fabrics 4.1).

use super::NvmeError;
use super::error::first;
use super::identify::LEN;

/// Write Zeroes is supported (ONCS, bit 3).
pub const WRITE_ZEROES: u16 = 1 << 3;
/// SGLs are supported, with no alignment required (SGLS, bits 1:0).
pub const SGL: u32 = 0b01;
/// Keyed SGL data blocks are supported (SGLS, bit 2).
pub const SGL_KEYED: u32 = 1 << 2;
/// Offsets in the capsule are supported (SGLS, bit 20).
pub const SGL_OFFSET: u32 = 1 << 20;
/// There is a volatile write cache, and Flush is for one namespace at a time (VWC, bits 2:0).
pub const CACHE_FLUSH_ONE: u8 = 0b101;

/// The description of a controller. Fields that are not here are zero, except for the entry sizes
/// of the queues (SQES, CQES), which are fixed, and the type, an I/O controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdentifyController {
    /// Serial number, up to 20 ASCII characters (SN, byte 4).
    pub serial: String,
    /// Model, up to 40 ASCII characters (MN, byte 24).
    pub model: String,
    /// Firmware revision, up to 8 ASCII characters (FR, byte 64).
    pub firmware: String,
    /// Several controllers may share the subsystem (CMIC, byte 76 bit 1).
    pub shared: bool,
    /// Maximum data of one command: 4 KiB times 2 to the power of this; 0 means no limit (MDTS,
    /// byte 77).
    pub transfer_shift: u8,
    /// The controller's id (CNTLID, byte 78).
    pub controller_id: u16,
    /// The specification's version (VER, byte 80).
    pub version: u32,
    /// Event requests held, counted from zero (AERL, byte 259).
    pub event_requests_max: u8,
    /// The step of the keep alive timer in 100 ms; 0 if there is none (KAS, byte 320).
    pub keep_alive_step: u16,
    /// Maximum commands in flight on one queue (MAXCMD, byte 514).
    pub commands_max: u16,
    /// The greatest namespace id (NN, byte 516).
    pub namespaces: u32,
    /// Optional commands (ONCS, byte 520): [`WRITE_ZEROES`].
    pub commands: u16,
    /// The volatile write cache (VWC, byte 525): [`CACHE_FLUSH_ONE`].
    pub write_cache: u8,
    /// SGLs (SGLS, byte 536): [`SGL`], [`SGL_KEYED`], [`SGL_OFFSET`].
    pub sgls: u32,
    /// The subsystem's qualified name (SUBNQN, byte 768).
    pub subsystem: String,
    /// Bytes of a command capsule on I/O queues, a multiple of 16 (IOCCSZ, byte 1792).
    pub command_capsule: u32,
    /// Bytes of a response capsule, a multiple of 16 (IORCSZ, byte 1796).
    pub response_capsule: u32,
    /// Maximum descriptors of one SGL (MSDBD, byte 1803).
    pub descriptors_max: u8,
}

/// Copies an ASCII field, padded with spaces (Base 1.4.2).
fn put(field: &mut [u8], text: &str) {
    field.fill(b' ');
    let len = text.len().min(field.len());
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
}

/// An ASCII field without trailing spaces.
fn get(field: &[u8], what: &'static str) -> Result<String, NvmeError> {
    let text = core::str::from_utf8(field).map_err(|_| NvmeError::Name(what))?;
    Ok(text.trim_end_matches(' ').to_owned())
}

impl IdentifyController {
    /// The structure's bytes. Text that is too long is truncated.
    pub fn emit(&self) -> Box<[u8; LEN]> {
        let mut bytes = Box::new([0; LEN]);
        put(&mut bytes[4..24], &self.serial);
        put(&mut bytes[24..64], &self.model);
        put(&mut bytes[64..72], &self.firmware);
        bytes[76] = u8::from(self.shared) << 1;
        bytes[77] = self.transfer_shift;
        bytes[78..80].copy_from_slice(&self.controller_id.to_le_bytes());
        bytes[80..84].copy_from_slice(&self.version.to_le_bytes());
        // CNTRLTYPE: an I/O controller.
        bytes[111] = 1;
        bytes[259] = self.event_requests_max;
        bytes[320..322].copy_from_slice(&self.keep_alive_step.to_le_bytes());
        // SQES and CQES: the least and the greatest entry size, powers of two.
        bytes[512] = 0x66;
        bytes[513] = 0x44;
        bytes[514..516].copy_from_slice(&self.commands_max.to_le_bytes());
        bytes[516..520].copy_from_slice(&self.namespaces.to_le_bytes());
        bytes[520..522].copy_from_slice(&self.commands.to_le_bytes());
        bytes[525] = self.write_cache;
        bytes[536..540].copy_from_slice(&self.sgls.to_le_bytes());
        let name = self.subsystem.as_bytes();
        let len = name.len().min(255);
        bytes[768..768 + len].copy_from_slice(&name[..len]);
        bytes[1792..1796].copy_from_slice(&(self.command_capsule / 16).to_le_bytes());
        bytes[1796..1800].copy_from_slice(&(self.response_capsule / 16).to_le_bytes());
        bytes[1803] = self.descriptors_max;
        bytes
    }

    /// Decodes the structure.
    ///
    /// # Errors
    /// If there are fewer than 4096, or a text is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, NvmeError> {
        let bytes = first::<LEN>(bytes, "Identify Controller")?;
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let name = &bytes[768..1024];
        let end = name.iter().position(|byte| *byte == 0);
        let subsystem = end.ok_or(NvmeError::Name("the subsystem's name"))?;
        Ok(Self {
            serial: get(&bytes[4..24], "the serial number")?,
            model: get(&bytes[24..64], "the model")?,
            firmware: get(&bytes[64..72], "the firmware revision")?,
            shared: bytes[76] & 2 != 0,
            transfer_shift: bytes[77],
            controller_id: u16_at(78),
            version: u32_at(80),
            event_requests_max: bytes[259],
            keep_alive_step: u16_at(320),
            commands_max: u16_at(514),
            namespaces: u32_at(516),
            commands: u16_at(520),
            write_cache: bytes[525],
            sgls: u32_at(536),
            subsystem: get(&name[..subsystem], "the subsystem's name")?,
            command_capsule: u32_at(1792).saturating_mul(16),
            response_capsule: u32_at(1796).saturating_mul(16),
            descriptors_max: bytes[1803],
        })
    }
}
