//! The test `rpc`: calls from clients on one node to a server on another, embedded.
//!
//! Three measurements, one after the other: calls that travel together, calls that each have a
//! message of their own, and one call at a time. Requests carry a number, if they have room for
//! one, and the answer is the request.

use super::loops::{NowAndThen, nanos};
use super::report::{Latency, Setting, per_second, ratio, scaled, verdict};
use crate::args::PerfArgs;
use crate::globals::Globals;
use crate::mode::EMBEDDED;
use crate::outcome::{CliError, Verdict};
use crate::patience::Patience;
use crate::progress::Progress;
use core::sync::atomic::{AtomicBool, Ordering};
use hdrhistogram::Histogram;
use rackweave_base::NodeId;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::rpc::{
    Client, ClientConfig, RpcError, Server, ServerConfig, Service, Status, Writer,
};
use rackweave_rack::{EmbeddedRack, Node, RackConfig};
use rackweave_verbs::{Mtu, Progress as Drive};
use serde::Serialize;
use std::fmt;
use std::time::Instant;

/// Nanoseconds beyond which latencies are not told apart.
const LATENCY_MAX: u64 = 60_000_000_000;

/// The only method.
const ECHO: u16 = 1;

/// What was asked for, with its defaults in place.
#[derive(Clone, Copy, Debug, Serialize)]
struct Parameters {
    /// Bytes of a request and of its answer.
    size_bytes: u32,
    clients: u16,
    /// Requests under way per client.
    window: u16,
    /// One thread has both ends, or each has its own.
    threads: u8,
}

/// Calls with as many under way as the window holds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Rate {
    /// Up to where calls joined a message.
    batch_bytes: u32,
    calls: u64,
    elapsed_s: f64,
    calls_per_s: f64,
    /// Requests in one message.
    calls_per_request_message: f64,
    /// Replies in one message.
    calls_per_reply_message: f64,
    /// Messages, both ways, that a NIC could take within the work request.
    inline_share: f64,
}

#[derive(Clone, Debug, Serialize)]
struct RpcReport {
    #[serde(flatten)]
    setting: Setting,
    verified: bool,
    interrupted: bool,
    parameters: Parameters,
    batched: Rate,
    single: Rate,
    batched_to_single: f64,
    /// Of one call at a time.
    latency_ns: Latency,
}

/// Answers with the request.
struct Echo;

impl Service for Echo {
    fn serve(
        &mut self,
        _now: rackweave_base::Instant,
        _client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        if method != ECHO {
            return Status::UNKNOWN_METHOD;
        }
        reply.push(request);
        Status::OK
    }
}

/// The clients of one measurement: each keeps its window full.
struct Callers {
    clients: Vec<(Node, Client)>,
    size: usize,
    /// What the next request carries.
    next: u64,
    /// What each request under way carries, and when it was begun, by client and slot.
    under_way: Vec<Vec<(u64, u64)>>,
    calls: u64,
    is_sound: bool,
    /// How long calls took, if that is of interest.
    histogram: Option<Histogram<u64>>,
}

impl Callers {
    /// Begins what the windows hold.
    fn begin(&mut self, now: u64) -> Result<(), RpcError> {
        for ((_, client), under_way) in self.clients.iter_mut().zip(&mut self.under_way) {
            for _ in 0..client.free() {
                let number = self.next;
                let ticket = client.begin(ECHO, self.size, |bytes| {
                    if let Some(head) = bytes.first_chunk_mut() {
                        *head = number.to_le_bytes();
                    }
                    bytes.len()
                })?;
                under_way[ticket.slot()] = (number, now);
                self.next += 1;
            }
        }
        Ok(())
    }

    /// Calls for `span` nanoseconds. `also` is what else this thread has to do, and says whether
    /// anything happened. Returns how long it took.
    fn run(
        &mut self,
        driver: &dyn Drive,
        span: u64,
        globals: &Globals,
        mut also: impl FnMut() -> bool,
    ) -> Result<u64, RpcError> {
        let start = Instant::now();
        let mut patience = Patience::new(driver);
        let mut watching = NowAndThen::default();
        let mut now = 0;
        while now < span {
            self.begin(now)?;
            let moved = self.turn(start)?;
            patience.wait(also() | moved);
            now = nanos(start);
            if watching.is_due() && globals.interrupt.is_set() {
                break;
            }
        }
        Ok(now)
    }

