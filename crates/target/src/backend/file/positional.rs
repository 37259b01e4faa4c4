//! The engine for systems without io_uring: `pread` and `pwrite` in a few threads.

use super::requests::{ZEROES, error, filled, given, has_no_holes, is_passing, range};
use crate::{Io, IoDone, IoError, IoKind};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Worker threads and their requests.
#[derive(Debug)]
pub(super) struct Positional {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    under_way: u32,
    depth: u32,
}

#[derive(Debug)]
struct Shared {
    file: File,
    block_size: u32,
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<Io>,
    done: Vec<IoDone>,
    closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of a worker thread until the engine closes.
    fn work(&self) {
        let mut state = self.state();
        loop {
            if state.closed {
                return;
            }
            let Some(io) = state.requests.pop_front() else {
                let waited = self.ready.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let result = execute(&self.file, self.block_size, &io);
            state = self.state();
            state.done.push(IoDone {
                tag: io.tag,
                result,
            });
        }
    }
}

impl Positional {
    pub(super) fn start(file: File, block_size: u32, depth: u32, workers: u32) -> io::Result<Self> {
        let mut engine = Self {
            shared: Arc::new(Shared {
                file,
                block_size,
                state: Mutex::default(),
                ready: Condvar::new(),
            }),
            workers: Vec::new(),
            under_way: 0,
            depth,
        };
        for _ in 0..workers {
            let shared = engine.shared.clone();
            let worker = Builder::new().name("target-file".to_owned());
            engine.workers.push(worker.spawn(move || shared.work())?);
        }
        Ok(engine)
    }

    pub(super) fn submit(&mut self, io: Io) -> Result<(), Io> {
        if self.under_way == self.depth {
            return Err(io);
        }
        self.under_way += 1;
        self.shared.state().requests.push_back(io);
        self.shared.ready.notify_one();
        Ok(())
    }

    pub(super) fn poll(&mut self, done: &mut Vec<IoDone>) {
        if self.under_way == 0 {
            return;
        }
        let before = done.len();
        done.append(&mut self.shared.state().done);
        self.under_way -= (done.len() - before) as u32;
    }

    pub(super) fn is_busy(&self) -> bool {
        self.under_way > 0
    }
}

impl Drop for Positional {
    fn drop(&mut self) {
        // Running requests complete; queued ones do not start.
        self.shared.state().closed = true;
        self.shared.ready.notify_all();
        for worker in self.workers.drain(..) {
            let _panicked = worker.join();
        }
    }
}

/// Executes a request, blocking as long as it takes.
fn execute(file: &File, block_size: u32, io: &Io) -> Result<(), IoError> {
    let (offset, len) = range(io, block_size);
    match (io.kind, &io.buffer) {
        (IoKind::Flush, _) => patiently(|| rustix::fs::fdatasync(file)).map_err(error),
        (IoKind::WriteZeroes, _) => zero(file, offset, len as u64),
        (IoKind::Read, Some(place)) => {
            let mut view = filled(place, len);
            // SAFETY: the buffer belongs to this request until it has completed: the NIC accesses
            // it only before or after, and no peer has a key of it.
            read(file, offset, unsafe { view.as_mut_slice() })
        }
        (IoKind::Write, Some(place)) => {
            // SAFETY: as above.
            write(file, offset, unsafe { given(place, len).as_slice() })
        }
        (IoKind::Read | IoKind::Write, None) => Err(IoError::Other),
    }
}

fn patiently<R>(mut call: impl FnMut() -> Result<R, Errno>) -> Result<R, Errno> {
    loop {
        match call() {
            Err(errno) if is_passing(errno) => {}
            result => return result,
        }
    }
}

/// Reads; past the end of the file there are zeroes.
fn read(file: &File, offset: u64, bytes: &mut [u8]) -> Result<(), IoError> {
    let mut at = 0;
    while at < bytes.len() {
        let from = offset + at as u64;
        match patiently(|| rustix::io::pread(file, &mut bytes[at..], from)) {
            Ok(0) => {
                bytes[at..].fill(0);
                break;
            }
            Ok(count) => at += count,
            // The rest begins at the end of the file, which direct I/O rejects as unaligned.
            Err(Errno::INVAL) if at > 0 => {
                bytes[at..].fill(0);
                break;
            }
            Err(errno) => return Err(error(errno)),
        }
    }
    Ok(())
}

fn write(file: &File, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
    let mut at = 0;
    while at < bytes.len() {
        let to = offset + at as u64;
        match patiently(|| rustix::io::pwrite(file, &bytes[at..], to)) {
            Ok(0) => return Err(IoError::Other),
            Ok(count) => at += count,
            Err(errno) => return Err(error(errno)),
        }
    }
    Ok(())
}

fn zero(file: &File, offset: u64, len: u64) -> Result<(), IoError> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match patiently(|| rustix::fs::fallocate(file, hole, offset, len)) {
        Ok(()) => return Ok(()),
        Err(errno) if has_no_holes(errno) => {}
        Err(errno) => return Err(error(errno)),
    }
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let count = (end - at).min(ZEROES.0.len() as u64);
        write(file, at, &ZEROES.0[..count as usize])?;
        at += count;
    }
    Ok(())
}
