//! Calls to a service of your own, over SEND and RECV.
//!
//! A [`Server`] passes requests to a [`Service`]; a [`Client`] has a window of requests in flight.
//! Requests started together are sent together. Both are state machines: their owner polls them
//! with the verbs of its node. `docs/rpc.md` in the repository has more.
//!
//! ```
//! use rackweave::rpc::{Client, ClientConfig, Server, ServerConfig, Service, Status, Writer};
//! use rackweave::verbs::PairAttributes;
//! use rackweave::{Instant, Rack, TIME_LIMIT, wait_within};
//!
//! /// Answers a request with its bytes in reverse.
//! struct Reverse;
//!
//! impl Service for Reverse {
//!     fn serve(
//!         &mut self,
//!         _now: Instant,
//!         _client: u32,
//!         _method: u16,
//!         request: &[u8],
//!         reply: &mut Writer<'_>,
//!     ) -> Status {
//!         let bytes: Vec<u8> = request.iter().rev().copied().collect();
//!         reply.push(&bytes);
//!         Status::OK
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rack = Rack::builder().build()?;
//! let (server_node, client_node) = (rack.node("storage0")?, rack.node("compute0")?);
//! let config = ServerConfig::new(1); // the number tells this start of the server from others
//! let (mut server, end) = server_node.with(|nic| {
//!     let pd = nic.create_pd();
//!     let mut server = Server::new(nic, rack.memory(), pd, config)?;
//!     let end = server.accept(nic)?;
//!     Ok::<_, rackweave::rpc::RpcError>((server, end))
//! })?;
//! let mut client = client_node.with(|nic| {
//!     let pd = nic.create_pd();
//!     Client::new(nic, rack.memory(), pd, ClientConfig::default())
//! })?;
//! let ends = ((client_node.id(), client.qpn()), (server_node.id(), end));
//! rack.connect(ends.0, ends.1, &PairAttributes::default())?;
//! server_node.with(|nic| server.connected(nic, end))?;
//!
//! client.begin_with(1, b"stressed")?;
//! let answer = wait_within(&client_node, TIME_LIMIT, || {
//!     let now = client_node.now();
//!     server_node.with(|nic| server.poll(now, nic, &mut Reverse));
//!     client_node.with(|nic| client.poll(now, nic).map(|reply| reply.result.map(<[u8]>::to_vec)))
//! });
//! assert_eq!(answer.ok_or("no answer")??, b"desserts");
//! # Ok(())
//! # }
//! ```

pub use rackweave_endpoint::rpc::{
    Cause, Client, ClientConfig, ClientCounters, ConfigError, Reply, ResourceError, RpcError,
    Server, ServerConfig, ServerCounters, Service, Status, Ticket, Writer,
};
