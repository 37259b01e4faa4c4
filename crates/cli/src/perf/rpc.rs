//! The test `rpc`: calls from clients on one node to a server on another.
//!
//! Three measurements, one after another: calls that are batched, calls that each have their own
//! message, and one call at a time. Requests carry a number, if they are large enough for one, and
//! the reply is the request.

use super::test_run::TestRun;
use crate::measure::{histogram, latency, per_second, rate, ratio};
use crate::outcome::CliError;
use crate::programs::{self, Clock, End, Group, Port, Program, Turn, Wish};
use crate::report::joined;
use hdrhistogram::Histogram;
use rackweave_base::NodeId;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::rpc::{
    Client, ClientConfig, RpcError, Server, ServerConfig, Service, Status, Writer,
};
use rackweave_rack::{Node, Rack};
use rackweave_verbs::Mtu;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Measurements, one after another.
const MEASUREMENTS: u32 = 3;

/// The only method.
const ECHO: u16 = 1;

/// The parameters, with defaults applied.
#[derive(Clone, Copy, Debug, Serialize)]
struct Parameters {
    /// Bytes of a request and of its reply.
    size_bytes: u32,
    clients: u16,
    /// Requests in flight per client.
    window: u16,
    /// One thread runs both ends, or each end has its own.
    threads: u8,
}

/// Replies with the request.
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

/// A client that keeps its window full for a while.
struct Caller {
    client: Client,
    size: usize,
    /// Nanoseconds for which it sends calls.
    span: u64,
    /// The content of the next request.
    next: u64,
    /// The content of each request in flight, and its start time, by slot.
    under_way: Vec<(u64, u64)>,
    calls: u64,
    is_sound: bool,
    /// Nanoseconds since the start, at its last turn.
    now: u64,
    /// Latencies of calls, if recorded.
    histogram: Option<Histogram<u64>>,
}

impl Caller {
    /// Begins requests until the window is full.
    fn begin(&mut self) -> Result<(), RpcError> {
        for _ in 0..self.client.free() {
            let number = self.next;
            let ticket = self.client.begin(ECHO, self.size, |bytes| {
                if let Some(head) = bytes.first_chunk_mut() {
                    *head = number.to_le_bytes();
                }
                bytes.len()
            })?;
            self.under_way[ticket.slot()] = (number, self.now);
            self.next += 1;
        }
        Ok(())
    }

    /// Sends, and takes replies. True if anything happened.
    fn advance(&mut self, node: &Node, clock: Clock) -> Result<bool, RpcError> {
        let (client, now) = (&mut self.client, node.now());
        let happened = node.with(|nic| client.advance(now, nic));
        while let Some(reply) = client.take() {
            let bytes = reply.result?;
            let (number, begun) = self.under_way[reply.ticket.slot()];
            self.is_sound &= bytes.len() == self.size;
            if let Some(head) = bytes.first_chunk() {
                self.is_sound &= u64::from_le_bytes(*head) == number;
            }
            self.calls += 1;
            if let Some(histogram) = &mut self.histogram {
                histogram.saturating_record(clock.now() - begun);
            }
        }
        Ok(happened)
    }
}

impl Program for Caller {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        self.now = port.now();
        if self.now >= self.span {
            return Ok(Turn::Ended);
        }
        self.begin()?;
        let moved = self.advance(port.node()?, port.clock())?;
        Ok(Turn::Waits { moved })
    }
}

/// The server.
struct Serving(Server);

impl Program for Serving {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let node = port.node()?;
        let now = node.now();
        let moved = node.with(|nic| self.0.poll(now, nic, &mut Echo));
        Ok(Turn::Waits { moved })
    }

    fn is_server(&self) -> bool {
        true
    }
}

/// The results of a measurement.
struct Found {
    calls_per_s: f64,
    rate: Value,
    histogram: Histogram<u64>,
}

/// A client of `config` on `node`, connected to `server` on `far`.
fn connected_client(
    rack: &Rack,
    (near, far): (NodeId, NodeId),
    server: &mut Server,
    config: ClientConfig,
) -> Result<Client, CliError> {
    let (node, server_node) = (rack.node_at(near), rack.node_at(far));
    let client = node.with(|nic| {
        let pd = nic.create_pd();
        Client::new(nic, rack.memory(), pd, config)
    })?;
    let far_qpn = server_node.with(|nic| server.accept(nic))?;
    let attributes = PairAttributes {
        mtu: Mtu::from_bytes(rack.config().nic.mtu).unwrap_or_default(),
        ..PairAttributes::default()
    };
    rack.connect((near, client.qpn()), (far, far_qpn), &attributes)?;
    server_node.with(|nic| server.connected(nic, far_qpn))?;
    Ok(client)
}

