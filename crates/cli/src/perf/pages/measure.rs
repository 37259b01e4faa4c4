//! The measurements: pages from a node's memory, pages from an SSD, hits.

use super::rig::{READER, Reader, Rig, page};
use crate::globals::Globals;
use crate::measure::MediumQueue;
use crate::outcome::CliError;
use hdrhistogram::Histogram;
use rackweave_base::{Instant, Rng};
use rackweave_endpoint::page_store::directory::{Answer, Mode, Op};
use rackweave_rack::RackConfig;
use rackweave_rack::services::{BLOCK, PageWorker};
use rackweave_target::{Backend, DoubleWrite, FileBackend, FileOptions, IoKind, MemoryBackend};
use rackweave_wire::fabric::page::{PageId, PageSource};
use std::path::Path;
use std::time::Duration;

/// Pages per second, and how many of them came from the expected source.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub pages_per_s: f64,
    pub all_from_there: bool,
}

/// Latencies of hits in nanoseconds, how many fixes there were, and how many of them by a lease.
pub struct Hits {
    pub histogram: Histogram<u64>,
    pub fixes: u64,
    pub leased: u64,
}

/// State shared by all measurements.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    pub config: &'a RackConfig,
    pub globals: &'a Globals,
    /// Requests in flight.
    pub depth: u32,
    /// Duration of each measurement.
    pub span: Duration,
}

