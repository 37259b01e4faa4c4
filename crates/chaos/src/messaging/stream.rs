//! Byte streams between two nodes, with the behaviour of TCP: written bytes arrive later, in other
//! portions, and the stream may end or fall silent at any byte.

use core::cell::RefCell;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_sim::checkers::messages::Peer;
use std::collections::VecDeque;

/// How a direction of a stream ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// Nothing more arrives, and no end is reported.
    Silent,
    /// The reader sees the end.
    End,
}

/// How a stream behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StreamPlan {
    /// Maximum delay of a portion.
    pub delay_max: Duration,
    /// The direction that is cut, given by the node that writes, and after how many bytes.
    pub cut: Option<(Peer, usize, Cut)>,
}

/// The result of a read from a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Came {
    Bytes(Vec<u8>),
    End,
}

/// A stream.
pub(super) struct Stream {
    plan: StreamPlan,
    inner: RefCell<Inner>,
}

struct Inner {
    rng: Rng,
    /// By the writing node: the compute node, the storage node.
    pipes: [Pipe; 2],
}

#[derive(Default)]
struct Pipe {
    under_way: VecDeque<(Instant, Came)>,
    /// Bytes written into it.
    written: usize,
    /// Nothing more gets through.
    dead: bool,
    last_at: Instant,
}

fn at(peer: Peer) -> usize {
    usize::from(peer == Peer::Storage)
}

impl Stream {
    pub fn new(plan: StreamPlan, rng: Rng) -> Self {
        let inner = Inner {
            rng,
            pipes: [Pipe::default(), Pipe::default()],
        };
        Self {
            plan,
            inner: RefCell::new(inner),
        }
    }

    /// A node writes.
    pub fn write(&self, now: Instant, from: Peer, bytes: &[u8]) {
        let mut inner = self.inner.borrow_mut();
        let Inner { rng, pipes } = &mut *inner;
        let pipe = &mut pipes[at(from)];
        let limit = self.plan.cut.filter(|cut| cut.0 == from);
        let mut rest = bytes;
        while !rest.is_empty() && !pipe.dead {
            let space = limit.map_or(usize::MAX, |(_, after, _)| after - pipe.written);
            if space == 0 {
                pipe.dead = true;
                if let Some((_, _, Cut::End)) = limit {
                    pipe.enter(now, self.plan.delay_max, rng, Came::End);
                }
                return;
            }
            let len = rest.len().min(space);
            let len = if rng.chance(0.5) {
                len
            } else {
                rng.between(1, len as u64) as usize
            };
            let (part, more) = rest.split_at(len);
            pipe.written += len;
            pipe.enter(now, self.plan.delay_max, rng, Came::Bytes(part.to_vec()));
            rest = more;
        }
    }

    /// A node closes its direction, after what it has written.
    pub fn end(&self, now: Instant, from: Peer) {
        let mut inner = self.inner.borrow_mut();
        let Inner { rng, pipes } = &mut *inner;
        let pipe = &mut pipes[at(from)];
        if !pipe.dead {
            pipe.dead = true;
            pipe.enter(now, self.plan.delay_max, rng, Came::End);
        }
    }

    /// A node crashes. What it had sent still arrives; then the peer sees the end, or nothing.
    pub fn kill(&self, now: Instant, peer: Peer, how: Cut) {
        if how == Cut::End {
            self.end(now, peer);
        }
        for pipe in &mut self.inner.borrow_mut().pipes {
            pipe.dead = true;
        }
    }

    /// Bytes that have arrived for a node.
    pub fn read(&self, now: Instant, peer: Peer) -> Option<Came> {
        let pipe = &mut self.inner.borrow_mut().pipes[at(peer.other())];
        let due = pipe.under_way.front().is_some_and(|&(at, _)| at <= now);
        due.then(|| pipe.under_way.pop_front())?
            .map(|(_, came)| came)
    }

    /// When the next bytes arrive for a node, if any are in flight.
    pub fn next_at(&self, peer: Peer) -> Option<Instant> {
        let pipe = &self.inner.borrow().pipes[at(peer.other())];
        pipe.under_way.front().map(|&(at, _)| at)
    }
}

impl Pipe {
    fn enter(&mut self, now: Instant, delay_max: Duration, rng: &mut Rng, came: Came) {
        let takes = Duration::from_nanos(rng.between(1, delay_max.as_nanos()));
        self.last_at = self.last_at.max(now + takes);
        self.under_way.push_back((self.last_at, came));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(stream: &Stream, peer: Peer) -> (Vec<u8>, bool) {
        let (mut bytes, mut ended) = (Vec::new(), false);
        while let Some(came) = stream.read(Instant::FAR_FUTURE, peer) {
            match came {
                Came::Bytes(part) => bytes.extend(part),
                Came::End => ended = true,
            }
        }
        (bytes, ended)
    }

    #[test]
    fn what_is_written_comes_in_order_up_to_the_cut() {
        let data: Vec<u8> = (0..100).collect();
        for seed in 0..50 {
            for (cut, ended) in [(Cut::Silent, false), (Cut::End, true)] {
                let after = seed as usize;
                let plan = StreamPlan {
                    delay_max: Duration::from_micros(5),
                    cut: Some((Peer::Compute, after, cut)),
                };
                let stream = Stream::new(plan, Rng::new(seed));
                stream.write(Instant::ZERO, Peer::Compute, &data);
                stream.write(Instant::ZERO, Peer::Storage, &data);
                stream.end(Instant::ZERO, Peer::Storage);
                assert_eq!(stream.read(Instant::ZERO, Peer::Storage), None);
                assert_eq!(all(&stream, Peer::Storage), (data[..after].to_vec(), ended));
                assert_eq!(all(&stream, Peer::Compute), (data.clone(), true));
            }
        }
    }

    #[test]
    fn the_dead_write_nothing_more() {
        let plan = StreamPlan {
            delay_max: Duration::from_micros(5),
            cut: None,
        };
        for how in [Cut::Silent, Cut::End] {
            let stream = Stream::new(plan, Rng::new(1));
            stream.write(Instant::ZERO, Peer::Compute, b"before");
            stream.kill(Instant::ZERO, Peer::Compute, how);
            stream.write(Instant::ZERO, Peer::Compute, b"after");
            stream.write(Instant::ZERO, Peer::Storage, b"in vain");
            let expect = (b"before".to_vec(), how == Cut::End);
            assert_eq!(all(&stream, Peer::Storage), expect);
            assert_eq!(all(&stream, Peer::Compute), (Vec::new(), false));
        }
    }
}
