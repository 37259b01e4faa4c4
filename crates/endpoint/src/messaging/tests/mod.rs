//! Two nodes with NICs between them.

mod basics;
mod closing;
mod garbage;
mod handles;
mod random;
pub mod rig;
mod sizes;
