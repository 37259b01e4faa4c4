//! Sequencers: ranges of numbers, each handed out once, in an order on which the whole rack agrees.
//!
//! A [`SequencerService`] is a register of the switch, which answers a fetch-and-add in the pass in
//! which it sees it; or a word in a node's memory, or a counter in a server
//! ([`SequencerPlacement`]; *BlueField*, ADMS 2022, section 4.4). Each thread has a
//! [`SequencerClient`]. `docs/sequencer.md` in the repository documents what each kind guarantees
//! across restarts.
//!
//! ```
//! use rackweave::sequencer::SequencerService;
//! use rackweave::Rack;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let rack = Rack::builder().build()?;
//! let sequencer = SequencerService::new(&rack, 100)?;
//! let mut one = sequencer.connect(&rack.node("compute0")?)?;
//! let mut other = sequencer.connect(&rack.node("compute1")?)?;
//! assert_eq!(one.next(10)?, 100..110);
//! assert_eq!(other.next(1)?, 110..111);
//!
//! // What the next sequencer may begin with, when this rack has ended.
//! assert!(sequencer.reserved().is_some_and(|number| number >= 111));
//! # Ok(())
//! # }
//! ```

pub use rackweave_controller::{SequencerId, SequencerSetUpError, SequencerSpec};
pub use rackweave_endpoint::sequencer::*;
pub use rackweave_rack::services::{
    AttachedSequencer, CounterServer, CounterServerSpec, CounterThread, SequencerClient,
    SequencerOptions, SequencerPlacement, SequencerService, SequencerServiceError,
};
