//! Two multiplexers and what lies between them.

mod broadcast;
mod dependent;
mod misbehaviour;
mod random;
mod single;

use super::*;
use rackweave_wire::fabric::exchange::StreamNumber;
use std::collections::VecDeque;

/// Two nodes, and the frames on their way.
pub(super) struct Pair {
    pub ends: [Multiplexer; 2],
    pub budgets: [Budget; 2],
    /// Frames towards each end.
    pub on_the_way: [VecDeque<Frame>; 2],
}

pub(super) const DIALER: usize = 0;
pub(super) const ACCEPTOR: usize = 1;

impl Pair {
    pub fn new(config: StreamConfig, limit: u64) -> Self {
        let ends = [
            Multiplexer::dialing("acceptor".into(), config),
            Multiplexer::accepting("dialer".into(), config),
        ];
        Self {
            ends,
            budgets: [Budget::new(limit), Budget::new(limit)],
            on_the_way: Default::default(),
        }
    }

    /// Sends one frame from an end, if it has one.
    pub fn send(&mut self, from: usize) -> bool {
        let frame = self.ends[from].poll_frame();
        let sent = frame.is_some();
        self.on_the_way[1 - from].extend(frame);
        sent
    }

    /// Delivers the oldest frame towards an end, if there is one.
    pub fn deliver(&mut self, to: usize) -> bool {
        let Some(Frame { opcode, payload }) = self.on_the_way[to].pop_front() else {
            return false;
        };
        let end = &mut self.ends[to];
        let bytes = payload.len() as u64;
        let disposition = end.begin_frame(opcode, bytes).expect("the peer behaves");
        if disposition == Disposition::Keep {
            let budget = &self.budgets[to];
            end.handle_frame(opcode, payload, budget)
                .expect("the peer behaves");
        }
        true
    }

    /// Moves frames until none is left.
    pub fn settle(&mut self) {
        while (0..2).any(|end| self.send(end) || self.deliver(end)) {}
    }

    pub fn open(&mut self, request: &[u8]) -> StreamNumber {
        let budget = self.budgets[DIALER].clone();
        self.ends[DIALER]
            .open(request.to_vec(), &budget)
            .expect("there are few")
    }

    /// A stream that both have.
    pub fn stream(&mut self) -> StreamNumber {
        let number = self.open(b"request");
        self.settle();
        let accepted = self.ends[ACCEPTOR].accept();
        assert_eq!(accepted, Some((number, b"request".to_vec())));
        self.settle();
        number
    }

    pub fn push(&mut self, end: usize, stream: StreamNumber, message: &[u8]) {
        let sent = self.ends[end].try_send(stream, message.to_vec());
        sent.expect("there is credit");
    }

    pub fn messages(&mut self, end: usize, stream: StreamNumber) -> (Vec<Vec<u8>>, Received) {
        let mut messages = Vec::new();
        loop {
            match self.ends[end].receive(stream) {
                Received::Message(message) => messages.push(message),
                other => return (messages, other),
            }
        }
    }

    pub fn assert_nothing_left(&self) {
        for end in 0..2 {
            let held = &self.ends[end];
            let bytes = held.bytes_waiting() + held.bytes_queued();
            assert_eq!((held.streams(), bytes), (0, 0), "streams of end {end}");
            let budget = &self.budgets[end];
            assert_eq!(
                (budget.used(), budget.windows()),
                (0, 0),
                "budget of end {end}"
            );
            assert!(self.on_the_way[end].is_empty());
        }
    }
}

pub(super) fn small() -> StreamConfig {
    StreamConfig {
        window_min: 16,
        window_max: 64,
        message_max: 100,
        request_max: 32,
        streams_max: 8,
    }
}
