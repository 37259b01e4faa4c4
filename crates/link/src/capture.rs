//! Captures: packets on links or at the ports of a switch, in a [`crate::pcapng`] file.
//!
//! [`CaptureTap`] creates the file and belongs to one thread; [`SharedCapture`] is a handle to one
//! for several threads; [`Capture`] is a link that records its packets. Packets are always written
//! as whole RoCEv2 packets: where links omit the ICRC, it is computed for the file. A packet whose
//! payload no longer exists is cut after its headers and has a comment that says so.
//!
//! A capture never stops the rack. When the file is full or cannot be written, recording ends and
//! [`SharedCapture::finish`] reports the reason.

mod link;
mod shared;
#[cfg(test)]
mod tests;

pub use link::Capture;
pub use shared::SharedCapture;

use crate::pcapng::{Direction, Entry, InterfaceId, WriteError, Writer};
use rackweave_base::{Instant, Memory, Packet, Payload, PortId};
use rackweave_wire::fabric::query;
use rackweave_wire::{icrc, train};
use std::io::{self, Write};
use std::path::PathBuf;

/// The name that captures have in their section header.
const APPLICATION: &str = "Rackweave";

/// The comment of a packet that could not be kept whole.
const PAYLOAD_GONE: &str = "payload left out: its memory block is gone";

/// Options of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CaptureOptions {
    /// Names of the ports, in the order of their numbers. A port without a name here is shown by
    /// its number.
    pub ports: Vec<String>,
    /// Maximum bytes of the file. Packets beyond it are counted and left out.
    pub bytes_max: Option<u64>,
}

/// Summary of a finished capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaptureSummary {
    /// Packets in the file.
    pub packets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Packets left out because the file had reached its bound.
    pub left_out: u64,
}

/// Why a capture could not be created or is not complete.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file could not be created.
    #[error(
        "cannot create the capture file {}: {source}; check that the folder exists and may be \
         written to", path.display()
    )]
    Create {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The bound leaves no space even for the descriptions of the ports.
    #[error(
        "a capture of {ports} ports does not even start within {bytes_max} bytes; raise the bound"
    )]
    BoundTooSmall {
        /// Number of ports to describe.
        ports: usize,
        /// The bound.
        bytes_max: u64,
    },
    /// Writing failed; earlier packets may be in the file.
    #[error(
        "the capture ended after {packets} packets because the file could not be written: \
         {source}; check the space on its disk"
    )]
    Write {
        /// Packets recorded before.
        packets: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The capture was finished before.
    #[error("the capture was already finished")]
    Finished,
}

/// A capture at the ports of a switch, for one thread.
#[derive(Debug)]
pub struct CaptureTap<W: Write> {
    state: State<W>,
    memory: Memory,
    /// The interface of each port, once described.
    interfaces: Vec<Option<InterfaceId>>,
    picture: Picture,
    packets: u64,
    left_out: u64,
}

#[derive(Debug)]
enum State<W> {
    Open(Writer<W>),
    /// The bound is reached; nothing more is written.
    Full(Writer<W>),
    Failed(io::Error),
    Finished,
}

/// The bytes of a packet as written to the file.
#[derive(Debug, Default)]
struct Picture {
    bytes: Vec<u8>,
    wire_len: u32,
    is_whole: bool,
}

impl Picture {
    fn take(&mut self, packet: &Packet, memory: &Memory) {
        self.bytes.clear();
        // The payload is first copied and then hashed, so that both see the same bytes even if the
        // region is being written to.
        let Some(payload) = packet.payload.to_vec(memory) else {
            self.bytes.extend_from_slice(packet.header());
            self.wire_len = packet.wire_len() as u32;
            self.is_whole = false;
            return;
        };
        let mut copy = Packet::new(packet.header(), Payload::copied(&payload));
        copy.set_pad(packet.pad());
        copy.check = packet.check;
        crate::seal_if_missing(&mut copy, memory);
        if copy.check.is_none() {
            copy.check = check_of_carried(&copy, memory);
        }
        let complete = copy.serialise(memory, &mut self.bytes);
        assert!(complete, "a copied payload is at hand");
        self.wire_len = self.bytes.len() as u32;
        self.is_whole = true;
    }
}

/// The check value of a query between two switches, if links omit it: that of the READ without the
/// query header, which the lengths include.
fn check_of_carried(packet: &Packet, memory: &Memory) -> Option<[u8; 4]> {
    if query::sort(packet.header()) != Some(query::Kind::Carried) {
        return None;
    }
    let mut bare = packet.clone();
    let progress = query::detach(&mut bare).ok()?;
    if progress.is_lookup || bare.check.is_some() {
        return None;
    }
    icrc::compute(&bare, memory)
}

