//! Writes pcapng files, which Wireshark and tshark read (draft-ietf-opsawg-pcapng, sections 4.1,
//! 4.2 and 4.3).
//!
//! A file is one section: its header, one description per interface, and packets. Numbers are
//! little-endian, times are nanoseconds since the start of the run. The interfaces of a capture are
//! the ports of the switch, and a packet's direction is from the point of view of the switch.

#[cfg(test)]
mod tests;

use rackweave_base::Instant;
use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_SECTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_INTERFACE_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;

/// Times count units of ten to the minus this many seconds.
const RESOLUTION_NANOSECONDS: u8 = 9;

/// Maximum bytes of a name or comment; an option's length has 16 bits, and a longer text is not
/// useful.
const TEXT_MAX: usize = 1024;

/// The direction of a packet through a port, from the point of view of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Into the switch.
    Ingress,
    /// Out of the switch.
    Egress,
}

/// Names an interface of a file, in the order of description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceId(pub u32);

/// One packet in a file.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The time at which it passed.
    pub at: Instant,
    /// The interface that it passed.
    pub interface: InterfaceId,
    /// Its direction.
    pub direction: Direction,
    /// Its bytes, from the Ethernet header on, as far as they are known.
    pub bytes: &'a [u8],
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// A comment on it.
    pub comment: Option<&'a str>,
}

/// Why a block could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file would grow beyond its bound; nothing of the block was written.
    #[error("the block would take the file past its bound of {bytes_max} bytes")]
    Full {
        /// The bound.
        bytes_max: u64,
    },
    /// The packet's interface was never described.
    #[error("interface {interface} is not described; there are {described}")]
    UnknownInterface {
        /// The interface requested.
        interface: u32,
        /// Number of described interfaces.
        described: u32,
    },
}

/// Writes one file.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The block being built, kept to reuse its capacity.
    block: Vec<u8>,
    interfaces: u32,
    bytes: u64,
    bytes_max: Option<u64>,
}

impl<W: Write> Writer<W> {
    /// Starts a file with a section header that names `application`. The file never grows beyond
    /// `bytes_max`.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn new(out: W, application: &str, bytes_max: Option<u64>) -> Result<Self, WriteError> {
        let mut writer = Self {
            out,
            block: Vec::new(),
            interfaces: 0,
            bytes: 0,
            bytes_max,
        };
        writer.begin(SECTION_HEADER);
        writer.put(&BYTE_ORDER_MAGIC.to_le_bytes());
        // Version 1.0; the length of the section is left open.
        writer.put(&1u16.to_le_bytes());
        writer.put(&0u16.to_le_bytes());
        writer.put(&u64::MAX.to_le_bytes());
        writer.option(OPTION_SECTION_APPLICATION, bounded(application).as_bytes());
        writer.option(OPTION_END, &[]);
        writer.end()?;
        Ok(writer)
    }

    /// Describes an Ethernet interface with times in nanoseconds.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn interface(&mut self, name: &str) -> Result<InterfaceId, WriteError> {
        self.begin(INTERFACE_DESCRIPTION);
        self.put(&LINKTYPE_ETHERNET.to_le_bytes());
        self.put(&0u16.to_le_bytes());
        // No limit to the bytes kept of a packet.
        self.put(&0u32.to_le_bytes());
        self.option(OPTION_INTERFACE_NAME, bounded(name).as_bytes());
        self.option(OPTION_INTERFACE_RESOLUTION, &[RESOLUTION_NANOSECONDS]);
        self.option(OPTION_END, &[]);
        self.end()?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// If it cannot be written or its interface is not described.
    pub fn packet(&mut self, entry: &Entry<'_>) -> Result<(), WriteError> {
        let InterfaceId(interface) = entry.interface;
        if interface >= self.interfaces {
            return Err(WriteError::UnknownInterface {
                interface,
                described: self.interfaces,
            });
        }
        let nanos = entry.at.as_nanos();
        self.begin(ENHANCED_PACKET);
        self.put(&interface.to_le_bytes());
        self.put(&((nanos >> 32) as u32).to_le_bytes());
        self.put(&(nanos as u32).to_le_bytes());
        self.put(&(entry.bytes.len() as u32).to_le_bytes());
        self.put(&entry.wire_len.to_le_bytes());
        self.put(entry.bytes);
        self.align();
        if let Some(comment) = entry.comment {
            self.option(OPTION_COMMENT, bounded(comment).as_bytes());
        }
        self.option(OPTION_PACKET_FLAGS, &entry.direction.flags().to_le_bytes());
        self.option(OPTION_END, &[]);
        self.end()
    }

    /// Passes everything written so far to the system.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        Ok(self.out.flush()?)
    }

    /// Flushes, and returns the underlying writer.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        Ok(self.out)
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        // Placeholder for the length, which `end` fills in.
        self.put(&[0; 4]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn align(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.align();
    }

    fn end(&mut self) -> Result<(), WriteError> {
        let len = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.put(&len.to_le_bytes());
        let bytes = self.bytes + u64::from(len);
        if let Some(bytes_max) = self.bytes_max
            && bytes > bytes_max
        {
            return Err(WriteError::Full { bytes_max });
        }
        self.out.write_all(&self.block)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Direction {
    /// Bits 0 and 1 of the flags word (section 4.3.1): inbound or outbound.
    const fn flags(self) -> u32 {
        match self {
            Self::Ingress => 1,
            Self::Egress => 2,
        }
    }
}

/// As much of `text` as fits an option, cut between characters.
fn bounded(text: &str) -> &str {
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(TEXT_MAX)).rfind(fits).unwrap_or(0);
    &text[..end]
}
