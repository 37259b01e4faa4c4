//! Figure 12 of the BlueField paper: a sequencer by RPC. Its counter is in the host's or the DPU's
//! memory and is incremented by local atomics.

use super::bluefield::{Core, SERVERS, attributes, counted, testbed};
use crate::harness::metered::Priced;
use crate::harness::prelude::*;
use rackweave_endpoint::sequencer::{Sequencer, SequencerConfig, Ticket};
use rackweave_rack::services::{
    AttachedSequencer, CounterServer, CounterServerSpec, SequencerOptions, SequencerPlacement,
    SequencerService,
};

const CLIENTS: &[u16] = &[1, 2, 4, 6, 8, 10, 12, 14, 16];
const CLIENTS_QUICK: &[u16] = &[1, 4, 8, 16];

/// Requests of a client in flight: the maximum for a client of the sequencer.
const REQUESTS: u16 = 16;

/// Maximum bytes of a request or reply.
const PAYLOAD_MAX: u32 = 64;

/// A thread of the server; all of them take `line`.
fn serving(
    core: Core,
    server: CounterServer,
    number: u16,
    line: Rc<RefCell<Line>>,
) -> impl Program {
    on_core(core, move |now, verbs| {
        line.borrow_mut().pass(now);
        let mut thread = server.lock();
        let Some(thread) = thread.as_mut() else {
            return Ok(None);
        };
        let dispatch = core.work(devices::RPC_DISPATCH_CYCLES);
        let price = |at: Instant, _, _: &[u8], _| {
            let at = at + dispatch;
            let operation = core.work(devices::ATOMIC_CYCLES);
            let transfer = core.cpu.cache_latency;
            let done = line.borrow_mut().take(at, number, operation, transfer);
            dispatch + done.since(at)
        };
        let mut service = Priced::new(&mut thread.service, price);
        thread.rpc.poll(now, verbs, &mut service);
        Ok(Some((service.spent, None)))
    })
}

/// A thread of the compute node.
fn client(mut sequencer: AttachedSequencer, tally: Shared) -> impl Program {
    let core = Core::of(Server::Compute);
    let dispatch = core.work(devices::RPC_DISPATCH_CYCLES);
    let mut begun: VecDeque<(Ticket, Instant)> = VecDeque::new();
    on_core(core, move |now, verbs| {
        let mut spent = Duration::ZERO;
        while let Some(done) = sequencer.poll(now, verbs) {
            spent += dispatch;
            done.result.map_err(|error| error.to_string())?;
            let (ticket, since) = begun.pop_front().ok_or("an answer to no question")?;
            if ticket != done.ticket {
                return Err(format!("{:?} ended before {ticket:?}", done.ticket));
            }
            tally.borrow_mut().end(since, now + verbs.spent() + spent);
        }
        if begun.len() < usize::from(REQUESTS) {
            while begun.len() < usize::from(REQUESTS) {
                spent += dispatch;
                let ticket = sequencer.begin(1).map_err(|error| error.to_string())?;
                begun.push_back((ticket, now));
            }
            // Sends the requests; replies that arrive meanwhile are taken in the next turn.
            if let Some(done) = sequencer.poll(now, verbs) {
                return Err(format!("{:?} ended before it was sent", done.ticket));
            }
        }
        Ok(Some((spent, sequencer.poll_timeout())))
    })
}

fn sequencer(rack: &SimulatedRack, server: Server) -> Result<SequencerService> {
    let spec = CounterServerSpec {
        ports: devices::CARD_PORTS,
        threads: server.threads(),
        server: rpc::ServerConfig {
            clients_max: devices::COMPUTE_THREADS,
            receives: 2 * REQUESTS,
            payload_max: PAYLOAD_MAX,
            batch_bytes: 0,
            completions_max: REQUESTS,
            ..rpc::ServerConfig::new(1)
        },
        client: rpc::ClientConfig {
            window: REQUESTS,
            batch_bytes: 0,
            ..rpc::ClientConfig::default()
        },
        ..CounterServerSpec::new(server.at_port(0))
    };
    let options = SequencerOptions {
        attributes: attributes(),
        ..SequencerOptions::new(SequencerPlacement::Server(spec))
    };
    let made = SequencerService::with(rack, &options);
    made.or_failed("the sequencer")
}

/// Operations per second of `clients` clients of a counter on `server`.
fn measure(run: &mut Run<'_>, server: Server, clients: u16) -> Result<f64> {
    let mut rack = testbed(run.seed, 64 << 20)?;
    let span = Span::new(Duration::from_micros(30), counted(run.scale));
    let tally = Tally::new(rack.now(), span);
    let made = sequencer(&rack, server)?;
    let config = SequencerConfig {
        calls_max: REQUESTS.into(),
        combine_max: 1,
        requests_max: REQUESTS.into(),
    };
    for index in 0..clients {
        let node = Server::Compute.of_thread(index);
        let sequencer = made.client(node, config).or_failed("a client")?;
        rack.spawn(node, client(sequencer, tally.clone()));
    }
    let line = Rc::new(RefCell::new(Line::default()));
    for (thread, (node, of)) in (0..).zip(made.servers()) {
        let serving = serving(Core::of(server), of.clone(), thread, line.clone());
        rack.spawn(node.id(), serving);
    }
    Ok(Tally::run(&tally, run, &mut rack)?.per_second)
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let clients = run.scale.pick(CLIENTS_QUICK, CLIENTS);
    let curves = Grid::new(&SERVERS, clients).measure(run, measure)?;
    let peak = |at: usize| curves[at].most(|rate| rate / 1e6);
    let bound = |server| {
        let hold = Core::of(server).contended_atomic();
        1e3 / hold.as_nanos() as f64
    };
    let values = values! {
        requests: REQUESTS,
        gain: peak(0) / peak(1),
        host: bound(Server::Host),
        dpu: bound(Server::Dpu),
    };
    let series = grid::series(&curves, f64::from, |rate| rate / 1e6);
    Ok(Measured::new(series, values))
}

/// The schedule of a line's owners.
///
/// Threads report their accesses in batches, so not in the order of time; an access gets the first
/// interval in which the line is free for long enough.
#[derive(Debug, Default)]
struct Line {
    /// Start and end of each access, and its thread; in order, without overlaps.
    taken: Vec<(Instant, Instant, u16)>,
}

impl Line {
    /// No access before `now` will be requested any more.
    fn pass(&mut self, now: Instant) {
        // The last access before then is kept: its thread holds the line.
        let past = self.taken.partition_point(|&(_, until, _)| until <= now);
        self.taken.drain(..past.saturating_sub(1));
    }

    /// Performs an operation of `thread` on the line, not before `at`; returns when it is done. If
    /// another thread had the line last, the line is transferred first.
    fn take(
        &mut self,
        at: Instant,
        thread: u16,
        operation: Duration,
        transfer: Duration,
    ) -> Instant {
        let mut place = self.taken.partition_point(|&(_, until, _)| until <= at);
        let mut from = at;
        loop {
            let before = place.checked_sub(1).map(|before| self.taken[before].2);
            let hold = match before {
                Some(other) if other != thread => operation + transfer,
                _ => operation,
            };
            match self.taken.get(place) {
                Some(&(next, until, _)) if next < from + hold => {
                    from = until.max(from);
                    place += 1;
                }
                _ => {
                    self.taken.insert(place, (from, from + hold, thread));
                    return from + hold;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