    /// Sends, and takes what came. True if anything happened.
    fn turn(&mut self, start: Instant) -> Result<bool, RpcError> {
        let mut happened = false;
        for ((node, client), under_way) in self.clients.iter_mut().zip(&self.under_way) {
            let now = node.now();
            happened |= node.with(|nic| client.advance(now, nic));
            while let Some(reply) = client.take() {
                let bytes = reply.result?;
                let (number, begun) = under_way[reply.ticket.slot()];
                self.is_sound &= bytes.len() == self.size;
                if let Some(head) = bytes.first_chunk() {
                    self.is_sound &= u64::from_le_bytes(*head) == number;
                }
                self.calls += 1;
                if let Some(histogram) = &mut self.histogram {
                    histogram.saturating_record(nanos(start) - begun);
                }
            }
        }
        Ok(happened)
    }
}

/// A server and its clients, connected.
struct Rig {
    rack: EmbeddedRack,
    node: Node,
    server: Server,
    callers: Callers,
}

/// A client of `config` on `node`, connected to `server` on `far`.
fn connected_client(
    rack: &EmbeddedRack,
    (near, far): (NodeId, NodeId),
    server: &mut Server,
    config: ClientConfig,
) -> Result<(Node, Client), CliError> {
    let (node, server_node) = (rack.node_at(near), rack.node_at(far));
    let made = node.with(|nic| {
        let pd = nic.create_pd();
        Client::new(nic, rack.memory(), pd, config)
    });
    let client = made.map_err(CliError::run)?;
    let accepted = server_node.with(|nic| server.accept(nic));
    let far_qpn = accepted.map_err(CliError::run)?;
    let attributes = PairAttributes {
        mtu: Mtu::from_bytes(rack.config().nic.mtu).unwrap_or_default(),
        ..PairAttributes::default()
    };
    rack.connect((near, client.qpn()), (far, far_qpn), &attributes)?;
    let opened = server_node.with(|nic| server.connected(nic, far_qpn));
    opened.map_err(CliError::run)?;
    Ok((node, client))
}

impl Rig {
    fn new(
        config: &RackConfig,
        parameters: &Parameters,
        (window, batch_bytes): (u16, u32),
        timed: bool,
    ) -> Result<Self, CliError> {
        let rack = EmbeddedRack::new(config)?;
        let far = NodeId(config.node.len() as u16 - 1);
        let node = rack.node_at(far);
        let defaults = ServerConfig::new(config.seed | 1);
        let server_config = ServerConfig {
            clients_max: parameters.clients,
            payload_max: defaults.payload_max.max(parameters.size_bytes),
            batch_bytes,
            ..defaults
        };
        let made = node.with(|nic| {
            let pd = nic.create_pd();
            Server::new(nic, rack.memory(), pd, server_config)
        });
        let mut server = made.map_err(CliError::run)?;
        let client_config = ClientConfig {
            window,
            payload_max: server_config.payload_max,
            batch_bytes,
            ..ClientConfig::default()
        };
        let mut clients = Vec::new();
        for at in 0..parameters.clients {
            // On all nodes but the server's, if there are others.
            let near = NodeId(at % far.0.max(1));
            let client = connected_client(&rack, (near, far), &mut server, client_config)?;
            clients.push(client);
        }
        let under_way = vec![vec![(0, 0); window.into()]; clients.len()];
        let callers = Callers {
            clients,
            size: parameters.size_bytes as usize,
            next: 1,
            under_way,
            calls: 0,
            is_sound: true,
            histogram: timed.then(|| {
                Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("the bounds are sound")
            }),
        };
        Ok(Self {
            rack,
            node,
            server,
            callers,
        })
    }

