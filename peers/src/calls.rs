//! Empty unary calls of tonic: a client and a server with a thread each, over TCP on the loopback
//! interface. Messages have no bytes, so a codec that writes none is all that is needed.

use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::UnaryService;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

/// Time of each measurement.
const SPAN: Duration = Duration::from_millis(700);
/// Calls in flight where they are together, as in `rackweave perf rpc`.
const WINDOW: usize = 256;
const METHOD: &str = "/peers.Calls/Empty";

/// The codec of messages without bytes.
#[derive(Clone, Copy, Default)]
struct Empty;

impl Codec for Empty {
    type Encode = ();
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Empty {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, _item: (), _bytes: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Decoder for Empty {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, _bytes: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        Ok(Some(()))
    }
}

/// The method, and the service that has only this one.
#[derive(Clone, Copy)]
struct Reply;

impl UnaryService<()> for Reply {
    type Response = ();
    type Future = std::future::Ready<Result<Response<()>, Status>>;

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        std::future::ready(Ok(Response::new(())))
    }
}

impl Service<HttpRequest<Body>> for Reply {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(Empty);
            Ok(grpc.unary(Reply, request).await)
        })
    }
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// A port that was free just now.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

/// Waits until the server listens.
async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let endpoint = endpoint.tcp_nodelay(true);
    for _ in 0..200 {
        if let Ok(channel) = endpoint.connect().await {
            return channel;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing listens on {address}");
}

/// Calls one at a time until `end`; the nanoseconds of each.
async fn call_until(channel: Channel, end: Instant) -> Vec<u64> {
    let mut grpc = tonic::client::Grpc::new(channel);
    let mut nanos = Vec::new();
    while Instant::now() < end {
        let begun = Instant::now();
        grpc.ready().await.expect("the server runs");
        let method = PathAndQuery::from_static(METHOD);
        let reply = grpc.unary(Request::new(()), method, Empty).await;
        reply.expect("an empty reply");
        nanos.push(begun.elapsed().as_nanos() as u64);
    }
    nanos
}

async fn measure_against(address: SocketAddr) -> Value {
    let channel = connect(address).await;
    let mut alone = call_until(channel.clone(), Instant::now() + SPAN).await;
    alone.sort_unstable();
    let begun = Instant::now();
    let callers: Vec<_> = (0..WINDOW)
        .map(|_| tokio::spawn(call_until(channel.clone(), begun + SPAN)))
        .collect();
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.expect("no caller panics").len();
    }
    json!({
        "window": WINDOW,
        "calls_per_s": calls as f64 / begun.elapsed().as_secs_f64(),
        "p50_ns": alone[alone.len() / 2],
    })
}

pub fn measure() -> Value {
    let address = free_address();
    // It ends with the process.
    std::thread::spawn(move || {
        let serve = Server::builder().tcp_nodelay(true).serve(address, Reply);
        runtime().block_on(serve).expect("the port is still free");
    });
    runtime().block_on(measure_against(address))
}
