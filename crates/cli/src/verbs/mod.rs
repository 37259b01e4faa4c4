//! Both ends of perftest's tests: the pair of queue pairs, the posting and the answering node.

pub mod initiator;
pub mod pair;
