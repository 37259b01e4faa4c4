//! Writes that are applied wholly or not at all under power failure: each goes to the medium twice.
//!
//! [`DoubleWrite`] makes every Write and Write Zeroes of the [`Backend`] under it atomic under
//! power failure, up to [`DoubleWrite::write_max`] blocks (NVMe's AWUPF), and durable before it is
//! answered. The last blocks of the medium are its area, of two halves ([`DoubleWriteArea`]).
//!
//! **A batch** is the set of writes that wait when the previous batch has left the area. It takes
//! three steps:
//!
//! 1. The data of its commands is written to one half of the area, with a header that lists the
//!    commands and has checksums of the data and of itself.
//! 2. A flush.
//! 3. The data is written home. A command is answered when its home is written.
//!
//! The next batch uses the other half. Its first step may overlap the third step of the previous
//! batch, but its flush begins only when that step has ended. So one flush per batch makes both the
//! new copies and the homes of the previous batch durable, and a half is rewritten only after a
//! flush that began when all homes of its batch had been written.
//!
//! **Why nothing is lost or torn.** A batch's homes are touched only when its half is durable and
//! complete, and the half stays so until the homes are durable. A power cut therefore finds for
//! each command (a) homes untouched, or (b) a durable copy, or (c) durable homes. Recovery
//! (`recovery`) flushes, writes complete batches home again in the order of their sequence numbers,
//! and flushes, before anything is accepted. In (b) that makes the command whole. In (c) a copy may
//! remain, and writing it home again changes nothing: the remaining copies are those of the last
//! two batches, a newer copy of the same blocks could only be in the later of the two, and that one
//! is written last. An incomplete batch is ignored: its flush had not ended, so its homes are
//! untouched, as in (a); or it was being replaced, as in (c).
//!
//! **Order.** Commands of a batch do not overlap: one that would overlap waits for the next batch.
//! The homes of a batch are written when those of the batch before have been. So overlapping writes
//! take effect in the order of their arrival, in recovery too.
//!
//! **Flush** is answered at once. Every answered command has a durable copy by (b) or (c), and a
//! flush guarantees nothing about commands not yet answered when it arrives. Data that reads return
//! is durable as well, since homes change after the copy is durable.
//!
//! **Errors.** If the area cannot be written, the commands of the batch fail; their homes are
//! untouched unless recovery later finds that the copy was complete. If a home cannot be written,
//! only its command fails, and not before another batch, empty if necessary, has replaced its copy:
//! recovery does not later change what reads show after a failed write. If a flush fails, the batch
//! fails, and so does every later write and flush until the medium is opened again: it is not known
//! what the medium has dropped (a kernel may mark pages as clean that it could not write). Commands
//! answered before have a copy in the half that was not being written, and recovery restores them
//! from there. If recovery fails, even for one home that cannot be written, every request fails:
//! the homes may be older than versions already answered.
//!
//! **Cost:** a second write of the data and one flush per batch; the more writes are in flight, the
//! more share a flush.

mod area;
mod batch;
mod recovery;
#[cfg(test)]
mod tests;
mod work;

pub use area::DoubleWriteArea;

use super::{Backend, Io, IoDone, IoError, IoKind};
use batch::Batch;
use rackweave_base::{Block, Instant, Memory};
use recovery::Recovery;
use std::collections::VecDeque;
use work::Work;

/// Maximum writes that wait for a batch.
const WAITING_MAX: usize = 4096;

/// Why a medium cannot have double writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{blocks} blocks of {block_size} bytes leave nothing beside the {area_blocks} that double \
     writes take"
)]
pub struct DoubleWriteError {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the medium.
    pub blocks: u64,
    /// Blocks of the area.
    pub area_blocks: u64,
}

/// A backend whose writes are atomic under power failure, as described in the module documentation.
#[derive(Debug)]
pub struct DoubleWrite<B> {
    inner: B,
    area: DoubleWriteArea,
    state: State,
    /// The sequence number of the next batch.
    sequence: u64,
    /// The half that the next batch uses.
    half: usize,
    /// The header bytes being written, for each half.
    headers: [Block; 2],
    /// Writes that wait for a batch, in order.
    waiting: VecDeque<Io>,
    /// The batch in steps 1 and 2.
    copying: Option<Batch>,
    /// The batch in step 3.
    homing: Option<Batch>,
    /// Commands whose homes could not be written, with their batches.
    failed: Vec<(u64, IoDone)>,
    /// The tags of reads in flight; the rest are free.
    reads: Vec<u64>,
    reads_free: Vec<u32>,
    /// Requests that the inner backend had no capacity for.
    outbox: VecDeque<Io>,
    /// Completions not yet polled.
    ended: Vec<IoDone>,
    inner_ended: Vec<IoDone>,
    now: Instant,
    #[cfg(test)]
    planted: Option<Bug>,
}

