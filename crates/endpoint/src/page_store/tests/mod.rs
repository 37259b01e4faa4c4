//! The page store on a played rack.

mod bench;
mod histories;
mod played;
