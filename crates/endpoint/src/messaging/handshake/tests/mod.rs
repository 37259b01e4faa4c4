//! Both machines over a stream in memory, which delivers in pieces and breaks anywhere.

mod counting;
mod foul;
mod refusals;
mod rig;
mod streams;
mod time;