    /// Calls for `span` nanoseconds. Returns how long it took.
    fn run(&mut self, threads: u8, span: u64, globals: &Globals) -> Result<u64, CliError> {
        let done = AtomicBool::new(false);
        let driver = self.rack.progress();
        let (server, node, callers) = (&mut self.server, &self.node, &mut self.callers);
        let mut serve = move || {
            let now = node.now();
            node.with(|nic| server.poll(now, nic, &mut Echo))
        };
        let result = match threads {
            1 => callers.run(&*driver, span, globals, serve),
            _ => std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut patience = Patience::new(&*driver);
                    while !done.load(Ordering::Relaxed) {
                        let moved = serve();
                        patience.wait(moved);
                    }
                });
                let result = callers.run(&*driver, span, globals, || false);
                done.store(true, Ordering::Relaxed);
                result
            }),
        };
        result.map_err(CliError::run)
    }

    fn rate(&self, batch_bytes: u32, nanos: u64) -> Rate {
        let calls = self.callers.calls;
        let server = self.server.counters();
        let all = |count: fn(&Client) -> u64| -> u64 {
            self.callers
                .clients
                .iter()
                .map(|(_, client)| count(client))
                .sum()
        };
        let requests = all(|client| client.counters().messages_sent);
        let inline = all(|client| client.counters().messages_inline) + server.messages_inline;
        let messages = requests + server.messages_sent;
        Rate {
            batch_bytes,
            calls,
            elapsed_s: nanos as f64 / 1e9,
            calls_per_s: per_second(calls, nanos),
            calls_per_request_message: ratio(server.requests as f64, requests as f64),
            calls_per_reply_message: ratio(server.requests as f64, server.messages_sent as f64),
            inline_share: ratio(inline as f64, messages as f64),
        }
    }
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built or a connection breaks.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.rack_config(&args.rack)?;
    let parameters = Parameters {
        size_bytes: args.size.unwrap_or(0),
        clients: args.clients.unwrap_or(1),
        window: args.window.unwrap_or(256),
        threads: args.threads.unwrap_or(2),
    };
    let most = rackweave_wire::fabric::rpc::PAYLOAD_MAX as u32;
    if parameters.size_bytes > most {
        return Err(CliError::usage(format!(
            "-s is {}: a request has {most} bytes at most",
            parameters.size_bytes
        )));
    }
    let span = (args.duration.unwrap_or(3.0) / 3.0 * 1e9) as u64;
    let mut progress = Progress::new(globals, super::name_of(args.test));
    let mut is_sound = true;
    let mut step = 0;
    let mut measure = |window: u16, batch_bytes: u32, timed: bool| {
        let mut rig = Rig::new(&config, &parameters, (window, batch_bytes), timed)?;
        globals.live.watch(rig.rack.observer());
        let nanos = rig.run(parameters.threads, span, globals)?;
        is_sound &= rig.callers.is_sound && rig.callers.calls > 0;
        step += 1;
        progress.set(|| f64::from(step) / 3.0);
        Ok::<_, CliError>((rig.rate(batch_bytes, nanos), rig.callers.histogram.take()))
    };
    let batch_bytes = ClientConfig::default().batch_bytes;
    let (batched, _) = measure(parameters.window, batch_bytes, false)?;
    let (single, _) = measure(parameters.window, 0, false)?;
    let (_, histogram) = measure(1, batch_bytes, true)?;
    drop(progress);
    let report = RpcReport {
        setting: Setting::new(args.test, EMBEDDED, &config),
        verified: is_sound,
        interrupted: globals.interrupt.is_set(),
        parameters,
        batched,
        single,
        batched_to_single: ratio(batched.calls_per_s, single.calls_per_s),
        latency_ns: Latency::of(&histogram.expect("it was asked for")),
    };
    crate::output::print(globals, "perf", &report)?;
    Ok(Verdict::of(report.verified))
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}calls/s; {:.1} requests and {:.1} replies in a message, {:.0} % of messages inline",
            scaled(self.calls_per_s),
            self.calls_per_request_message,
            self.calls_per_reply_message,
            self.inline_share * 100.0
        )
    }
}

impl fmt::Display for RpcReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = &self.parameters;
        write!(f, "{}", self.setting)?;
        writeln!(
            f,
            "{} clients, {} requests of {} bytes under way each, {} threads at the ends",
            parameters.clients, parameters.window, parameters.size_bytes, parameters.threads
        )?;
        write!(f, "calls that travel together: {}", self.batched)?;
        write!(f, "a message for each call:    {}", self.single)?;
        writeln!(f, "together to alone: {:.2}", self.batched_to_single)?;
        writeln!(f, "one call of each client at a time:")?;
        write!(f, "{}", self.latency_ns)?;
        verdict(f, self.verified, self.interrupted)
    }
}
