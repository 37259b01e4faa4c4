//! The rack of the microbenchmarks: a requesting node, a passive one with pages in its memory, a
//! storage node, a memory server.

use super::testbed::{self, PAGE_BYTES, SERVER, THREADS};
use super::worker::{ENTRY_BYTES, LOOK_ENTRIES, Looks, Pace, Pages, Tally, Want, Worker};
use crate::baseline::verbs::{NodeEnd, Remote, connect};
use crate::harness::prelude::*;
use crate::harness::shuffle::traffic;
use rackweave_endpoint::page_store::directory::{Answer, Channel, Directory as _, Mode, Op};
use rackweave_rack::services::PageOptions;
use rackweave_rack::{PageEnds, RunEnd};
use rackweave_wire::fabric::page::PageId;
use rackweave_wire::fabric::page::header::VOID;
use rackweave_workload::ycsb::{LatencyRecorder, PoissonSchedule};

/// The requesting node, and the node with pages in memory.
const ASKING: NodeId = NodeId(0);
const PASSIVE: NodeId = NodeId(1);

/// Requests in flight while the passive node's memory is filled.
const FILL_DEPTH: u16 = 64;

/// Virtual time after which a run has failed.
const TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Maximum number of pending requests of each thread.
    pub depth: u16,
    /// Pages in the passive node's memory.
    pub held: u32,
    /// Pages that are only on the SSDs.
    pub cold: u64,
    /// Number of pages, from the first on, whose entries are in the switch.
    pub indexed: u64,
    /// The switch's capacity in entries.
    pub capacity: u32,
    /// Requests for this page and those after it are preceded by a lookup of the entry in the
    /// memory server.
    pub looks_from: Option<u64>,
}

pub struct PageRack {
    pub rack: Testbed,
    shape: Shape,
    ends: PageEnds,
    pages: Rc<Pages>,
    seed: u64,
    measurements: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Requests that ended per second.
    pub per_second: f64,
    /// The share of due requests that ended in time.
    pub held: f64,
    /// Median and 99th percentile in microseconds, from the due times of requests.
    pub p50_us: f64,
    pub p99_us: f64,
    /// The share of pages that the switch found.
    pub indexed: f64,
    /// Requests answered "ask again".
    pub refused: u64,
    /// Utilization of the link to the requesting node.
    pub link_busy: f64,
    /// Packets lost at full ports since the rack was built.
    pub drops: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// This many requests per second of all threads together, at random times.
    Open(f64),
    /// This many requests of all threads together always in flight.
    Closed(usize),
}

impl PageRack {
    pub fn new(run: &mut Run<'_>, shape: Shape) -> Result<Self> {
        let config = config(run.seed, shape);
        let rack = Testbed::new(&config)?;
        let all = u64::from(shape.held) + shape.cold;
        let nodes = vec![
            PageNode {
                node: ASKING,
                frames: u32::from(THREADS) * u32::from(shape.depth),
                workers: THREADS,
                slots: shape.depth,
            },
            PageNode {
                node: PASSIVE,
                frames: shape.held.max(1),
                workers: 1,
                slots: FILL_DEPTH,
            },
        ];
        let options = PageOptions {
            nodes,
            indexed: Some(shape.indexed.min(all)),
            ..testbed::options()
        };
        testbed::add_pages(&rack, &options, (all, testbed::SSDS.into()), run.seed)?;
        let ends = ends(&rack, ASKING)?;
        let mut made = Self {
            rack,
            shape,
            ends,
            pages: Rc::new(Pages {
                held: u64::from(shape.held),
                all,
                order: Scatter::new(shape.cold.max(1), run.seed),
                taken: Cell::new(0),
                fetching: RefCell::default(),
            }),
            seed: run.seed,
            measurements: 0,
        };
        made.fill(run)?;
        Ok(made)
    }

    fn fill(&mut self, run: &mut Run<'_>) -> Result<()> {
        let ends = ends(&self.rack, PASSIVE)?;
        let channel = Channel::new(ends.channels[0].clone());
        self.rack
            .spawn(PASSIVE, filler(channel, self.shape.held, ends.frames));
        self.rack.drive(run, Until::Done(TIME_MAX))?;
        Ok(())
    }

    /// Requests pages for `counted`, after a warm-up of a tenth of that; ends when all requests
    /// have.
    pub fn measure(
        &mut self,
        run: &mut Run<'_>,
        (want, load): (Want, Load),
        counted: Duration,
    ) -> Result<Seen> {
        let start = self.rack.now();
        let from = start + Duration::from_nanos(counted.as_nanos() / 10);
        let until = from + counted;
        let tally = Rc::new(RefCell::new(Tally {
            window: (from, until),
            latencies: LatencyRecorder::new(),
            ended: 0,
            indexed: 0,
            refused: 0,
        }));
        self.measurements += 1;
        for thread in 0..THREADS {
            if let Some(pace) = self.pace(load, thread, start)? {
                self.spawn(thread, (want, pace), &tally)?;
            }
        }
        // Utilization of the link to the requesting node until the window was over.
        let wire = |rack: &SimulatedRack| rack.link_report(ASKING).map(|link| link.from_switch);
        let before = wire(&self.rack);
        let end = self.rack.drive(run, Until::TimeOrDone(until))?;
        let busy = before
            .zip(wire(&self.rack))
            .map(|(before, after)| after.utilisation(&before, self.rack.now().since(start)));
        if end != RunEnd::Done {
            self.rack.drive(run, Until::Done(TIME_MAX))?;
        }
        let tally = tally.borrow();
        let due = tally.latencies.count().max(1);
        let micros = |part| tally.latencies.quantile(part).as_nanos() as f64 / 1e3;
        Ok(Seen {
            per_second: tally.ended as f64 / counted.as_secs_f64(),
            held: tally.ended as f64 / due as f64,
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            indexed: tally.indexed as f64 / due as f64,
            refused: tally.refused,
            link_busy: busy.unwrap_or(0.0),
            drops: traffic(&self.rack).drops,
        })
    }

