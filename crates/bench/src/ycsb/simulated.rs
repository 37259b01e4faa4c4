//! Workers of a simulated rack: actors, in virtual time.

use super::outcome::{Outcome, Simulation, TimeShare};
use super::prelude::*;
use rackweave_rack::RunEnd;

/// Virtual time between two checks whether the user wants to stop.
const SLICE: Duration = Duration::from_millis(1);

/// If no operation ends for this much virtual time the run has failed. Longer than any timeout for
/// a peer that does not answer.
const PATIENCE: Duration = Duration::from_secs(6);

/// The shortest possible time.
pub(crate) const SOON: Duration = Duration::from_nanos(1);

/// A worker's table, and its cost on a simulated core.
pub(crate) trait Modelled {
    type Table: Table;

    fn table(&self) -> &Self::Table;

    /// Does a step's work and charges for it. Returns the next step, or none if there is nothing to
    /// do at the moment.
    fn step(&mut self, session: &mut Session, context: &mut Context<'_>) -> Option<Step>;

    /// When the table wants another step.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Does the work that follows the worker's operations; `_operating` workers still have
    /// operations.
    fn wind_up(&mut self, _now: Instant, _run: &Run, _operating: usize) -> Step {
        Step::Done
    }
}

pub(crate) struct Workers<M> {
    pub all: Vec<Rc<RefCell<Worker<M>>>>,
    count: u32,
    operating: Rc<Cell<usize>>,
}

pub(crate) struct Worker<M> {
    pub model: M,
    session: Session,
    ended: Option<Instant>,
}

struct WorkerActor<M> {
    worker: Rc<RefCell<Worker<M>>>,
    operating: Rc<Cell<usize>>,
}

impl<M: Modelled> Actor for WorkerActor<M> {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let Worker {
            model,
            session,
            ended,
        } = &mut *self.worker.borrow_mut();
        if let Some(step) = model.step(session, context) {
            return step;
        }
        let now = context.now();
        if ended.is_none() {
            if !session.is_done(model.table()) {
                let due = session.poll_timeout(now, model.table());
                return wait(now, due.into_iter().chain(model.poll_timeout()).min());
            }
            *ended = Some(now);
            self.operating.set(self.operating.get() - 1);
        }
        model.wind_up(now, &session.run, self.operating.get())
    }
}

/// Waits for a packet, or until `due`.
pub(crate) fn wait(now: Instant, due: Option<Instant>) -> Step {
    match due {
        Some(due) => Step::WaitUntil(due.max(now + SOON)),
        None => Step::WaitForPacket,
    }
}

/// The time a core needs to load contiguous bytes.
pub(crate) fn loading(cpu: &CpuModel, bytes: u64) -> Duration {
    let lines = bytes.div_ceil(devices::HOST_LINE_BYTES);
    let nanos = lines * cpu.memory_latency.as_nanos() / devices::HOST_LINES_IN_FLIGHT;
    Duration::from_nanos(nanos)
}

impl<M: Modelled + 'static> Workers<M> {
    /// No workers yet, of `count`.
    pub fn new(count: u32) -> Self {
        Self {
            all: Vec::new(),
            count,
            operating: Rc::new(Cell::new(count as usize)),
        }
    }

    /// Starts the next worker at a node.
    pub fn spawn(
        &mut self,
        rack: &mut SimulatedRack,
        node: NodeId,
        run: &Arc<Run>,
        model: M,
    ) -> Result<()> {
        let number = self.all.len() as u32;
        let worker = Rc::new(RefCell::new(Worker {
            model,
            session: Session::new(run, number, self.count, rack.now())?,
            ended: None,
        }));
        self.all.push(Rc::clone(&worker));
        let operating = Rc::clone(&self.operating);
        rack.spawn(node, Box::new(WorkerActor { worker, operating }));
        Ok(())
    }

    /// Runs until all workers are done and collects their measurements; `tend` is called
    /// periodically meanwhile. If the user wants to stop and nothing ends for `grace`, it returns
    /// unfinished.
    pub fn operate<C>(
        &self,
        rack: &mut SimulatedRack,
        run: &Run,
        grace: Option<Duration>,
        outcome: &mut Outcome<C>,
        progress: Progress<'_>,
        tend: &mut dyn FnMut(Instant) -> Result<()>,
    ) -> Result<()> {
        let (began, started) = (rack.now(), std::time::Instant::now());
        let (mut seen, mut since) = (0, began);
        loop {
            let end = rack.run(rack.now() + SLICE);
            if !run.report(progress) {
                outcome.interrupted = true;
                run.stop();
            }
            match end {
                RunEnd::Done => break,
                RunEnd::Stalled => return Err(YcsbError::Stalled(0)),
                RunEnd::Deadline | RunEnd::Control(_) => tend(rack.now())?,
            }
            let ended = run.ended.load(Ordering::Relaxed);
            if ended > seen {
                (seen, since) = (ended, rack.now());
                continue;
            }
            let waited = rack.now().since(since);
            if outcome.interrupted && grace.is_some_and(|grace| waited > grace) {
                outcome.not_flushed = Some(YcsbError::Stalled(0).to_string());
                break;
            }
            if waited > PATIENCE {
                let seconds = PATIENCE.as_nanos() / 1_000_000_000;
                return Err(YcsbError::Stalled(seconds));
            }
        }
        let workers: Vec<_> = self.all.iter().map(|worker| worker.borrow()).collect();
        outcome.measured(workers.iter().map(|worker| &worker.session.latencies));
        let last_end = workers.iter().filter_map(|worker| worker.ended).max();
        outcome.seconds = last_end.map_or(0.0, |end| end.since(began).as_secs_f64());
        outcome.simulation = Some(Simulation {
            real_seconds: started.elapsed().as_secs_f64(),
            events: rack.events(),
            trace_hash: format!("{:016x}", rack.trace_hash()),
        });
        Ok(())
    }
}

/// Where the time of the nodes' cores went.
pub(crate) fn time(rack: &SimulatedRack, who: &'static str, nodes: &[NodeId]) -> TimeShare {
    let mut sum = CpuReport::default();
    for report in nodes.iter().filter_map(|&node| rack.cpu_report(node)) {
        sum.compute += report.compute;
        sum.communication += report.communication;
        sum.waiting += report.waiting;
    }
    let all = (sum.compute + sum.communication + sum.waiting).as_nanos();
    let share = |part: Duration| part.as_nanos() as f64 / all.max(1) as f64;
    TimeShare {
        who,
        compute: share(sum.compute),
        communication: share(sum.communication),
        waiting: share(sum.waiting),
    }
}
