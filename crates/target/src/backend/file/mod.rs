//! Blocks in a file or block device.
//!
//! Two engines do the I/O. *io_uring* submits requests to the kernel, with `O_DIRECT` where the
//! file system allows it, so that data moves between the medium and the transfer buffer with no
//! copy and no thread. *Positional* reads and writes (`pread`, `pwrite`) in a few worker threads;
//! it is for systems that forbid io_uring. Neither ever blocks the polling thread.
//!
//! Blocks never written read as zeroes: a created file is sparse, and durable before it is used. A
//! block device cannot be created, only opened.
//!
//! Flushes share syncs; after the first failed sync every flush fails (`syncs`).

mod open;
mod positional;
mod requests;
mod syncs;
#[cfg(test)]
mod tests;
mod uring;

pub use open::FileError;

use super::{Backend, Io, IoDone, IoError, IoKind};
use positional::Positional;
use rackweave_base::{Duration, Instant};
use std::path::Path;
use syncs::{Flush, Syncs};
use uring::Uring;

/// Interval of polling for completions: less than any device takes.
const POLL_INTERVAL: Duration = Duration::from_micros(5);

/// How a file is read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// io_uring if the system has it and allows it, otherwise positional.
    #[default]
    Auto,
    /// io_uring only.
    Uring,
    /// `pread` and `pwrite` in worker threads.
    Positional,
}

/// Options of a file backend; the defaults suit most uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileOptions {
    /// The engine.
    pub engine: Engine,
    /// Whether to bypass the page cache (`O_DIRECT`) where the file system allows it for this block
    /// size.
    pub direct: bool,
    /// Maximum requests in flight, 1 to 4096.
    pub depth: u32,
    /// Worker threads of the positional engine, at least one.
    pub workers: u32,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            engine: Engine::Auto,
            direct: true,
            depth: 256,
            workers: 4,
        }
    }
}

/// A buffer that satisfies direct I/O.
#[repr(align(4096))]
struct Aligned([u8; 4096]);

/// Blocks in a file.
#[derive(Debug)]
pub struct FileBackend {
    /// The engine's file, for `peek`.
    file: std::fs::File,
    block_size: u32,
    blocks: u64,
    direct: bool,
    depth: u32,
    runner: Runner,
    syncs: Syncs,
    /// Flushes that failed immediately.
    refused: Vec<IoDone>,
    now: Instant,
}

#[derive(Debug)]
enum Runner {
    Uring(Box<Uring>),
    Positional(Positional),
}

impl FileBackend {
    /// Creates a file of `blocks` zero blocks. Blocks take no space on the medium until they are
    /// written.
    ///
    /// # Errors
    /// If the file exists already, the sizes are invalid, or the system refuses.
    pub fn create(
        path: &Path,
        block_size: u32,
        blocks: u64,
        options: &FileOptions,
    ) -> Result<Self, FileError> {
        open::create(path, block_size, blocks)?;
        Self::open(path, block_size, Some(blocks), options)
    }

    /// Opens a file or block device. Without a number of blocks it has as many as exist.
    ///
    /// # Errors
    /// If it has fewer blocks than that, its length is not a whole number of blocks, or the system
    /// refuses.
    pub fn open(
        path: &Path,
        block_size: u32,
        blocks: Option<u64>,
        options: &FileOptions,
    ) -> Result<Self, FileError> {
        let opened = open::open(path, block_size, blocks, options.direct)?;
        let file = opened.file.try_clone();
        let file = file.map_err(|source| FileError::system(path, "open again", source))?;
        let depth = options.depth.clamp(1, 4096);
        let direct = opened.direct;
        let positional = |file| {
            let workers = options.workers.max(1);
            Positional::start(file, block_size, depth, workers)
                .map(Runner::Positional)
                .map_err(|source| FileError::system(path, "start workers for", source))
        };
        let runner = match options.engine {
            Engine::Positional => positional(opened.file)?,
            engine => match Uring::start(opened.file, block_size, depth) {
                Ok(uring) => Runner::Uring(Box::new(uring)),
                Err((file, _)) if engine == Engine::Auto => positional(file)?,
                Err((_, source)) => return Err(FileError::NoUring { source }),
            },
        };
        Ok(Self {
            file,
            block_size,
            blocks: opened.blocks,
            direct,
            depth,
            runner,
            syncs: Syncs::default(),
            refused: Vec::new(),
            now: Instant::ZERO,
        })
    }

    /// The engine in use: never `Auto`.
    pub fn engine(&self) -> Engine {
        match self.runner {
            Runner::Uring(_) => Engine::Uring,
            Runner::Positional(_) => Engine::Positional,
        }
    }

    /// Whether the page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Syncs of the file started by flushes; several flushes may share one.
    pub fn syncs(&self) -> u64 {
        self.syncs.begun()
    }

    fn flush(&mut self, io: Io) -> Result<(), Io> {
        let tag = io.tag;
        match self.syncs.come() {
            Flush::Begin => {
                self.runner.submit(io)?;
                self.syncs.begin(tag);
            }
            Flush::Wait if self.syncs.waiting() >= self.depth as usize => return Err(io),
            Flush::Wait => self.syncs.wait(tag),
            Flush::Fail => {
                let result = Err(IoError::MediaError);
                self.refused.push(IoDone { tag, result });
            }
        }
        Ok(())
    }
}

impl Runner {
    fn submit(&mut self, io: Io) -> Result<(), Io> {
        match self {
            Self::Uring(uring) => uring.submit(io),
            Self::Positional(positional) => positional.submit(io),
        }
    }

    fn poll(&mut self, done: &mut Vec<IoDone>) {
        match self {
            Self::Uring(uring) => uring.poll(done),
            Self::Positional(positional) => positional.poll(done),
        }
    }

    fn is_busy(&self) -> bool {
        match self {
            Self::Uring(uring) => uring.is_busy(),
            Self::Positional(positional) => positional.is_busy(),
        }
    }
}

impl Backend for FileBackend {
    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io> {
        self.now = now;
        match io.kind {
            IoKind::Flush => self.flush(io),
            _ => self.runner.submit(io),
        }
    }

    fn peek(&self, block: u64, bytes: &mut [u8]) -> bool {
        let offset = block * u64::from(self.block_size);
        let mut buffer = Aligned([0; 4096]);
        let buffer = &mut buffer.0[..4096.min(self.block_size as usize)];
        let count = bytes.len().min(buffer.len());
        match rustix::io::pread(&self.file, &mut *buffer, offset) {
            // Past the end of the file there are zeroes.
            Ok(_) => bytes[..count].copy_from_slice(&buffer[..count]),
            Err(_) => return false,
        }
        true
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        self.now = now;
        done.append(&mut self.refused);
        let before = done.len();
        self.runner.poll(done);
        if let Some(tag) = self.syncs.end(done, before) {
            let next = Io {
                tag,
                kind: IoKind::Flush,
                block: 0,
                blocks: 0,
                buffer: None,
            };
            let taken = self.runner.submit(next);
            taken.expect("there is space where a sync has just ended");
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if !self.refused.is_empty() {
            return Some(self.now);
        }
        self.runner.is_busy().then(|| self.now + POLL_INTERVAL)
    }
}