impl Bench<'_> {
    /// A rack with a page directory in the switch, or in a server's memory.
    fn rig(
        &self,
        pages: (u32, bool),
        depth: u32,
        namespace: Box<dyn Backend>,
    ) -> Result<Rig, CliError> {
        Rig::new((self.config, self.globals), pages, depth as u16, namespace)
    }

    /// Fetches pages, as many at a time as the depth and the reader allow.
    pub fn fetch(
        &self,
        reader: &mut Reader,
        mut next: impl FnMut(&mut Rng) -> PageId,
        from: PageSource,
    ) -> Result<Rate, CliError> {
        let mut rng = Rng::new(7);
        let mut frames = vec![0; 256];
        let mut under_way = 0;
        let mut free: Vec<u32> = (0..reader.requests_max(self.depth)).collect();
        let (mut done, mut all_from_there) = (0u64, true);
        let started = std::time::Instant::now();
        loop {
            let ends = started.elapsed() >= self.span || self.globals.interrupt.is_set();
            while let (false, Some(frame)) = (ends, free.pop()) {
                reader.void(frame);
                let ticket = reader.begin(Op::Fetch {
                    page: next(&mut rng),
                    mode: Mode::Shared,
                    frame,
                    have: None,
                });
                let ticket = ticket.ok_or_else(|| CliError::run("the channel is full"))?;
                let at = ticket.0 as usize;
                if frames.len() <= at {
                    frames.resize(at + 1, 0);
                }
                frames[at] = frame;
                under_way += 1;
            }
            if under_way == 0 {
                break;
            }
            let reply = reader.wait();
            under_way -= 1;
            free.push(frames[reply.ticket.0 as usize]);
            match reply.answer {
                Answer::Fetched(served) => all_from_there &= served.source == from,
                other => return Err(CliError::run(format!("a fetch ended in {other:?}"))),
            }
            done += 1;
        }
        Ok(Rate {
            pages_per_s: done as f64 / started.elapsed().as_secs_f64(),
            all_from_there,
        })
    }

    /// Rate of pages from another node's memory.
    pub fn rate_from_memory(&self, page_size: u32, indexed: bool) -> Result<Rate, CliError> {
        let blocks = (64 << 20) / u64::from(BLOCK);
        let namespace = Box::new(MemoryBackend::new(BLOCK, blocks));
        let rig = self.rig((page_size, indexed), self.depth, namespace)?;
        let held = rig.hold()?;
        let below = |rng: &mut Rng| page(rng.below(held));
        self.fetch(&mut rig.reader()?, below, PageSource::Memory)
    }

    /// Rate of pages from a file, by the switch.
    pub fn rate_from_storage(&self, page_size: u32, file: File<'_>) -> Result<Rate, CliError> {
        let rig = self.rig((page_size, true), self.depth, file.open()?)?;
        let below = |rng: &mut Rng| page(rng.below(rig.pages));
        self.fetch(&mut rig.reader()?, below, PageSource::Storage)
    }

    /// A medium by its own queue, without a rack: pages per second that are read, or written.
    /// Written pages are durable at the end.
    pub fn by_queue(
        &self,
        page_size: u32,
        mut backend: Box<dyn Backend>,
        kind: IoKind,
    ) -> Result<f64, CliError> {
        let pages = backend.blocks() / u64::from(page_size / BLOCK);
        let mut rng = Rng::new(7);
        let started = std::time::Instant::now();
        let mut queue = MediumQueue::new(&mut *backend, page_size, self.depth as usize)?;
        let ends = || started.elapsed() >= self.span || self.globals.interrupt.is_set();
        let per_second = queue.run(kind, |_| (!ends()).then(|| rng.below(pages)))?;
        let seconds = started.elapsed().as_secs_f64();
        queue.run(IoKind::Flush, |number| (number == 0).then_some(0))?;
        Ok(per_second * seconds / started.elapsed().as_secs_f64())
    }

    /// As [`Bench::hits`], on a rack of its own.
    pub fn hits_alone(&self, page_size: u32) -> Result<[Hits; 2], CliError> {
        let blocks = 64 * u64::from(page_size / BLOCK);
        let namespace = Box::new(MemoryBackend::new(BLOCK, blocks));
        let rig = self.rig((page_size, true), 64, namespace)?;
        let worker = rig.service.worker(READER)?;
        self.hits(&worker, &[0, 1, 2, 3, 4, 5, 6, 7].map(page))
    }

    /// Latencies of shared fixes of pages in the node's own pool: with a latch check at the switch,
    /// then by leases.
    pub fn hits(&self, worker: &PageWorker, pages: &[PageId]) -> Result<[Hits; 2], CliError> {
        Ok([
            self.hits_of(worker, pages, true)?,
            self.hits_of(worker, pages, false)?,
        ])
    }

    fn hits_of(&self, worker: &PageWorker, pages: &[PageId], asks: bool) -> Result<Hits, CliError> {
        // Until all are leased.
        for &page in core::iter::repeat_n(pages, 8).flatten() {
            drop(worker.read(page)?);
        }
        let before = worker.statistics();
        let mut histogram = Histogram::new(3).expect("three digits are possible");
        let (mut rng, started) = (Rng::new(7), std::time::Instant::now());
        while started.elapsed() < self.span && !self.globals.interrupt.is_set() {
            for _ in 0..64 {
                let page = pages[rng.below(pages.len() as u64) as usize];
                let asked = std::time::Instant::now();
                let guard = worker.read(page)?;
                if asks {
                    guard.is_newest()?;
                }
                let took = asked.elapsed();
                drop(guard);
                let _in_range = histogram.record(took.as_nanos() as u64);
            }
        }
        let fixes = worker.statistics() - before;
        Ok(Hits {
            histogram,
            fixes: fixes.fixes,
            leased: fixes.leased_hits,
        })
    }
}

/// A file of pages.
#[derive(Clone, Copy)]
pub struct File<'a> {
    pub path: &'a Path,
    /// Whether it has double writes, which use its last 8 MiB.
    pub doubles: bool,
}

impl File<'_> {
    pub fn open(self) -> Result<Box<dyn Backend>, CliError> {
        let file = FileBackend::open(self.path, BLOCK, None, &FileOptions::default())?;
        if !self.doubles {
            return Ok(Box::new(file));
        }
        let mut double = DoubleWrite::new(file)?;
        while !double.is_recovered() {
            double.poll(Instant::ZERO, &mut Vec::new());
        }
        Ok(Box::new(double))
    }
}