/// The ends of a measurement with this window, connected: the server and its clients.
fn ends(
    rack: &Rack,
    parameters: &Parameters,
    (window, batch_bytes): (u16, u32),
    (nodes, span): (&[NodeId], Duration),
) -> Result<[Group<End<Serving, Caller>>; 2], CliError> {
    let (&far, others) = nodes.split_last().expect("a rack has nodes");
    let defaults = ServerConfig::new(rack.config().seed | 1);
    let server_config = ServerConfig {
        clients_max: parameters.clients,
        payload_max: defaults.payload_max.max(parameters.size_bytes),
        batch_bytes,
        ..defaults
    };
    let mut server = rack.node_at(far).with(|nic| {
        let pd = nic.create_pd();
        Server::new(nic, rack.memory(), pd, server_config)
    })?;
    let client_config = ClientConfig {
        window,
        payload_max: server_config.payload_max,
        batch_bytes,
        ..ClientConfig::default()
    };
    let mut callers = Group::new();
    for at in 0..parameters.clients {
        // On all nodes but the server's, if other nodes exist.
        let near = others.get(usize::from(at) % others.len().max(1));
        let near = near.copied().unwrap_or(far);
        let caller = Caller {
            client: connected_client(rack, (near, far), &mut server, client_config)?,
            size: parameters.size_bytes as usize,
            span: span.as_nanos() as u64,
            next: 1,
            under_way: vec![(0, 0); window.into()],
            calls: 0,
            is_sound: true,
            now: 0,
            histogram: (window == 1).then(histogram),
        };
        callers.push((near, End::Sink(caller)));
    }
    let server = End::Source(Serving(server));
    Ok([vec![(far, server)], callers])
}

/// Sends calls for a while on its own rack; each call is timed if the window is one.
fn calls(
    test: &mut TestRun<'_>,
    parameters: &Parameters,
    (window, batch_bytes): (u16, u32),
) -> Result<Found, CliError> {
    let rack = test.real_rack()?;
    let span = test.part(3.0, MEASUREMENTS);
    let at = (&test.nodes[..], span);
    let groups = ends(&rack, parameters, (window, batch_bytes), at)?;
    let groups = match parameters.threads {
        1 => vec![groups.into_iter().flatten().collect()],
        _ => groups.into(),
    };
    let (mut callers, mut served) = (Vec::new(), None);
    let (ends, ran) = programs::drive(&rack, groups, Wish::Stop, test.globals);
    ran?;
    for end in ends {
        match end {
            End::Sink(caller) => callers.push(caller),
            End::Source(server) => served = Some(*server.0.counters()),
        }
    }
    let served = served.ok_or_else(|| CliError::run("the server is gone"))?;
    let all = |count: fn(&Caller) -> u64| -> u64 { callers.iter().map(count).sum() };
    let (calls, requests) = (
        all(|caller| caller.calls),
        all(|caller| caller.client.counters().messages_sent),
    );
    let inline = all(|caller| caller.client.counters().messages_inline) + served.messages_inline;
    let nanos = callers.iter().map(|caller| caller.now).max().unwrap_or(0);
    let mut histogram = histogram();
    for its in callers.iter().filter_map(|it| it.histogram.as_ref()) {
        histogram.add(its)?;
    }
    test.step(callers.iter().all(|caller| caller.is_sound) && calls > 0);
    let per_message = json!({
        "calls_per_request_message": ratio(served.requests as f64, requests as f64),
        "calls_per_reply_message": ratio(served.requests as f64, served.messages_sent as f64),
        "inline_share": ratio(inline as f64, (requests + served.messages_sent) as f64),
    });
    let batch = json!({"batch_bytes": batch_bytes});
    Ok(Found {
        calls_per_s: per_second(calls, nanos),
        rate: joined([batch, rate("calls", calls, nanos), per_message]),
        histogram,
    })
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built or a connection fails.
pub fn measure(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    test.steps = MEASUREMENTS;
    let args = test.args;
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
    let batch_bytes = ClientConfig::default().batch_bytes;
    let mut measured = |window, batch_bytes| calls(test, &parameters, (window, batch_bytes));
    let batched = measured(parameters.window, batch_bytes)?;
    let single = measured(parameters.window, 0)?;
    let one = measured(1, batch_bytes)?;
    Ok(json!({
        "parameters": parameters,
        "batched": batched.rate,
        "single": single.rate,
        "batched_to_single": ratio(batched.calls_per_s, single.calls_per_s),
        "latency_ns": latency(&one.histogram),
    }))
}
