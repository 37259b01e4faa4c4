//! Judges of a run. They see what went in and what came out, and share no code with what is
//! between.

mod flow_history;
pub mod page_history;
pub mod stamp;
mod violation;

pub use flow_history::{FlowHistory, Shape};
pub use page_history::{PageHistory, PageViolation};
pub use stamp::{Stamp, StampError};
pub use violation::Violation;
