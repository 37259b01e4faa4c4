//! Figure 12 of the BlueField paper: a sequencer by RPC. Its counter is in the host's or the DPU's
//! memory and is incremented by local atomics.

mod line;

use super::bluefield::{Core, SERVERS, attributes, counted, testbed};
use crate::harness::prelude::*;
use crate::harness::work::Priced;
use line::Line;
use rackweave_endpoint::rpc;
use rackweave_endpoint::sequencer::{Sequencer, SequencerConfig, Ticket};
use rackweave_rack::services::{
    AttachedSequencer, CounterServer, CounterServerSpec, SequencerOptions, SequencerPlacement,
    SequencerService,
};
use rackweave_sim::testbed::Server;

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

#[cfg(test)]
mod tests;