impl<W: Write> CaptureTap<W> {
    /// Starts a capture that is written to `out` in small pieces: it should be buffered.
    ///
    /// # Errors
    /// If the ports do not fit the bound, or writing fails.
    pub fn new(out: W, options: &CaptureOptions, memory: Memory) -> Result<Self, CaptureError> {
        let start = || {
            let mut writer = Writer::new(out, APPLICATION, options.bytes_max)?;
            let describe = |name: &String| writer.interface(name).map(Some);
            let interfaces = options
                .ports
                .iter()
                .map(describe)
                .collect::<Result<_, _>>()?;
            Ok((writer, interfaces))
        };
        let (writer, interfaces) = start().map_err(|error| match error {
            WriteError::Io(source) => CaptureError::Write { packets: 0, source },
            WriteError::Full { bytes_max } => CaptureError::BoundTooSmall {
                ports: options.ports.len(),
                bytes_max,
            },
            WriteError::UnknownInterface { .. } => unreachable!("no packet was written"),
        })?;
        let state = State::Open(writer);
        let picture = Picture::default();
        Ok(Self {
            state,
            memory,
            interfaces,
            picture,
            packets: 0,
            left_out: 0,
        })
    }

    /// Records `packet` at `port`; `dropped` is the reason if the switch dropped it. An error is
    /// reported by [`Self::finish`].
    pub fn record(
        &mut self,
        now: Instant,
        port: PortId,
        direction: Direction,
        packet: &Packet,
        dropped: Option<&str>,
    ) {
        // The file contains what would be on a cable: each fragment of a train.
        match train::split(packet) {
            Ok(packets) => packets.for_each(|p| self.record_one(now, port, direction, &p, dropped)),
            Err(_) => self.record_one(now, port, direction, packet, dropped),
        }
    }

    fn record_one(
        &mut self,
        now: Instant,
        port: PortId,
        direction: Direction,
        packet: &Packet,
        dropped: Option<&str>,
    ) {
        if !self.is_open() {
            return;
        }
        let mut picture = core::mem::take(&mut self.picture);
        picture.take(packet, &self.memory);
        self.write(now, port, direction, &picture, dropped);
        self.picture = picture;
    }

    /// Passes everything recorded so far to the system. An error is reported by [`Self::finish`].
    pub fn flush(&mut self) {
        if let State::Open(writer) | State::Full(writer) = &mut self.state
            && let Err(error) = writer.flush()
        {
            self.fail(error);
        }
    }

    /// Ends the capture and returns its summary.
    ///
    /// # Errors
    /// If writing failed at any time, or the capture was finished before.
    pub fn finish(&mut self) -> Result<CaptureSummary, CaptureError> {
        let fail = |packets, source| Err(CaptureError::Write { packets, source });
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Open(writer) | State::Full(writer) => {
                let bytes = writer.bytes();
                match writer.finish() {
                    Ok(_) => {
                        let (packets, left_out) = (self.packets, self.left_out);
                        Ok(CaptureSummary {
                            packets,
                            bytes,
                            left_out,
                        })
                    }
                    Err(error) => fail(self.packets, into_io(error)),
                }
            }
            State::Failed(source) => fail(self.packets, source),
            State::Finished => Err(CaptureError::Finished),
        }
    }

    /// Whether a packet would still have an effect.
    fn is_open(&mut self) -> bool {
        if matches!(self.state, State::Full(_)) {
            self.left_out += 1;
        }
        matches!(self.state, State::Open(_))
    }

    fn write(
        &mut self,
        at: Instant,
        port: PortId,
        direction: Direction,
        picture: &Picture,
        dropped: Option<&str>,
    ) {
        let State::Open(writer) = &mut self.state else {
            return;
        };
        let gone = (!picture.is_whole).then_some(PAYLOAD_GONE);
        let comment = match (dropped, gone) {
            (Some(reason), Some(gone)) => Some(format!("dropped: {reason}; {gone}")),
            (Some(reason), None) => Some(format!("dropped: {reason}")),
            (None, gone) => gone.map(str::to_owned),
        };
        let written = interface_of(writer, &mut self.interfaces, port).and_then(|interface| {
            writer.packet(&Entry {
                at,
                interface,
                direction,
                bytes: &picture.bytes,
                wire_len: picture.wire_len,
                comment: comment.as_deref(),
            })
        });
        match written {
            Ok(()) => self.packets += 1,
            Err(error) => self.fail(error),
        }
    }

    /// Ends recording because the bound is reached, or with an error.
    fn fail(&mut self, error: WriteError) {
        let state = core::mem::replace(&mut self.state, State::Finished);
        self.state = match (error, state) {
            (WriteError::Full { .. }, State::Open(writer)) => {
                self.left_out += 1;
                State::Full(writer)
            }
            (error, _) => State::Failed(into_io(error)),
        };
    }
}

/// The interface of `port`, described now if it never was.
fn interface_of<W: Write>(
    writer: &mut Writer<W>,
    interfaces: &mut Vec<Option<InterfaceId>>,
    port: PortId,
) -> Result<InterfaceId, WriteError> {
    let at = usize::from(port.0);
    if interfaces.len() <= at {
        interfaces.resize(at + 1, None);
    }
    if let Some(interface) = interfaces[at] {
        return Ok(interface);
    }
    let interface = writer.interface(&format!("port {at}"))?;
    interfaces[at] = Some(interface);
    Ok(interface)
}

fn into_io(error: WriteError) -> io::Error {
    match error {
        WriteError::Io(error) => error,
        other => io::Error::other(other),
    }
}