#[derive(Debug)]
enum State {
    /// Nothing is accepted yet.
    Recovering(Recovery),
    Open,
    /// A flush has failed: reads are valid, but no more writes are accepted.
    Failed,
    /// Recovery failed at this time: the content of the homes is unknown. Requests that waited for
    /// it fail; a later request restarts it, since the error of the medium may be transient.
    Lost(Instant),
}

/// Bugs that tests plant to prove that they detect them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    /// Homes are written before the copy is durable.
    NoFlush,
    /// A flush begins before the homes of the previous batch have been written.
    EarlyFlush,
    /// All batches use the same half.
    OneHalf,
    /// Recovery accepts a copy with incomplete data.
    NoChecksum,
    /// Recovery writes the newer batch home first.
    NewestFirst,
    /// After recovery the next batch overwrites the newest.
    NewestReplaced,
    /// Recovery writes homes before the copies are durable.
    UnflushedCopies,
    /// The copy of a failed write stays in the area.
    KeptCopy,
}

impl<B: Backend> DoubleWrite<B> {
    /// The blocks of `inner` without the last 8 MiB, which are the area. The area's content is
    /// recovered before anything is accepted; a blank area is valid.
    ///
    /// # Errors
    /// If the medium has no blocks besides these.
    pub fn new(inner: B) -> Result<Self, DoubleWriteError> {
        let blocks = DoubleWriteArea::usual_blocks(inner.block_size());
        Self::with_area(inner, blocks)
    }

    /// The same with an area of `area_blocks` blocks: an even number, at least four.
    ///
    /// # Errors
    /// If the medium has no blocks besides these, or they do not make an area.
    pub fn with_area(inner: B, area_blocks: u64) -> Result<Self, DoubleWriteError> {
        let (block_size, blocks) = (inner.block_size(), inner.blocks());
        let area = DoubleWriteArea::at_end(block_size, blocks, area_blocks);
        let area = area.ok_or(DoubleWriteError {
            block_size,
            blocks,
            area_blocks,
        })?;
        let bytes = block_size as usize;
        let memory = Memory::new(2 * bytes.next_multiple_of(4096));
        let header = || {
            memory
                .allocate(bytes)
                .expect("the arena has space for both")
        };
        Ok(Self {
            inner,
            area,
            state: State::Recovering(Recovery::new(&area)),
            sequence: 1,
            half: 0,
            headers: [header(), header()],
            waiting: VecDeque::new(),
            copying: None,
            homing: None,
            failed: Vec::new(),
            reads: Vec::new(),
            reads_free: Vec::new(),
            outbox: VecDeque::new(),
            ended: Vec::new(),
            inner_ended: Vec::new(),
            now: Instant::ZERO,
            #[cfg(test)]
            planted: None,
        })
    }

    /// Maximum blocks of a Write; larger ones fail. Write Zeroes has no limit.
    pub fn write_max(&self) -> u32 {
        self.area.data_blocks()
    }

    /// Whether the area's content has been written home, so that requests are accepted.
    pub fn is_recovered(&self) -> bool {
        matches!(self.state, State::Open | State::Failed)
    }

    /// Whether writes fail. They do until the medium is opened again after a failed flush, or while
    /// recovery has failed.
    pub fn is_failed(&self) -> bool {
        matches!(self.state, State::Failed | State::Lost(_))
    }

    fn has(&self, bug: Bug) -> bool {
        #[cfg(test)]
        return self.planted == Some(bug);
        #[cfg(not(test))]
        {
            let _never = bug;
            false
        }
    }

    fn end(&mut self, tag: u64, result: Result<(), IoError>) {
        self.ended.push(IoDone { tag, result });
    }

    /// Sends a request to the inner backend, after those it had no capacity for.
    fn send(&mut self, work: Work, mut io: Io) {
        io.tag = work.pack();
        let refused = match self.outbox.is_empty() {
            true => self.inner.submit(self.now, io).err(),
            false => Some(io),
        };
        self.outbox.extend(refused);
    }

