//! Checkers of a run. They see inputs and outputs, and share no code with the system in between.

mod flow_history;
mod found;
pub mod index_history;
pub mod messages;
pub mod page_history;
pub mod page_use;
pub mod sequence;
pub mod stamp;
mod violation;

pub use flow_history::{FlowHistory, Shape};
pub use index_history::{IndexHistory, IndexViolation};
pub use messages::{MessageHistory, MessageSummary, MessageViolation};
pub use page_history::{PageHistory, PageViolation};
pub use page_use::{PageUse, UseViolation};
pub use sequence::{SequenceHistory, SequenceSummary, SequenceViolation};
pub use stamp::{Stamp, StampError};
pub use violation::Violation;
