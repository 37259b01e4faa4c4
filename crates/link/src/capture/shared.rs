//! A capture that several threads write to.

use super::{CaptureError, CaptureOptions, CaptureSummary, CaptureTap};
use crate::pcapng::Direction;
use rackweave_base::{Instant, Memory, Packet, PortId};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are buffered before they are passed to the system.
const BUFFER_BYTES: usize = 1 << 18;

/// A handle to a capture that several threads may hold. Clones record into one file.
#[derive(Clone, Debug)]
pub struct SharedCapture {
    pub(super) tap: Arc<Mutex<CaptureTap<Sink>>>,
    pub(super) memory: Memory,
}

/// The output of a shared capture.
pub(super) struct Sink(Box<dyn Write + Send>);

impl SharedCapture {
    /// Starts a capture in a new file at `path`; an existing file is replaced.
    ///
    /// # Errors
    /// If the file cannot be created or written, or the ports do not fit the bound.
    pub fn create(
        path: &Path,
        options: &CaptureOptions,
        memory: Memory,
    ) -> Result<Self, CaptureError> {
        let file = File::create(path).map_err(|source| CaptureError::Create {
            path: path.to_owned(),
            source,
        })?;
        Self::to_writer(
            Box::new(BufWriter::with_capacity(BUFFER_BYTES, file)),
            options,
            memory,
        )
    }

    /// Starts a capture that is written to `out`, which should be buffered.
    ///
    /// # Errors
    /// If writing fails or the ports do not fit the bound.
    pub fn to_writer(
        out: Box<dyn Write + Send>,
        options: &CaptureOptions,
        memory: Memory,
    ) -> Result<Self, CaptureError> {
        let tap = CaptureTap::new(Sink(out), options, memory.clone())?;
        Ok(Self {
            tap: Arc::new(Mutex::new(tap)),
            memory,
        })
    }

    /// Records a packet; see [`CaptureTap::record`].
    pub fn record(
        &self,
        now: Instant,
        port: PortId,
        direction: Direction,
        packet: &Packet,
        dropped: Option<&str>,
    ) {
        self.tap().record(now, port, direction, packet, dropped);
    }

    /// Passes everything recorded so far to the system; an error is reported by [`Self::finish`].
    pub fn flush(&self) {
        self.tap().flush();
    }

    /// Ends the capture for all holders; packets recorded afterwards are ignored.
    ///
    /// # Errors
    /// If writing failed at any time, or the capture was finished before.
    pub fn finish(&self) -> Result<CaptureSummary, CaptureError> {
        self.tap().finish()
    }

    pub(super) fn tap(&self) -> MutexGuard<'_, CaptureTap<Sink>> {
        // A holder that panicked left at worst a short file, and the capture may still explain why.
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl core::fmt::Debug for Sink {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Sink")
    }
}