    fn send_waiting(&mut self) {
        while let Some(io) = self.outbox.pop_front() {
            if let Err(io) = self.inner.submit(self.now, io) {
                self.outbox.push_front(io);
                return;
            }
        }
    }

    /// Why a request cannot be carried out.
    fn refusal(&self, io: &Io) -> Option<IoError> {
        let end = io.block.checked_add(io.blocks.into());
        let moves = matches!(io.kind, IoKind::Read | IoKind::Write);
        let failed = match self.state {
            State::Recovering(_) | State::Open => false,
            State::Failed => io.kind != IoKind::Read,
            State::Lost(_) => true,
        };
        if failed {
            Some(IoError::MediaError)
        } else if end.is_none_or(|end| end > self.area.home_blocks) {
            Some(IoError::OutOfRange)
        } else if moves && io.buffer.is_none()
            || io.kind == IoKind::Write && io.blocks > self.write_max()
        {
            Some(IoError::Other)
        } else {
            None
        }
    }

    fn submit_read(&mut self, now: Instant, mut io: Io) -> Result<(), Io> {
        if !self.outbox.is_empty() {
            return Err(io);
        }
        let at = self.reads_free.pop().unwrap_or_else(|| {
            self.reads.push(0);
            self.reads.len() as u32 - 1
        });
        self.reads[at as usize] = io.tag;
        io.tag = Work::Read(at).pack();
        self.inner.submit(now, io).map_err(|mut io| {
            self.reads_free.push(at);
            io.tag = self.reads[at as usize];
            io
        })
    }

    /// Handles a completion of the inner backend.
    fn landed(&mut self, done: IoDone) {
        match Work::unpack(done.tag) {
            Work::Read(at) => {
                self.reads_free.push(at);
                self.end(self.reads[at as usize], done.result);
            }
            Work::Copy | Work::Flush => {
                let batch = self.copying.as_mut();
                batch.expect("it was sent for one").landed(done.result);
            }
            Work::Home(at) => self.landed_home(at as usize, done.result),
            Work::Recover => match &mut self.state {
                State::Recovering(recovery) => recovery.landed(done.result),
                _ => unreachable!("recovery waits for its last step"),
            },
        }
    }

    /// Takes all possible steps.
    fn advance(&mut self) {
        if matches!(self.state, State::Recovering(_)) {
            self.recover();
        }
        if matches!(self.state, State::Open | State::Failed) {
            self.advance_batches();
        }
    }
}

impl<B: Backend> Backend for DoubleWrite<B> {
    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn blocks(&self) -> u64 {
        self.area.home_blocks
    }

    fn atomic_blocks(&self) -> u32 {
        self.write_max()
    }

    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io> {
        self.now = now;
        if matches!(self.state, State::Lost(since) if since < now) {
            self.state = State::Recovering(Recovery::new(&self.area));
        }
        if matches!(self.state, State::Recovering(_)) {
            return Err(io);
        }
        if let Some(error) = self.refusal(&io) {
            self.end(io.tag, Err(error));
            return Ok(());
        }
        match io.kind {
            IoKind::Read => return self.submit_read(now, io),
            IoKind::Flush => self.end(io.tag, Ok(())),
            IoKind::Write | IoKind::WriteZeroes => {
                if self.waiting.len() == WAITING_MAX {
                    return Err(io);
                }
                self.waiting.push_back(io);
            }
        }
        Ok(())
    }

    fn peek(&self, block: u64, bytes: &mut [u8]) -> bool {
        // Before recovery, the newest version of a block may be in the area.
        self.is_recovered() && self.inner.peek(block, bytes)
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        self.now = now;
        loop {
            self.advance();
            self.send_waiting();
            let mut inner_ended = core::mem::take(&mut self.inner_ended);
            self.inner.poll(now, &mut inner_ended);
            let any = !inner_ended.is_empty();
            for ended in inner_ended.drain(..) {
                self.landed(ended);
            }
            self.inner_ended = inner_ended;
            if !any {
                break;
            }
        }
        done.append(&mut self.ended);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = !self.ended.is_empty()
            || (self.copying.is_none() && self.wants_batch())
            || matches!(&self.state, State::Recovering(recovery) if recovery.is_due());
        if due {
            return Some(self.now);
        }
        let stuck = !self.outbox.is_empty();
        self.inner.poll_timeout().or(stuck.then_some(self.now))
    }
}
