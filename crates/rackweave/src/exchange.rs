//! Exchange streams: messages between a node and all others, in many streams with credit.
//!
//! They are made for the operators of a distributed query: each partition that a worker sends to
//! another one is a stream, opened with a request. A consumer that does not read one stream stops
//! no other, and the streams of a query share a [`Budget`]. `docs/exchange.md` in the repository
//! has the guarantees, and an example with two operators.
//!
//! ```
//! use rackweave::Rack;
//! use rackweave::exchange::{Budget, Exchange, ExchangeOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rack = Rack::builder().build()?;
//! let start = |name| -> Result<Exchange, Box<dyn std::error::Error>> {
//!     Ok(Exchange::start(&rack, &rack.node(name)?, ExchangeOptions::default())?)
//! };
//! let (worker, coordinator) = (start("storage0")?, start("compute0")?);
//!
//! std::thread::spawn(move || {
//!     while let Some(mut stream) = worker.accept_wait() {
//!         assert_eq!(stream.request, b"squares below 100");
//!         for number in 0..10u64 {
//!             // Waits while the consumer has a window of messages that it did not take.
//!             if stream.sender.send_wait((number * number).to_le_bytes()).is_err() {
//!                 return; // the consumer is gone, or wants no more
//!             }
//!         }
//!         stream.sender.finish();
//!     }
//! });
//!
//! let budget = Budget::new(64 << 20); // of a query
//! let (sender, mut squares) = coordinator.open("storage0", *b"squares below 100", &budget)?;
//! sender.finish(); // nothing but the request
//! let mut sum = 0;
//! while let Some(message) = squares.next_wait() {
//!     sum += u64::from_le_bytes(message?.try_into().expect("eight bytes"));
//! }
//! assert_eq!(sum, 285);
//! # Ok(())
//! # }
//! ```

pub use rackweave_endpoint::exchange::{Budget, OpenError, StreamConfig, StreamError};
pub use rackweave_rack::exchange::{
    BroadcastSender, Exchange, ExchangeCounters, ExchangeError, ExchangeOptions, Incoming,
    StreamReceiver, StreamSender,
};
