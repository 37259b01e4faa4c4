//! Support for an engine's own tests: faults, packet capture, and the same state machines in
//! virtual time.
//!
//! [`Faults`] crash nodes and restart the switch of a rack; [`Taps`] show every packet. An
//! [`EmbeddedRack`] has both, and services use it as a [`Rack`](crate::Rack).
//!
//! A [`SimulatedRack`] runs NICs, switch and targets on modelled hardware under one virtual clock,
//! and one seed decides everything that is random, so a failing run can be repeated exactly. Its
//! nodes run [`Actor`]s, which never block: they use the polled types of this crate, such as
//! [`Worker`](crate::pages::Worker), [`IndexClient`](crate::index::IndexClient),
//! [`Producer`](crate::flow::Producer).
//!
//! ```
//! use rackweave::flow::{Consumer, Producer, Taken};
//! use rackweave::testing::{Actor, Context, Duration, RunEnd, SimulatedRack, Step};
//! use rackweave::{Instant, NodeId, RackConfig};
//!
//! struct Send(Producer, u64);
//! struct Receive(Consumer, u64);
//!
//! impl Actor for Send {
//!     fn step(&mut self, _: &mut Context<'_>) -> Step {
//!         if self.1 == 1000 {
//!             self.0.finish();
//!             return Step::Done;
//!         }
//!         match self.0.push(&self.1.to_le_bytes()) {
//!             Ok(()) => self.1 += 1,
//!             Err(_) => return Step::WaitForPacket, // the ring is full
//!         }
//!         Step::Compute(Duration::from_nanos(50))
//!     }
//! }
//!
//! impl Actor for Receive {
//!     fn step(&mut self, _: &mut Context<'_>) -> Step {
//!         let mut item = [0; 64];
//!         match self.0.pop(&mut item) {
//!             Taken::Items(()) => {
//!                 assert_eq!(item[..8], self.1.to_le_bytes(), "lost, doubled or overtaken");
//!                 self.1 += 1;
//!                 Step::Compute(Duration::from_nanos(50))
//!             }
//!             Taken::Empty => Step::WaitForPacket,
//!             Taken::Ended | Taken::Aborted => Step::Done,
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let run = |seed| {
//!     let mut config = RackConfig { seed, ..RackConfig::default() };
//!     config.faults.loss = 0.01; // every hundredth packet
//!     let mut rack = SimulatedRack::new(&config)?;
//!     let (from, to) = (NodeId(0), NodeId(2));
//!     let flow = rack.flow(&[from], &[to]).item_bytes(64).ring_bytes(1 << 12).build()?;
//!     rack.spawn(from, Box::new(Send(flow.take_producer(0)?, 0)));
//!     rack.spawn(to, Box::new(Receive(flow.take_consumer(0)?, 0)));
//!     assert_eq!(rack.run(Instant::ZERO + Duration::from_secs(1)), RunEnd::Done);
//!     Ok::<_, Box<dyn std::error::Error>>((rack.now(), rack.trace_hash()))
//! };
//! assert_eq!(run(7)?, run(7)?, "the same seed, the same run");
//! assert_ne!(run(7)?, run(8)?);
//! # Ok(())
//! # }
//! ```

pub use rackweave_base::Duration;
pub use rackweave_rack::testing::{Faults, Tap, Taps};
pub use rackweave_rack::{EmbeddedRack, RunEnd, SimulatedRack, SsdBackend, SsdStall};
pub use rackweave_sim::{Actor, ActorId, Context, CpuModel, NicModel, SsdModel, Step};