    /// When a thread sends requests; none if it has no part in the load.
    fn pace(&self, load: Load, thread: u16, start: Instant) -> Result<Option<Pace>> {
        let threads = usize::from(THREADS);
        match load {
            Load::Open(per_second) => {
                let seed = self.seed ^ u64::from(self.measurements) << 32;
                let rate = per_second / threads as f64;
                let schedule = PoissonSchedule::new(seed, u32::from(thread), rate, start)
                    .or_failed("a schedule")?;
                Ok(Some(Pace::Open(schedule)))
            }
            Load::Closed(depth) => {
                let thread = usize::from(thread);
                let own = depth / threads + usize::from(thread < depth % threads);
                Ok((own > 0).then_some(Pace::Closed(own)))
            }
        }
    }

    fn spawn(
        &mut self,
        thread: u16,
        (want, pace): (Want, Pace),
        tally: &Rc<RefCell<Tally>>,
    ) -> Result<()> {
        let looks = match self.shape.looks_from {
            Some(from) => Some(self.looks(from)?),
            None => None,
        };
        let channel = Channel::new(self.ends.channels[usize::from(thread)].clone());
        let name = format!("worker {thread} of measurement {}", self.measurements);
        let slots = u32::from(channel.parts().slots);
        let worker = Worker {
            want,
            pace,
            pages: self.pages.clone(),
            looks,
            frames: self.ends.frames.clone(),
            first_frame: u32::from(thread) * u32::from(self.shape.depth),
            rng: Rng::new(self.seed).fork(&name),
            tally: tally.clone(),
            channel,
            going: HashMap::new(),
            looking: vec![None; slots as usize],
            ready: VecDeque::new(),
            free: (0..slots).rev().collect(),
            polled: Vec::new(),
            is_blocked: false,
        };
        self.rack.spawn(ASKING, worker);
        Ok(())
    }

    /// A thread's access to entries in the memory server.
    fn looks(&mut self, from: u64) -> Result<Looks> {
        let depth = u32::from(self.shape.depth);
        let bytes = (depth * ENTRY_BYTES) as usize;
        let near = NodeEnd::new(&self.rack, ASKING, bytes, depth * 2)?;
        let entries = LOOK_ENTRIES as usize * ENTRY_BYTES as usize;
        let far = NodeEnd::new(&self.rack, SERVER, entries, 1)?;
        let (qpn, _) = connect(&self.rack, &near, &far, (depth, 1))?;
        let entries = Remote::new(qpn, &far.region);
        Ok(Looks {
            from,
            near,
            entries,
        })
    }
}

/// Fetches pages 0, 1, … into buffer frames 0, 1, …: the initial contents of a passive node.
fn filler(mut channel: Channel, count: u32, frames: Block) -> impl Program {
    let (mut next, mut ended) = (0_u32, 0);
    move |context: &mut Context<'_>| -> Turn {
        let (now, verbs) = (context.now(), context.nic());
        while let Some(reply) = channel.poll(now, verbs) {
            match reply.answer {
                Answer::Fetched(_) => ended += 1,
                answer => return Err(format!("a buffer frame was not filled: {answer:?}")),
            }
        }
        while next < count && channel.capacity() > 0 {
            let page = PageId::new(0, next.into()).ok_or("there is no such page")?;
            frames.write(next as usize * PAGE_BYTES as usize, &VOID.to_le_bytes());
            let op = Op::Fetch {
                page,
                mode: Mode::Shared,
                frame: next,
                have: None,
            };
            if channel.begin(now, verbs, op).is_some() {
                next += 1;
            }
        }
        Ok(match channel.poll_timeout() {
            _ if ended == count => Step::Done,
            Some(at) => Step::WaitUntil(at),
            None => Step::WaitForPacket,
        })
    }
}

fn ends(rack: &SimulatedRack, node: NodeId) -> Result<PageEnds> {
    let lost = || ExperimentError::Run("a node is dead".into());
    rack.page_ends(node).ok_or_else(lost)
}

fn config(seed: u64, shape: Shape) -> RackConfig {
    let slots = THREADS * shape.depth + FILL_DEPTH;
    let mut config = testbed::config(seed, shape.capacity, (THREADS + 1, slots));
    config.nic.queue_pairs = u32::from(slots) * 4 + 8192;
    config.nic.completion_queues = 8192;
    config.nic.regions = 8192;
    config
}
