//! Drives the queue of a store's medium at full depth, without a rack.

use crate::outcome::CliError;
use rackweave_base::{Block, Instant, Memory};
use rackweave_target::{Backend, Io, IoKind, RegionRange};

/// The queue of a medium, with a buffer for each pending request.
pub struct MediumQueue<'a> {
    backend: &'a mut dyn Backend,
    page_size: u32,
    /// A page for each request.
    pub buffers: Block,
    depth: usize,
}

impl<'a> MediumQueue<'a> {
    /// A queue with this many pending requests.
    ///
    /// # Errors
    /// If memory for the pages is not available.
    pub fn new(
        backend: &'a mut dyn Backend,
        page_size: u32,
        depth: usize,
    ) -> Result<Self, CliError> {
        let bytes = depth * page_size as usize;
        Ok(Self {
            backend,
            page_size,
            buffers: Memory::new(bytes + (1 << 20)).allocate(bytes)?,
            depth,
        })
    }

    /// Keeps the medium busy with the pages that `next` returns for each number, until it returns
    /// none. Returns pages per second.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn run(
        &mut self,
        kind: IoKind,
        mut next: impl FnMut(u64) -> Option<u64>,
    ) -> Result<f64, CliError> {
        let started = std::time::Instant::now();
        let now = || Instant::from_nanos(started.elapsed().as_nanos() as u64);
        let blocks = self.page_size / self.backend.block_size();
        let mut free: Vec<u64> = (0..self.depth as u64).collect();
        let (mut begun, mut ended, mut over) = (0, 0, false);
        let mut done = Vec::new();
        while !over || ended < begun {
            while !over && let Some(slot) = free.pop() {
                let Some(page) = next(begun) else {
                    over = true;
                    break;
                };
                let place = || RegionRange {
                    block: self.buffers.clone(),
                    offset: (slot * u64::from(self.page_size)) as usize,
                };
                let has_data = matches!(kind, IoKind::Read | IoKind::Write);
                let io = Io {
                    tag: slot,
                    kind,
                    block: page * u64::from(blocks),
                    blocks: if kind == IoKind::Flush { 0 } else { blocks },
                    buffer: has_data.then(place),
                };
                if self.backend.submit(now(), io).is_err() {
                    free.push(slot);
                    break;
                }
                begun += 1;
            }
            self.backend.poll(now(), &mut done);
            if done.is_empty() {
                std::thread::yield_now();
            }
            for io in done.drain(..) {
                io.result?;
                free.push(io.tag);
                ended += 1;
            }
        }
        Ok(ended as f64 / started.elapsed().as_secs_f64().max(1e-9))
    }
}
